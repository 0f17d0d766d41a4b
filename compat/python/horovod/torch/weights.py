# weights.py - a check that all ranks hold the same weights, by a few samples.
# SPDX-License-Identifier: Apache-2.0
"""Ranks that start with equal weights and apply equal gradients keep equal weights, bit by bit.
A script that makes them different (another learning rate on one rank, a step that one rank leaves
out) trains as many models as there are ranks, and nothing tells.  RINGUP_CHECK_WEIGHTS=N compares
samples after every N-th step."""

import os

import torch

from horovod.torch.mpi_ops import Max, allgather, allreduce_

PARAMETERS = 16  # so many are looked at each time, and the next ones the next time
ELEMENTS = 64    # and so many elements of each

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def interval():
    """Steps from one check to the next; 0: none.  ringup_init() complains about other values."""
    try:
        return max(0, int(os.environ.get("RINGUP_CHECK_WEIGHTS") or 0))
    except ValueError:
        return 0


def _sampled(p, turn):
    """Bits of some elements of a parameter, as integers in host memory."""
    flat = p.detach().reshape(-1)
    if not flat.numel():
        return torch.zeros(ELEMENTS, dtype=torch.int64)
    first = turn * 7919 + torch.arange(ELEMENTS, device=flat.device) * max(
        1, flat.numel() // ELEMENTS)
    some = flat[first % flat.numel()]
    if some.is_complex():
        some = torch.view_as_real(some)[:, turn % 2].contiguous()
    return some.view(_INTEGERS[some.element_size()]).to("cpu", torch.int64)


def check(named, turn, process_set):
    """Raise on all ranks if a sample differs; named: (name, parameter) in the same order on all."""
    if not named:
        return
    first = turn * PARAMETERS
    chosen = [named[(first + i) % len(named)] for i in range(min(PARAMETERS, len(named)))]
    mine = torch.cat([_sampled(p, turn) for _, p in chosen])
    both = torch.stack([mine, ~mine])  # the largest of ~x is ~ of the smallest x
    allreduce_(both, op=Max, name="check_weights", process_set=process_set)
    differ = (both[0] != ~both[1]).view(len(chosen), ELEMENTS).any(1)
    if bool(differ.any()):
        _complain(chosen, differ, mine.view(len(chosen), ELEMENTS), process_set)


def _complain(chosen, differ, mine, process_set):
    """Say where the ranks differ; all of them come here."""
    everybody = allgather(mine[None], "check_weights", process_set)
    ranks, texts = process_set.ranks, []
    for i in differ.nonzero().flatten().tolist()[:4]:
        of_rank = [tuple(row) for row in everybody[:, i].tolist()]
        usual = max(of_rank, key=of_rank.count)
        others = [str(r) for r, row in zip(ranks, of_rank) if row != usual]
        texts.append(f"{chosen[i][0]!r} (rank{'s' if len(others) > 1 else ''} "
                     f"{', '.join(others)} unlike rank {ranks[of_rank.index(usual)]})")
    more = int(differ.sum()) - len(texts)
    raise RuntimeError(
        "the ranks do not hold the same weights any more: " + ", ".join(texts)
        + (f" and {more} more" if more > 0 else "")
        + ".  Begin with hvd.broadcast_parameters() and hvd.broadcast_optimizer_state(); let all "
        "ranks do the same steps with the same options; change gradients in the same way on all, "
        "after optimizer.synchronize().  Where hosts have different processors, rounding may "
        "differ: unset RINGUP_CHECK_WEIGHTS there")
