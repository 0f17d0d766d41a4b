# task.py - a Spark task, or the driver itself, as a host of ranks: starts their rank daemon.
# SPDX-License-Identifier: Apache-2.0
"""The first task on a host starts a rank daemon, `ringup rankd`, for all ranks there; the other
tasks only occupy the slots.  The daemon runs in a session of its own, so the end of an executor
does not kill it.  It kills the ranks when its lifeline closes.  The lifeline is a pipe whose other
end only the process of the task holds, so nothing remains when that process ends for any reason."""

import fcntl
import os
import socket
import struct
import subprocess
import sys

from ringup import program
from ringup._version import __version__

from . import gather, session, unpack

CONNECT_S = 60
SIOCGIFADDR = 0x8915
# The interface towards the driver is the one that these libraries are told to take.
INTERFACE_NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def interface_of(address):
    """Return the name of the interface with this IPv4 address; None for no interface or the
    loopback."""
    if address.startswith("127."):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(s.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def reserve_port(address):
    """Return a socket with a port at an address of this host, for torch's store.  It is bound but
    not listening, so no other process gets the port and rank 0 can still listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, 0))
    return s


def environment(base, given, address=None, places=unpack.Places()):
    """Return the environment of ranks: that of this process without Spark's variables for its
    workers, the variables that the driver has sent, and a module path that starts with the driver's
    own files."""
    env = dict(base)
    if env.get("PYTHONHASHSEED") == "0":  # Spark sets it for its workers
        del env["PYTHONHASHSEED"]
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        env.pop(name, None)
    added = [os.path.abspath(p) for p in sys.path if not gather.is_standard(p)]
    env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(
        [*places.before, *(p for p in added if p not in places.behind)]))
    env[unpack.VARIABLE] = places.variable()
    env["PYTHONUNBUFFERED"] = "1"
    interface = interface_of(address) if address else None
    if interface:
        for name in INTERFACE_NAMES:
            env.setdefault(name, interface)
    env.update(given)
    return env


def _memory_file(name, data):
    """Return a descriptor of a file in memory."""
    fd = os.memfd_create(name)
    with os.fdopen(os.dup(fd), "wb") as f:
        f.write(data)
    return fd


def serve(sock, key, orders, payload, address=None):
    """Start the rank daemon on a connection to the launcher and wait for its end; return its exit
    status.  This function takes over the socket; key is the key of the connection.

    orders is a dict.  env is a dict of variables for the ranks.  executable is their Python; None
    means that of this process.  words is the rest of their command, in which {function} stands for
    the descriptor from which payload is read.  copy says whether their output also goes to this
    process's stderr.  files contains the driver's own files (gather.py)."""
    with unpack.unpacked(orders.get("files")) as (places, stays):
        return _serve(sock, key, orders, payload, address, places, stays)


def _serve(sock, key, orders, payload, address, places, stays):
    """Do the same, with the driver's files in places, as long as a process has the descriptor
    stays."""
    keep, seal = _memory_file("ringup-function", payload), _memory_file("ringup-seal", key)
    lifeline, own_end = os.pipe()
    try:
        first, *rest = orders["words"]
        words = [places.on_host(first), *(w.replace("{function}", str(keep)) for w in rest)]
        env = environment(os.environ, orders["env"], address, places)
        if "{function}" not in rest:  # a program, which does not order its path itself
            env.update(unpack.for_children(env, places))
        inherited = [fd for fd in (lifeline, seal, keep, stays) if fd is not None]
        daemon = subprocess.Popen(
            [program.find(), "rankd", f"--lifeline={lifeline}", f"--seal={seal}", f"--keep={keep}",
             *(["--copy-output"] if orders["copy"] else []), "--",
             orders["executable"] or sys.executable, *words],
            stdin=sock, stdout=sock, pass_fds=inherited, start_new_session=True,
            env=env)
        sock.close()
        return daemon.wait()
    finally:
        sock.close()
        os.close(own_end)
        os.close(lifeline)
        os.close(seal)
        os.close(keep)


def gpus_of(context):
    """Return the addresses of the GPUs that Spark has given to a task."""
    gpus = context.resources().get("gpu")
    return list(gpus.addresses) if gpus else []


class Guest:
    """A task's connection to the process that brings the ranks together, usually the driver.

    The constructor connects and reports which host this is; OSError if it cannot connect.
    Decisions that the driver made earlier arrive in the stage's function; over the connection, the
    driver sends only what depends on where the tasks run.  own is the address of this host for the
    other ranks; None means the address towards the driver."""

    def __init__(self, address, key, context, seconds, own=None):
        self.session = session.connect(address, key, seconds)
        self.address, self.port = own or self.session.address, None
        try:
            self.port = reserve_port(self.address)
            self.session.send({
                "index": context.partitionId(), "attempt": context.taskAttemptId(),
                "host": session.host_identity(), "name": os.uname().nodename,
                "address": self.address, "port": self.port.getsockname()[1],
                "gpus": gpus_of(context), "python": list(sys.version_info[:2]),
                "executable": sys.executable, "ringup": __version__})
        except BaseException:
            self.close()
            raise

    def serve(self, orders, payload):
        """Start the ranks of this host, or leave that to another task; return when the job has
        ended."""
        try:
            found = self.session.receive()
            if found["starts"]:
                orders["env"].update(found["env"])
                serve(*self.session.release(), orders, payload, self.address)
            else:
                self.session.receive()  # nothing: the driver ends the connection with the job
        except ConnectionError:
            pass  # the driver, which has ended the job, says why
        finally:
            self.close()

    def close(self):
        """End the connection."""
        if self.port:
            self.port.close()
        self.session.close()


def run(driver, key, orders, payload, partition):
    """The body of the stage's tasks: an empty iterator, as mapPartitions() requires."""
    from pyspark import BarrierTaskContext, TaskContext

    context = TaskContext.get() or BarrierTaskContext.get()
    for _ in partition:
        pass
    Guest(driver, key, context, CONNECT_S).serve(orders, payload)
    return iter(())
