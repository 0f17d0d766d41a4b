# collectives.py - Horovod's collectives on the tensors of any framework.
# SPDX-License-Identifier: Apache-2.0
"""Collectives for all frameworks.  A framework's mpi_ops.py adds differentiation, which only the
framework can do."""

import functools
import math

from ringup import constants, operation
from ringup.constants import BYTES
from ringup.errors import RingupError

from .exceptions import translated
from .process_sets import global_process_set, group_of
from .semantics import (Adasum, begin, check_rows, check_scatter, check_splits, named, reduction_of,
                        root_of, synchronize)


class Collectives:
    """Collectives for the tensors of an Adapter.  Methods called *_async return a handle for
    synchronize().

    Training repeats the same calls in each step.  Everything that a call needs, except the address
    of the tensor, is therefore prepared once and kept."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.places, self.address, self.deliver = (adapter.places, adapter.address,
                                                   adapter.deliver)
        self.kind = functools.lru_cache(1 << 10)(self._kind)
        self.reduction = functools.lru_cache(1 << 14)(self._reduction)
        self.moved = functools.lru_cache(1 << 12)(self._moved)

    def _kind(self, dtype, op):
        """Return the library's numbers of a tensor's type and of the reduction."""
        number = self.adapter.dtypes.get(dtype)
        if number is None:
            raise ValueError(f"tensors of {dtype} cannot be reduced; these can: " + ", ".join(
                str(d).rpartition(".")[2] for d in self.adapter.dtypes))
        return number, reduction_of(op)

    def _reduction(self, what, name, dtype, shape, op, pre, post):
        """Return the prepared reduction of a tensor."""
        return operation.Reduction(named(what, name), math.prod(shape), *self.kind(dtype, op), pre,
                                   post, tuple(shape))

    def _moved(self, dtype, shape):
        """Return (the library's number of a type, number of these in one element, shape) of a
        tensor that is moved and not reduced."""
        number = self.adapter.dtypes.get(dtype)
        return (constants.U8 if number is None else number,
                self.adapter.itemsize(dtype) if number is None else 1, tuple(shape))

    def _stream(self, tensor, group, op=None):
        """Return the stream of a tensor whose data stays on the GPU. None: the data goes through
        host memory."""
        return self.adapter.queue(tensor) if group.cuda and op != Adasum else None

    def _in_flight(self, started, stream, tensors):
        """Return an operation that was started on tensors.  If their data stay on the GPU, the
        result is for the stream that is current when the program waits for it."""
        if stream is not None:
            started.here = self.adapter.at_wait(tensors)
        return started

    def allreduce_async(self, tensor, output, name, op, pre, post, process_set):
        """Start reducing tensor into output, which may be the same tensor.  If output is None, the
        result is a new tensor."""
        try:
            r = self.reduction("allreduce", name, tensor.dtype, tensor.shape, op, pre, post)
            group = group_of(process_set)
            stream = self._stream(tensor, group, op) if group.cuda else None
            source, target, output = places = (
                self.places if stream is None else self.adapter.far_places)(tensor, output)
            started = r.start(self.address(source), self.address(target), group, places,
                              self.deliver, stream)
            return started if stream is None else self._in_flight(started, stream, places)
        except RingupError as e:
            raise translated(e) from e

    def allreduce(self, tensor, output, name, op, pre, post, process_set):
        """Reduce a tensor and wait for the result, which is cheaper than synchronize()."""
        try:
            r = self.reduction("allreduce", name, tensor.dtype, tensor.shape, op, pre, post)
            group = group_of(process_set)
            if group.cuda and self._stream(tensor, group, op) is not None:
                return self.allreduce_async(tensor, output, name, op, pre, post,
                                            process_set).wait()
            source, target, output = places = self.places(tensor, output)
            r.carry_out(self.address(source), self.address(target), group, places)
        except RingupError as e:
            raise translated(e) from e
        return output if output is target else self.deliver(places)

    def grouped_allreduce_async(self, tensors, outputs, name, op, pre, post, process_set):
        """Start reducing several tensors, all of them or none, into others, which may be the same,
        or into new ones."""
        self.check_group(tensors)
        reductions = [self.reduction("grouped_allreduce", name, t.dtype, t.shape, op, pre, post)
                      for t in tensors]
        group = group_of(process_set)
        stream = self._stream(tensors[0], group, op)
        places_of = self.places if stream is None else self.adapter.far_places
        places = [places_of(t, o) for t, o in zip(tensors, outputs or [None] * len(tensors))]
        started = begin(operation.allreduce_many, reductions,
                        [(self.address(p[0]), self.address(p[1])) for p in places],
                        group, places, lambda all_: [self.deliver(p) for p in all_], stream)
        return self._in_flight(started, stream, [t for p in places for t in p])

    def check_group(self, tensors):
        """Raise an exception for tensors that cannot form one group."""
        if not tensors:
            raise ValueError("a group of no tensors")
        if len({getattr(t, "device", None) for t in tensors}) > 1:
            raise ValueError("the tensors of a group must be on one device")

    # Collectives whose result has a size that only the library knows

    def _block(self, tensor, what):
        """Return (address of the rows, function that makes a tensor of received rows, the library's
        description of the rows)."""
        dtype, each, shape = self.moved(tensor.dtype, tensor.shape)
        if not shape:
            check_rows(shape, what)
        source, rest, from_block = self.adapter.source(tensor), shape[1:], self.adapter.from_block
        return (source, lambda block, rows: from_block(source, tensor, (sum(rows), *rest), block),
                {"source": self.address(source), "rows": shape[0], "row": math.prod(rest) * each,
                 "dtype": dtype, "shape": rest})

    def _far_block(self, tensor, what, rows_of):
        """Return a function that makes the block of a tensor, as _block() does, for a group that
        supports GPU memory.  The function's argument is each rank's numbers.

        rows_of(each rank's numbers) returns the number of rows from each rank, because the memory
        for the result on the GPU is allocated before the operation starts."""
        stream, adapter = self.adapter.queue(tensor), self.adapter
        if stream is None:
            block = self._block(tensor, what)
            return lambda _numbers: block
        dtype, each, shape = self.moved(tensor.dtype, tensor.shape)
        if not shape:
            check_rows(shape, what)
        source, make, rest = adapter.far_source(tensor), adapter.far_room(tensor), shape[1:]
        row = math.prod(shape[1:]) * each

        def go_on(numbers):
            rows = sum(rows_of(numbers))
            target = make((rows, *rest))
            # An operation needs a place for its result, even if that is empty.
            room = target if rows * row else make((1,))
            return (source, room, target), lambda _block, _rows: target, {
                "source": self.address(source), "rows": shape[0], "row": row, "dtype": dtype,
                "shape": rest, "stream": stream,
                "into": (self.address(room), max(rows * row, 1) * BYTES[dtype])}
        return go_on

    def _name_after(self, what, name, group):
        """Return (the name under which ranks exchange their numbers, the name of the operation that
        follows). Calls without a name are matched by their order, but the operation that follows is
        not."""
        if name is not None:
            return named(what, f"{name}.rows"), named(what, name)
        counts = group.job.followed
        count = counts[group.number] = counts.get(group.number, 0) + 1
        return None, f"{what} number {count}".encode()

    def allgather_async(self, tensor, name, process_set):
        """Start an allgather of the ranks' tensors."""
        group = group_of(process_set)
        if group.cuda:
            return self._gather_far([tensor], "allgather", name, group, lambda all_: all_[0])
        source, receive, block = self._block(tensor, "allgather")
        return begin(operation.allgather, name=named("allgather", name), group=group, keep=source,
                     finish=receive, **block)

    def grouped_allgather_async(self, tensors, name, process_set):
        """Start an allgather of several tensors: all of them or none."""
        self.check_group(tensors)
        group = group_of(process_set)
        if group.cuda:
            return self._gather_far(tensors, "grouped_allgather", name, group, list)
        sources, receivers, blocks = zip(*[self._block(t, "grouped_allgather") for t in tensors])
        return begin(operation.allgather_many, blocks, named("grouped_allgather", name), group,
                     sources,
                     lambda parts: [receive(*p) for receive, p in zip(receivers, parts)])

    def _gather_far(self, tensors, what, name, group, result):
        """Gather tensors in GPU memory, after the ranks have exchanged their numbers of rows."""
        made = [self._far_block(t, what, lambda all_, i=i: [mine[i] for mine in all_])
                for i, t in enumerate(tensors)]
        mine = [t.shape[0] for t in tensors]
        before, after = self._name_after(what, name, group)

        def start(numbers):
            sources, receivers, blocks = zip(*[go_on(numbers) for go_on in made])
            started = operation.allgather_many(
                blocks, after, group, sources,
                lambda parts: result([receive(*p) for receive, p in zip(receivers, parts)]))
            far = [t for source, b in zip(sources, blocks) if "stream" in b for t in source]
            return self._in_flight(started, far or None, far)
        return begin(operation.numbers, mine, before, group, start)

    def place_of(self, rows, process_set):
        """Return how many rows of an allgather precede those of this rank."""
        counts = synchronize(begin(
            operation.allgather, None, rows, 0, 0, group=group_of(process_set),
            finish=lambda _out, counts: counts))
        return sum(counts[:process_set.rank()])

    def broadcast_async(self, tensor, output, root_rank, name, process_set):
        """Start a broadcast of root's tensor into output, which may be the same tensor.  If output
        is None, the result is a new tensor."""
        group = group_of(process_set)
        root = root_of(root_rank, group, process_set)
        dtype, each, shape = self.moved(tensor.dtype, tensor.shape)
        stream = self._stream(tensor, group)
        source, target, output = places = (
            self.places if stream is None else self.adapter.far_places)(tensor, output)
        started = begin(operation.broadcast, self.address(source), self.address(target),
                        math.prod(shape) * each, dtype, root, named("broadcast", name), shape,
                        group, places, self.deliver, stream)
        return self._in_flight(started, stream, places)

    def alltoall_async(self, tensor, splits, name, process_set, counts_of=list):
        """Start an alltoall.  The result is (rows, number of rows from each rank); counts_of()
        makes the second from a list."""
        group = group_of(process_set)
        if group.cuda:
            return self._exchange_far(tensor, splits, name, group, counts_of)
        source, receive, block = self._block(tensor, "alltoall")
        numbers = check_splits(splits, block["rows"], group)
        if numbers is not None:
            block["rows"] = sum(numbers)
        return begin(operation.alltoall, splits=numbers, name=named("alltoall", name), group=group,
                     keep=source, **block,
                     finish=lambda out, counts: (receive(out, counts), counts_of(counts)))

    def _exchange_far(self, tensor, splits, name, group, counts_of):
        """Exchange rows in GPU memory, after the ranks have exchanged their numbers of rows."""
        go_on = self._far_block(tensor, "alltoall",
                                lambda all_: [mine[group.rank] for mine in all_])
        shape = tensor.shape
        numbers = check_splits(splits, shape[0], group)
        if numbers is None:
            numbers = [shape[0] // group.size] * group.size
        before, after = self._name_after("alltoall", name, group)

        def start(told):
            source, receive, block = go_on(told)
            block["rows"] = sum(numbers)
            started = operation.alltoall(
                splits=numbers, name=after, group=group, keep=source, **block,
                finish=lambda out, counts: (receive(out, counts), counts_of(counts)))
            return self._in_flight(started, block.get("stream"), source)
        return begin(operation.numbers, numbers, before, group, start)

    # reducescatter

    def _part(self, tensor, op, process_set, pre, post):
        """Return (address of the rows, address of this rank's part, the library's description of
        the rows)."""
        shape = tensor.shape
        dtype, redop = self.kind(tensor.dtype, op)
        if not shape:
            check_rows(shape, "reducescatter")
        check_scatter(op)
        group, rest = group_of(process_set), tuple(shape[1:])
        stream, mine = self._stream(tensor, group), (operation.own_rows(shape[0], group), *rest)
        if stream is None:
            source = self.adapter.source(tensor)
            target = self.adapter.room(source, mine)
        else:
            source, target = self.adapter.far_source(tensor), self.adapter.far_room(tensor)(mine)
        return source, target, {
            "source": self.address(source), "rows": shape[0], "row": math.prod(rest),
            "target": self.address(target), "dtype": dtype, "op": redop, "pre": pre, "post": post,
            "shape": rest, "stream": stream}

    def reducescatter_async(self, tensor, name, op, process_set, pre, post):
        """Start a reduce-scatter of rows."""
        source, target, told = self._part(tensor, op, process_set, pre, post)
        started = begin(operation.reducescatter, named("reducescatter", name),
                        group_of(process_set), (source, target),
                        lambda _keep: self._of_room(target, tensor, told), **told)
        return self._in_flight(started, told["stream"], (source, target))

    def _of_room(self, target, tensor, told):
        """Return a reduced part as a tensor; on the GPU, it already is one."""
        return target if told["stream"] is not None else self.adapter.from_room(target, tensor)

    def grouped_reducescatter_async(self, tensors, name, op, process_set, pre, post):
        """Start a reduce-scatter of several tensors: all of them or none."""
        self.check_group(tensors)
        sources, targets, told = zip(*[self._part(t, op, process_set, pre, post) for t in tensors])
        started = begin(operation.reducescatter_many, told, named("grouped_reducescatter", name),
                        group_of(process_set), (sources, targets),
                        lambda _keep: list(map(self._of_room, targets, tensors, told)))
        return self._in_flight(started, told[0]["stream"], (*sources, *targets))


def barrier(process_set=global_process_set):
    """Block until all ranks have called barrier()."""
    synchronize(begin(operation.barrier, None, group_of(process_set)))


def join():
    """Contribute zeros to the sums of the other ranks until all ranks have joined; return the rank
    that joined last."""
    return synchronize(begin(operation.join))
