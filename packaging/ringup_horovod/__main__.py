# __main__.py - `python -m ringup_horovod`: does `import horovod` take ringup's, and if not, why?
# SPDX-License-Identifier: Apache-2.0
"""Exit status: 0 it does, 1 it does not."""

import sys

from ringup import foreign


def main():
    at = foreign.package()
    why = foreign.yielded()
    print(f"horovod:  {at or 'not found'}")
    if why:
        print("problem: ", why)
    return 0 if at and not why else 1


sys.exit(main())
