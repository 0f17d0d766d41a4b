# discovery.py - find the available hosts.
# SPDX-License-Identifier: Apache-2.0

import io

from horovod.runner.common.util import safe_shell_exec
from horovod.runner.elastic.worker import HostUpdateResult  # noqa: F401  imported from here, too

MOST_HOSTS = 65536


class HostDiscovery:
    """Finds the hosts.  A subclass defines the method."""

    def find_available_hosts_and_slots(self):
        """Return {host: number of slots}."""
        raise NotImplementedError


class HostDiscoveryScript(HostDiscovery):
    """Finds the hosts with a program that prints HOST or HOST:N, one per line."""

    def __init__(self, discovery_script, slots):
        self._discovery_script = discovery_script
        self._default_slots = slots
        super().__init__()

    def find_available_hosts_and_slots(self):
        found = {}
        for line in self._execute_discovery_script().split("\n"):
            host, colon, slots = line.strip().partition(":")
            if not host:
                continue
            if colon and not (slots.isascii() and slots.isdigit()):
                raise ValueError(f"{self._discovery_script} printed {line[:80]!r}, which is not "
                                 "HOST or HOST:N")
            found[host] = int(slots) if colon else self._default_slots
            if len(found) > MOST_HOSTS:
                raise ValueError(f"{self._discovery_script} printed more than {MOST_HOSTS} hosts")
        return found

    def _execute_discovery_script(self):
        output = io.StringIO()
        status = safe_shell_exec.execute(self._discovery_script, stdout=output)
        if status:
            raise RuntimeError("Failed to execute discovery script: "
                               f"{self._discovery_script}. Exit code: {status}")
        return output.getvalue()


class FixedHosts(HostDiscovery):
    """Returns the same hosts until set() changes them."""

    def __init__(self, host_slots):
        super().__init__()
        self._host_slots = host_slots

    def find_available_hosts_and_slots(self):
        return self._host_slots

    def set(self, host_slots):
        """Set other hosts."""
        self._host_slots = host_slots
