# messages.py - send tensors from one rank of a process group to another.
# SPDX-License-Identifier: Apache-2.0

from ringup import constants, operation

from . import tensors
from .collectives import only
from .group import GroupBase


class Messages(GroupBase):
    """A process group whose ranks send tensors to each other.

    Messages between two ranks with the same tag arrive in order.  Messages and collectives do
    not wait for each other."""

    def send(self, inputs, dst, tag=0):
        """Send a tensor to a rank of the group; return a Work.

        torch: dist.send(), dist.isend(); ringup.h: ringup_send()."""
        tensor = only(inputs)
        entry = self._began(f"send {self._rank}->{dst}", [tensor], None, True)
        place = tensors.readable(tensor)
        kind, each = tensors.carried(tensor.dtype)
        op = operation.send(place.data_ptr(), tensor.numel() * each, kind, dst, tag,
                            self._members, place)
        return self._under_way(op, [tensor], None, entry, None, True)

    def recv(self, outputs, src, tag=0):
        """Receive a tensor from a rank of the group; return a Work.

        torch: dist.recv(), dist.irecv(); ringup.h: ringup_recv()."""
        tensor = only(outputs)
        entry = self._began(f"recv {self._rank}<-{max(src, 0)}", [tensor], None, True)
        place = tensors.writable(tensor)
        kind, each = tensors.carried(tensor.dtype)
        op, came_from = operation.receive(
            place.data_ptr(), tensor.numel() * each, kind, src, tag, self._members,
            (place, tensor), lambda keep: tensors.deliver(*keep))
        return self._under_way(op, [tensor], None, entry, came_from, True)

    def recv_anysource(self, outputs, tag=0):
        """Receive a tensor from any rank; the Work's _source_rank() returns the sender.

        torch: dist.recv() without src."""
        return self.recv(outputs, constants.ANY_SOURCE, tag)
