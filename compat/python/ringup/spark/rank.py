# rank.py - reports from a rank to the driver: its result, its exception, log lines.
# SPDX-License-Identifier: Apache-2.0
"""A rank reports through the descriptor RINGUP_REPORT_FD, which this process does not pass on, in
frames: kind (1 byte), length (8 bytes), body.  The rank daemon and the launcher carry the frames to
the driver over a session (session.py) in which both sides have been authenticated, so the driver
unpickles only bytes of the rank."""

import os
import queue
import threading

RESULT, ERROR, LOG = b"R", b"E", b"L"
HEAD_BYTES = 1 + 8
LOG_MOST = 4000       # characters of a message for the driver
LOG_WAITING = 1000    # messages that have not been sent yet; more are dropped


class Reporter:
    """Writes frames.  A thread sends log messages, so no caller waits for the driver."""

    def __init__(self, fd):
        os.set_inheritable(fd, False)
        self.fd, self.lock = fd, threading.Lock()
        self.messages, self.thread, self.dropped = queue.Queue(LOG_WAITING), None, 0
        self.pid = os.getpid()

    def _write(self, kind, body):
        with self.lock:
            for data in (kind + len(body).to_bytes(8, "little"), body):
                view = memoryview(data)
                while view:
                    view = view[os.write(self.fd, view):]

    def report(self, kind, body):
        """Send a frame, after the messages of the log.  This may take as long as the driver needs.
        """
        if self.thread:
            self.messages.put(None)
            self.thread.join()
            self.thread = None
        if self.dropped:
            self._write(LOG, f"{self.dropped} messages were dropped".encode())
        self._write(kind, body)

    def log(self, text):
        """Make the driver print a line; never blocks.  A forked child of a rank has no thread for
        this, so its lines are dropped."""
        if os.getpid() != self.pid:
            return
        if self.thread is None:
            self.thread = threading.Thread(target=self._send, daemon=True)
            self.thread.start()
        try:
            self.messages.put_nowait(text.encode("utf-8", "replace"))
        except queue.Full:
            self.dropped += 1

    def _send(self):
        while (message := self.messages.get()) is not None:
            self._write(LOG, message)


reporter = None  # of this process, if it is a rank


def log_to_driver(message):
    """Print a line on the driver, also if called on the driver.  Long lines are cut."""
    text = str(message)
    if len(text) > LOG_MOST:
        text = text[:LOG_MOST] + "...(truncated)"
    if reporter:
        reporter.log(text)
    else:
        print(text, flush=True)
