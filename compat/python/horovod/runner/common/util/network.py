# network.py - services that answer signed messages.
# SPDX-License-Identifier: Apache-2.0
"""A message is a signature, a length and a pickled object.  The signature is verified before the
object is unpickled, and a message longer than MOST_BYTES is not read."""

import codecs
import queue
import shutil
import socket
import socketserver
import struct

from horovod.runner.common.util import codec, secret
from horovod.runner.util.network import find_port, interface_addresses
from horovod.runner.util.threads import in_thread

MOST_BYTES = 1 << 30
REQUEST_SECONDS = 60  # for a request to come, once there is a connection


class PingRequest:
    """Ask whether the service is available."""


class NoValidAddressesFound(Exception):
    """A service cannot be reached, or an interface does not exist."""


class PingResponse:
    """The service's name, and the address from which the request came."""

    def __init__(self, service_name, source_address):
        self.service_name = service_name
        self.source_address = source_address


class AckResponse:
    """The request is done, without a result."""


class AckStreamResponse:
    """The request is done, and text follows."""


def _exactly(rfile, length):
    data = rfile.read(length)
    if len(data) != length:
        raise EOFError("the connection ended within a message")
    return data


class Wire:
    """Sends and receives objects over a connection whose two sides know the same key."""

    def __init__(self, key):
        self._key = key

    def write(self, obj, wfile):
        """Send an object."""
        message = codec.dumps(obj)
        wfile.write(secret.compute_digest(self._key, message))
        wfile.write(struct.pack("i", len(message)))
        wfile.write(message)
        wfile.flush()

    def stream(self, stream, wfile):
        """Send text until the stream ends."""
        shutil.copyfileobj(stream, codecs.getwriter("utf8")(wfile))
        wfile.flush()

    def read(self, rfile):
        """Receive an object."""
        digest = _exactly(rfile, secret.DIGEST_LENGTH)
        length, = struct.unpack("i", _exactly(rfile, 4))
        if not 0 <= length <= MOST_BYTES:
            raise Exception(f"Security error: a message of {length} bytes.")
        return codec.loads_signed(self._key, _exactly(rfile, length), digest)


class _Server(socketserver.ThreadingTCPServer):
    """Listens on all addresses, because all must have the same port, and serves those that it
    announces."""

    daemon_threads = False  # server_close() waits for the others only
    block_on_close = True
    addresses = None

    def verify_request(self, request, client_address):
        return self.addresses is None or request.getsockname()[0] in self.addresses

    def handle_error(self, request, client_address):
        """Ignore invalid messages from unknown clients, which would fill the log."""


class BasicService:
    """A server; a subclass defines its answers in _handle()."""

    def __init__(self, service_name, key, nics):
        self._service_name = service_name
        self._wire = Wire(key)
        self._nics = nics
        self._server, self._port = find_port(
            lambda address: _Server(address, self._make_handler()))
        try:
            self._addresses = self._get_local_addresses()
        except NoValidAddressesFound:
            self._server.server_close()
            raise
        self._server.addresses = {a for pairs in self._addresses.values() for a, _ in pairs}
        self._thread = in_thread(self._server.serve_forever, args=(0.1,))

    def _make_handler(self):
        service = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = REQUEST_SECONDS

            def handle(self):
                try:
                    request = service._wire.read(self.rfile)
                    self.connection.settimeout(None)
                    answer = service._handle(request, self.client_address)
                    if not answer:
                        raise Exception("Handler did not return a response.")
                    answer, stream = answer if isinstance(answer, tuple) else (answer, None)
                    service._wire.write(answer, self.wfile)
                    if stream:
                        service._wire.stream(stream, self.wfile)
                except (EOFError, OSError):
                    pass  # the client has gone

        return Handler

    def _handle(self, req, client_address):
        """Return the answer: an object, or (object, stream of text)."""
        if isinstance(req, PingRequest):
            return PingResponse(self._service_name, client_address[0])
        raise NotImplementedError(req)

    def _get_local_addresses(self):
        found = {name: [(address, self._port)] for name, address in interface_addresses().items()
                 if not self._nics or name in self._nics}
        if not found and self._nics:
            raise NoValidAddressesFound("No available network interface found matching user "
                                        f"provided interface: {self._nics}")
        return found

    def addresses(self):
        """Return {interface: [(address, port)]}."""
        return self._addresses.copy()

    def shutdown(self):
        """End the server after it has answered the request."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def get_port(self):
        """Return the port, which is the same on all addresses."""
        return self._port


class BasicClient:
    """Sends requests to a service.  A request may arrive more than once, and must allow this."""

    def __init__(self, service_name, addresses, key, verbose, match_intf=False, probe_timeout=20,
                 attempts=3):
        self._verbose = verbose
        self._service_name = service_name
        self._wire = Wire(key)
        self._match_intf = match_intf
        self._probe_timeout = probe_timeout
        self._attempts = attempts
        self._addresses = self._probe(addresses)
        if not self._addresses:
            raise NoValidAddressesFound(
                f"Horovod was unable to connect to {service_name} on any of the following "
                f"addresses: {addresses}.\n`ringup net check` finds out why.")

    def _probe(self, addresses):
        """Return the addresses that answer."""
        good = queue.Queue()
        threads = [in_thread(self._probe_one, (name, address, good))
                   for name, pairs in addresses.items() for address in pairs]
        for t in threads:
            t.join()
        found = {}
        while not good.empty():
            name, address = good.get()
            found.setdefault(name, []).append(address)
        return found

    def _talk(self, address, request, stream=None, timeout=None):
        with socket.create_connection(address, timeout=timeout) as s, \
                s.makefile("rb") as rfile, s.makefile("wb") as wfile:
            self._wire.write(request, wfile)
            answer = self._wire.read(rfile)
            if stream and isinstance(answer, AckStreamResponse):
                shutil.copyfileobj(codecs.getreader("utf8")(rfile), stream)
            return answer

    def _probe_one(self, intf, addr, result_queue):
        for _ in range(self._attempts):
            try:
                answer = self._talk(addr, PingRequest(), timeout=self._probe_timeout)
            except Exception:
                continue
            if answer.service_name == self._service_name and (
                    not self._match_intf or
                    answer.source_address == interface_addresses().get(intf)):
                result_queue.put((intf, addr))
            return

    def _send_one(self, addr, req, stream=None):
        for attempt in range(self._attempts):
            try:
                return self._talk(addr, req, stream)
            except Exception:
                if attempt == self._attempts - 1:
                    raise
        return None

    def _send(self, req, stream=None):
        """Return the answer; text after it goes to stream."""
        return self._send_one(next(iter(self._addresses.values()))[0], req, stream)

    def addresses(self):
        """Return the addresses that answered."""
        return self._addresses
