# process_group.py - the class of process groups: operations under the names of all torch releases.
# SPDX-License-Identifier: Apache-2.0

from .collectives import Collectives
from .messages import Messages


class ProcessGroup(Collectives, Messages):
    """A process group of init_process_group("ringup"), with the method names of all torch releases.
    """

    # before torch 2.13
    _allgather_base = Collectives.all_gather_single
    allgather_into_tensor_coalesced = Collectives.all_gather_single_coalesced
    _reduce_scatter_base = Collectives.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Collectives.reduce_scatter_single_coalesced
    alltoall_base = Collectives.all_to_all_single
