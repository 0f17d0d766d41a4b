# waiters.py - threads that complete the futures of operations.
# SPDX-License-Identifier: Apache-2.0
"""A program, or DDP, that asks an operation for its future does not wait for the operation itself,
so a thread here waits for it.  One thread at a time, the leader, waits for the operations in their
order.  When one has completed, another thread becomes leader before the callbacks of the future
run.  A callback may therefore start operations and wait for them, or for futures, for any time."""

import collections
import os
import threading
import time

IDLE = 5  # seconds that a thread without work stays


class Waiters:
    """Threads that call finish() and then deliver() of their items, in order."""

    def __init__(self):
        self._changed = threading.Condition(threading.Lock())
        self._queue, self._idle = collections.deque(), 0
        self._has_leader = False    # a thread is the leader, or was told to be
        self._is_appointed = False  # an idle thread is to be the leader
        self._threads, self._is_over = set(), False

    def add(self, work):
        """Queue an item."""
        with self._changed:
            self._queue.append(work)
            self._appoint()

    def _appoint(self):
        """Start a leader if there is work.  The caller holds the lock."""
        if not self._queue or self._has_leader:
            return
        self._has_leader = True
        if self._idle:
            self._is_appointed = True
            self._changed.notify()
        else:
            thread = threading.Thread(target=self._run, name="ringup-waiter", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _become_leader(self):
        """Wait to become the leader; return False if this thread is no longer needed."""
        with self._changed:
            while not self._is_appointed:
                if self._is_over:
                    return False
                self._idle += 1
                told = self._changed.wait(IDLE)
                self._idle -= 1
                if not self._is_appointed and (self._is_over or not told):
                    self._threads.discard(threading.current_thread())
                    return False
            self._is_appointed = False
            return True

    def _lead(self):
        """Wait for the first item in the queue, then let another thread lead."""
        with self._changed:
            work = self._queue.popleft()
        work.finish()
        with self._changed:
            self._has_leader = False
            self._appoint()
        work.deliver()

    def end(self, seconds):
        """End all idle threads, and wait for the busy ones for this time.

        At exit, the interpreter stops threads in the middle of their work.  A thread that is
        stopped in torch's C++ code, which completes futures, would end the process."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0))

    def _run(self):
        """The main function of a thread."""
        self._lead()
        while self._become_leader():
            self._lead()


waiters = Waiters()


def _forked():
    """Run in a forked child, which has none of the threads."""
    waiters.__init__()


os.register_at_fork(after_in_child=_forked)
