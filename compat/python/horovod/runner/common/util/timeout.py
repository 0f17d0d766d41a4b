# timeout.py - a time limit.
# SPDX-License-Identifier: Apache-2.0

import time


class TimeoutException(Exception):
    """The time limit was exceeded."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message


class Timeout:
    """A deadline that starts now; {activity} in the message is the event to wait for."""

    def __init__(self, timeout, message):
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._message = message

    def remaining(self):
        """Return the number of seconds that are left."""
        return max(0, self._end - time.monotonic())

    def timed_out(self):
        """Return whether the time is up."""
        return time.monotonic() > self._end

    def check_time_out_for(self, activity):
        """Raise TimeoutException if the time is up."""
        if self.timed_out():
            text = self._message.format(activity=activity).rstrip()
            raise TimeoutException(f"{text}{'' if text.endswith('.') else '.'} Timeout after "
                                   f"{self._timeout} seconds.")
