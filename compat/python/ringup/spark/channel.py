# channel.py - authenticated messages between the driver and its tasks.
# SPDX-License-Identifier: Apache-2.0
"""The driver and each task know a key, which Spark has carried in the task's closure.  Both sides
send a random number; the key of the connection is made of the two.  A message is a JSON object
with its length and a MAC in front, which also covers the direction and the number of the message,
so nothing can be repeated or sent back.  Nothing that comes over a channel is unpickled, and
nothing that is secret is sent over it: what the ranks' daemon and the launcher say to each other
on the same connection, afterwards, is encrypted, with a key that stream_key() makes."""

import hashlib
import hmac
import json
import os
import socket

NONCE_BYTES = KEY_BYTES = MAC_BYTES = 32
MOST_BYTES = 4 << 20
DRIVER, TASK = b"driver", b"task"


class NotAuthentic(ConnectionError):
    """The other side does not know the key, or what it sent was changed on the way."""


def new_key():
    """The key of a job."""
    return os.urandom(KEY_BYTES)


class Channel:
    """One side of a connection; takes over the socket.

    side is DRIVER or TASK.  The constructor blocks until the other side has sent its random
    number, for as long as the socket's own time limit says.  Not for several threads at once.
    Raises OSError, and NotAuthentic, which is one.
    """

    def __init__(self, sock, key, side):
        self.sock, self.side = sock, side
        self.other = TASK if side == DRIVER else DRIVER
        self.sent = self.received = 0
        own = os.urandom(NONCE_BYTES)
        sock.sendall(own)
        other = self._read(NONCE_BYTES)
        nonces = own + other if side == DRIVER else other + own
        self.key = hmac.digest(key, b"ringup.spark 1" + nonces, hashlib.sha256)

    def _mac(self, side, number, body):
        return hmac.digest(self.key, side + number.to_bytes(8, "little") + body, hashlib.sha256)

    def _read(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.sock.recv(min(count - len(data), 65536))
            if not part:
                raise ConnectionError("the connection has ended")
            data += part
        return bytes(data)

    def send(self, message):
        """Send an object that JSON knows."""
        body = json.dumps(message).encode()
        if len(body) > MOST_BYTES:
            raise ValueError(f"a message of {len(body)} bytes is too long")
        mac = self._mac(self.side, self.sent, body)
        self.sent += 1
        self.sock.sendall(len(body).to_bytes(4, "little") + mac + body)

    def receive(self):
        """The next message of the other side."""
        length = int.from_bytes(self._read(4), "little")
        if length > MOST_BYTES:
            raise NotAuthentic("what the other side sent is no message")
        mac, body = self._read(MAC_BYTES), self._read(length)
        if not hmac.compare_digest(mac, self._mac(self.other, self.received, body)):
            raise NotAuthentic("the other side does not know the job's key")
        self.received += 1
        return json.loads(body)

    def stream_key(self):
        """The key of what comes over the connection after all messages of the channel."""
        return hmac.digest(self.key, b"stream", hashlib.sha256)

    def close(self):
        """End the connection."""
        self.sock.close()


def watch(sock):
    """Let a connection end a quarter of a minute after the other host has gone without a word."""
    for level, option, value in (
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 6),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 15000)):
        sock.setsockopt(level, option, value)


def connect(address, key, timeout):
    """A task's channel to the driver at (host, port)."""
    sock = socket.create_connection(address, timeout)
    try:
        watch(sock)
        return Channel(sock, key, TASK)
    except BaseException:
        sock.close()
        raise
