# tensors.py - the memory of torch's tensors as the library sees it: addresses, types, copies.
# SPDX-License-Identifier: Apache-2.0
"""The library works directly on a tensor that is contiguous in host memory.  Any other tensor
(transposed, channels_last, on a GPU, a view that negates or conjugates) goes through a contiguous
copy in host memory."""

import math

import torch

from ringup import constants

from . import staging

# Types that the library can reduce, and its numbers of them.
DTYPES = {
    torch.uint8: constants.U8, torch.int8: constants.I8, torch.int16: constants.I16,
    torch.int32: constants.I32, torch.int64: constants.I64, torch.float16: constants.F16,
    torch.bfloat16: constants.BF16, torch.float32: constants.F32, torch.float64: constants.F64,
    torch.bool: constants.BOOL,
}
if hasattr(torch, "uint16"):  # torch 2.3
    DTYPES[torch.uint16] = constants.U16

# Types whose elements consist of several numbers: the library's type and how many.
PAIRS = {torch.complex64: (constants.F32, 2), torch.complex128: (constants.F64, 2)}
if hasattr(torch, "complex32"):
    PAIRS[torch.complex32] = (constants.F16, 2)

# Types whose sums and products have the same bits as those of the signed type: both wrap.
WRAPPING = {getattr(torch, name): number
            for name, number in (("uint32", constants.I32), ("uint64", constants.I64))
            if hasattr(torch, name)}


def carried(dtype):
    """Return (the library's type, number of these in one element), for moving elements."""
    if dtype in DTYPES:
        return DTYPES[dtype], 1
    return PAIRS.get(dtype) or (constants.U8, torch.empty(0, dtype=dtype).element_size())


def is_direct(tensor):
    """Return whether the library can work on the tensor's own memory."""
    try:
        return (tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj()
                and not tensor.is_neg())
    except RuntimeError:  # some layouts do not know what contiguous is
        return False


def copy(tensor):
    """Return a contiguous copy in host memory; ValueError for a sparse tensor."""
    if tensor.layout is not torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} cannot be sent; send "
                         "tensor.to_dense()")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.is_cuda:
        return empty(plain).copy_(plain)
    return plain.to("cpu", copy=True, memory_format=torch.contiguous_format)


def empty(like, shape=None):
    """Return an uninitialized contiguous tensor in host memory with the tensor's type, and its
    shape unless another one is given."""
    make = staging.empty if like.is_cuda else torch.empty
    return make(like.shape if shape is None else shape, dtype=like.dtype)


def readable(tensor):
    """Return a tensor with the same elements that the library can read."""
    return tensor if is_direct(tensor) else copy(tensor)


def writable(tensor):
    """Return a tensor of the same shape and type that the library can write."""
    if is_direct(tensor):
        return tensor
    return empty(tensor)


def deliver(place, tensor):
    """Copy the data that the library wrote to its destination, unless the library wrote it there.
    """
    if place is not tensor:
        with torch.no_grad():
            tensor.copy_(place)


def flat_view(tensors):
    """Return one flat tensor over several tensors of one type that are adjacent in memory, or None.
    It keeps the memory alive, but not the tensors."""
    first = next((t for t in tensors if t.numel()), None)
    if first is None:
        return torch.empty(0, dtype=tensors[0].dtype)
    each = first.element_size()
    at, storage = first.data_ptr(), first.untyped_storage() if hasattr(
        first, "untyped_storage") else first.storage()
    begin = storage.data_ptr()
    for tensor in tensors:
        if not tensor.numel():
            continue
        if not is_direct(tensor) or tensor.data_ptr() != at:
            return None
        at += tensor.numel() * each
    if at > begin + storage.nbytes():
        return None
    count = sum(t.numel() for t in tensors)
    return first.detach().as_strided((count,), (1,), first.storage_offset())


def joined(tensors):
    """Return one flat tensor with the elements of several tensors, for reading; without a copy if
    possible."""
    flat = flat_view(tensors)
    if flat is None:
        flat = torch.cat([readable(t).detach().reshape(-1) for t in tensors])
    return flat


def room(tensors):
    """Return one flat tensor for writing, on the memory of several tensors if possible."""
    flat = flat_view(tensors)
    if flat is None:
        flat = empty(tensors[0], (sum(t.numel() for t in tensors),))
    return flat


def spread(flat, tensors):
    """Copy the contents of a flat tensor from room() to its tensors."""
    if flat.numel() and any(t.numel() and t.data_ptr() == flat.data_ptr() for t in tensors):
        return
    at = 0
    with torch.no_grad():
        for tensor in tensors:
            n = tensor.numel()
            tensor.copy_(flat[at:at + n].view(tensor.shape))
            at += n


def same_type(*tensors):
    """Raise an exception unless all tensors have one type."""
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) > 1:
        raise ValueError("the tensors of one operation have several types: "
                         f"{', '.join(sorted(str(d) for d in dtypes))}; convert them to one")


def row_of(tensor):
    """Return the number of elements in a row along the first dimension."""
    return math.prod(tensor.shape[1:])
