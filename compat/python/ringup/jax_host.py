# jax_host.py - collectives on arrays that JAX has copied to host memory.
# SPDX-License-Identifier: Apache-2.0
"""The operations of ringup.jax on devices other than CPUs.  Compiled code copies an array from the
device and calls collective() in a thread of JAX, which waits for the result and copies it back.
Names and shapes are the same as in libringup_jax.so, so ranks on CPUs and on GPUs match."""

import itertools

import numpy

from . import constants, errors, job, operation
from .memory import Memory

_DTYPES = {"uint8": constants.U8, "int8": constants.I8, "uint16": constants.U16,
           "int16": constants.I16, "int32": constants.I32, "int64": constants.I64,
           "float16": constants.F16, "bfloat16": constants.BF16, "float32": constants.F32,
           "float64": constants.F64, "bool": constants.BOOL}
_STATUSES = {cls: name for name, cls in errors.BY_NAME.items()}


def _memory(array):
    """Return the Memory of an array."""
    return Memory(array.ctypes.data, _DTYPES.get(array.dtype.name), array.itemsize, array.shape,
                  array)


def _row(m):
    """Return (the library's type, number of elements of this type in a row)."""
    dtype, each = m.carried
    return dtype, each * (m.count // m.shape[0] if m.count else 0)


def _allreduce(x, out, name, group, how):
    r = operation.Reduction(name, x.count, x.dtype, how["reduction"], how["prescale_factor"],
                            how["postscale_factor"], x.shape)
    return r.start(x.address, out.address, group, keep=(x, out))


def _broadcast(x, out, name, group, how):
    dtype, each = x.carried
    root = how["root_rank"]
    if root not in group.ranks:
        raise errors.InvalidArgument(f"broadcast: the root, rank {root}, is not in process set "
                                     f"{group.number}")
    return operation.broadcast(x.address, out.address, x.count * each, dtype,
                               group.ranks.index(root), name, x.shape, group, keep=(x, out))


def _rows(start):
    """Run an operation that returns rows of the ranks.  The rows must fit into the array that JAX
    provides."""

    def of_rows(x, out, name, group, how):
        del how
        dtype, row = _row(x)

        def check(received, rows):
            if received is not None or sum(rows) != out.shape[0]:
                raise errors.InvalidArgument(
                    f"{name.decode()}: the ranks have different numbers of rows, which compiled "
                    "code does not support")

        return start(x.address, x.shape[0], row, dtype, name=name, shape=x.shape[1:], group=group,
                     keep=(x, out), finish=check,
                     into=(out.address, out.count * out.itemsize))

    return of_rows


def _reducescatter(x, out, name, group, how):
    if operation.own_rows(x.shape[0], group) != out.shape[0]:
        raise errors.InvalidArgument(f"reducescatter: {group.size} ranks cannot split {x.shape[0]} "
                                     "rows evenly")
    dtype, row = _row(x)
    return operation.reducescatter(
        name, group, keep=(x, out), source=x.address, rows=x.shape[0], row=row, target=out.address,
        dtype=dtype, op=how["reduction"], pre=how["prescale_factor"],
        post=how["postscale_factor"], shape=x.shape[1:])


_STARTS = {"allreduce": _allreduce, "broadcast": _broadcast, "reducescatter": _reducescatter,
           "allgather": _rows(operation.allgather), "alltoall": _rows(operation.alltoall)}


def _differing(mine, group, name):
    """Return the indices of the numbers that differ between ranks, and the numbers of all ranks."""
    how = {"reduction": constants.MAX, "prescale_factor": 1.0, "postscale_factor": 1.0}
    both = numpy.stack([mine, -mine])  # the largest of -x is - of the smallest x
    most = numpy.empty_like(both)
    _allreduce(_memory(both), _memory(most), name, group, how).wait()
    differ = numpy.nonzero(most[0] != -most[1])[0]
    everybody = numpy.empty((group.size, *mine.shape), mine.dtype)
    if len(differ):
        _STARTS["allgather"](_memory(mine[None]), _memory(everybody), name, group, how).wait()
    return differ, everybody


def _check_weights(mine, group, name, how):
    """Raise an exception on all ranks if their checksums differ.  Runs in every how["every"]-th
    call with this name."""
    count = next(job.get_running().calls.setdefault((group.number, name), itertools.count(1)))
    if count % how["every"]:
        return
    differ, everybody = _differing(mine.astype("int64"), group, name)
    texts = []
    for i in differ[:4]:
        of_rank = everybody[:, i].tolist()
        usual = max(of_rank, key=of_rank.count)
        others = [str(r) for r, sum_ in zip(group.ranks, of_rank) if sum_ != usual]
        texts.append(f"{how['names'][i]} (rank{'s' if len(others) > 1 else ''} {', '.join(others)} "
                     f"unlike rank {group.ranks[of_rank.index(usual)]})")
    if texts:
        more = f" and {len(differ) - 4} more" if len(differ) > 4 else ""
        raise RuntimeError(
            f"the ranks' weights differ: {', '.join(texts)}{more}.  Start with "
            "broadcast_parameters(), run the same steps with the same options on all ranks, and "
            "combine gradients before you change them.  If hosts have different processors, "
            "rounding may differ: unset RINGUP_CHECK_WEIGHTS")


def collective(word, x, shape, name, how):
    """Run a collective on an array; return a new array with the result."""
    x = numpy.ascontiguousarray(x).reshape(numpy.shape(x))  # the former adds a dimension to none
    out = numpy.empty(shape, x.dtype)
    try:
        group = job.group(how["process_set_id"])
        if group.rank < 0:
            raise errors.InvalidArgument(f"{word}: rank {job.rank()} is not in process set "
                                         f"{group.number}")
        if word == "check_weights":
            _check_weights(x, group, f"{word}.{name}".encode()[:500], how)
            return out
        if word in ("allreduce", "reducescatter") and x.dtype.name not in _DTYPES:
            raise errors.InvalidArgument(f"{word}: elements of this type cannot be reduced")
        _STARTS[word](_memory(x), _memory(out), f"{word}.{name}".encode()[:500], group, how).wait()
    except errors.RingupError as e:
        # JAX keeps the text alone, in which programs look for the status.
        raise type(e)(f"{e} [ringup {_STATUSES[type(e)]}]") from None
    return out
