# ask_nccl.py - let real NCCL set up its bootstrap, and say whether it would.
# SPDX-License-Identifier: Apache-2.0
"""Usage: ask_nccl.py LIBRARY

Makes a unique id, which needs no GPU and binds the bootstrap's socket in this
process's namespace and environment; NCCL_DEBUG=INFO shows to what.  Prints
"refuses RESULT" if the library returns an error.
"""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
result = library.ncclGetUniqueId(ctypes.create_string_buffer(128))
if result:
    print("refuses", result)
