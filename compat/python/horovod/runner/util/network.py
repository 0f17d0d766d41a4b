# network.py - this host's addresses.
# SPDX-License-Identifier: Apache-2.0

import fcntl
import socket
import struct

from horovod.common.util import _cache
from horovod.runner.util import threads

SIOCGIFADDR = 0x8915


def interface_addresses():
    """Return {interface: its IPv4 address} of the interfaces that have one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(s, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


@_cache
def get_local_host_addresses():
    """Return all IPv4 addresses of this host."""
    return set(interface_addresses().values())


def get_local_intfs(nic=None):
    """Return the interfaces with the address 127.0.0.1."""
    return {name for name, address in interface_addresses().items()
            if address == "127.0.0.1" and nic in (None, name)}


def resolve_host_address(host_name):
    """Return the IPv4 address of a name, or None."""
    try:
        return socket.gethostbyname(host_name)
    except OSError:
        return None


def filter_local_addresses(all_host_names):
    """Return the names that do not refer to this host."""
    here = get_local_host_addresses()
    found = threads.execute_function_multithreaded(resolve_host_address,
                                                   [[name] for name in all_host_names])
    return [name for i, name in enumerate(all_host_names)
            if not found[i] or (found[i] not in here and not found[i].startswith("127."))]


def find_port(server_factory):
    """Return (server, port): a server on a port that the kernel chooses."""
    server = server_factory(("", 0))
    return server, server.server_address[1]


def get_driver_ip(nics):
    """Return the IPv4 address of the first interface that has one."""
    addresses = interface_addresses()
    for nic in nics:
        if nic in addresses:
            return addresses[nic]
    raise RuntimeError("Cannot find an IPv4 address of the common interface.")
