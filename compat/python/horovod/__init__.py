# __init__.py - the package horovod, as ringup provides it.
# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface over libringup: `import horovod.torch as hvd` works unchanged."""

import os
import warnings

from horovod.runner import run  # noqa: F401

# The release whose interface this is, for code that compares versions.
__version__ = "0.28.1"

if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metadata.json")):
    warnings.warn("another Horovod's files are mixed with ringup's; run `python -m ringup` to see "
                  "details", RuntimeWarning, stacklevel=2)
