# operation.py - start operations of the job, and wait for them.
# SPDX-License-Identifier: Apache-2.0
"""Operations on addresses.  horovod.torch and ringup.collectives add types.

Names are bytes.  Without a group, an operation includes all ranks.  For keep and finish, see
Operation."""

import collections
import ctypes
import functools
import math
import threading
import time

from . import _c, dlpack, errors, job
from .constants import ANY_SOURCE, BYTES, CUDA, I64
from .job import lib

# How long one call into the library may block, so that Ctrl-C is noticed in between.
SLICE_MS = 500

# The library frees a name when its operation is complete, which may be microseconds after it has
# been started, or not: whether the name can be used again at once would be a matter of luck.  In
# Horovod it is in use for the rest of a cycle at least.  Here it is until this rank has seen an
# operation complete, or, in a program that never looks, for this many seconds.
UNSEEN = 0.1

# Operations without a name are matched by order; the library has room for this many in a group,
# Horovod for any number.  To start one more is to wait for the oldest.
UNNAMED = 1024


class Operation:
    """A handle of a collective in flight, for poll() and wait().

    keep stays alive until the operation has completed, even if wait() is never called.
    finish(keep) makes the result.  here(), if set, returns the number of the CUDA stream on which
    the thread that calls wait() will use the result."""

    __slots__ = ("op", "job", "called", "keep", "finish", "here")

    def __init__(self, op, job_, called, keep, finish):
        self.op, self.job, self.called, self.keep, self.finish = op, job_, called, keep, finish
        self.here = None

    def poll(self):
        """Return whether the operation has completed or failed; also True after wait()."""
        done = self.op is None or not self.job.running or lib.ringup_poll(self.op) == 1
        if done:
            self.job.fresh.clear()
        return done

    def wait(self, within_ms=-1, stream=None):
        """Block until the operation has completed.  Return its result, or None if wait() has
        already returned it.

        If the data are on a GPU, work that is queued afterwards on a stream sees the result: on the
        stream given here, or else on the one with which the operation was started.

        After within_ms milliseconds (negative: no limit), raise TimedOut.  The operation then
        continues and still uses its memory."""
        if self.op is None:
            return None
        if not self.job.running:
            self._forget()
            raise errors.NotRunning(f"{_words(self.called)}: its job has ended")
        if stream is not None:
            stream = dlpack.stream_number(stream)
        elif self.here is not None:
            stream = self.here()
        if stream is not None:
            lib.ringup_result_stream(self.op, stream)
        first = within_ms if 0 <= within_ms < SLICE_MS else SLICE_MS
        status = (lib.ringup_wait_on if within_ms < 0 else lib.ringup_wait)(self.op, first)
        if status == _c.ETIMEDOUT and first != within_ms:
            status = _go_on(self.op, within_ms)
        if status == _c.ETIMEDOUT:
            raise _c.failure(lib, status, _words(self.called))
        keep, finish = self.keep, self.finish
        self._forget()
        self.job.fresh.clear()
        if status < 0:
            raise _c.failure(lib, status, _words(self.called))
        return finish(keep) if finish else None

    def _forget(self):
        """Drop the reference to the finished operation."""
        self.op = self.keep = self.finish = self.here = None
        self.job.under_way.discard(self)


def _go_on(op, within_ms):
    """Continue to wait for an operation that has not completed in a first slice of within_ms;
    return the status of ringup_wait(), which is RINGUP_ETIMEDOUT if the time is up."""
    status, deadline = _c.ETIMEDOUT, time.monotonic() + (within_ms - SLICE_MS) / 1000
    while status == _c.ETIMEDOUT and within_ms < 0:
        status = lib.ringup_wait_on(op, SLICE_MS)
    while status == _c.ETIMEDOUT:
        left = round(1000 * (deadline - time.monotonic()))
        if left < 0:
            break
        status = lib.ringup_wait(op, min(left, SLICE_MS))
    return status


def _words(called):
    """Return the kind and name of an operation, for messages."""
    what, name = called
    return f"{what} {name.decode(errors='replace')!r}" if name else what


def _check_fresh(group, called):
    """Raise an exception for a name that was used a moment ago and may still be in use."""
    if time.monotonic() - group.job.fresh.get((group.number, called[1]), -UNSEEN) < UNSEEN:
        raise _c.error("EBUSY", f"{_words(called)}: an operation with this name is already in "
                       "flight")


def _make_room(group, called):
    """Wait for the oldest unnamed operation; return False if there is none."""
    line = () if called[1] else group.job.unnamed.get(group.number, ())
    while line and line[0].poll():
        line.popleft()
    if not line:
        return False
    while not line[0].poll():
        time.sleep(0.0005)
    return True


def _start(call, group, called, keep, finish, *args):
    """Start an operation of a group, and return it."""
    group, op = group or job.get_running().world, ctypes.c_void_p()
    if group.job.fresh:
        _check_fresh(group, called)
    status = call(group.handle, *args, ctypes.byref(op))
    while status == _c.EBUSY and _make_room(group, called):
        status = call(group.handle, *args, ctypes.byref(op))
    if status < 0:
        raise _c.failure(lib, status, _words(called))
    operation = Operation(op, group.job, called, keep, finish)
    group.job.under_way.add(operation)
    if called[1]:
        group.job.fresh[group.number, called[1]] = time.monotonic()
    else:
        unnamed = group.job.unnamed
        unnamed.setdefault(group.number, collections.deque(maxlen=UNNAMED)).append(operation)
    return operation


@functools.lru_cache(1 << 12)
def array(kind, count):
    """Return the type of arrays of count elements.  ctypes makes a new type, which takes 30 us,
    whenever no array of the type exists."""
    return kind * count


@functools.lru_cache(1 << 12)
def _carried(shape, count):
    """Return the last fields of the structs for elements that can only be moved, for a shape of
    count elements.  If an element consists of several elements of the library's type, the shape has
    one more dimension."""
    n = math.prod(shape)
    return _shape((*shape, count // n) if shape and n and n != count else shape)


@functools.lru_cache(1 << 12)
def _shape(shape):
    """Return the last two fields of most structs; the ranks compare them."""
    return (ctypes.c_uint64 * len(shape))(*shape), len(shape)


def _scaled(pre, post):
    """Raise an exception for a factor of 0, which the library would take for 1."""
    if not pre or not post:
        raise ValueError("a scale factor of 0 gives zeros; multiply by 0 yourself")


def _far(a, stream):
    """Return the library's struct, with its data in GPU memory."""
    a.memory, a.stream = CUDA, stream
    return a


class Reduction:
    """A reduction without its buffers, which training can reuse in each step."""

    __slots__ = ("called", "count", "pattern")

    def __init__(self, name, count, dtype, op, pre=1.0, post=1.0, shape=()):
        _scaled(pre, post)
        self.called, self.count = ("allreduce", name), count
        self.pattern = _c.Reduce(name, None, None, count, dtype, op, pre, post, *_shape(shape))

    def at(self, source, target, stream=None):
        """Return the library's struct for these addresses.  It refers to the Reduction, which
        must stay alive."""
        a = _c.Reduce.from_buffer_copy(self.pattern)
        setattr(a, "in", source)
        a.out = target
        return a if stream is None else _far(a, stream)

    def start(self, source, target, group=None, keep=None, finish=None, stream=None):
        """Start the reduction between two addresses, which may be equal.  With a stream, they are
        in GPU memory."""
        return _start(lib.ringup_allreduce, group, self.called, keep, finish,
                      ctypes.byref(self.at(source, target, stream)))

    def start_to(self, root, source, target, group=None, keep=None, finish=None):
        """Start the reduction so that only root, a rank of the group, gets the result."""
        return _start(lib.ringup_reduce_to, group, ("reduce", self.called[1]), keep, finish,
                      ctypes.byref(self.at(source, target)), root)

    def carry_out(self, source, target, group, keep, within_ms=-1):
        """Start the reduction and wait for it without creating an Operation, and return None.  If
        it has not completed after within_ms milliseconds, return its Operation, which continues."""
        a, op = self.at(source, target), ctypes.c_void_p()
        if group.job.fresh:
            _check_fresh(group, self.called)
        first = within_ms if 0 <= within_ms < SLICE_MS else SLICE_MS
        try:
            status = lib.ringup_allreduce_within(group.handle, a, first, ctypes.byref(op))
            while status == _c.EBUSY and _make_room(group, self.called):
                status = lib.ringup_allreduce_within(group.handle, a, first, ctypes.byref(op))
            if status == _c.ETIMEDOUT and first != within_ms:
                status = _go_on(op, within_ms)
        except BaseException:  # Ctrl-C, but it goes on
            if op:
                self._leave(op, group, keep)
            raise
        if group.job.fresh:
            group.job.fresh.clear()
        if status == _c.ETIMEDOUT:
            return self._leave(op, group, keep)
        if status < 0:
            raise _c.failure(lib, status, _words(self.called))
        return None

    def _leave(self, op, group, keep):
        """Return an Operation for a call that returns before the operation has completed."""
        operation = Operation(op, group.job, self.called, keep, None)
        group.job.under_way.add(operation)
        return operation


class Later:
    """An operation that needs the result of another one; it has the interface of Operation.

    When the first operation has completed, a thread of the library calls start(result), which
    returns the second Operation.  The program may therefore wait for handles in any order."""

    going = set()  # the library calls back, whether the program keeps the handle or not

    def __init__(self, first, start):
        self.first, self.start, self.next, self.error = first, start, None, None
        self.begun, self.callback = threading.Event(), _c.CALLBACK(self._go_on)
        self.going.add(self)
        status = lib.ringup_then(first.op, self.callback, None)
        if status < 0:
            self.going.discard(self)
            raise _c.failure(lib, status, _words(first.called))

    def _go_on(self, _ctx, _status):
        try:
            self.next = self.start(self.first.wait())
        except BaseException as e:  # the program hears it when it waits
            self.error = e
        self.start = None
        self.begun.set()
        self.going.discard(self)

    def poll(self):
        """Return whether the operation has completed or failed."""
        return self.begun.is_set() and (self.next is None or self.next.poll())

    def wait(self, within_ms=-1, stream=None):
        """Wait as for an Operation."""
        until = None if within_ms < 0 else time.monotonic() + within_ms / 1000
        while not self.begun.wait(SLICE_MS / 1000 if until is None
                                  else max(0, min(SLICE_MS / 1000, until - time.monotonic()))):
            if until is not None and time.monotonic() >= until:
                raise _c.error("ETIMEDOUT", f"{_words(self.first.called)}: timed out")
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if self.next is None:
            return None
        return self.next.wait(within_ms if until is None
                              else max(0, round(1000 * (until - time.monotonic()))), stream)


def _start_many(call, group, called, keep, finish, members):
    """Start several operations as one; members is a list of structs of one type."""
    a = (type(members[0]) * len(members))(*members)
    return _start(call, group, called, keep, finish, a, len(a))


def allreduce_many(reductions, addresses, group=None, keep=None, finish=None, stream=None):
    """Start several reductions as one, under the name of the first; addresses is a list of pairs.
    """
    return _start_many(lib.ringup_allreduce_many, group, reductions[0].called, keep, finish,
                       [r.at(*where, stream) for r, where in zip(reductions, addresses)])


def broadcast(source, target, count, dtype, root, name=None, shape=(), group=None, keep=None,
              finish=None, stream=None):
    """Start a broadcast.  root is a rank of the group; source is read only on root."""
    b = _c.Bcast(name, source, target, count, dtype, root, *_carried(shape, count))
    if stream is not None:
        _far(b, stream)
    return _start(lib.ringup_broadcast, group, ("broadcast", name), keep, finish, ctypes.byref(b))


def _result(group):
    """Return the two fields to which the library writes the address of a result and the number of
    rows from each rank."""
    return ctypes.c_void_p(), array(ctypes.c_uint64, (group or job.get_running().world).size)()


NOWHERE = None, 0  # no room of the caller's for the result


def _received(out, counts, bytes_of_row, into):
    """Return (memory, rows of each rank) of a finished operation.  memory is None if the result is
    empty or in the caller's own memory."""
    rows = list(counts)
    if not out.value or out.value == into[0]:
        return None, rows
    return _c.view(lib, out.value, sum(rows) * bytes_of_row), rows


def _gathering(group, source, rows, row, dtype, name=None, shape=(), into=NOWHERE, stream=None):
    """Return the library's struct, and a function that returns the result."""
    out, counts = _result(group)
    a = _c.Gather(name, source, rows, row, dtype, ctypes.pointer(out), counts,
                  *_carried(shape, row), *into)
    if stream is not None:
        _far(a, stream)
    return a, lambda: _received(out, counts, row * BYTES[dtype], into)


def allgather(source, rows, row, dtype, name=None, shape=(), group=None, keep=None, finish=None,
              into=NOWHERE, stream=None):
    """Start an allgather of rows rows; finish(memory, rows of each rank) makes the result.

    into is (address, bytes) of memory for the result.  If the result fits, it is written there, and
    memory is None.  On a GPU, with a stream, it must fit."""
    a, received = _gathering(group, source, rows, row, dtype, name, shape, into, stream)
    return _start(lib.ringup_allgather, group, ("allgather", name), keep,
                  lambda _: finish(*received()), ctypes.byref(a))


def allgather_many(blocks, name=None, group=None, keep=None, finish=None):
    """Start several allgathers as one.  blocks is a list of dicts with the arguments of allgather()
    and the shape; finish() gets a list with the arguments for each."""
    made = [_gathering(group, name=name, **block) for block in blocks]
    return _start_many(lib.ringup_allgather_many, group, ("allgather", name), keep,
                       lambda _: finish([received() for _a, received in made]),
                       [a for a, _received in made])


def _exchanging(group, source, rows, row, dtype, splits, name, shape, into, stream=None):
    """Return the library's struct, and a function that returns the result."""
    out, counts = _result(group)
    each = splits and array(ctypes.c_uint64, len(splits))(*splits)
    a = _c.Exchange(name, source, rows, row, each, dtype, ctypes.pointer(out), counts,
                    *_carried(shape, row), *into)
    if stream is not None:
        _far(a, stream)
    return a, lambda: _received(out, counts, row * BYTES[dtype], into)


def alltoall(source, rows, row, dtype, splits=None, name=None, shape=(), group=None, keep=None,
             finish=None, into=NOWHERE, stream=None):
    """Start an alltoall: splits[i] rows for rank i, or the same number for each rank.  finish and
    into are as in allgather()."""
    a, received = _exchanging(group, source, rows, row, dtype, splits, name, shape, into, stream)
    return _start(lib.ringup_alltoall, group, ("alltoall", name), keep,
                  lambda _: finish(*received()), ctypes.byref(a))


def gather_to(root, source, rows, row, dtype, name=None, shape=(), group=None, keep=None,
              finish=None, into=NOWHERE):
    """Start an allgather() whose result only root gets.  On other ranks, all row counts are 0."""
    a, received = _gathering(group, source, rows, row, dtype, name, shape, into)
    return _start(lib.ringup_gather_to, group, ("gather", name), keep,
                  lambda _: finish(*received()), ctypes.byref(a), root)


def scatter_from(root, source, rows, row, dtype, splits=None, name=None, shape=(), group=None,
                 keep=None, finish=None, into=NOWHERE):
    """Start an alltoall() in which only root sends rows; source, rows and splits of other ranks are
    ignored."""
    a, received = _exchanging(group, source, rows, row, dtype, splits, name, shape, into)
    return _start(lib.ringup_scatter_from, group, ("scatter", name), keep,
                  lambda _: finish(*received()), ctypes.byref(a), root)


def _scattering(source, rows, row, target, dtype, op, name=None, pre=1.0, post=1.0, shape=(),
                stream=None):
    """Return the library's struct."""
    _scaled(pre, post)
    a = _c.Scatter(name, source, rows, row, target, dtype, op, pre, post, *_shape(shape))
    return a if stream is None else _far(a, stream)


def reducescatter(name=None, group=None, keep=None, finish=None, **tensor):
    """Start a reduce-scatter of the given number of rows.  This rank gets own_rows() of them in
    target."""
    return _start(lib.ringup_reducescatter, group, ("reducescatter", name), keep, finish,
                  ctypes.byref(_scattering(name=name, **tensor)))


def reducescatter_many(tensors, name=None, group=None, keep=None, finish=None):
    """Start several reduce-scatters as one; tensors is a list of dicts with the arguments of
    reducescatter()."""
    return _start_many(lib.ringup_reducescatter_many, group, ("reducescatter", name), keep, finish,
                       [_scattering(name=name, **tensor) for tensor in tensors])


def numbers(mine, name, group, start):
    """Exchange lists of numbers, then call start(lists of all ranks), which starts the next
    operation and returns it."""
    sent = array(ctypes.c_int64, len(mine))(*mine)
    first = allgather(ctypes.addressof(sent), 1, len(mine), I64, name, (), group, sent,
                      lambda block, _rows: memoryview(block).cast("B").cast("q").tolist())
    return Later(first, lambda all_: start([all_[i:i + len(mine)]
                                            for i in range(0, len(all_), len(mine))]))


def own_rows(rows, group):
    """Return how many rows of a reducescatter() this rank gets."""
    return rows // group.size + (group.rank < rows % group.size)


def join(group=None):
    """Start a join.  Other ranks may continue; the result is the rank that joined last."""
    last = ctypes.c_int(-1)
    return _start(lib.ringup_join, group, ("join", None), last, lambda _last: last.value,
                  ctypes.byref(last))


def barrier(name=None, group=None):
    """Start a barrier."""
    return _start(lib.ringup_barrier, group, ("barrier", name), None, None, name)


def _start_message(call, group, called, keep, finish, a):
    """Start a message.  Messages do not count as unnamed operations."""
    op = ctypes.c_void_p()
    status = call(group.handle, ctypes.byref(a), ctypes.byref(op))
    if status < 0:
        raise _c.failure(lib, status, called[0])
    operation = Operation(op, group.job, called, keep, finish)
    group.job.under_way.add(operation)
    return operation


def send(source, count, dtype, to, tag, group, keep=None):
    """Start sending elements to a rank of the group."""
    return _start_message(lib.ringup_send, group, (f"send to rank {to}", None), keep, None,
                          _c.Send(source, count, dtype, to, tag))


def receive(target, count, dtype, source, tag, group, keep=None, finish=None):
    """Start receiving elements from a rank of the group, or from constants.ANY_SOURCE. Return
    (operation, a function that returns the sender once the operation has completed)."""
    came_from = ctypes.c_int(-1)
    a = _c.Recv(target, count, dtype, source, tag, ctypes.pointer(came_from))
    named = "any rank" if source == ANY_SOURCE else f"rank {source}"
    operation = _start_message(lib.ringup_recv, group, (f"receive from {named}", None),
                               (keep, came_from), finish and (lambda both: finish(both[0])), a)
    return operation, lambda: came_from.value
