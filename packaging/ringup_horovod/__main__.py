# __main__.py - `python -m ringup_horovod`: print whether `import horovod` imports ringup's package.
# SPDX-License-Identifier: Apache-2.0
"""Exit status: 0 if `import horovod` imports ringup's package, 1 if not."""

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
