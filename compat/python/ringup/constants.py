# constants.py - the library's numeric codes for types and reductions.
# SPDX-License-Identifier: Apache-2.0
"""The constants of ringup.h; tests/py/test_header.py compares them."""

# enum ringup_dtype, with the size of an element.
DTYPES = {"U8": 1, "I8": 1, "U16": 2, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2,
          "F32": 4, "F64": 8, "BOOL": 1}
BYTES = tuple(DTYPES.values())
U8, I8, U16, I16, I32, I64, F16, BF16, F32, F64, BOOL = range(len(DTYPES))

ANY_SOURCE = -1  # RINGUP_ANY_SOURCE

HOST, PINNED, CUDA = range(3)  # enum ringup_memory

# enum ringup_redop
SUM, AVERAGE, MIN, MAX, PRODUCT, ADASUM = range(6)
