# mixed.py - a process group in which other backends serve some devices.
# SPDX-License-Identifier: Apache-2.0
"""Process groups with several backends, such as init_process_group("cpu:ringup,cuda:nccl").

For such a call, torch registers a backend for each device in one process group.  If a backend is a
process group written in Python, as this one is, torch uses only that one, and leaves out the other
backends.  This module therefore creates the other backends as torch would have done, and passes
each operation to the backend that serves the device of its tensors.

The original request is available only in the torch function that asks for the process group."""

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .process_group import ProcessGroup

NAME = "ringup"
_CLASSES = {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL"}
_OPERATIONS = [
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "gather", "scatter", "allgather",
    "allgather_coalesced", "all_gather_single", "all_gather_single_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "all_to_all_single", "alltoall_base", "alltoall", "send", "recv", "recv_anysource"]


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
        self._others, self._inner = {}, asked.group
        super().__init__(store, rank, size, timeout, ranks, name)
        try:
            for device in others:
                self._others[device] = _register(asked, device, rank, size, timeout, list(ranks))
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
        other = self._others.get(device.type)
        return other._get_backend(device) if type(other) is dist.ProcessGroup else other or self

    def _serving(self, args):
        """Return the process group that serves the first of the tensors; None means this one."""
        for a in args:
            if isinstance(a, torch.Tensor):
                return self._others.get(a.device.type)
            if isinstance(a, (list, tuple)) and a and isinstance(a[0], (torch.Tensor, list)):
                return self._serving(a)
        return None

    def barrier(self, opts=None, timeout=None):
        """Wait for all ranks.  If torch names a device that another backend serves, wait on that
        device."""
        device = getattr(opts, "device", None)
        other = self._others.get(device.type) if device is not None else None
        return other.barrier(opts) if other is not None else super().barrier(opts, timeout)

    def _start_coalescing(self, device=None):
        """Collect the Works of the following operations."""
        other = self._others.get(device.type) if device is not None else None
        return (super() if other is None else other)._start_coalescing(device)

    def _end_coalescing(self, device=None):
        """Return one Work for the collected ones."""
        other = self._others.get(device.type) if device is not None else None
        return (super() if other is None else other)._end_coalescing(device)

    def setGroupName(self, name):
        """Set the name of the group.  Called by torch."""
        super().setGroupName(name)
        _tell(self._inner, "_set_group_name", name)

    _set_group_name = setGroupName

    def setGroupDesc(self, desc):
        """Set the description of the group.  Called by torch."""
        super().setGroupDesc(desc)
        _tell(self._inner, "_set_group_desc", desc)

    _set_group_desc = setGroupDesc

    def abort(self, why="the process group was aborted"):
        """Fail all current and future operations of the group on all ranks.  Thread-safe."""
        super().abort(why)
        for backend in self._backends():
            _tell(backend, "abort")

    def shutdown(self):
        """Leave the group; operations in flight fail on all ranks."""
        try:
            for backend in self._backends():
                if not _tell(backend, "shutdown"):
                    _tell(backend, "_shutdown")
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
    """Return the operation with this name, for the process group that serves its tensors."""
    ours = getattr(ProcessGroup, name)

    def operation(self, *args, **kwargs):
        other = self._serving(args) if args else self._serving(kwargs.values())
        if other is None:
            return ours(self, *args, **kwargs)
        return getattr(other, name)(*args, **kwargs)

    operation.__name__, operation.__doc__ = name, ours.__doc__
    return operation


for _name in _OPERATIONS:
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
