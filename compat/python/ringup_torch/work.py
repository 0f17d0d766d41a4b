# work.py - a handle for an operation in flight, as torch.distributed returns it.
# SPDX-License-Identifier: Apache-2.0

import collections
import datetime
import threading
import weakref

import torch
from torch.distributed import Work as _Work

from ringup import errors

from .waiters import waiters

# torch's C++ code may hold a Work whose Python half nobody else refers to: were that gone, it would
# call functions that are not there any more.  So the latest are kept; they weigh little, since a
# Work lets go of large tensors when its operation is over.
_recent = collections.deque(maxlen=4096)

_SMALL = 4096  # bytes of a tensor that a Work keeps

_asking = threading.Lock()  # held while a future is made or completed


def is_own(timeout):
    """Return whether a wait has a time-out of its own: torch passes 0 for none, old releases -1 ms.
    """
    return timeout is not None and timeout > datetime.timedelta(0)


class Work(_Work):
    """A handle to wait for one operation.  Any thread may call wait(), any number of times.

    After the operation has completed, the handle has only weak references to large tensors, so
    keeping a handle does not keep their memory."""

    def __init__(self, group, operation, outputs, entry, source=None):
        """operation is a ringup.operation.Operation, or None if nothing has to be done.  outputs
        are the tensors that it writes.  source() returns the rank that sent a message."""
        super().__init__()
        self._group, self._operation, self._entry = group, operation, entry
        self._outputs, self._source, self._error = outputs, source, None
        self._promise = self._future = None
        self._is_over = self.is_message = False
        self._lock = threading.Lock()  # held while the operation is waited for
        if operation is None:
            self._end(None)
        _recent.append(self)

    def wait(self, timeout=None):
        """Block until the operation has completed; return True, or raise its error.

        The deadline is the group's time-out, after which the group is unusable.  If timeout is
        given and expires first, TimedOut is raised, but the operation and the group continue."""
        if not self._is_over:
            self._complete(round(timeout.total_seconds() * 1000) if is_own(timeout) else None)
        if self._error is not None:
            raise self._error
        return True

    def _complete(self, within_ms):
        """Wait for the operation, and record its outcome."""
        limit = self._group.timeout_ms if within_ms is None else within_ms
        if not self._lock.acquire(timeout=limit / 1000):
            raise errors.TimedOut(f"{self._entry.name}: timed out; another thread waits for it")
        try:
            if not self._is_over:
                self._group.complete(self._operation, within_ms)
                self._end(None)
        except errors.TimedOut as e:
            if within_ms is not None:
                raise
            self._end(e)
        except Exception as e:
            self._end(e)
        finally:
            self._lock.release()

    def _end(self, error):
        """Mark the operation complete."""
        self._entry.end(error)
        self._error, self._operation = error, None
        if self._promise is None:
            self._let_go()
        self._is_over = True

    def _let_go(self):
        """Keep only weak references to tensors from now on.  Exceptions are small tensors, such as
        those that DDP creates for an operation and reads only with result()."""
        self._outputs = [t if t.numel() * t.element_size() <= _SMALL else weakref.ref(t)
                         for t in self.result()]

    def poll(self):
        """Return whether the operation has completed or failed.  Never blocks."""
        if not self._is_over and self._lock.acquire(blocking=False):
            try:
                if not self._is_over and self._operation.poll():
                    self._operation.wait()
                    self._end(None)
            except Exception as e:
                self._end(e)
            finally:
                self._lock.release()
        return self._is_over

    is_completed = poll

    def needs_abort(self):
        """Return whether the group must be aborted before it is closed.  A message that no thread
        waits for fails by itself, and other messages that have arrived can still be received."""
        return not self.poll() and (not self.is_message or self._lock.locked())

    def is_success(self):
        """Return whether the operation has completed without an error."""
        return self.poll() and self._error is None

    def exception(self):
        """Return the error, or None."""
        self.poll()
        return self._error

    def result(self):
        """Return the output tensors."""
        found = [t() if isinstance(t, weakref.ref) else t for t in self._outputs]
        return [t for t in found if t is not None]

    def synchronize(self):
        """Block until the tensors can be used."""
        self.wait()

    def source_rank(self):
        """Return the sender of a message.  Blocks until the message has arrived."""
        self.wait()
        return self._source() if self._source else -1

    _source_rank = source_rank

    def get_future(self):
        """Return a Future of the output tensors.  Its callbacks may start operations and wait for
        them."""
        self.poll()
        with _asking:
            if self._future is not None:
                return self._future
            promise = torch.futures.Future()
            future = promise.then(_settle)
            if not self._is_over:
                self._promise, self._future = promise, future
                waiters.add(self)
                return future
        promise.set_result(self._error or self.result())
        return future

    def finish(self):
        """Wait for the operation; never raises.  A thread of Waiters calls this."""
        if not self._is_over:
            try:
                self._complete(None)
            except errors.TimedOut as e:
                self._end(e)

    def deliver(self):
        """Complete the future, which runs its callbacks.  A thread of Waiters calls this."""
        with _asking:
            promise, value = self._promise, self._error or self.result()
            self._promise = self._future = None
            self._let_go()
        promise.set_result(value)


def _settle(promise):
    """Set the value of a future.  Only an exception that is raised here is also an exception in
    C++; torch's set_exception() turns it into a value."""
    value = promise.value()
    if isinstance(value, Exception):
        raise value
    return value


class Several(_Work):
    """Several Works that are waited for together."""

    def __init__(self, works):
        super().__init__()
        self._works = works
        _recent.append(self)

    def wait(self, timeout=None):
        """Wait for all Works; raise the first error."""
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self):
        """Return whether all Works have completed."""
        return all([work.is_completed() for work in self._works])

    def is_success(self):
        """Return whether all Works have completed without an error."""
        return all([work.is_success() for work in self._works])

    def result(self):
        """Return the output tensors."""
        return [t for work in self._works for t in work.result()]

    def synchronize(self):
        """Block until the tensors can be used."""
        self.wait()

    def get_future(self):
        """Return a Future of all tensors."""
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda all_: [t for f in all_.value() for t in f.value()])
