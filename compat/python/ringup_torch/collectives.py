# collectives.py - the collectives of a process group, with the names and arguments of torch.
# SPDX-License-Identifier: Apache-2.0
"""torch's Python functions call these methods directly.  Its C++ code (DDP, functional collectives)
calls them through its own base class.  Methods therefore exist under both spellings of a name.

Methods accept torch's options objects, or the only value that matters in them: the reduce operation
or the root.  They return a Work, or None if the options say that the caller would wait immediately;
the operation is then complete.  Tensors of all types can be moved.  Tensors that are not contiguous
in host memory are copied.  Arguments that no rank could accept raise ValueError."""

import math

import torch
from torch.distributed import ReduceOp

from ringup import _c, constants, operation

from . import reductions, tensors
from .evidence import evidence
from .group import GroupBase, is_blocking

_MOST_PREPARED = 4096  # reductions of different types and sizes


def only(items):
    """Return the element of a list of length one.  torch passes lists, because a process could once
    have several devices."""
    if isinstance(items, torch.Tensor):
        return items
    if len(items) != 1:
        raise ValueError(f"{len(items)} tensors, or lists of tensors, instead of one: a process "
                         "has one device")
    return items[0]


def _redop(opts):
    """Return the reduce operation in options, or options itself if it is an operation."""
    return ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)


def _root(opts):
    """Return the root in options, or options itself if it is a root."""
    return 0 if opts is None else getattr(opts, "rootRank", opts)


def _deliver(pairs):
    """Finish an operation: copy results that the library wrote to a staging buffer to their
    tensors."""
    for place, tensor in pairs:
        tensors.deliver(place, tensor)


def _check_counts(rows, expected, what):
    """Raise an exception if the ranks sent other amounts of data than the tensors have room for."""
    wrong = [r for r, (n, m) in enumerate(zip(rows, expected)) if n != m]
    if wrong:
        text = ", ".join(f"rank {r} of the group has {rows[r]} instead of {expected[r]}"
                         for r in wrong[:4])
        raise _c.error("EMISMATCH", f"{what}: {text} rows; pass tensors of those sizes")


class Collectives(GroupBase):
    """A process group with all collectives."""

    def __init__(self, *args):
        super().__init__(*args)
        self._prepared = {}

    # ---- every rank gets a reduction ----

    def _reduction(self, op, tensor):
        """Return the prepared reduction of a tensor; None if the library does not support it."""
        number = reductions.number_of(op)
        pre = reductions.factor_of(op) if number == reductions.PREMUL_SUM else 1.0
        key = number, pre, tensor.dtype, tensor.numel()
        try:
            return self._prepared[key]
        except KeyError:
            return self._prepare(key)

    def _prepare(self, key):
        """Prepare a reduction and cache it, since training repeats it."""
        number, pre, dtype, count = key
        if len(self._prepared) >= _MOST_PREPARED:
            self._prepared.clear()
        if reductions.is_composed(number, dtype):
            made = None
        else:
            kind, each, redop = reductions.reduction_of(number, dtype)
            made = operation.Reduction(None, count * each, kind, redop, pre)
        self._prepared[key] = made
        return made

    def allreduce(self, inputs, opts=None, _timeout=None):
        """Reduce a tensor over all ranks, in place.

        torch: dist.all_reduce(); ringup.h: ringup_allreduce()."""
        tensor, op = only(inputs), _redop(opts)
        entry, reduction = self._began("all_reduce", [tensor]), self._reduction(op, tensor)
        if reduction is None or tensor.is_sparse:
            return self._allreduce_composed(tensor, op, opts, entry)
        place = tensors.readable(tensor)
        at = place.data_ptr()
        if not is_blocking(opts) or self._coalesced is not None:
            started = reduction.start(at, at, self._members, [(place, tensor)], _deliver)
            return self._under_way(started, [tensor], opts, entry)
        try:
            lead = evidence.lead_ms(self.timeout_ms)
            late = reduction.carry_out(at, at, self._members, place, self.timeout_ms - lead)
            if late is not None:
                self.miss(late, lead)
        except BaseException as e:
            entry.end(e)
            raise
        entry.end()
        if place is not tensor:
            tensors.deliver(place, tensor)
        return None

    def allreduce_coalesced(self, inputs, opts=None):
        """Reduce several tensors: all of them or none.

        torch: dist.all_reduce_coalesced(); ringup.h: ringup_allreduce_many()."""
        op = _redop(opts)
        entry = self._began("allreduce_coalesced", inputs)
        if not inputs:
            return self._under_way(None, [], opts, entry)
        prepared = [self._reduction(op, t) for t in inputs]
        if None in prepared:
            raise ValueError("only dist.all_reduce() supports bitwise operations: use it for each")
        places = [tensors.readable(t) for t in inputs]
        addresses = [(p.data_ptr(), p.data_ptr()) for p in places]
        started = operation.allreduce_many(prepared, addresses, self._members,
                                           list(zip(places, inputs)), _deliver)
        return self._under_way(started, list(inputs), opts, entry)

    def _allreduce_composed(self, tensor, op, opts, entry):
        """Run a reduction that the library does not support: gather the tensors, then reduce them
        here."""
        if tensor.is_sparse:
            return self._under_way(self._gather_sparse(tensor, op), [tensor], opts, entry)
        started = self._reduce_composed(tensors.readable(tensor), tensor, op)
        return self._under_way(started, [tensor], opts, entry)

    def _reduce_composed(self, place, tensor, op):
        """Start such a reduction, in place on every rank, or into a tensor if one is given."""
        number = reductions.number_of(op)
        reductions.check_bitwise(number, place.dtype)
        every = torch.empty((self._size, place.numel()), dtype=place.dtype)

        def finish(_keep):
            if tensor is not None:
                result = reductions.bitwise(number, every.unbind())
                tensors.deliver(result.view(tensor.shape), tensor)

        return self._gather_into(place, every, keep=(place, every), finish=finish)

    def _gather_sparse(self, tensor, op):
        """Start a sum of sparse tensors, whose numbers of elements may differ between ranks."""
        if reductions.number_of(op) != reductions.SUM:
            raise ValueError("sparse tensors can only be summed: use ReduceOp.SUM, or to_dense()")
        mine = tensor.coalesce()
        indices = tensors.readable(mine.indices().t().contiguous())
        values = tensors.readable(mine.values())
        kind, each = tensors.carried(values.dtype)
        row = math.prod(values.shape[1:]) * each
        blocks = [{"source": indices.data_ptr(), "rows": len(indices), "row": indices.shape[1],
                   "dtype": constants.I64},
                  {"source": values.data_ptr(), "rows": len(values), "row": row, "dtype": kind}]

        def finish(results):
            (where, counts), (what, _counts) = results
            total = sum(counts)
            if total:
                at = torch.frombuffer(where, dtype=torch.int64).view(total, -1).t()
                of = torch.frombuffer(what, dtype=values.dtype).view(total, *values.shape[1:])
                result = torch.sparse_coo_tensor(at, of, tensor.shape).coalesce()
                with torch.no_grad():
                    tensor.copy_(result)

        return operation.allgather_many(blocks, None, self._members, (indices, values), finish)

    # ---- one rank's tensor goes to all, or the other way round ----

    def broadcast(self, inputs, opts=None, _timeout=None):
        """Copy a tensor from one rank to all others, in place.

        torch: dist.broadcast(); ringup.h: ringup_broadcast()."""
        tensor, root = only(inputs), _root(opts)
        entry = self._began("broadcast", [tensor])
        place = (tensors.readable if root == self._rank else tensors.writable)(tensor)
        kind, each = tensors.carried(tensor.dtype)
        at = place.data_ptr()
        pairs = [] if root == self._rank else [(place, tensor)]
        started = operation.broadcast(at, at, tensor.numel() * each, kind, root, None, (),
                                      self._members, (place, pairs), lambda keep: _deliver(keep[1]))
        return self._under_way(started, [tensor], opts, entry)

    def reduce(self, inputs, opts=None, _op=None, _timeout=None):
        """Reduce a tensor over all ranks, in place on the root; other ranks' tensors are unchanged.

        torch: dist.reduce(); ringup.h: ringup_reduce_to()."""
        tensor, root = only(inputs), _root(opts)
        op = _redop(opts if hasattr(opts, "reduceOp") else _op)
        entry = self._began("reduce", [tensor])
        reduction, place = self._reduction(op, tensor), tensors.readable(tensor)
        is_root, at = root == self._rank, place.data_ptr()
        if reduction is None:
            started = self._reduce_composed(place, tensor if is_root else None, op)
            return self._under_way(started, [tensor], opts, entry)
        started = reduction.start_to(root, at, at if is_root else None, self._members,
                                     (place, [(place, tensor)] if is_root else []),
                                     lambda keep: _deliver(keep[1]))
        return self._under_way(started, [tensor], opts, entry)

    def gather(self, outputs, inputs, opts=None, _timeout=None):
        """Gather the tensors of all ranks on the root; sizes may differ.

        torch: dist.gather(); ringup.h: ringup_gather_to()."""
        tensor, root = only(inputs), _root(opts)
        targets = list(only(outputs)) if root == self._rank else []
        if root == self._rank and len(targets) != self._size:
            raise ValueError(f"gather: {len(targets)} tensors to gather into, but {self._size} "
                             "ranks")
        entry = self._began("gather", [tensor], targets)
        tensors.same_type(tensor, *targets)
        source = tensors.readable(tensor)
        place = tensors.room(targets) if targets else torch.empty(0, dtype=tensor.dtype)
        kind, each = tensors.carried(tensor.dtype)

        def finish(_memory, rows):
            if targets:
                _check_counts(rows, [t.numel() for t in targets], "gather")
                tensors.spread(place, targets)

        started = operation.gather_to(
            root, source.data_ptr(), tensor.numel(), each, kind, group=self._members,
            keep=(source, place), finish=finish,
            into=(place.data_ptr(), place.numel() * place.element_size()))
        return self._under_way(started, targets, opts, entry)

    def scatter(self, outputs, inputs, opts=None, _timeout=None):
        """Send one of root's tensors to each rank; sizes may differ.

        torch: dist.scatter(); ringup.h: ringup_scatter_from()."""
        tensor, root = only(outputs), _root(opts)
        sources = list(only(inputs)) if root == self._rank else []
        if root == self._rank and len(sources) != self._size:
            raise ValueError(f"scatter: {len(sources)} tensors to scatter, but {self._size} ranks")
        entry = self._began("scatter", sources, [tensor])
        tensors.same_type(tensor, *sources)
        source = tensors.joined(sources) if sources else None
        place, (kind, each) = tensors.writable(tensor), tensors.carried(tensor.dtype)
        splits = [t.numel() for t in sources] or None

        def finish(_memory, rows):
            _check_counts(rows, [tensor.numel() if r == root else 0 for r in range(self._size)],
                          "scatter")
            tensors.deliver(place, tensor)

        started = operation.scatter_from(
            root, source.data_ptr() if sources else None, sum(splits or [0]), each, kind, splits,
            group=self._members, keep=(source, place), finish=finish,
            into=(place.data_ptr(), place.numel() * place.element_size()))
        return self._under_way(started, [tensor], opts, entry)

    # ---- every rank gets what all have ----

    def _gathering(self, source, target):
        """Return the arguments of operation.allgather() and allgather_many() that gather the
        same amount from each rank into one tensor."""
        tensors.same_type(source, target)
        if target.numel() != source.numel() * self._size:
            raise ValueError(f"{self._size} tensors of {source.numel()} elements do not fit into "
                             f"one of {target.numel()}")
        kind, each = tensors.carried(source.dtype)
        count = source.numel() * each
        return {"source": source.data_ptr(), "rows": min(count, 1), "row": max(count, 1),
                "dtype": kind, "into": (target.data_ptr(), target.numel() * target.element_size())}

    def _gather_into(self, source, target, keep, finish):
        """Start to gather the same amount from each rank."""
        return operation.allgather(group=self._members, keep=keep,
                                   finish=lambda *_result: finish(keep),
                                   **self._gathering(source, target))

    def all_gather_single(self, output, tensor, opts=None):
        """Gather equal-sized tensors of all ranks into one tensor, in rank order.

        torch: dist.all_gather_into_tensor(); ringup.h: ringup_allgather()."""
        entry = self._began("_all_gather_base", [tensor], [output])
        source, place = tensors.readable(tensor), tensors.writable(output)
        started = self._gather_into(source, place, (source, [(place, output)]),
                                    lambda keep: _deliver(keep[1]))
        return self._under_way(started, [output], opts, entry)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        """Gather several tensors as all_gather_single() does: all of them or none."""
        entry = self._began("all_gather_into_tensor_coalesced", inputs, outputs)
        if not inputs:
            return self._under_way(None, [], opts, entry)
        sources = [tensors.readable(t) for t in inputs]
        places = [tensors.writable(t) for t in outputs]
        blocks = [self._gathering(s, p) for s, p in zip(sources, places)]
        keep = sources, list(zip(places, outputs))
        started = operation.allgather_many(blocks, None, self._members, keep,
                                           lambda _results: _deliver(keep[1]))
        return self._under_way(started, list(outputs), opts, entry)

    def allgather(self, outputs, inputs, opts=None, _timeout=None):
        """Gather the tensors of all ranks on every rank; sizes may differ.

        torch: dist.all_gather(); ringup.h: ringup_allgather()."""
        tensor = only(inputs)
        targets = outputs if isinstance(outputs[0], torch.Tensor) else only(outputs)
        return self._allgather(list(targets), tensor, opts,
                               self._began("all_gather", [tensor], targets))

    def _allgather(self, targets, tensor, opts, entry):
        """Gather one tensor of each rank into a list of tensors."""
        if len(targets) != self._size:
            raise ValueError(f"all_gather: {len(targets)} tensors to gather into, but {self._size} "
                             "ranks")
        tensors.same_type(tensor, *targets)
        source, place = tensors.readable(tensor), tensors.room(targets)
        expected = [t.numel() for t in targets]
        if len(set(expected)) == 1 and expected[0] == tensor.numel():
            started = self._gather_into(source, place, (source, place),
                                        lambda keep: tensors.spread(keep[1], targets))
            return self._under_way(started, targets, opts, entry)
        kind, each = tensors.carried(tensor.dtype)

        def finish(_memory, rows):
            _check_counts(rows, expected, "all_gather")
            tensors.spread(place, targets)

        started = operation.allgather(
            source.data_ptr(), tensor.numel(), each, kind, group=self._members,
            keep=(source, place), finish=finish,
            into=(place.data_ptr(), place.numel() * place.element_size()))
        return self._under_way(started, targets, opts, entry)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """Gather several tensors of each rank: outputs[r][i] gets inputs[i] of rank r.

        torch: dist.all_gather_coalesced()."""
        entry = self._began("ALLGATHER_coalesced", inputs, [t for of in outputs for t in of])
        if not inputs:
            return self._under_way(None, [], opts, entry)
        sources = [tensors.readable(t) for t in inputs]
        targets = [[of[i] for of in outputs] for i in range(len(inputs))]
        places = [tensors.room(ts) for ts in targets]
        blocks = [self._gathering(s, p) for s, p in zip(sources, places)]
        keep = sources, places

        def finish(_results):
            for place, ts in zip(places, targets):
                tensors.spread(place, ts)

        started = operation.allgather_many(blocks, None, self._members, keep, finish)
        return self._under_way(started, [t for of in outputs for t in of], opts, entry)

    # ---- every rank gets a part of a reduction ----

    def _check_scatter(self, source, target):
        """Raise an exception if a tensor cannot be split into one target per rank."""
        tensors.same_type(source, target)
        if source.numel() != target.numel() * self._size:
            raise ValueError(f"a tensor of {source.numel()} elements cannot be split into "
                             f"{self._size} of {target.numel()}")

    def _scattering(self, source, target, op):
        """Return the arguments of operation.reducescatter() and reducescatter_many()."""
        self._check_scatter(source, target)
        number = reductions.number_of(op)
        if reductions.is_composed(number, source.dtype):
            raise ValueError("bitwise operations do not support several tensors: call "
                             "dist.reduce_scatter_tensor() for each")
        kind, each, redop = reductions.reduction_of(number, source.dtype)
        pre = reductions.factor_of(op) if number == reductions.PREMUL_SUM else 1.0
        return {"source": source.data_ptr(), "rows": self._size, "row": target.numel() * each,
                "target": target.data_ptr(), "dtype": kind, "op": redop, "pre": pre}

    def _scatter_composed(self, source, splits, output, number):
        """Start a reduction that the library does not support.  Rank r gets splits[r] elements of
        every rank's source, and reduces them here."""
        reductions.check_bitwise(number, output.dtype)
        every = torch.empty((self._size, output.numel()), dtype=output.dtype)
        expected, (kind, each) = [output.numel()] * self._size, tensors.carried(output.dtype)

        def finish(_memory, rows):
            _check_counts(rows, expected, "reduce_scatter")
            tensors.deliver(reductions.bitwise(number, every.unbind()).view(output.shape), output)

        return operation.alltoall(
            source.data_ptr(), sum(splits), each, kind, splits, group=self._members,
            keep=(source, every), finish=finish,
            into=(every.data_ptr(), every.numel() * every.element_size()))

    def reduce_scatter_single(self, output, tensor, opts=None):
        """Reduce a tensor over all ranks, and give each rank the same number of its rows.

        torch: dist.reduce_scatter_tensor(); ringup.h: ringup_reducescatter()."""
        entry = self._began("_reduce_scatter_base", [tensor], [output])
        op, source = _redop(opts), tensors.readable(tensor)
        number = reductions.number_of(op)
        if reductions.is_composed(number, tensor.dtype):
            self._check_scatter(tensor, output)
            splits = [output.numel()] * self._size
            started = self._scatter_composed(source, splits, output, number)
            return self._under_way(started, [output], opts, entry)
        place = tensors.writable(output)
        started = operation.reducescatter(
            None, self._members, (source, [(place, output)]), lambda keep: _deliver(keep[1]),
            **self._scattering(source, place, op))
        return self._under_way(started, [output], opts, entry)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        """Reduce and scatter several tensors as reduce_scatter_single() does: all or none."""
        entry = self._began("reduce_scatter_tensor_coalesced", inputs, outputs)
        if not inputs:
            return self._under_way(None, [], opts, entry)
        op, sources = _redop(opts), [tensors.readable(t) for t in inputs]
        places = [tensors.writable(t) for t in outputs]
        started = operation.reducescatter_many(
            [self._scattering(s, p, op) for s, p in zip(sources, places)], None, self._members,
            (sources, list(zip(places, outputs))), lambda keep: _deliver(keep[1]))
        return self._under_way(started, list(outputs), opts, entry)

    def reduce_scatter(self, outputs, inputs, opts=None, _timeout=None):
        """Reduce lists of tensors, one tensor per rank, and give each rank its own reduced tensor;
        sizes may differ.

        torch: dist.reduce_scatter(); ringup.h: ringup_reducescatter()."""
        output = only(outputs)
        sources = list(inputs if isinstance(inputs[0], torch.Tensor) else only(inputs))
        entry = self._began("reduce_scatter", sources, [output])
        if len(sources) != self._size or sources[self._rank].numel() != output.numel():
            raise ValueError(f"reduce_scatter: {len(sources)} tensors to combine for {self._size} "
                             f"ranks, and an output of {output.numel()} elements: pass one tensor "
                             "per rank; this rank's has the size of its output")
        tensors.same_type(output, *sources)
        op = _redop(opts)
        number = reductions.number_of(op)
        if reductions.is_composed(number, output.dtype):
            started = self._scatter_composed(tensors.joined(sources), [t.numel() for t in sources],
                                             output, number)
            return self._under_way(started, [output], opts, entry)
        most = max(t.numel() for t in sources)
        if all(t.numel() == most for t in sources):
            source, place = tensors.joined(sources), tensors.writable(output)
        else:  # the library deals out evenly
            source = torch.zeros(self._size, most, dtype=output.dtype)
            for row, tensor in zip(source, sources):
                row[:tensor.numel()] = tensor.detach().reshape(-1)
            place = torch.empty(most, dtype=output.dtype)

        def finish(_keep):
            if place is not output:
                tensors.deliver(place.view(-1)[:output.numel()].view(output.shape), output)

        started = operation.reducescatter(None, self._members, (source, place), finish,
                                          **self._scattering(source, place, op))
        return self._under_way(started, [output], opts, entry)

    # ---- every rank sends to every rank ----

    def _exchange(self, source, splits, targets, expected, dtype, what, row=1):
        """Start to send splits[r] rows of a flat tensor to each rank r, and to receive expected[r]
        rows from each rank into targets, which are filled in order."""
        place = tensors.room(targets) if targets else torch.empty(0, dtype=dtype)
        kind, each = tensors.carried(dtype)

        def finish(_memory, rows):
            _check_counts(rows, expected, what)
            tensors.spread(place, targets)

        return operation.alltoall(
            source.data_ptr(), sum(splits), row * each, kind, splits, group=self._members,
            keep=(source, place), finish=finish,
            into=(place.data_ptr(), place.numel() * place.element_size()))

    def all_to_all_single(self, output, tensor, output_splits=(), input_splits=(), opts=None):
        """Send rows of a tensor to each rank, and receive rows from each rank into another tensor.

        torch: dist.all_to_all_single(); ringup.h: ringup_alltoall()."""
        entry = self._began("all_to_all", [tensor], [output])
        tensors.same_type(output, tensor)
        row = math.prod(tensor.shape[1:]) if tensor.dim() else 1
        if row != (math.prod(output.shape[1:]) if output.dim() else 1):
            raise ValueError(f"all_to_all: rows of {tuple(tensor.shape[1:])} do not fit into rows "
                             f"of {tuple(output.shape[1:])}")
        splits = self._splits(tensor, input_splits, "input")
        expected = self._splits(output, output_splits, "output")
        if not row:
            row, splits, expected = 1, [0] * self._size, [0] * self._size
        source = tensors.readable(tensor)
        started = self._exchange(source, splits, [output], expected, tensor.dtype, "all_to_all",
                                 row)
        return self._under_way(started, [output], opts, entry)

    def _splits(self, tensor, told, which):
        """Return how many rows of a tensor each rank sends or receives."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not told:
            if rows % self._size:
                raise ValueError(f"all_to_all: {rows} {which} rows cannot be split evenly among "
                                 f"{self._size} ranks; pass {which}_split_sizes")
            return [rows // self._size] * self._size
        if len(told) != self._size or sum(told) != rows or min(told) < 0:
            raise ValueError(f"all_to_all: {which}_split_sizes {list(told)} must be {self._size} "
                             f"numbers with the sum {rows}")
        return list(told)

    def alltoall(self, outputs, inputs, opts=None, _timeout=None):
        """Send a tensor to each rank and receive one from each rank; sizes may differ.

        torch: dist.all_to_all(); ringup.h: ringup_alltoall()."""
        outputs, inputs = list(outputs), list(inputs)
        entry = self._began("all_to_all", inputs, outputs)
        if len(outputs) != self._size or len(inputs) != self._size:
            raise ValueError(f"all_to_all: {len(inputs)} tensors to send and {len(outputs)} to "
                             f"receive into, but {self._size} ranks")
        tensors.same_type(*outputs, *inputs)
        started = self._exchange(tensors.joined(inputs), [t.numel() for t in inputs], outputs,
                                 [t.numel() for t in outputs], inputs[0].dtype, "all_to_all")
        return self._under_way(started, outputs, opts, entry)

    # ---- no data ----

    def barrier(self, opts=None, _timeout=None):
        """Complete when all ranks of the group have called barrier().

        torch: dist.barrier(); ringup.h: ringup_barrier()."""
        entry = self._began("barrier", [])
        started = operation.barrier(None, self._members)
        limit = getattr(opts, "timeout", None)
        if is_blocking(opts) and limit is not None and limit.total_seconds() > 0:
            with entry:
                self.complete(started, round(limit.total_seconds() * 1000))
            return None
        return self._under_way(started, [], opts, entry)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Run a barrier.  If ranks do not arrive in time, raise an exception that names them, and
        end the group.

        dist.monitored_barrier() accepts only Gloo.  Call this method of the group instead, or
        dist.barrier(), which also names the ranks.  This method always names all missing ranks,
        whatever wait_all_ranks is."""
        before = self.timeout_ms
        try:
            if timeout is not None:
                self.set_timeout(timeout)
            with self._began("barrier", []):
                self.complete(operation.barrier(None, self._members))
        finally:
            self.timeout_ms = before
