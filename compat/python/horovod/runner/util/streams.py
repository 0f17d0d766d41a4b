# streams.py - a pipe between threads.
# SPDX-License-Identifier: Apache-2.0

import threading


class Pipe:
    """Holds one text, or bytes, at a time: write() waits until the previous data has been read."""

    def __init__(self):
        self._text = None
        self._closed = False
        self._changed = threading.Condition()

    def write(self, buf):
        """Write buf.  Raises RuntimeError if the pipe is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._text is None or self._closed)
            if self._closed:
                raise RuntimeError("Pipe is closed")
            self._text = buf
            self._changed.notify_all()

    def read(self, length=-1):
        """Return the buffered data, or length of it; None if the pipe is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._text is not None or self._closed)
            if self._text is None:
                return None
            if 0 < length < len(self._text):
                part, self._text = self._text[:length], self._text[length:]
            else:
                part, self._text = self._text, None
            self._changed.notify_all()
            return part

    def flush(self):
        """Do nothing; code that flushes its output stream calls this."""

    def close(self):
        """Close the pipe; its contents can still be read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
