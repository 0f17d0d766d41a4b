# test_memory.py - arrays, buffers and tensors as memory; no ranks are needed.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/ringup tests/py

import array
import ctypes

import numpy
import pytest

from ringup import constants, dlpack, memory

NUMPY = {"uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "int32": "I32",
         "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64", "bool": "BOOL"}


class Capsule:
    """A tensor that only DLPack can read, as numpy's arrays give it."""

    def __init__(self, inner, device=(1, 0)):
        self.inner, self.device = inner, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        return self.inner.__dlpack__()


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("wrap", [lambda a: a, Capsule], ids=["buffer", "dlpack"])
def test_arrays_of_every_type(name, wrap):
    a = numpy.ones((3, 4), name)
    m = memory.of(wrap(a))
    assert (m.address, m.dtype) == (a.ctypes.data, getattr(constants, NUMPY[name]))
    assert (m.itemsize, m.shape, m.count) == (a.itemsize, (3, 4), 12)
    assert m.carried == (m.dtype, 1)
    a[0, 0] = 0
    assert bytes(m.bytes) == a.tobytes()


@pytest.mark.parametrize("wrap", [lambda a: a, Capsule], ids=["buffer", "dlpack"])
def test_what_cannot_be_reckoned_with_can_be_carried(wrap):
    m = memory.of(wrap(numpy.ones(5, numpy.complex64)))
    assert m.dtype is None and m.carried == (constants.U8, 8) and m.count == 5
    with pytest.raises(ValueError, match="cannot be reduced; these can: u8"):
        memory.check_reducible(m)


def test_buffers():
    data = array.array("d", [1, 2, 3])
    m = memory.of(data)
    assert (m.address, m.count, m.dtype) == (data.buffer_info()[0], 3, constants.F64)
    assert memory.of(m) is m
    text = b"abc"
    assert ctypes.string_at(memory.of(text).address, 3) == text
    fixed = numpy.arange(3)
    fixed.flags.writeable = False
    assert memory.of(fixed).address == fixed.ctypes.data
    for read_only in (text, fixed):
        with pytest.raises(ValueError, match="read-only"):
            memory.of(read_only, writable=True)
    assert memory.of(bytearray()).address is None


def test_what_does_not_lie_in_one_piece_is_refused():
    columns = numpy.ones((4, 6))[:, ::2]
    for strange in (columns, Capsule(columns), numpy.ones((2, 3)).T, Capsule(numpy.ones((2, 3)).T)):
        with pytest.raises(ValueError, match="contiguous"):
            memory.of(strange)
    # of one row or none, strides say nothing
    assert memory.of(Capsule(numpy.ones((1, 3)).T)).shape == (3, 1)
    assert memory.of(Capsule(numpy.ones((0, 3)).T)).count == 0


class Given:
    """An object with one attribute."""

    def __init__(self, name, value):
        setattr(self, name, value)


def test_streams_as_numbers_and_as_objects():
    assert [dlpack.stream_number(n) for n in (1, 2, 1 << 40)] == [1, 2, 1 << 40]
    for stream in (Given("cuda_stream", 7), Given("ptr", 7), Given("handle", ctypes.c_void_p(7)),
                   Given("__cuda_stream__", lambda: (0, 7))):
        assert dlpack.stream_number(stream) == 7
    for default in (Given("cuda_stream", 0), Given("ptr", 0), Given("handle", ctypes.c_void_p())):
        assert dlpack.stream_number(default) == dlpack.LEGACY
    with pytest.raises(ValueError, match="stream=0 is ambiguous; pass 1"):
        dlpack.stream_number(0)
    for n in (-1, -2):
        with pytest.raises(ValueError, match=f"stream={n} is not a CUDA stream"):
            dlpack.stream_number(n)
    for other in ("1", 1.0):
        with pytest.raises(TypeError, match="is neither a CUDA stream nor"):
            dlpack.stream_number(other)


def test_arrays_that_must_not_be_changed_are_refused():
    fixed = Capsule(numpy.ones(3))
    fixed.__cuda_array_interface__ = {"data": (fixed.inner.ctypes.data, True)}
    assert memory.of(fixed).count == 3
    with pytest.raises(ValueError, match="read-only"):
        memory.of(fixed, writable=True)
    of_jax = type("ArrayImpl", (Capsule,), {"__module__": "jaxlib._jax"})(numpy.ones(3))
    assert memory.of(of_jax).count == 3
    with pytest.raises(ValueError, match=r"JAX arrays cannot be changed in place; use ringup\.jax"):
        memory.of(of_jax, writable=True)


def test_other_devices_and_other_things_are_refused():
    with pytest.raises(ValueError, match="device 2:1"):
        memory.of(Capsule(numpy.ones(1), (2, 1)))
    with pytest.raises(TypeError, match="list does not expose its memory"):
        memory.of([1, 2])


def test_memory_outlives_what_it_was_made_of():
    m = memory.of(Capsule(numpy.arange(1 << 16, dtype=numpy.int64)))
    numpy.zeros(1 << 16, numpy.int64)
    assert bytes(m.bytes[8:16]) == (1).to_bytes(8, "little")


def test_memory_like_other_memory():
    m = memory.of(numpy.ones((2, 3), numpy.float32)).like((4, 5))
    assert m.dtype == constants.F32 and m.shape == (4, 5) and bytes(m.bytes) == bytes(80)
    block = bytearray(b"\1\0\0\0")
    assert bytes(memory.of(numpy.ones(3, numpy.int32)).like((1,), block).bytes) == b"\1\0\0\0"
    assert memory.of(numpy.ones(3)).like((0, 2)).address is None


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    t = torch.ones(3, 2, dtype=torch.bfloat16)
    m = memory.of(t)
    assert (m.address, m.dtype, m.shape) == (t.data_ptr(), constants.BF16, (3, 2))
