# reductions.py - map torch's reduce operations to the library's; compose those that it lacks.
# SPDX-License-Identifier: Apache-2.0

import functools

import torch
from torch.distributed import ReduceOp

from ringup import constants

from .tensors import DTYPES, PAIRS, WRAPPING

_NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def number_of(op):
    """Return torch's number of an operation.  The operation is a ReduceOp or one of its constants,
    which are ReduceOps themselves in torch 1.13."""
    return int(getattr(op, "op", op))


SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = (
    number_of(getattr(ReduceOp, name, -1 - i)) for i, name in enumerate(_NAMES))

_REDOPS = {SUM: constants.SUM, AVG: constants.AVERAGE, PRODUCT: constants.PRODUCT,
           MIN: constants.MIN, MAX: constants.MAX, PREMUL_SUM: constants.SUM}
_LINEAR = (SUM, AVG, PREMUL_SUM)
# On truth values "and" and "or" are a minimum and a maximum.
_OF_BOOL = {BAND: constants.MIN, BOR: constants.MAX}
BITWISE = {BAND: torch.bitwise_and, BOR: torch.bitwise_or, BXOR: torch.bitwise_xor}


def is_composed(number, dtype):
    """Return whether the library does not support the operation, so that it is composed of others.
    """
    return number in BITWISE and not (dtype is torch.bool and number in _OF_BOOL)


def factor_of(op):
    """Return the factor of a PREMUL_SUM as a number; torch has a number or a tensor of one element.
    """
    state = op.__getstate__()
    if state is None:  # torch 1.13
        raise ValueError("this torch does not expose the factor of a PREMUL_SUM: multiply the "
                         "tensor and use ReduceOp.SUM")
    return float(state[1])


@functools.lru_cache(None)
def reduction_of(number, dtype):
    """Return (the library's type, number of these in one element, the library's operation). Raises
    ValueError if elements of this type do not support the operation."""
    if dtype is torch.bool and number in _OF_BOOL:
        return constants.BOOL, 1, _OF_BOOL[number]
    if number in _REDOPS:
        if dtype in DTYPES and not (dtype is torch.bool and number == AVG):
            return DTYPES[dtype], 1, _REDOPS[number]
        if dtype in PAIRS and number in _LINEAR:
            return (*PAIRS[dtype], _REDOPS[number])
        if dtype in WRAPPING and number in (SUM, PRODUCT):
            return WRAPPING[dtype], 1, _REDOPS[number]
    name = dict(zip((SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM), _NAMES))[number]
    raise ValueError(f"ReduceOp.{name} of {dtype} is not supported: convert the tensor, to "
                     "torch.float32 for example, or gather it and reduce it yourself")


def check_bitwise(number, dtype):
    """Raise an exception for a bitwise operation on floating-point elements."""
    if dtype.is_floating_point or dtype.is_complex:
        reduction_of(number, dtype)


def bitwise(number, blocks):
    """Reduce flat tensors of one type, bit by bit."""
    return functools.reduce(BITWISE[number], blocks)
