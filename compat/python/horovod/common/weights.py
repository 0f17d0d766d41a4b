# weights.py - check with a few samples that all ranks hold the same weights.
# SPDX-License-Identifier: Apache-2.0
"""Ranks that start with equal weights and apply equal gradients keep equal weights, bit by bit.
A script that makes them different (another learning rate on one rank, a step that one rank leaves
out) trains as many models as there are ranks, and nothing tells.  RINGUP_CHECK_WEIGHTS=N compares
samples after every N-th step.  Each framework takes the samples in its own way."""

import os

PARAMETERS = 16  # so many are looked at each time, and the next ones the next time
ELEMENTS = 64    # and so many elements of each


def interval():
    """Steps from one check to the next; 0: none.  ringup_init() complains about other values."""
    try:
        return max(0, int(os.environ.get("RINGUP_CHECK_WEIGHTS") or 0))
    except ValueError:
        return 0


def chosen(named, turn):
    """Those of a list that are looked at in this turn."""
    first = turn * PARAMETERS
    return [named[(first + i) % len(named)] for i in range(min(PARAMETERS, len(named)))]


def places(turn, count):
    """Where the samples of so many elements begin in this turn, and how far apart they are."""
    return turn * 7919, max(1, count // ELEMENTS)


def complain(names, samples, ranks, cure):
    """Report on which ranks weights differ: their names, and the samples of every rank.  cure:
    how ranks begin alike, and stay so."""
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
