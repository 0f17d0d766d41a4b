# collectives.py - Horovod's collectives on the tensors of any framework.
# SPDX-License-Identifier: Apache-2.0
"""A framework's mpi_ops.py has what only the framework knows: what is differentiated, and how."""

import functools
import math

from ringup import constants, operation
from ringup.errors import RingupError

from .exceptions import translated
from .process_sets import global_process_set, group_of
from .semantics import (begin, check_rows, check_scatter, check_splits, named, reduction_of,
                        root_of, synchronize)


class Collectives:
    """For the tensors of an Adapter.  Methods called *_async return a handle for synchronize().

    A training repeats the same calls in each step, so everything that a call needs is prepared
    once and kept, but for the tensor's address."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.places, self.address, self.deliver = (adapter.places, adapter.address,
                                                   adapter.deliver)
        self.kind = functools.lru_cache(1 << 10)(self._kind)
        self.reduction = functools.lru_cache(1 << 14)(self._reduction)
        self.moved = functools.lru_cache(1 << 12)(self._moved)

    def _kind(self, dtype, op):
        """The library's numbers of a tensor's type and of the reduction."""
        number = self.adapter.dtypes.get(dtype)
        if number is None:
            raise ValueError(f"tensors of {dtype} cannot be reduced; these can: " + ", ".join(
                str(d).rpartition(".")[2] for d in self.adapter.dtypes))
        return number, reduction_of(op)

    def _reduction(self, what, name, dtype, shape, op, pre, post):
        """The prepared reduction of a tensor."""
        return operation.Reduction(named(what, name), math.prod(shape), *self.kind(dtype, op), pre,
                                   post, tuple(shape))

    def _moved(self, dtype, shape):
        """(the library's number of a type, how many of it make one element, the shape) of a tensor
        that is moved and not reduced."""
        number = self.adapter.dtypes.get(dtype)
        return (constants.U8 if number is None else number,
                self.adapter.itemsize(dtype) if number is None else 1, tuple(shape))

    def allreduce_async(self, tensor, output, name, op, pre, post, process_set):
        """Start reducing tensor into output, which may be the same, or None: a new tensor."""
        try:
            r = self.reduction("allreduce", name, tensor.dtype, tensor.shape, op, pre, post)
            source, target, output = places = self.places(tensor, output)
            return r.start(self.address(source), self.address(target), group_of(process_set),
                           places, self.deliver)
        except RingupError as e:
            raise translated(e) from e

    def allreduce(self, tensor, output, name, op, pre, post, process_set):
        """The same, and wait for it, which is cheaper than synchronize()."""
        try:
            r = self.reduction("allreduce", name, tensor.dtype, tensor.shape, op, pre, post)
            source, target, output = places = self.places(tensor, output)
            r.carry_out(self.address(source), self.address(target), group_of(process_set), places)
        except RingupError as e:
            raise translated(e) from e
        return output if output is target else self.deliver(places)

    def grouped_allreduce_async(self, tensors, outputs, name, op, pre, post, process_set):
        """Start reducing some tensors into others, which may be the same, or into new ones: all of
        them or none."""
        self.check_group(tensors)
        reductions = [self.reduction("grouped_allreduce", name, t.dtype, t.shape, op, pre, post)
                      for t in tensors]
        places = [self.places(t, o) for t, o in zip(tensors, outputs or [None] * len(tensors))]
        return begin(operation.allreduce_many, reductions,
                     [(self.address(p[0]), self.address(p[1])) for p in places],
                     group_of(process_set), places, lambda all_: [self.deliver(p) for p in all_])

    def check_group(self, tensors):
        """Complain about what cannot be one group."""
        if not tensors:
            raise ValueError("a group of no tensors")
        if len({getattr(t, "device", None) for t in tensors}) > 1:
            raise ValueError("the tensors of a group must be on one device")

    # Collectives whose result has a size that only the library knows

    def _block(self, tensor, what):
        """(where the rows are, what makes a tensor of rows that come, what the library is told)"""
        dtype, each, shape = self.moved(tensor.dtype, tensor.shape)
        if not shape:
            check_rows(shape, what)
        source, rest, from_block = self.adapter.source(tensor), shape[1:], self.adapter.from_block
        return (source, lambda block, rows: from_block(source, tensor, (sum(rows), *rest), block),
                {"source": self.address(source), "rows": shape[0], "row": math.prod(rest) * each,
                 "dtype": dtype, "shape": rest})

    def allgather_async(self, tensor, name, process_set):
        """Start concatenating the ranks' tensors."""
        source, receive, block = self._block(tensor, "allgather")
        return begin(operation.allgather, name=named("allgather", name),
                     group=group_of(process_set), keep=source, finish=receive, **block)

    def grouped_allgather_async(self, tensors, name, process_set):
        """Start concatenating several tensors: all of them or none."""
        self.check_group(tensors)
        sources, receivers, blocks = zip(*[self._block(t, "grouped_allgather") for t in tensors])
        return begin(operation.allgather_many, blocks, named("grouped_allgather", name),
                     group_of(process_set), sources,
                     lambda parts: [receive(*p) for receive, p in zip(receivers, parts)])

    def place_of(self, rows, process_set):
        """How many rows lie before this rank's in a concatenation."""
        counts = synchronize(begin(
            operation.allgather, None, rows, 0, 0, group=group_of(process_set),
            finish=lambda _out, counts: counts))
        return sum(counts[:process_set.rank()])

    def broadcast_async(self, tensor, output, root_rank, name, process_set):
        """Start giving every rank root's tensor, in output, which may be the same, or None."""
        group = group_of(process_set)
        root = root_of(root_rank, group, process_set)
        dtype, each, shape = self.moved(tensor.dtype, tensor.shape)
        source, target, output = places = self.places(tensor, output)
        return begin(operation.broadcast, self.address(source), self.address(target),
                     math.prod(shape) * each, dtype, root, named("broadcast", name), shape, group,
                     places, self.deliver)

    def alltoall_async(self, tensor, splits, name, process_set, counts_of=list):
        """Start an exchange; the result is (rows, how many of them are from each rank), the second
        of which counts_of() makes of a list."""
        group = group_of(process_set)
        source, receive, block = self._block(tensor, "alltoall")
        numbers = check_splits(splits, block["rows"], group)
        if numbers is not None:
            block["rows"] = sum(numbers)
        return begin(operation.alltoall, splits=numbers, name=named("alltoall", name), group=group,
                     keep=source, **block,
                     finish=lambda out, counts: (receive(out, counts), counts_of(counts)))

    # reducescatter

    def _part(self, tensor, op, process_set, pre, post):
        """(where the rows are, where this rank's go, what the library is told of them)"""
        shape = tensor.shape
        dtype, redop = self.kind(tensor.dtype, op)
        if not shape:
            check_rows(shape, "reducescatter")
        check_scatter(op)
        source, group, rest = self.adapter.source(tensor), group_of(process_set), tuple(shape[1:])
        target = self.adapter.room(source, (operation.own_rows(shape[0], group), *rest))
        return source, target, {
            "source": self.address(source), "rows": shape[0], "row": math.prod(rest),
            "target": self.address(target), "dtype": dtype, "op": redop, "pre": pre, "post": post,
            "shape": rest}

    def reducescatter_async(self, tensor, name, op, process_set, pre, post):
        """Start reducing rows, of which each rank gets a part."""
        source, target, told = self._part(tensor, op, process_set, pre, post)
        return begin(operation.reducescatter, named("reducescatter", name), group_of(process_set),
                     source, lambda _keep: self.adapter.from_room(target, tensor), **told)

    def grouped_reducescatter_async(self, tensors, name, op, process_set, pre, post):
        """Start reducing several tensors so: all of them or none."""
        self.check_group(tensors)
        sources, targets, told = zip(*[self._part(t, op, process_set, pre, post) for t in tensors])
        return begin(operation.reducescatter_many, told, named("grouped_reducescatter", name),
                     group_of(process_set), sources,
                     lambda _keep: list(map(self.adapter.from_room, targets, tensors)))


def barrier(process_set=global_process_set):
    """Wait until every rank is here."""
    synchronize(begin(operation.barrier, None, group_of(process_set)))


def join():
    """Take part in the others' sums, with zeros, until all ranks have joined; returns the last."""
    return synchronize(begin(operation.join))
