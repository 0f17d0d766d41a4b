# recorder.py - the flight recorder: the latest operations of a process, for torchfrtrace.
# SPDX-License-Identifier: Apache-2.0
"""Flight records in torch's format.

torch's analyzer (torchfrtrace, torch.distributed.flight_recorder) reads the output of dump() like
the dumps of torch's own backends.  It names the rank that did not arrive, or that passed other
sizes or types.  The analyzer has a fixed list of backends, so operations are called gloo:NAME,
after the backend for host memory on that list.

A rank writes a dump when an operation fails.  When the job fails, every rank writes one, also the
rank that hangs elsewhere or comes too late, which is usually the one to look for.  Calls that a
rank makes after the end never began.  They are not among the entries, because an entry would stand
for an operation that the others have waited for; they are listed under "not_begun" with their own
times.

As in torch, TORCH_FR_BUFFER_SIZE sets how many operations are kept (2000 by default; 0: none), and
TORCH_FR_DUMP_TEMP_FILE sets the path of dumps, to which the rank is appended.  With
TORCH_NCCL_DUMP_ON_TIMEOUT=0, failures do not write a dump.

This module records the facts that only Python has: sizes, types, the stack and the group.  The
library (ringup.timeline) records when an operation started, whether all ranks have arrived and when
it ended; a dump reads these from the library."""

import collections
import ctypes
import os
import pickle
import re
import sys
import threading
import time

from ringup import errors, timeline

from .alarm import Alarms

# Of these a dump is written: ranks are lost, late or disagree.
_TOLD = (errors.TimedOut, errors.PeerLost, errors.NotRunning, errors.Aborted, errors.Mismatch)

_VERSION = "2.10"
_PREFIXES = {name: name for name in ("nccl", "gloo", "xccl")}  # that torch's analyzer knows
_FRAMES = 8  # that are kept of a stack
_SCHEDULED, _COMPLETED, _FAILED = range(3)

_DTYPES = {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
           "float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16",
           "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
           "complex32": "ComplexHalf", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}


class Group:
    """The facts about a process group in dumps.

    name, desc   torch's name and description
    ranks        the ranks of its members in the world, in order
    collectives, messages, ops  how many have begun; a message is sent or received
    completed    the number of the latest completed collective; -1: none yet
    job, count   the ringup.job.Job that runs them, and how many the library has begun there
    alarm        the handle of the job in Alarms
    points       the library's records when the job was closed, by the library's numbers
    backend      the other backend that runs the operations, whose arrivals the job records; None:
                 ringup
    """

    __slots__ = ("number", "name", "desc", "ranks", "timeout_ms", "collectives", "messages", "ops",
                 "completed", "job", "count", "alarm", "points", "backend")

    def __init__(self, number, ranks, timeout_ms, job, backend=None):
        self.number, self.name, self.desc, self.ranks = number, str(number), "undefined", ranks
        self.timeout_ms = timeout_ms
        self.collectives = self.messages = self.ops = 0
        self.completed = -1
        self.job, self.alarm, self.points, self.backend = job, None, {}, backend
        self.count = timeline.keep_points(job) if job else ctypes.c_uint64()


def _tell_ranks(error, group):
    """Add the ranks in the world to an error, which counts ranks within the group."""
    if not isinstance(error, errors.RingupError) or hasattr(error, "group"):
        return
    text = str(error)
    named = {int(n) for said in re.findall(r"\branks? (\d+(?:, \d+)*)", text)
             for n in said.split(", ")}
    others = [(n, group.ranks[n]) for n in sorted(named)
              if n < len(group.ranks) and group.ranks[n] != n]
    if others:
        error.group = group.name
        error.args = (f"{text}; in group {group.name} "
                      + ", ".join(f"rank {n} is rank {w} of all" for n, w in others),)


class Entry:
    """One operation: its group, its number, its tensors and its progress.

    what    (number in this process, the library's number of the latest operation before it, sizes
            and types of inputs and of outputs, the group's counts of collectives, messages and
            operations, whether it is a message, stack)
    failed  when it failed
    begun   when it began, for an operation of another backend
    is_done returns whether another backend has completed the operation; None: unknown
    """

    __slots__ = ("group", "name", "what", "state", "failed", "begun", "is_done")

    def __init__(self, group, name, what):
        self.group, self.name, self.what = group, name, what
        self.state, self.failed, self.is_done = _SCHEDULED, None, None
        self.begun = time.time_ns() if group.backend else None

    def end(self, error=None):
        """Mark the operation finished; on error also write a dump."""
        if self.is_done is not None:
            self.is_done = bool  # a function that returns False, and refers to no operation
        if error is not None:
            self.state, self.failed = _FAILED, time.time_ns()
            _tell_ranks(error, self.group)
            recorder.dump_failure(error)
            return
        self.state = _COMPLETED
        if not self.what[7]:
            self.group.completed = self.what[4]

    def __enter__(self):
        return self

    def __exit__(self, _kind, error, _trace):
        self.end(error)


class Recorder:
    """Records the latest operations of all groups of this process."""

    def __init__(self, size=None):
        if size is None:
            size = int(os.environ.get("TORCH_FR_BUFFER_SIZE",
                                      os.environ.get("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")))
        self._entries = collections.deque(maxlen=max(size, 0))
        self._frames = _FRAMES if size > 0 else 0
        self._count, self._groups, self.rank = 0, {}, 0
        self._since = time.time_ns()
        self._lock = threading.RLock()  # held by who reads what the library knows, or closes a job
        self.alarms = Alarms(self.dump_unless_unwanted)

    @property
    def count(self):
        """Return how many operations of all groups have been recorded."""
        return self._count

    def group(self, ranks, timeout_ms, is_world=False, job=None, backend=None, fails=None):
        """Record a process group whose operations a Job, or another backend beside it, runs; return
        its Group.  If the job fails, call fails(), which must not block.

        A new world resets all records, because names of groups start again, and the analyzer would
        treat groups of one name as one."""
        if is_world:
            self._entries.clear()
            self._groups.clear()
            self._since = time.time_ns()
        group = Group(len(self._groups), ranks, timeout_ms, job if self._frames else None, backend)
        self._groups[group.number] = group
        has_alarm = job and job.world.size > 1 and not backend and (group.job or fails)
        fd = timeline.alarm_fd(job) if has_alarm else -1
        if fd >= 0:
            group.alarm = self.alarms.add(fd, fails)
        return group

    def add(self, group, name, inputs, outputs, is_message=False, depth=2):
        """Record that an operation of a group begins; return its Entry.

        inputs and outputs are tensors, of which only sizes and types are kept.  depth is the number
        of callers up the stack at which the record begins."""
        ins = [(t.shape, t.dtype) for t in inputs]
        outs = ins if outputs is inputs else [(t.shape, t.dtype) for t in outputs]
        group.ops += 1
        if is_message:
            group.messages += 1
        else:
            group.collectives += 1
        entry = Entry(group, name, (self._count, group.count.value, ins, outs, group.collectives,
                                    group.messages, group.ops, is_message,
                                    self._stack(sys._getframe(depth))))
        self._count += 1
        self._entries.append(entry)
        return entry

    def _stack(self, frame):
        """Return (code, instruction) of a frame and its callers, from which _frames() makes lines.
        """
        out, left = [], self._frames
        while frame is not None and left:
            out.append((frame.f_code, frame.f_lasti))
            frame, left = frame.f_back, left - 1
        return out

    def close(self, group):
        """Save the library's records of a group's operations before its job is closed."""
        if group.alarm is not None:
            self.alarms.remove(group.alarm)
            group.alarm = None
            if timeline.has_failed(group.job):  # the thread may not have come to it
                self.dump_unless_unwanted()
        with self._lock:
            group.points = self._points(group)
            group.job, group.count = None, ctypes.c_uint64(group.count.value)

    def _points(self, group):
        """Return the library's records of the group's operations, by number."""
        numbers = [e.what[1] + 1 for e in list(self._entries) if e.group is group]
        if group.job is None or not group.job.running or not numbers:
            return group.points
        first, last = min(numbers), min(max(numbers), group.count.value)
        if last < first:
            return {}
        try:
            found = timeline.points(group.job, first, last - first + 1)
        except errors.RingupError:
            return group.points
        return {first + i: p for i, p in enumerate(found) if p.submitted}

    def _known(self):
        """Return (Entry, its points or None, latest possible start) for all entries, oldest first.
        """
        entries = list(self._entries)
        points = {g.number: self._points(g) for g in list(self._groups.values())}
        found, taken = [], set()
        for e in reversed(entries):
            # An operation that nothing had to be done for has begun none of the library's, and a
            # message of another backend has no arrival.
            key = e.group.number, e.what[1] + 1
            p = None
            if key not in taken and not (e.begun and e.what[7]):
                p = points.get(key[0], {}).get(key[1])
                taken.add(key)
            found.append((e, p))
        at, out = self._since, []
        for e, p in reversed(found):
            at = e.begun or (p.submitted if p else at)
            out.append((e, p, at if e.failed is None or e.begun or p else e.failed))
        return out

    def state(self):
        """Return all records in the form of a dump: dicts, lists, strings and numbers."""
        groups = [g for g in list(self._groups.values()) if g.ops or not g.number]
        with self._lock:
            both = self._known()
        known = [one for one in both if _has_begun(*one)]
        latest = {e.group.number: e.what[4] for e, _p, _at in known if not e.what[7]}
        started, completed = {}, {g.number: g.completed for g in groups}
        for e, p, _at in known:
            state, number, seq = _state(e, p), e.group.number, e.what[4]
            if not e.what[7] and state != "scheduled":
                started[number] = seq
                if state == "completed":
                    completed[number] = max(seq, completed.get(number, -1))
        return {
            "version": _VERSION,
            "comm_lib_version": "ringup",
            "pg_config": {_name(g): {"name": _name(g), "desc": g.desc,
                                     "ranks": str(list(g.ranks))} for g in groups},
            "pg_status": {g.number: {"last_enqueued_collective": latest.get(g.number, -1),
                                     "last_started_collective":
                                         max(started.get(g.number, -1), completed[g.number]),
                                     "last_completed_collective": completed[g.number]}
                          for g in groups},
            "entries": [_event(*one) for one in known],
            "not_begun": [_event(*one) for one in both if not _has_begun(*one)],
        }

    def dump(self, path=None):
        """Write the records to a file, completely or not at all; return its path.

        Without a path, use TORCH_FR_DUMP_TEMP_FILE or torch's default, followed by the rank."""
        with self._lock:
            return self._dump(path or f"{prefix()}{self.rank}")

    def _dump(self, path):
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        try:
            with open(part, "wb") as f:
                pickle.dump(self.state(), f, protocol=2)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)
        return path

    def dump_failure(self, error):
        """Write a dump because ranks are lost or late, unless dumps are turned off; never
        raises."""
        if not isinstance(error, _TOLD):
            return
        self.dump_unless_unwanted()

    def dump_unless_unwanted(self):
        """Call dump(), unless the environment turns off dumps after failures; never raises."""
        if not self._entries.maxlen or not are_dumps_wanted():
            return
        try:
            self.dump()
        except OSError as e:
            print(f"ringup: cannot write the flight record: {e}; set TORCH_FR_DUMP_TEMP_FILE to "
                  "another path", file=sys.stderr)


def are_dumps_wanted():
    """Return whether the environment allows dumps after failures."""
    said = os.environ.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "1").lower()
    return said not in ("0", "false", "n", "no")


def prefix():
    """Return the path of dumps, without the rank."""
    told = os.environ.get("TORCH_FR_DUMP_TEMP_FILE",
                          os.environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"))
    if told:
        return told
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "torch", "comm_lib_trace_rank_")


def _line(code, instruction):
    """Return the source line of an instruction."""
    line = code.co_firstlineno
    if hasattr(code, "co_lines"):
        for begin, end, at in code.co_lines():
            if begin <= instruction < end:
                return at or line
    return line


def _frames(stack):
    """Return a stack in the format of dumps, newest frame first."""
    return [{"name": code.co_name, "filename": code.co_filename, "line": _line(code, instruction)}
            for code, instruction in stack]


def _name(group):
    """Return the name of a Group in dumps.  The operations of each backend have their own order."""
    return f"{group.name} {group.backend}" if group.backend else group.name


def _dtype(dtype):
    """Return the C++ name of a torch type."""
    name = str(dtype).rpartition(".")[2]
    return _DTYPES.get(name, name)


def _state(e, p):
    """Return the state of an Entry in torch's terms; p is its points, or None."""
    if e.state == _COMPLETED or (e.state == _SCHEDULED and _is_done(e, p)):
        return "completed"
    return "started" if p and p.ready else "scheduled"


def _is_done(e, p):
    """Return whether the operation of an Entry that nobody has waited for has completed."""
    if not e.begun:
        return bool(p and p.complete and not p.failed)
    is_done = e.is_done
    return bool(is_done and is_done())


def _has_begun(e, p, _created):
    """Return whether the library started the operation.  It does not if it rejects the arguments.
    """
    return p is not None or e.state == _COMPLETED or bool(e.begun and e.is_done)


def _event(e, p, created):
    """Return an Entry in the format of dumps."""
    number, _before, inputs, outputs, collective, message, op, is_message, stack = e.what
    own = None if e.begun else p  # points of an arrival are not times of the operation
    over = e.state != _SCHEDULED or bool(own and own.complete) or _is_done(e, p)
    timed = {"duration_ms": (own.complete - own.begun) / 1e6} \
        if own and own.begun and own.complete else {}
    return {
        **timed,
        "record_id": number,
        "pg_id": e.group.number,
        "process_group": (_name(e.group), e.group.desc),
        "collective_seq_id": collective,
        "p2p_seq_id": message,
        "op_id": op,
        "profiling_name": f"{_PREFIXES.get(e.group.backend, 'gloo')}:{e.name}",
        "time_created_ns": created,
        "input_sizes": [list(shape) for shape, _type in inputs],
        "input_dtypes": [_dtype(dtype) for _shape, dtype in inputs],
        "output_sizes": [list(shape) for shape, _type in outputs],
        "output_dtypes": [_dtype(dtype) for _shape, dtype in outputs],
        "state": _state(e, p),
        "time_discovered_started_ns": (p and p.ready) or (created if over else None),
        "time_discovered_completed_ns": (own and own.complete) or None,
        "retired": over,
        "timeout_ms": e.group.timeout_ms,
        "is_p2p": is_message,
        "thread_name": "",
        "thread_id": "",
        "frames": _frames(stack),
    }


recorder = Recorder()


def _forked():
    """Run in a forked child, which is not a rank."""
    recorder._lock = threading.RLock()
    recorder.alarms.forked()


os.register_at_fork(after_in_child=_forked)
