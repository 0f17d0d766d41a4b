# other.py - operations that another backend carries out for a mixed process group.
# SPDX-License-Identifier: Apache-2.0
"""ringup adds three things to an operation of another backend, such as NCCL.

A record: the flight recorder lists the operation beside ringup's own.

An arrival: the ranks tell each other through ringup that they have called the operation.  The
program does not wait for this exchange.  It shows which ranks are missing, and whether the ranks
call different operations.

Typed errors: if an operation fails or misses the deadline of the group, the error is the one that
ringup would raise for its own operations.  If the job fails, the other backend is aborted, since
NCCL would wait for a dead rank until its own time-out.

An arrival never fails an operation that completes, so it cannot break a program that works with the
other backend alone."""

import collections
import contextlib
import ctypes
import datetime
import functools
import os
import re
import threading
import time

import torch

from ringup import constants, errors, operation

from .evidence import evidence
from .recorder import recorder
from .work import Work, is_own

_SLICE = 0.2  # seconds of one wait for another backend's operation
_NOTICE = 1.0  # seconds in which ringup notices a death that another backend has noticed
_DOUBT = 5.0  # seconds in which an operation may complete although the ranks differ
_TICK = 0.5  # seconds between two looks of the watching thread
_PAUSE = 0.005  # the longest between two looks of a thread that waits
_MOST = 1024  # arrivals in flight

# The names of methods in flight records, and whether all ranks pass tensors of one size and type.
_METHODS = {
    "allreduce": ("all_reduce", True),
    "allreduce_coalesced": ("allreduce_coalesced", True),
    "broadcast": ("broadcast", True),
    "reduce": ("reduce", True),
    "gather": ("gather", False),
    "scatter": ("scatter", False),
    "allgather": ("all_gather", False),
    "allgather_coalesced": ("ALLGATHER_coalesced", False),
    "all_gather_single": ("_all_gather_base", True),
    "_allgather_base": ("_all_gather_base", True),
    "all_gather_single_coalesced": ("all_gather_into_tensor_coalesced", True),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor_coalesced", True),
    "reduce_scatter": ("reduce_scatter", False),
    "reduce_scatter_single": ("_reduce_scatter_base", True),
    "_reduce_scatter_base": ("_reduce_scatter_base", True),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced", True),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor_coalesced", True),
    "all_to_all_single": ("all_to_all", False),
    "alltoall_base": ("all_to_all", False),
    "alltoall": ("all_to_all", False),
    "barrier": ("barrier", False),
    "send": ("send", False),
    "recv": ("recv", False),
    "recv_anysource": ("recv", False),
}
_NAMES = sorted({name for name, _same in _METHODS.values()})
_TYPES = sorted((t for t in vars(torch).values() if isinstance(t, torch.dtype)), key=str)
_MESSAGES = ("send", "recv", "recv_anysource")
METHODS = tuple(_METHODS)


def _tensors(value):
    """Return the tensors in an argument of an operation."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in _tensors(item)]
    return []


def _code(method, inputs):
    """Return the number that a rank passes to the others for an operation: its name and, if all
    ranks pass the same, type and size."""
    name, is_same = _METHODS[method]
    code = _NAMES.index(name)
    if is_same and inputs:
        code |= (_TYPES.index(inputs[0].dtype) + 1) << 8
        code |= (sum(t.numel() for t in inputs) & ((1 << 40) - 1)) << 16
    return code


def _words(code):
    """Return the operation that a number stands for, as text."""
    name, dtype, count = _NAMES[code & 0xff], code >> 8 & 0xff, code >> 16
    return f"{name} of {count} {str(_TYPES[dtype - 1]).rpartition('.')[2]}" if dtype else name


class Arrival:
    """An exchange in which the ranks tell each other that they have called an operation.

    met     when this rank saw that all ranks had called it; None: not yet"""

    __slots__ = ("_operation", "_codes", "_lock", "met")

    def __init__(self, members, name, code):
        """name is the same on all ranks.  The job must be running."""
        mine, self._codes = ctypes.c_int64(code), operation.array(ctypes.c_int64, members.size)()
        into = ctypes.addressof(self._codes), ctypes.sizeof(self._codes)
        self.met, self._lock = None, threading.Lock()
        self._operation = operation.allgather(
            ctypes.addressof(mine), 1, 1, constants.I64, name.encode(), (), members,
            (mine, self._codes), lambda _memory, _rows: True, into)

    def poll(self):
        """Return whether the exchange has ended; also if it failed."""
        with self._lock:
            if self._operation is not None and self._operation.poll():
                self._end_within(0)
            return self._operation is None

    def _end_within(self, ms):
        """Wait for the exchange.  Return the text of TimedOut; None if the exchange has ended.  The
        caller holds the lock."""
        if self._operation is None:
            return None
        try:
            if self._operation.wait(ms):
                self.met = time.monotonic()
        except errors.TimedOut as e:
            return str(e)
        except errors.RingupError:
            pass  # the job has failed, or a rank has left it
        self._operation = None
        return None

    def missing(self):
        """Return the text of the error that names the ranks that have not called the operation;
        None if all have."""
        with self._lock:
            return self._end_within(0)

    def differences(self, rank):
        """Return what the ranks have called, as text, if they have called different operations."""
        if not self.poll() or self.met is None or len(set(self._codes)) == 1:
            return None
        other = next(r for r, code in enumerate(self._codes) if code != self._codes[rank])
        return (f"rank {rank} calls {_words(self._codes[rank])}, but rank {other} calls "
                f"{_words(self._codes[other])}")


class Call:
    """An operation of another backend, with the interface of ringup.operation.Operation.

    work        the other backend's, and None before that has begun the operation
    is_message  it is sent to, or received from, one rank
    is_blind    only a wait without a time-out tells about it: see Message"""

    __slots__ = ("work", "is_message", "is_blind", "_other", "_name", "_code", "_arrival", "_error",
                 "_since", "_lock", "_sender", "_pause")

    def __init__(self, other, method, name, inputs):
        self.work, self._arrival, self._error = None, None, None
        self.is_message = method in _MESSAGES
        self.is_blind = self.is_message and not other.is_device
        self._other, self._name = other, f"{other.name} {name}"
        self._code = 0 if self.is_message else _code(method, inputs)
        self._since, self._lock, self._sender = time.monotonic(), threading.RLock(), [-1]
        self._pause = 0.0001

    def arrive(self):
        """Tell the other ranks that this rank has called the operation."""
        with self._lock:
            if self._arrival is None and not self.is_message:
                self._arrival = self._other.arrive(self._code)

    def refused(self, error):
        """Return the exception to raise when the backend has not started the operation.  An error
        that comes immediately is about the arguments."""
        return self.explain(error) if self._arrival or self._other.has_failed() else error

    def poll(self):
        """Return whether the operation has completed or failed.  Never blocks."""
        return self._error is not None or self.work.is_completed() or self._other.has_failed()

    def wait(self, within_ms=-1):
        """Block until the operation has completed.  Raise its error, or TimedOut after within_ms
        milliseconds (negative: no limit); the operation then continues."""
        if self.is_blind:
            raise self.failure()
        until = time.monotonic() + within_ms / 1000 if within_ms >= 0 else float("inf")
        while not self._is_completed_within(until - time.monotonic()):
            if self._error is not None or self._other.has_failed():
                raise self.failure()
            if self._is_doubtful(time.monotonic()):
                raise self._mismatch(self._differences())
            if time.monotonic() >= until:
                raise self._late()

    def _is_completed_within(self, seconds):
        """Wait for the operation for a moment, at most this long; return whether it has completed.
        """
        seconds = min(max(seconds, 0.001), _SLICE)
        try:
            if self.work is not None and self._other.name == "gloo":
                self.work.wait(datetime.timedelta(seconds=seconds))
                return True
            if self.work is not None and self.work.is_completed():
                self.work.wait()
                return True
        except Exception as e:
            if self.work.is_completed():
                raise self.explain(e) from e
            return False
        # NCCL would abort its communicator after a wait with a time-out.
        time.sleep(min(seconds, self._pause))
        self._pause = min(2 * self._pause, _PAUSE)
        return False

    def note_sender(self):
        """Keep the rank that sent a message."""
        with contextlib.suppress(RuntimeError):  # a message that was sent has none
            self._sender[0] = self.work._source_rank()

    def source(self):
        """Return a function that returns the rank that sent a message.  It does not refer to the
        Call, so it does not keep the memory of the tensor."""
        return functools.partial(self._sender.__getitem__, 0)

    def look(self, now):
        """Look after an operation that the caller may not wait for.  Called by Watch's thread."""
        group = self._other.group
        if now > self._since + _TICK:  # the backend blocks the caller
            self.arrive()
        # The backend's own time-out would end the process.
        limit = group.timeout_ms / 1000
        left = self._since + limit - min(1, limit / 10) - now
        is_late = left <= evidence.lead_ms(group.timeout_ms) / 1000 + _TICK
        if not is_late and not self._is_doubtful(now):
            return
        with self._lock:  # failure() waits for the error
            try:
                if is_late:
                    group.miss(self, round(max(left, 0) * 1000))
                else:
                    self.wait(0)
            except errors.RingupError as e:
                self._error = e
        watch.remove(self)

    def _is_doubtful(self, now):
        """Return whether the ranks have called different operations, and had time to complete."""
        return self._differences() and now > self._arrival.met + _DOUBT

    def failure(self):
        """Return the exception for an operation that cannot complete, as the job has failed."""
        with self._lock:
            if self._error is not None:
                return self._error
        try:
            operation.barrier(None, self._other.group.communicator.world).wait(1000)
        except errors.RingupError as e:
            told = type(e)(self._renamed(e))
            told.status = e.status
            return told
        return errors.NotRunning(f"{self._name}: the job has ended")

    def explain(self, error):
        """Return the exception to raise for an error of the other backend."""
        until = time.monotonic() + _NOTICE
        while not self._other.has_failed() and time.monotonic() < until:
            time.sleep(0.01)
        if self._other.has_failed():
            return self.failure()
        text = self._differences()
        if text:
            return self._mismatch(text)
        if re.search("timed? ?out", str(error), re.I):
            self._error = self._other.group.end_with(self, self._late())
            return self._error
        self._other.group.abort(f"{self._name}: {error}")
        return error

    def _differences(self):
        """Return what the ranks have called, as text, if they have called different operations."""
        return self._arrival and self._arrival.differences(self._other.group.rank())

    def _mismatch(self, text):
        """End the group, because the other backend cannot take an operation back.  Return the
        exception to raise."""
        error = errors.Mismatch(f"{self._name}: {text}; all ranks of a group must call the same "
                                "operations in the same order")
        self._other.group.abort(str(error))
        return error

    def _late(self):
        """Return the exception for an operation that has missed a deadline."""
        missing = self._arrival and self._arrival.missing()
        if missing:
            return errors.TimedOut(self._renamed(missing))
        if self._other.has_failed():
            return self.failure()
        return errors.TimedOut(f"{self._name}: timed out" + (
            "; all ranks have called it" if self._arrival and self._arrival.met else ""))

    def _renamed(self, text):
        """Return the text of an error of ringup with the name of this operation."""
        text = re.sub(r"^(allgather '[^']*'|barrier)", lambda _: self._name, str(text))
        return re.sub(rf"allgather {self._other.names} \d+ is not complete in time: ", "", text)


class DeviceWork(Work):
    """The Work of an operation on a device's stream, such as one of NCCL.  wait() makes the current
    stream wait, and does not block the caller."""

    def wait(self, timeout=None):
        """Make the current stream wait for the operation; raise the error of a failed job."""
        return self._pass("wait", *((timeout,) if is_own(timeout) else ()))

    def synchronize(self):
        """Make the current stream wait for the operation."""
        self._pass("synchronize")

    def block_current_stream(self):
        """Make the current stream wait for the operation."""
        self._pass("block_current_stream")

    def _pass(self, method, *args):
        """Call a method of the other backend's Work."""
        call = self._operation
        try:
            if call is not None:
                if self._group.has_failed() and (call.is_blind or not call.work.is_completed()):
                    raise call.failure()
                getattr(call.work, method)(*args)
        except errors.RingupError as e:
            self._end(e)
        except Exception as e:
            self._end(call.explain(e))
        if self._error is not None:
            raise self._error
        return True

    def _end(self, error):
        """Mark the operation complete."""
        watch.remove(self._operation)
        super()._end(error)

    def poll(self):
        """Return whether the operation has completed or failed.  Never blocks.  During the capture
        of a CUDA graph, events must not be queried."""
        return self._is_over if _is_capturing() else super().poll()

    is_completed = poll

    def get_future(self):
        """Return the other backend's future, which knows the streams."""
        call = self._operation
        return super().get_future() if call is None else call.work.get_future()


class Message(DeviceWork):
    """The Work of a message over Gloo.  Gloo cannot tell whether a message has arrived, and closes
    all connections after a wait with a time-out."""

    def _pass(self, method, *args):
        """Wait for the message."""
        with self._lock:
            super()._pass(method, *args)
            if self._operation is not None:
                self._operation.note_sender()
                self._end(None)
        return True

    def poll(self):
        """Wait for the message; return True."""
        if not self._is_over:
            with contextlib.suppress(Exception):
                self.wait()
        return True

    is_completed = poll


def _is_capturing():
    """Return whether the current stream is captured for a CUDA graph."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


class Entries:
    """The records of coalesced operations, which end together."""

    name = "coalesced operations"

    def __init__(self, entries):
        self._entries = entries

    def end(self, error=None):
        """Mark the operations finished."""
        for entry in self._entries:
            entry.end(error)

    def __enter__(self):
        return self

    def __exit__(self, _kind, error, _trace):
        self.end(error)


class Started:
    """A started operation: its Call, its Entry, the tensors that it writes, and torch's options."""

    __slots__ = ("call", "entry", "outputs", "opts")

    def __init__(self, call, entry, outputs=(), opts=None):
        self.call, self.entry, self.outputs, self.opts = call, entry, list(outputs), opts


class Other:
    """Another backend of a mixed process group, for one device type."""

    def __init__(self, group, device, name, target, ranks):
        """target is the process group that has the backend; ranks are those of the group in the
        world."""
        self.group, self.name, self.target, self.is_device = group, name, target, device != "cpu"
        self.names = f"{name} {device}"  # of arrivals, with a number
        self._device, self._count, self._lock = device, 0, threading.Lock()
        self._arrivals, self._coalesced = collections.deque(), None
        self.record = recorder.group(ranks, group.timeout_ms, job=group.communicator, backend=name)

    def has_failed(self):
        """Return whether a rank has died or has ended the job."""
        return self.group.has_failed()

    def arrive(self, code):
        """Start the next Arrival; return None if there is no other rank, or no job any more."""
        job = self.group.communicator
        if job.world.size == 1:
            return None
        with self._lock:
            self._count += 1
            self._reap()
            while len(self._arrivals) >= _MOST:
                time.sleep(0.0005)
                self._reap()
            try:
                found = Arrival(job.world, f"{self.names} {self._count}", code)
            except errors.RingupError:
                return None
            self._arrivals.append(found)
        return found

    def _reap(self):
        """Forget arrivals that have ended."""
        while self._arrivals and self._arrivals[0].poll():
            self._arrivals.popleft()

    def start(self, method, args, kwargs):
        """Pass an operation to the backend.  Return a Started, or else what the method of torch
        returns: None if there is nothing to wait for, and the backend's own Work if the operation
        is captured for a CUDA graph."""
        given = (*args, *kwargs.values())
        outputs = _tensors(given[0]) if given else []
        inputs = _tensors(given[1]) if len(given) > 1 else []
        if not inputs and method not in ("gather", "scatter"):
            inputs = outputs
        name = _METHODS[method][0]
        if method in _MESSAGES:
            peer = given[1] if method != "recv_anysource" else 0
            name += f" {self.group.rank()}{'->' if method == 'send' else '<-'}{peer}"
        entry = recorder.add(self.record, name, inputs, outputs, method in _MESSAGES, 3)
        call = Call(self, method, name, inputs)
        try:
            work = self._call(call, method, args, kwargs)
        except Exception as e:
            entry.end(e)
            raise
        if self._coalesced is not None:
            self._coalesced.append((call, entry))
            return None
        if work is None or (self.is_device and _is_capturing()):
            watch.remove(call)
            entry.end()
            return work
        call.work, entry.is_done = work, bool if call.is_blind else work.is_completed
        call.arrive()
        opts = next((a for a in given if hasattr(a, "asyncOp")), None)
        return Started(call, entry, outputs, opts)

    def _call(self, call, method, args, kwargs):
        """Call a method of the backend; raise a typed error if the job has failed."""
        if self.has_failed():
            raise call.failure()
        watch.add(call)
        try:
            return getattr(self.target, method)(*args, **kwargs)
        except Exception as e:
            watch.remove(call)
            error = call.refused(e)
            if error is e:
                raise
            raise error from e
        finally:
            if not self.is_device:
                watch.remove(call)

    def start_coalescing(self):
        """Collect the following operations."""
        self.target._start_coalescing(torch.device(self._device))
        self._coalesced = []

    def end_coalescing(self):
        """Return a Started for the collected operations; None if there is nothing to wait for."""
        both, self._coalesced = self._coalesced or [], None
        work = self.target._end_coalescing(torch.device(self._device))
        for call, entry in both:
            call.work = work
            watch.remove(call)
            if work is None:
                entry.end()
            else:
                entry.is_done = work.is_completed
                call.arrive()
        if work is None or not both:
            return None
        last = both[-1][0]
        if self.is_device:
            watch.add(last)
        return Started(last, Entries([entry for _call, entry in both]))

    def leave(self):
        """Wait until the other ranks have called what has completed here, for at most the group's
        time-out: an operation in flight would fail the job."""
        until = time.monotonic() + self.group.timeout_ms / 1000
        self._reap()
        while self._arrivals and not self.has_failed() and time.monotonic() < until:
            time.sleep(0.002)
            self._reap()
        recorder.close(self.record)


class Watch:
    """A thread that looks after operations on devices, and after operations in which the other
    backend blocks the caller.  It sleeps while there are none."""

    def __init__(self):
        self._calls, self._changed = set(), threading.Condition(threading.Lock())
        self._thread, self._is_asleep = None, False

    def add(self, call):
        """Look after a Call until remove()."""
        self._calls.add(call)
        if self._thread is not None and not self._is_asleep:
            return
        with self._changed:
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ringup-watch", daemon=True)
                self._thread.start()

    def remove(self, call):
        """Stop looking after a Call."""
        self._calls.discard(call)

    def _run(self):
        while True:
            with self._changed:
                self._is_asleep = True
                while not self._calls:
                    self._changed.wait()
                self._is_asleep = False
            time.sleep(_TICK)
            for call in list(self._calls):
                call.look(time.monotonic())


watch = Watch()


def _forked():
    """Run in a forked child, which has no thread and is not a rank."""
    watch.__init__()


os.register_at_fork(after_in_child=_forked)
