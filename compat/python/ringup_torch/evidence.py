# evidence.py - run `ringup hang` on a job whose operation is about to miss its deadline.
# SPDX-License-Identifier: Apache-2.0
"""When an operation of a group misses its deadline, the group ends.  The information about what the
ranks wait for is then lost, and the job ends soon after.  Some seconds before the deadline, the
first affected rank of each host therefore runs `ringup hang --collect`, at most once in its life.
The other ranks of that host wait for this before they raise an exception.

Groups with a deadline below LEAST_MS skip this, because programs use short deadlines to test
whether ranks are present.  TORCH_NCCL_DUMP_ON_TIMEOUT=0 turns this off, together with flight
records, which are saved in the same place."""

import fcntl
import os
import subprocess
import time

from ringup import program

from .recorder import are_dumps_wanted, prefix

LEAST_MS = 60000
LEAD_MS = 8000  # before the deadline
_PATIENCE = 12  # seconds, after the deadline


class Evidence:
    """Decides whether and when this process runs `ringup hang` for its job."""

    def __init__(self):
        self._fd = -1  # of a file that is locked while the look is taken
        self._is_wanted = are_dumps_wanted()

    def lead_ms(self, timeout_ms):
        """Return how many milliseconds before a deadline to call start(); 0: never."""
        return LEAD_MS if timeout_ms >= LEAST_MS and self._fd < 0 and self._is_wanted else 0

    def start(self):
        """Start `ringup hang`, unless another rank of this host has started it.  Never raises,
        never blocks."""
        folder = os.path.join(os.path.dirname(prefix()) or ".", f"hang-{os.getppid()}")
        try:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            self._fd = os.open(folder + ".lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.mkdir(folder, 0o700)
            # The program keeps the lock until it ends.
            subprocess.Popen([program.find(), "hang", "--wait", "3", "--collect", folder,
                              str(os.getpid())], pass_fds=(self._fd,), start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
            print(f"ringup: an operation is about to time out; evidence is in {folder}", flush=True)
        except (OSError, RuntimeError):
            pass  # another rank looks, or there is no program or no room: the job goes on
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = os.open(folder + ".lock", os.O_RDWR)

    def finish(self):
        """Wait until the `ringup hang` that a rank on this host started has ended."""
        until = time.monotonic() + _PATIENCE
        while self._fd >= 0 and time.monotonic() < until:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)


evidence = Evidence()
