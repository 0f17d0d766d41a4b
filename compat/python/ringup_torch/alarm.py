# alarm.py - a thread that notices immediately when a job of this process fails.
# SPDX-License-Identifier: Apache-2.0
"""A rank that computes or hangs is not in an operation that could report a failure to it.  This
thread sleeps in poll(2) on the descriptors of ringup_alarm_fd() until a rank has died or ended the
job, and then calls a function.  For this it needs the interpreter's lock: if a rank is in native
code that keeps the lock, the function runs only after that code returns."""

import os
import select
import threading


class Alarms:
    """Watches this process's jobs for failure, in one thread."""

    def __init__(self, function):
        self._function = function
        self._reset()

    def _reset(self):
        self._lock = threading.Lock()
        self._fds, self._thread, self._wake, self._is_over = {}, None, None, False

    def add(self, fd, then=None):
        """Call the function when a descriptor becomes readable, and then a second one, which must
        not block; return a handle for remove()."""
        mine = os.dup(fd)  # the library closes its own with the job
        with self._lock:
            self._fds[mine] = then
            if self._thread is None and not self._is_over:
                self._wake = os.pipe()
                self._thread = threading.Thread(target=self._run, name="ringup-alarm", daemon=True)
                self._thread.start()
            else:
                self._stir()
        return mine

    def remove(self, mine):
        """Stop watching the descriptor."""
        with self._lock:
            if mine in self._fds:
                del self._fds[mine]
                os.close(mine)
                self._stir()

    def _stir(self):
        """Make the thread reread its list of descriptors.  The caller holds the lock."""
        if self._wake is not None:
            os.write(self._wake[1], b"x")

    def _run(self):
        told = set()
        while not self._is_over:
            poll = select.poll()
            poll.register(self._wake[0], select.POLLIN)
            with self._lock:
                told &= self._fds.keys()
                for fd in self._fds.keys() - told:
                    poll.register(fd, select.POLLIN)
            ready = {fd for fd, _events in poll.poll()}
            if self._wake[0] in ready:
                os.read(self._wake[0], 4096)
            with self._lock:
                ready &= self._fds.keys() - told
                functions = [self._function, *filter(None, map(self._fds.get, ready))]
            if ready:
                told |= ready
                for function in functions:
                    function()

    def end(self, seconds):
        """Stop the thread, and wait for it for at most this time."""
        with self._lock:
            self._is_over = True
            self._stir()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def forked(self):
        """Run in a forked child, which has no thread and is not a rank."""
        for fd in (*self._fds, *(self._wake or ())):
            os.close(fd)
        self._reset()
