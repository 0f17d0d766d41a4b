# weights.py - samples of torch's parameters, to check that all ranks hold the same weights.
# SPDX-License-Identifier: Apache-2.0

import torch

from horovod.common.weights import ELEMENTS, chosen, complain, interval, places  # noqa: F401
from horovod.torch.mpi_ops import Max, allgather, allreduce_

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _sampled(p, turn):
    """Return the bits of some elements of a parameter, as integers in host memory."""
    flat = p.detach().reshape(-1)
    if not flat.numel():
        return torch.zeros(ELEMENTS, dtype=torch.int64)
    first, each = places(turn, flat.numel())
    some = flat[(first + torch.arange(ELEMENTS, device=flat.device) * each) % flat.numel()]
    if some.is_complex():
        some = torch.view_as_real(some)[:, turn % 2].contiguous()
    return some.view(_INTEGERS[some.element_size()]).to("cpu", torch.int64)


def check(named, turn, process_set):
    """Raise an exception on all ranks if a sample differs.  named contains pairs (name, parameter)
    in the same order on all ranks."""
    if not named:
        return
    some = chosen(named, turn)
    mine = torch.cat([_sampled(p, turn) for _, p in some])
    both = torch.stack([mine, ~mine])  # the largest of ~x is ~ of the smallest x
    allreduce_(both, op=Max, name="check_weights", process_set=process_set)
    differ = (both[0] != ~both[1]).view(len(some), ELEMENTS).any(1).nonzero().flatten().tolist()
    if not differ:
        return
    everybody = allgather(mine.view(1, len(some), ELEMENTS), "check_weights", process_set)
    complain([some[i][0] for i in differ],
             [[tuple(row) for row in everybody[:, i].tolist()] for i in differ], process_set.ranks,
             "Start with hvd.broadcast_parameters() and hvd.broadcast_optimizer_state(); run the "
             "same steps with the same options on all ranks; change gradients identically on all, "
             "after optimizer.synchronize()")
