# weights.py - check with a few samples that all ranks hold the same weights.
# SPDX-License-Identifier: Apache-2.0
"""Ranks that start with equal weights and apply equal gradients keep equal weights, bit for bit.  A
script that makes weights different, for example by another learning rate on one rank or a step that
one rank skips, trains as many models as there are ranks, without any error.  With
RINGUP_CHECK_WEIGHTS=N, samples of the weights are compared after every N-th step.  Each framework
takes the samples in its own way."""

import os

PARAMETERS = 16  # so many are looked at each time, and the next ones the next time
ELEMENTS = 64    # and so many elements of each


def interval():
    """Return the number of steps from one check to the next; 0: no checks.  ringup_init() reports
    invalid values."""
    try:
        return max(0, int(os.environ.get("RINGUP_CHECK_WEIGHTS") or 0))
    except ValueError:
        return 0


def chosen(named, turn):
    """Return the items of a list that are checked in this turn."""
    first = turn * PARAMETERS
    return [named[(first + i) % len(named)] for i in range(min(PARAMETERS, len(named)))]


def places(turn, count):
    """Return the offset of the first sample in this turn, and the distance between samples, for
    this number of elements."""
    return turn * 7919, max(1, count // ELEMENTS)


def complain(names, samples, ranks, cure):
    """Report on which ranks the weights differ, with their names and the samples of every rank.
    cure describes how ranks start with equal weights and keep them equal."""
    texts = []
    for name, of_rank in list(zip(names, samples))[:4]:
        usual = max(of_rank, key=of_rank.count)
        others = [str(r) for r, row in zip(ranks, of_rank) if row != usual]
        texts.append(f"{name!r} (rank{'s' if len(others) > 1 else ''} {', '.join(others)} unlike "
                     f"rank {ranks[of_rank.index(usual)]})")
    more = len(names) - len(texts)
    raise RuntimeError(
        "the ranks' weights differ: " + ", ".join(texts)
        + (f" and {more} more" if more > 0 else "") + f".  {cure}.  If hosts have different "
        "processors, rounding may differ: unset RINGUP_CHECK_WEIGHTS")
