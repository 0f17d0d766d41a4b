# objects.py - exchange Python objects between ranks.
# SPDX-License-Identifier: Apache-2.0
"""Objects are sent as pickles, as in Horovod, but only between ranks of one job.  These ranks run
the same program and have proved to each other that they belong to the job."""

import array
import pickle

from ringup import constants, job, memory, objects, operation

from .process_sets import global_process_set, group_of
from .semantics import begin, named, root_of, synchronize


def _overwrite(block, root, name, group):
    """Give every rank root's elements of an array or of a bytearray."""
    m = memory.of(block, writable=True)
    synchronize(begin(operation.broadcast, m.address, m.address, m.count, m.dtype, root,
                      named("broadcast", name), m.shape, group, m))


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """Return root's object on every rank; it must be picklable."""
    group = group_of(process_set)
    root, mine = root_of(root_rank, group, process_set), job.rank() == root_rank
    block = bytearray(objects.dumps(obj)) if mine else b""
    length = array.array("q", [len(block)])
    _overwrite(length, root, name and name + ".sz", group)
    if not mine:
        block = bytearray(length[0])
    _overwrite(block, root, name and name + ".t", group)
    return obj if mine else pickle.loads(block)


def _gather(block, name, group):
    """Return (the bytes of all ranks, number of bytes from each rank)."""
    m = memory.of(block)
    return synchronize(begin(operation.allgather, m.address, len(block), 1, constants.U8,
                             named("allgather", name), group=group, keep=m,
                             finish=lambda out, rows: (out, rows)))


def allgather_object(obj, name=None, process_set=global_process_set):
    """Return a list of the objects of all ranks, in rank order."""
    block = bytearray(objects.dumps(obj))
    out, lengths = _gather(block, name and name + ".t", group_of(process_set))
    everybody, at = [], 0
    for n in lengths:
        everybody.append(pickle.loads(out[at:at + n]))
        at += n
    return everybody


def check_lengths(count, process_set=global_process_set):
    """Raise an exception on all ranks if their lists of variables have different lengths.
    Otherwise, the ranks with more variables would wait forever."""
    counts = allgather_object(count, "lengths", process_set)
    other = next((i for i, n in enumerate(counts) if n != counts[0]), None)
    if other is not None:
        ranks = process_set.ranks
        raise ValueError(
            f"rank {ranks[0]} broadcasts {counts[0]} variables and rank {ranks[other]} "
            f"{counts[other]}; an optimizer has all of its variables after its first step, or "
            "after optimizer.build(model.trainable_variables)")
