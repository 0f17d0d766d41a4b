# prove.py - what the proofs share: data that differs by rank, and what is told about the end.
# SPDX-License-Identifier: Apache-2.0
"""A proof trains a small model with different data on each rank, and tells in a file what
came of it: a digest of the weights, which have to be the same on all ranks; how far they are
from what averaging gives, worked out without the engine; and how far training alone would
have led, so that an engine that averages nothing cannot pass."""

import hashlib
import json
import os
import sys

STEPS, ROWS, INPUTS = 5, 8, 3


def data(rank):
    """([rows of inputs], [rows of one output]) of @rank, the same wherever it is asked."""
    state, rows = 12345 + 7919 * rank, []
    for _ in range(ROWS * (INPUTS + 1)):
        state = (1103515245 * state + 12345) % 2 ** 31
        rows.append(state / 2 ** 30 - 1)
    return ([rows[i * INPUTS:(i + 1) * INPUTS] for i in range(ROWS)],
            [[rank + value] for value in rows[ROWS * INPUTS:]])


def distance(a, b):
    """The largest difference between two lists of numbers."""
    return max(abs(x - y) for x, y in zip(a, b))


def tell(rank, size, weights, together, alone, **more):
    """Write what came of it on @rank into the folder that the command line names."""
    text = json.dumps(dict(
        rank=rank, size=size, weights=hashlib.sha256(repr(weights).encode()).hexdigest(),
        off=distance(weights, together), alone=distance(alone, together), **more))
    path = os.path.join(sys.argv[1], f"rank-{rank}.json")
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(path + ".part", path)
