# worker.py - notify a rank of host changes.
# SPDX-License-Identifier: Apache-2.0


class HostUpdateResult:
    """Bits for the changes of hosts."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added
