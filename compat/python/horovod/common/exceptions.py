# exceptions.py - Horovod's exception classes.
# SPDX-License-Identifier: Apache-2.0
"""The __cause__ of each exception is the error of the library."""

from ringup.errors import InvalidArgument, NameInUse


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank died or left, or the ranks passed different arguments."""


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts has changed, in elastic training."""

    def __init__(self, skip_sync=False):
        super().__init__("the set of hosts has changed")
        self.skip_sync = skip_sync


def get_version_mismatch_message(name, version, installed_version):
    """Return the message of HorovodVersionMismatchError."""
    return (f"horovod was built for {name} {installed_version}, but {version} is installed: "
            "rebuild it")


class HorovodVersionMismatchError(ImportError):
    """Never raised: ringup does not depend on the framework's version."""

    def __init__(self, name, version, installed_version):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version


def translated(e):
    """Return Horovod's exception for one of ringup's exceptions."""
    kind = ValueError if isinstance(e, (NameInUse, InvalidArgument)) else HorovodInternalError
    return kind(str(e))
