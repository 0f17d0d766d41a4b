# arrays.py - Horovod's collectives on numpy arrays.
# SPDX-License-Identifier: Apache-2.0
"""Collectives for values that belong to no graph: metrics, and weights on a Keras backend that has
no operations."""

import numpy

from ringup import constants, memory

from horovod.common.adapter import Adapter
from horovod.common.collectives import Collectives
from horovod.common.semantics import synchronize


class ArrayAdapter(Adapter):
    """Uses arrays in place, and makes contiguous copies of other objects."""

    dtypes = {numpy.dtype(name): number for name, number in (
        ("uint8", constants.U8), ("int8", constants.I8), ("uint16", constants.U16),
        ("int16", constants.I16), ("int32", constants.I32), ("int64", constants.I64),
        ("float16", constants.F16), ("float32", constants.F32), ("float64", constants.F64),
        ("bool", constants.BOOL))}

    def memory(self, array):
        return memory.Memory(array.ctypes.data, self.dtypes.get(array.dtype), array.itemsize,
                             array.shape, array, native=array.dtype)

    def from_memory(self, m):
        block = b"" if m.keep is None else m.keep
        return numpy.frombuffer(block, m.native, m.count).reshape(m.shape)

    def copy_into(self, array, m):
        array[...] = m.keep if isinstance(m.keep, numpy.ndarray) else self.from_memory(m)
        return array


_arrays = Collectives(ArrayAdapter())


def allreduce(value, name, op, pre, post, process_set):
    """Reduce an array over all ranks into a new array."""
    return _arrays.allreduce(_array(value), None, name, op, pre, post, process_set)


def allgather(value, name, process_set):
    """Concatenate the arrays of all ranks."""
    return synchronize(_arrays.allgather_async(_array(value), name, process_set))


def reducescatter(value, name, op, process_set):
    """Reduce an array over all ranks, and return this rank's rows."""
    return synchronize(_arrays.reducescatter_async(_array(value), name, op, process_set, 1.0, 1.0))


def broadcast(value, root_rank, name, process_set):
    """Return root's array on every rank."""
    return synchronize(_arrays.broadcast_async(_array(value), None, root_rank, name, process_set))


def broadcast_all(values, root_rank, name, process_set):
    """Return root's arrays on every rank; all broadcasts run concurrently."""
    started = [_arrays.broadcast_async(_array(v), None, root_rank, f"{name}.{i}", process_set)
               for i, v in enumerate(values)]
    return [synchronize(s) for s in started]


def _array(value):
    """Return a contiguous array; an array without dimensions stays one."""
    value = numpy.asarray(value)
    return value if value.flags.c_contiguous else numpy.ascontiguousarray(value)
