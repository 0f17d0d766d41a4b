# rank.py - what a rank tells the driver: its result, its exception, lines for the log.
# SPDX-License-Identifier: Apache-2.0
"""It goes to the descriptor RINGUP_REPORT_FD, in frames: kind (1), length (8), MAC (32), bytes.
The MAC is made with the job's key, so the driver unpickles only what the rank itself has sent."""

import hashlib
import hmac
import os
import queue
import threading

RESULT, ERROR, LOG = b"R", b"E", b"L"
HEAD_BYTES = 1 + 8 + 32
LOG_MOST = 4000       # characters of a message for the driver
LOG_WAITING = 1000    # messages that have not been sent yet; more are dropped


class Seal:
    """The MACs of a rank's frames; each covers the rank's process and the number of the frame, too.

    number: the process's among those of the job, which is its rank unless ranks may change.
    """

    def __init__(self, key, number):
        self.key, self.number, self.count = key, number, 0

    def head(self, kind, body):
        """The head of the next frame."""
        start = kind + len(body).to_bytes(8, "little")
        text = f"report {self.number} {self.count} ".encode() + start
        self.count += 1
        mac = hmac.new(self.key, text, hashlib.sha256)
        mac.update(body)
        return start + mac.digest()

    def is_right(self, head, body):
        """Is this the next frame?"""
        return hmac.compare_digest(head, self.head(head[:1], body))


class Reporter:
    """Writes frames; messages of the log are sent by a thread, so nobody waits for the driver."""

    def __init__(self, fd, key):
        os.set_inheritable(fd, False)
        self.fd, self.lock = fd, threading.Lock()
        self.seal = Seal(key, int(os.environ.get("RINGUP_WORKER") or os.environ["RINGUP_RANK"]))
        self.messages, self.thread, self.dropped = queue.Queue(LOG_WAITING), None, 0
        self.pid = os.getpid()

    def _write(self, kind, body):
        with self.lock:
            for data in (self.seal.head(kind, body), body):
                view = memoryview(data)
                while view:
                    view = view[os.write(self.fd, view):]

    def report(self, kind, body):
        """Send a frame, after the messages of the log; it may take as long as the driver does."""
        if self.thread:
            self.messages.put(None)
            self.thread.join()
            self.thread = None
        if self.dropped:
            self._write(LOG, f"{self.dropped} messages were dropped".encode())
        self._write(kind, body)

    def log(self, text):
        """Let the driver print a line; never blocks.  A forked child of a rank has no thread for
        this, so what it says is dropped."""
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
    """Print a line on the driver; on the driver itself, too.  Long ones are cut."""
    text = str(message)
    if len(text) > LOG_MOST:
        text = text[:LOG_MOST] + "...(truncated)"
    if reporter:
        reporter.log(text)
    else:
        print(text, flush=True)
