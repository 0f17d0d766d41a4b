# mixed.py - a process group in which other backends serve some devices.
# SPDX-License-Identifier: Apache-2.0
"""Process groups with several backends, such as init_process_group("cpu:ringup,cuda:nccl").

For such a call, torch registers a backend for each device in one process group.  If a backend is a
process group written in Python, as this one is, torch uses only that one, and leaves out the other
backends.  This module therefore creates the other backends as torch would have done, and passes
each operation to the backend that serves the device of its tensors.

The original request is available only in the torch function that asks for the process group."""

import contextlib
import threading

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ringup import timeline

from . import other
from .process_group import ProcessGroup

NAME = "ringup"
_LONGEST_ABORT = 10  # seconds to wait at the end of a group whose other backends are aborted
_CLASSES = {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL"}


class Asked:
    """The arguments of the call to torch: {device: backend}, and the process group that torch is
    creating."""

    def __init__(self, frame):
        """frame is the frame of the torch function that asks for the process group."""
        known = frame.f_locals if frame.f_code.co_name == "_new_process_group_helper" else {}
        config = known.get("backend_config")
        self.backends = dict(config.get_device_backend_map()) if config else {}
        self.group, self.store = known.get("pg"), known.get("prefix_store")
        self.name = known.get("group_name")
        # before torch 2.6
        self.options = known.get("backend_options", known.get("pg_options"))

    @property
    def is_mixed(self):
        """Return whether another backend serves one of the devices."""
        return any(name != NAME for name in self.backends.values())


class MixedProcessGroup(ProcessGroup):
    """A process group of ringup for some devices, and of other backends for the others."""

    def __init__(self, asked, store, rank, size, timeout, ranks=(), name=None):
        """asked is an Asked; the other arguments are those of ProcessGroup."""
        others = [d for d, backend in asked.backends.items() if backend != NAME]
        for device in others:
            _check(device, asked.backends[device])
        self._devices = [torch.device(d) for d in asked.backends]
        self._others, self._inner, self._aborter = {}, asked.group, None
        super().__init__(store, rank, size, timeout, ranks, name)
        try:
            for device in others:
                target = _register(asked, device, rank, size, timeout, list(ranks))
                self._others[device] = other.Other(self, device, asked.backends[device], target,
                                                   list(ranks) or list(range(size)))
        except BaseException:
            self.shutdown()
            raise

    @property
    def _device_types(self):
        """Return the device types for which torch creates tensors of this group."""
        return self._devices

    def _get_backend(self, device):
        """Return the backend of a device."""
        device = torch.device(device)
        serving = self._others.get(device.type)
        if serving is None:
            return self
        target = serving.target
        return target._get_backend(device) if type(target) is dist.ProcessGroup else target

    def _serving(self, args):
        """Return the Other that serves the first of the tensors; None means this group."""
        for a in args:
            if isinstance(a, torch.Tensor):
                return self._others.get(a.device.type)
            if isinstance(a, (list, tuple)) and a and isinstance(a[0], (torch.Tensor, list)):
                return self._serving(a)
        return None

    def barrier(self, opts=None, timeout=None):
        """Wait for all ranks.  If torch names a device that another backend serves, wait on that
        device."""
        serving = self._serving_device(getattr(opts, "device", None))
        if serving is None:
            return super().barrier(opts, timeout)
        return self._handle(serving, serving.start("barrier", (opts,), {}))

    def _serving_device(self, device):
        """Return the Other that serves a device; None means this group."""
        return self._others.get(device.type) if device is not None else None

    def _start_coalescing(self, device=None):
        """Collect the Works of the following operations."""
        serving = self._serving_device(device)
        if serving is None:
            super()._start_coalescing(device)
        else:
            serving.start_coalescing()

    def _end_coalescing(self, device=None):
        """Return one Work for the collected ones."""
        serving = self._serving_device(device)
        if serving is None:
            return super()._end_coalescing(device)
        return self._handle(serving, serving.end_coalescing())

    def _handle(self, serving, started):
        """Return the Work of an operation of another backend; None if it has completed."""
        if not isinstance(started, other.Started):
            return started
        call, source = started.call, started.call.source()
        if call.is_blind:
            return other.Message(self, call, started.outputs, started.entry, source)
        if not serving.is_device:
            return self._under_way(call, started.outputs, started.opts, started.entry, source,
                                   call.is_message)
        work = other.DeviceWork(self, call, started.outputs, started.entry, source)
        work.is_message = call.is_message
        self._keep(work)
        return work

    def has_failed(self):
        """Return whether a rank has died or has ended the group."""
        return timeline.has_failed(self._job)

    def _fails(self):
        """Abort the other backends, which do not notice that the job has failed.  Called once, by
        a thread that must not block."""
        self._aborter = threading.Thread(target=self._abort_others, name="ringup-abort",
                                         daemon=True)
        self._aborter.start()

    def _abort_others(self):
        for backend in self._backends():
            with contextlib.suppress(RuntimeError):  # some backends cannot be aborted
                _tell(backend, "abort")

    def setGroupName(self, name):
        """Set the name of the group.  Called by torch."""
        super().setGroupName(name)
        for serving in self._others.values():
            serving.record.name = name
        _tell(self._inner, "_set_group_name", name)

    _set_group_name = setGroupName

    def setGroupDesc(self, desc):
        """Set the description of the group.  Called by torch."""
        super().setGroupDesc(desc)
        for serving in self._others.values():
            serving.record.desc = desc
        _tell(self._inner, "_set_group_desc", desc)

    _set_group_desc = setGroupDesc

    def abort(self, why="the process group was aborted"):
        """Fail all current and future operations of the group on all ranks.  Thread-safe."""
        super().abort(why)
        self._abort_others()

    def shutdown(self):
        """Leave the group; operations in flight fail on all ranks."""
        if self._aborter is not None:  # at exit, the interpreter may not stop it in C++ code
            self._aborter.join(_LONGEST_ABORT)
        try:
            for backend in self._backends():
                if not _tell(backend, "shutdown"):
                    _tell(backend, "_shutdown")
            for serving in self._others.values():
                serving.leave()
        finally:
            self._others, self._inner = {}, None
            super().shutdown()

    def _backends(self):
        """Return the other backends, each once."""
        found = {id(b): b for b in map(self._get_backend, self._others)}
        return list(found.values())


def _tell(thing, method, *args):
    """Call a method that not all releases and backends have; return whether it exists."""
    f = getattr(thing, method, None)
    if f is not None:
        f(*args)
    return f is not None


def _dispatching(name):
    """Return the operation with this name, for the backend that serves its tensors."""
    ours = getattr(ProcessGroup, name)

    def operation(self, *args, **kwargs):
        serving = self._serving(args) if args else self._serving(kwargs.values())
        if serving is None:
            return ours(self, *args, **kwargs)
        return self._handle(serving, serving.start(name, args, kwargs))

    operation.__name__, operation.__doc__ = name, ours.__doc__
    return operation


for _name in other.METHODS:
    if _name != "barrier":
        setattr(MixedProcessGroup, _name, _dispatching(_name))


# ---- what torch would have done ----

def _check(device, name):
    """Raise an exception for a backend that cannot be created here."""
    if name.upper() in c10d.Backend._plugins or hasattr(dist, _CLASSES.get(name, "?")):
        return
    if name in _CLASSES:
        raise ValueError(f"{device}:{name}: this torch was built without {name}: use "
                         "init_process_group(\"ringup\"), which supports all devices")
    raise ValueError(
        f"{device}:{name}: ringup shares a process group with gloo, nccl, xccl and back ends "
        f"that are registered, not with {name}: use init_process_group(\"ringup\"), which "
        f"supports all devices, and call new_group(backend=\"{name}\") for a group of {name}")


def _register(asked, device, rank, size, timeout, ranks):
    """Return the process group of another backend that serves a device.  torch has already created
    the backends that precede ringup in the request; create the others."""
    group, name = asked.group, asked.backends[device]
    try:
        group._get_backend(torch.device(device))
        return group
    except RuntimeError:
        pass
    place = dist.PrefixStore(f"{device}/", asked.store)
    if name == "gloo":
        backend = dist.ProcessGroupGloo(place, rank, size, timeout=timeout)
    elif name in ("nccl", "xccl"):
        kind = getattr(dist, _CLASSES[name])
        backend = kind(place, rank, size, _options(kind, asked, timeout, ranks))
    else:
        backend = _plugin(name, place, asked, rank, size, timeout, ranks)
        if isinstance(backend, dist.ProcessGroup):
            return backend
    _tell(backend, "_set_sequence_number_for_group")
    kinds = dist.ProcessGroup.BackendType
    group._register_backend(torch.device(device), getattr(kinds, name.upper(), kinds.CUSTOM),
                            backend)
    return group


def _options(kind, asked, timeout, ranks):
    """Return NCCL's options.  Fields that not all releases have are set only if they exist."""
    given = isinstance(asked.options, kind.Options)
    options = asked.options if given else kind.Options()
    for key, value in (("_timeout", timeout), ("global_ranks_in_group", ranks),
                       ("group_name", asked.name)):
        if hasattr(options, key):
            setattr(options, key, value)
    return options


def _plugin(name, place, asked, rank, size, timeout, ranks):
    """Return a backend that a package has registered."""
    plugin = c10d.Backend._plugins[name.upper()]
    if not plugin.extended_api:
        return plugin.creator_fn(place, rank, size, timeout)
    options = c10d._DistributedBackendOptions()
    options.store, options.group_rank, options.group_size = place, rank, size
    options.timeout, options.group_id, options.global_ranks_in_group = timeout, asked.name, ranks
    return plugin.creator_fn(options, asked.options)
