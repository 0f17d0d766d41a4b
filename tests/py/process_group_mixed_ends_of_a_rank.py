# process_group_mixed_ends_of_a_rank.py - mixed process groups that fail, named by the argument.
# SPDX-License-Identifier: Apache-2.0
"""Gloo serves the CPU, in place of NCCL, and ringup the GPU that is not there.  For a device whose
operations are queued on streams, as those of NCCL, "standin" serves torch's device "meta": wait()
returns at once, and an operation that a rank does not call hangs until the back end is aborted."""

import datetime
import json
import os
import signal
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist

import ringup_torch
from process_group_ends_of_a_rank import (DEADLINE, RANK, RANKS, RESULTS, dumped, heard, outcome,
                                          stand_still, tell)

SCENES = {}
LAST = RANKS - 1


def scene(f):
    SCENES[f.__name__] = f
    return f


def begin(seconds=60, spec="cpu:gloo,cuda:ringup"):
    """Create the world, whose ranks may be slow to come whatever its time-out is."""
    store = dist.FileStore(os.path.join(RESULTS, "store"), RANKS)
    dist.init_process_group(spec, store=store, rank=RANK, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=60))
    assert type(dist.group.WORLD).__name__ == "MixedProcessGroup"
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=seconds))


def entries():
    """The flight record: (name, state) of each operation."""
    from ringup_torch.recorder import recorder
    return [(e["profiling_name"], e["state"]) for e in recorder.state()["entries"]]


# ---- a device with streams ----

class Queued(dist.Work):
    """An operation that is complete when all ranks have called it."""

    def __init__(self, group, number):
        super().__init__()
        self._group, self._number, self._is_over = group, number, False

    def is_completed(self):
        if not self._is_over and not self._group.aborted.is_set():
            self._is_over = self._group.store.add(f"{self._number}", 0) == self._group.n
        return self._is_over or self._group.aborted.is_set()

    def wait(self, timeout=None):
        assert timeout is None, "NCCL aborts its communicator after a wait with a time-out"
        if self._group.aborted.is_set() and not self._is_over:
            raise RuntimeError("the communicator was aborted")
        return True


class Standin(dist.ProcessGroup):
    """What is needed of a process group."""

    made = []

    def __init__(self, store, rank, n, _timeout):
        super().__init__(rank, n)
        self.store, self.n, self.count, self.aborted = store, n, 0, threading.Event()
        self.when, self.is_slow, self.is_aborted = None, False, False
        self.made.append(self)

    def name(self):
        return "standin"

    def allreduce(self, _tensors, _opts=None):
        self.count += 1
        self.store.add(f"{self.count}", 1)
        work = Queued(self, self.count)
        while self.is_slow and not work.is_completed():
            time.sleep(0.01)
        if self.is_slow and self.aborted.is_set():
            raise RuntimeError("the communicator was aborted")
        return work

    def broadcast(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def abort(self):
        self.when = self.when or time.monotonic()
        self.aborted.set()
        time.sleep(0.3)  # as NCCL's kernels end
        self.is_aborted = True

    def shutdown(self):
        pass


def begin_on_streams(seconds=60):
    """Create a world in which the stand-in serves the device "meta"; return the stand-in."""
    dist.Backend.register_backend("standin", Standin, devices=["meta"])
    begin(seconds, "cpu:ringup,meta:standin")
    return Standin.made[-1]


def far(n=4):
    return torch.ones(n, device="meta")


# ---- what goes well ----

@scene
def works():
    begin()
    t = torch.ones(4)
    for _ in range(3):
        dist.all_reduce(t)
    work = dist.all_reduce(t, async_op=True)
    work.get_future().wait()
    assert t.tolist() == [RANKS ** 4] * 4 and work.is_success() and work.wait(), t
    assert work.result()[0] is t
    large = torch.ones(1 << 20)
    handle, alive = dist.all_reduce(large, async_op=True), weakref.ref(large)
    assert handle.wait()
    del large
    while alive() is not None:  # Gloo's thread may not be done with it
        time.sleep(0.01)
    dist.barrier()
    rows = [torch.empty(2) for _ in range(RANKS)]
    dist.all_gather(rows, torch.full((2,), float(RANK)))
    assert [r[0].item() for r in rows] == list(range(RANKS))
    other = torch.empty(1)
    if RANK < 2:
        sent = dist.isend(torch.full((1,), float(RANK)), 1 - RANK)
        assert dist.recv(other) == 1 - RANK and other.item() == 1 - RANK
        sent.wait()
        if RANK == 1:
            time.sleep(0.5)  # Gloo would close all connections after a wait with a time-out
        late = dist.irecv(other, 1 - RANK)
        state = entries()[-1][1]
        assert state == "scheduled", state
        dist.send(torch.full((1,), 5.), 1 - RANK)
        assert late.is_completed() and late.is_success() and other.item() == 5
    found = None
    if RANK == 0:  # Gloo refuses it before it tells another rank
        found = outcome(dist.all_gather, [torch.empty(2)] * (RANKS - 1) + [torch.empty(3)],
                        torch.ones(2))
    for _ in range(3):
        dist.all_reduce(t)
    named = [e for i, e in enumerate(entries()) if i != 4]
    dist.destroy_process_group()
    return {"refused": found, "entries": named}


@scene
def left_early():
    """A rank has sent its part of a gather, and leaves before the last one calls it, which Gloo
    permits."""
    begin()
    dist.all_reduce(torch.ones(1))
    rows = [torch.empty(1) for _ in range(RANKS)] if RANK == 0 else None
    if RANK == LAST:
        heard("sent")
        time.sleep(0.5)
    told = outcome(dist.gather, torch.full((1,), float(RANK)), rows)
    if RANK == 1:
        tell("sent")
    dist.destroy_process_group()
    return {**told, "rows": [r.item() for r in rows or ()]}


# ---- what fails ----

@scene
def killed():
    """Rank 0 waits for a sum, and rank 1 for the future of one; the last one dies."""
    begin()
    t = torch.ones(1)
    dist.all_reduce(t)
    if RANK == LAST:
        for r in range(LAST):
            heard(f"waits.{r}")
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 0:
        tell("waits.0")
        told = outcome(dist.all_reduce, t)
    else:
        work = dist.all_reduce(t, async_op=True)
        tell(f"waits.{RANK}")
        told = outcome(work.get_future().wait)
        told["later"] = type(work.exception()).__name__
    told["next"] = outcome(dist.all_reduce, t)
    told["message"] = outcome(dist.recv, t, LAST)
    dumped(range(LAST))
    dist.destroy_process_group()
    return told


@scene
def killed_in_a_group():
    begin()
    group = dist.new_group([1, 2])
    if RANK == 2:
        dist.all_reduce(torch.ones(1), group=group)
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 0:
        return {}
    dist.all_reduce(torch.ones(1), group=group)
    return outcome(dist.all_reduce, torch.ones(1), group=group)


@scene
def stopped():
    begin(DEADLINE)
    return stand_still()


@scene
def late():
    """A rank does not call the sum; the flight records of the others show who."""
    begin(DEADLINE)
    t = torch.ones(1)
    dist.all_reduce(t)
    if RANK == LAST:
        for r in range(LAST):
            heard(f"told.{r}")
        return outcome(dist.all_reduce, t)
    told = outcome(dist.all_reduce, t)
    dumped(range(RANKS))
    tell(f"told.{RANK}")
    return told


@scene
def own_deadline():
    """A wait with a time-out of its own harms nothing."""
    begin()
    t = torch.ones(1)
    if RANK:
        told = outcome(dist.all_reduce(t, async_op=True).wait, datetime.timedelta(seconds=0.1))
        tell(f"waited.{RANK}")
    else:
        for r in range(1, RANKS):
            heard(f"waited.{r}")
        told = outcome(dist.all_reduce, t)
    dist.barrier()
    return {**told, "sum": t.item()}


@scene
def other_call():
    from ringup_torch import other
    other._DOUBT = 0.3
    begin()
    dist.all_reduce(torch.ones(1))
    if RANK:
        return outcome(dist.all_gather, [torch.ones(8)] * RANKS, torch.ones(8))
    return outcome(dist.reduce_scatter_tensor, torch.ones(4), torch.ones(4 * RANKS))


@scene
def backward():
    begin()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(1, 4)).sum().backward()
    loss = model(torch.ones(1, 4)).sum()
    if RANK == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(loss.backward)


# ---- what fails on streams ----

@scene
def streams_work():
    standin = begin_on_streams()
    for _ in range(3):
        dist.all_reduce(far())
    last = dist.all_reduce(far(), async_op=True)
    assert last.wait(datetime.timedelta(0))  # what torch's C++ passes
    dist.all_reduce(torch.ones(1))
    while not last.is_completed():
        time.sleep(0.01)
    named = entries()
    dist.destroy_process_group()
    return {"entries": named, "aborted": standin.aborted.is_set()}


@scene
def streams_killed():
    """The stand-in hangs in the operation that the dead rank has not called."""
    standin = begin_on_streams()
    dist.all_reduce(far())
    dist.all_reduce(torch.ones(1))
    if RANK == LAST:
        for r in range(LAST):
            heard(f"waits.{r}")
        tell("dies")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(far(), async_op=True)
    assert work.wait() and not work.is_completed()
    tell(f"waits.{RANK}")
    heard("dies")
    begun = time.monotonic()
    standin.aborted.wait()
    seconds = standin.when - begun
    told = {**outcome(work.wait), "seconds": seconds, "next": outcome(dist.all_reduce, far())}
    dist.destroy_process_group()
    return {**told, "aborted": standin.is_aborted}


@scene
def streams_late():
    standin = begin_on_streams(DEADLINE)
    dist.all_reduce(far())
    dist.all_reduce(torch.ones(1))
    if RANK == LAST:
        for r in range(LAST):
            heard(f"told.{r}")
        return outcome(dist.all_reduce, far())
    begun = time.monotonic()
    work = dist.all_reduce(far(), async_op=True)
    standin.aborted.wait()
    seconds = standin.when - begun
    told = {**outcome(work.wait), "seconds": seconds}
    tell(f"told.{RANK}")
    return told


@scene
def streams_unlike():
    from ringup_torch import other
    other._DOUBT = 0.3
    standin = begin_on_streams()
    standin.n = RANKS + 1  # no operation completes
    work = (dist.broadcast(far(), 0, async_op=True) if RANK else
            dist.all_reduce(far(), async_op=True))
    standin.aborted.wait()
    return outcome(work.wait)


@scene
def streams_blocked():
    """The stand-in blocks the caller until all ranks have come, as NCCL in its first operation."""
    standin = begin_on_streams(DEADLINE)
    standin.is_slow = True
    dist.all_reduce(torch.ones(1))
    if RANK == LAST:
        for r in range(LAST):
            heard(f"told.{r}")
        return {}
    told = outcome(dist.all_reduce, far())
    tell(f"told.{RANK}")
    return told


def main():
    torch.set_num_threads(1)
    ringup_torch.register()
    told = SCENES[sys.argv[1]]()
    with open(os.path.join(RESULTS, f"rank.{RANK}"), "w", encoding="utf-8") as f:
        json.dump(told, f)


if __name__ == "__main__":
    main()
