# session.py - encrypted messages between the driver and its tasks, through the C library.
# SPDX-License-Identifier: Apache-2.0
"""The driver and each task share a key, which Spark sends in the task's closure.  A connection
begins with a handshake in which both sides prove that they know the key (src/wire/shake.h). JSON
objects follow, each encrypted, with a MAC and a number (src/wire/chan.h). Received data is never
unpickled.

The driver listens with the same code as the launcher (src/wire/door.h): the number of unknown
clients and their time are limited, and they cannot keep out a task."""

import ctypes
import functools
import json
import os
import select
import socket
import sys
import threading
import time

from ringup import _c
from ringup._version import __version__

KEY_BYTES = 32
MOST_BYTES = 65536  # of a message
WHERE_BYTES, IDENTITY_BYTES = 80, 65
ANSWER_S = 10       # for a message to come to its end, or to be taken


class NotAuthentic(ConnectionError):
    """The other side does not know the key, or the data was changed in transit."""


class OtherVersion(RuntimeError):
    """The other side knows the key and runs another version of ringup."""


@functools.lru_cache(None)
def _lib():
    return _c.load(__version__)[0]


def _check(status, doing):
    """Return the status; raise OSError or OtherVersion if it is a failure."""
    if status >= 0:
        return status
    text = str(_c.failure(_lib(), status, doing))
    if status == _c.STATUS["EMISMATCH"]:
        raise OtherVersion(f"{text}; this side is {sys.executable} on {os.uname().nodename}: "
                           "install the same version of ringup on the driver and on all nodes")
    if status == _c.STATUS["EAUTH"]:
        raise NotAuthentic(text)
    raise (TimeoutError if status == _c.STATUS["ETIMEDOUT"] else ConnectionError)(text)


def new_key():
    """Create the key of a job."""
    return os.urandom(KEY_BYTES)


def host_identity():
    """Return a name that processes share if and only if the engine treats them as ranks of one
    host."""
    text = ctypes.create_string_buffer(IDENTITY_BYTES)
    _lib().ringup_host_identity(os.environ.get("RINGUP_NODE", "").encode() or None, text)
    return text.value.decode()


class Session:
    """A connection whose two sides have proved that they know the key.  A thread that waits for a
    message blocks the others for at most ANSWER_S."""

    def __init__(self, handle):
        self.handle, self.lock = handle, threading.Lock()

    def _given(self):
        if self.handle is None:
            raise ConnectionError("the connection is closed")
        return self.handle

    @property
    def fd(self):
        """The descriptor of the connection, for poll()."""
        return _lib().ringup_session_fd(self._given())

    @property
    def address(self):
        """The address of this side."""
        sock = socket.socket(fileno=self.fd)
        try:
            return sock.getsockname()[0]
        finally:
            sock.detach()

    def send(self, message):
        """Send an object that JSON can represent."""
        body = json.dumps(message).encode()
        if len(body) > MOST_BYTES:
            raise ValueError(f"a message of {len(body)} bytes is too long: the limit is "
                             f"{MOST_BYTES}")
        with self.lock:
            _check(_lib().ringup_session_send(self._given(), body, len(body), ANSWER_S * 1000),
                   "send")

    def receive(self, seconds=None):
        """Receive the next message.  With seconds=None, wait any time until it begins."""
        if seconds is None:
            poll, seconds = select.poll(), ANSWER_S
            poll.register(self.fd, select.POLLIN)
            poll.poll()
        data = ctypes.c_void_p()
        with self.lock:
            length = _check(_lib().ringup_session_receive(
                self._given(), int(seconds * 1000), ctypes.byref(data)), "receive")
            return json.loads(ctypes.string_at(data, length))

    def release(self):
        """End the session but not the connection.  Return the socket, and a key for further data on
        it."""
        key = ctypes.create_string_buffer(KEY_BYTES)
        with self.lock:
            handle, self.handle = self._given(), None
            fd = _lib().ringup_session_release(handle, key)
        os.set_blocking(fd, True)
        return socket.socket(fileno=fd), key.raw

    def close(self):
        """Close the connection, if it still belongs to this object."""
        with self.lock:
            handle, self.handle = self.handle, None
        if handle is not None:
            _lib().ringup_session_close(handle)


class Door:
    """The place where tasks connect: a port at one IPv4 or IPv6 address of this host."""

    def __init__(self, address, key):
        where, self.handle = ctypes.create_string_buffer(WHERE_BYTES), ctypes.c_void_p()
        _check(_lib().ringup_door_open(address.encode(), key, where, ctypes.byref(self.handle)),
               f"listen at {address}")
        self.port = int(where.value.rpartition(b":")[2])
        self.lock, self.is_shut = threading.Lock(), False

    def serve(self, welcome, refuse):
        """Call welcome(session) for each task that connects, and refuse(exception) for one of
        another version, each in a thread, until another thread calls shut()."""
        try:
            while True:
                handle = ctypes.c_void_p()
                try:
                    _check(_lib().ringup_door_wait(self.handle, ctypes.byref(handle)), "accept")
                except OtherVersion as e:
                    refuse(e)
                    continue
                threading.Thread(target=welcome, args=(Session(handle),), daemon=True).start()
        except ConnectionError:  # it is shut
            pass
        finally:
            with self.lock:
                self.is_shut = True
                _lib().ringup_door_close(self.handle)

    def shut(self):
        """Stop listening; serve() returns."""
        with self.lock:
            if not self.is_shut:
                self.is_shut = True
                _lib().ringup_door_shut(self.handle)


def addresses_of(host):
    """Return the numeric addresses of a host, IPv4 first."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return list(dict.fromkeys(info[4][0] for info in found))


def listen(hosts, key):
    """Return a Door at the first of these names and addresses that belongs to this host; OSError if
    none does."""
    error = None
    for host in hosts:
        try:
            for address in addresses_of(host):
                try:
                    return Door(address, key)
                except ConnectionError as e:
                    error = error or e
        except socket.gaierror as e:
            error = error or e
    raise error


def connect(address, key, seconds):
    """Return a task's Session with the driver at (host, port). Try again until the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = addresses_of(address[0])
            break
        except socket.gaierror as e:
            if e.errno != socket.EAI_AGAIN or time.monotonic() >= deadline:
                raise
            time.sleep(0.5)
    for others in range(len(found) - 1, -1, -1):
        numeric, handle = found[-1 - others], ctypes.c_void_p()
        where = f"[{numeric}]:{address[1]}" if ":" in numeric else f"{numeric}:{address[1]}"
        share = (deadline - time.monotonic()) / (others + 1)
        try:
            _check(_lib().ringup_session_connect(where.encode(), key, max(1, int(1000 * share)),
                                                 ctypes.byref(handle)), "connect")
            return Session(handle)
        except (ConnectionError, TimeoutError):
            if not others:
                raise
