# process_group_ends_of_a_rank.py - process groups that fail: one way each, named by the argument.
# SPDX-License-Identifier: Apache-2.0
"""Each rank leaves in rank.N what it was told, and after how many seconds.

Ranks wait for each other's files where a moment has to come after another."""

import contextlib
import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import ringup_torch
from process_group_of_a_rank import begin, me, size

RESULTS = os.environ["RINGUP_TEST_RESULTS"]
DEADLINE = 1.5  # seconds
SCENES = {}
RANK, RANKS = (int(os.environ[f"RINGUP_{name}"]) for name in ("RANK", "SIZE"))


def scene(f):
    SCENES[f.__name__] = f
    return f


def tell(name):
    """Leave a mark for other ranks, with this process's number."""
    with open(os.path.join(RESULTS, f"mark.{name}.part"), "w", encoding="utf-8") as f:
        f.write(str(os.getpid()))
    os.replace(f.name, os.path.join(RESULTS, f"mark.{name}"))


def heard(name):
    """Wait for a mark; returns the number of the process that left it."""
    while True:  # until it hangs
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(RESULTS, f"mark.{name}"), encoding="utf-8") as f:
                return int(f.read())
        time.sleep(0.01)


def outcome(f, *args, **kwargs):
    """What a call raises, in words, and how long it took."""
    begun = time.monotonic()
    try:
        f(*args, **kwargs)
        said, kind = "", ""
    except Exception as e:
        said, kind = str(e), type(e).__name__
    return {"kind": kind, "said": said, "seconds": time.monotonic() - begun}


def stand_still():
    """The last of the ranks stands still while the others call a sum; the first wakes it up when
    all others know."""
    t, last = torch.ones(1), RANKS - 1
    dist.all_reduce(t)
    if RANK == last:
        tell("ready")
        os.kill(os.getpid(), signal.SIGSTOP)
        return outcome(dist.all_reduce, t)
    pid = heard("ready")
    while open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    told = outcome(dist.all_reduce, t)
    tell(f"told.{RANK}")
    if RANK == 0:
        for r in range(last):
            heard(f"told.{r}")
        os.kill(pid, signal.SIGCONT)
    return told


@scene
def stopped():
    begin(datetime.timedelta(seconds=DEADLINE))
    return stand_still()


@scene
def killed():
    """Nobody asks for the killed rank's exit status meanwhile: it is a zombie, which
    kill(pid, 0) takes for a process that lives."""
    begin()
    t = torch.ones(1)
    dist.all_reduce(t)
    if me() == size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    told = outcome(dist.all_reduce, t)
    dist.destroy_process_group()
    return told


@scene
def killed_in_groups():
    """The last rank is in two groups besides the world; each survivor asks one of them, and all."""
    begin()
    groups = [dist.new_group([r, size() - 1]) for r in range(size() - 1)]
    t = torch.ones(1)
    for group in groups[me():me() + 1] if me() < size() - 1 else groups:
        dist.all_reduce(t, group=group)
    dist.barrier()
    if me() == size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    told = {"part": outcome(dist.all_reduce, t, group=groups[me()]),
            "all": outcome(dist.all_reduce, t)}
    dist.destroy_process_group()
    return told


@scene
def late():
    """A rank does not take part in one operation; an own, shorter deadline harms nothing."""
    begin(datetime.timedelta(seconds=DEADLINE))
    t = torch.ones(1)
    dist.all_reduce(t)
    work = None
    if me():
        work = dist.all_reduce(t, async_op=True)
        told = outcome(work.wait, datetime.timedelta(milliseconds=50))
        assert told["kind"] == "TimedOut", told
        tell(f"waited.{me()}")
    else:
        for r in range(1, size()):
            heard(f"waited.{r}")
        dist.all_reduce(t)
    if work:
        work.wait()
    assert t.item() == size() ** 2
    if me():
        told = outcome(dist.all_reduce, t)
        tell(f"told.{me()}")
        return told
    for r in range(1, size()):
        heard(f"told.{r}")
    return outcome(dist.all_reduce, t)


@scene
def monitored():
    """The last rank does not come to a monitored barrier."""
    begin()
    group = dist.group.WORLD
    group.monitored_barrier(datetime.timedelta(seconds=60))
    by_torch = outcome(dist.monitored_barrier)  # before 2.14 it asks for the name "gloo"
    assert not by_torch["kind"] or "GLOO" in by_torch["said"], by_torch
    if me() < size() - 1:
        told = outcome(group.monitored_barrier, datetime.timedelta(seconds=DEADLINE))
        tell(f"told.{me()}")
        return told
    for r in range(size() - 1):
        heard(f"told.{r}")
    return outcome(dist.barrier)


def all_in_store():
    """What has ever been written to the file that ranks meet in."""
    with open(os.path.join(RESULTS, "store"), "rb") as f:
        return f.read()


@scene
def secrets():
    """Groups whose ranks were given a secret: the same, another on one rank, none on one rank."""
    begin()
    secret, last = "0123456789abcdef" * 4, me() == size() - 1
    os.environ["RINGUP_SECRET"] = secret
    group = dist.new_group()
    t = torch.ones(1)
    dist.all_reduce(t, group=group)
    told = {"sum": t.item()}
    if last:
        os.environ["RINGUP_SECRET"] = secret[::-1]
    told["another"] = outcome(dist.new_group)
    if last:
        del os.environ["RINGUP_SECRET"]
    told["none"] = outcome(dist.new_group)
    dist.barrier()
    told["leaked"] = secret.encode() in all_in_store()
    return told


@scene
def absent():
    """A rank does not create the group that the others create."""
    begin()
    if me() == size() - 1:
        told = {}
        for r in range(size() - 1):
            heard(f"told.{r}")
    else:
        told = outcome(dist.new_group, timeout=datetime.timedelta(seconds=DEADLINE))
        tell(f"told.{me()}")
    dist.barrier()
    return told


def tried(f, how_often, **kwargs):
    """What f() raised until it raised nothing."""
    told = []
    for _ in range(how_often):
        told.append(outcome(f, **kwargs))
        if not told[-1]["kind"]:
            break
    return told


def tried_in(store):
    """All ranks but the last begin three times, and the last comes after two of them; then the same
    with a group besides the world, and a world again."""
    last, told = RANK == RANKS - 1, {}

    def once(name, f, **kwargs):
        """The last rank comes when the others have failed twice."""
        if last:
            for r in range(RANKS - 1):
                heard(f"twice.{name}.{r}")
            told[name] = tried(f, 4, timeout=datetime.timedelta(seconds=60), **kwargs)
            return
        told[name] = tried(f, 2, timeout=datetime.timedelta(seconds=0.3), **kwargs)
        tell(f"twice.{name}.{RANK}")
        told[name] += tried(f, 4, timeout=datetime.timedelta(seconds=60), **kwargs)

    where = dict(store=store, rank=RANK, world_size=RANKS) if store is not None else {}
    for name in ("first", "second"):
        once(name, dist.init_process_group, backend="ringup", **where)
        t = torch.ones(1)
        dist.all_reduce(t)
        assert t.item() == RANKS, t
        once(f"group {name}", dist.new_group)
        group = dist.new_group()
        dist.all_reduce(t, group=group)
        assert t.item() == RANKS ** 2, t
        dist.barrier()
        dist.destroy_process_group()
    return told


@scene
def tried_again_in_a_file():
    return tried_in(dist.FileStore(os.path.join(RESULTS, "store"), RANKS))


@scene
def tried_again_in_the_store_of_an_agent():
    """A process that is no rank serves the store, as torchrun's agent does."""
    if RANK == 0:
        ready, told = os.pipe()
        if os.fork() == 0:
            server = dist.TCPStore("127.0.0.1", 0, RANKS, is_master=True, wait_for_workers=False)
            os.write(told, b"%d" % server.port)
            heard("end")
            os._exit(0)
        with open(os.path.join(RESULTS, "port.part"), "w", encoding="utf-8") as f:
            f.write(os.read(ready, 10).decode())
        os.replace(f.name, os.path.join(RESULTS, "port"))
    while not os.path.exists(os.path.join(RESULTS, "port")):
        time.sleep(0.01)
    with open(os.path.join(RESULTS, "port"), encoding="utf-8") as f:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=f.read(), RANK=str(RANK),
                          WORLD_SIZE=str(RANKS), TORCHELASTIC_USE_AGENT_STORE="True")
    told = tried_in(None)
    if RANK == 0:
        tell("end")
        os.wait()
    return told


@scene
def horovod_tried_again():
    """hvd.init() under torchrun on two hosts, in whose store one rank comes too late."""
    import horovod.torch as hvd
    from ringup import torchrun
    os.environ.update(TORCHELASTIC_RUN_ID="x", RANK=str(RANK), WORLD_SIZE=str(RANKS),
                      LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    store = dist.FileStore(os.path.join(RESULTS, "store"), RANKS)
    torchrun.store = lambda _rank, _size: store
    if RANK:
        heard("twice")
        told = tried(hvd.init, 2)
    else:
        torchrun.SECONDS = 0.3
        told = tried(hvd.init, 2)
        tell("twice")
        torchrun.SECONDS = 60
        told += tried(hvd.init, 2)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == RANKS
    hvd.barrier()
    hvd.shutdown()
    return told


@scene
def unlike():
    """Ranks pass tensors of different sizes, then of different types; then it goes on."""
    begin()
    sizes = outcome(dist.all_reduce, torch.ones(3 if me() else 2))
    types = outcome(dist.all_reduce, torch.ones(2, dtype=torch.int32 if me() else torch.float32))
    kinds = outcome(dist.all_reduce if me() else dist.barrier, *[torch.ones(2)][:me()])
    t = torch.ones(1)
    dist.all_reduce(t)
    assert t.item() == size()
    return {"sizes": sizes, "types": types, "kinds": kinds}


@scene
def backward():
    """A rank dies while the others are in DDP's backward(), which waits in C++."""
    begin()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(1, 4)).sum().backward()
    loss = model(torch.ones(1, 4)).sum()
    if me() == size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(loss.backward)


@scene
def aborted():
    """A rank aborts one group; the world and a group that is made later go on."""
    begin()
    group = dist.new_group()
    if me() == 0:
        for r in range(1, size()):
            heard(f"waits.{r}")
        group.abort("enough of this")
        told = outcome(dist.all_reduce, torch.ones(1), group=group)
    else:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        tell(f"waits.{me()}")
        told = outcome(work.wait)
        told["later"] = type(work.exception()).__name__
    dist.destroy_process_group(group)
    t = torch.ones(1)
    dist.all_reduce(t)
    dist.all_reduce(t, group=dist.new_group())
    assert t.item() == size() ** 2
    dist.destroy_process_group()
    return told


@scene
def messages_left():
    """A rank leaves the group with a send that nobody has received; the small ones have arrived."""
    begin()
    dist.barrier()
    if me() == 0:
        dist.send(torch.tensor([1.0]), 1)
        large = dist.isend(torch.ones(1 << 20), 1, tag=5)
        dist.send(torch.tensor([2.0]), 1)
        dist.destroy_process_group()
        told = outcome(large.wait)
        tell("left")
        return told
    heard("left")
    got, t = [], torch.zeros(1)
    for _ in range(2):
        dist.recv(t, 0)
        got.append(t.item())
    told = outcome(dist.recv, torch.zeros(1 << 20), 0, tag=5)
    dist.destroy_process_group()
    return {**told, "got": got}


@scene
def raised():
    """An uncaught exception of one rank reaches the others with its words."""
    begin()
    if me() == size() - 1:
        for r in range(size() - 1):
            heard(f"ready.{r}")
        raise KeyError("the model has no such layer")
    tell(f"ready.{me()}")
    return outcome(dist.barrier)


@scene
def without_a_rank():
    """A rank leaves out an operation and goes on; the flight recorders of all tell."""
    begin()
    if me() != 1:  # what was before the world is made anew does not count
        dist.all_reduce(torch.ones(1), group=dist.new_group([0, *range(2, size())]))
    else:
        dist.new_group([0, *range(2, size())])
    dist.barrier()
    dist.destroy_process_group()
    begin(datetime.timedelta(seconds=DEADLINE))
    for i in range(4):
        dist.all_reduce(torch.ones(3 + i))
    if me() == 1:
        told = outcome(heard, "told.0")
    else:
        told = outcome(dist.all_gather, [torch.empty(2)] * size(), torch.ones(2))
        tell(f"told.{me()}")
    from ringup_torch.recorder import recorder
    recorder.dump()
    return told


def dumped(ranks):
    """Wait until all of these ranks have left a dump."""
    path = os.environ["TORCH_FR_DUMP_TEMP_FILE"]
    while not all(os.path.exists(f"{path}{r}") for r in ranks):
        time.sleep(0.01)


def recorded(wrong, before=2):
    """Operations that go well, and one in which a rank does something wrong; each rank has to leave
    a dump by itself."""
    begin(datetime.timedelta(seconds=DEADLINE))
    for i in range(before):
        dist.all_reduce(torch.ones(4 + i))
    return wrong()


@scene
def recorded_size():
    return recorded(lambda: outcome(dist.all_reduce, torch.ones(9 if me() == 1 else 8)))


@scene
def recorded_type():
    return recorded(lambda: outcome(dist.all_reduce, torch.ones(
        8, dtype=torch.float64 if me() == 1 else torch.float32)))


@scene
def recorded_order():
    def wrong():
        if me() == 1:
            return outcome(dist.broadcast, torch.ones(8), 0)
        return outcome(dist.all_reduce, torch.ones(8))

    return recorded(wrong)


@scene
def recorded_stuck():
    """Rank 1 is in no operation when the others give up, and leaves a dump all the same."""
    def wrong():
        if me() == 1:
            dumped(range(size()))
            return {}
        told = outcome(dist.all_reduce, torch.ones(8))
        dumped(range(size()))
        return told

    return recorded(wrong)


@scene
def recorded_late():
    """Rank 1 calls it when the others have given up."""
    def wrong():
        if me() != 1:
            told = outcome(dist.all_reduce, torch.ones(8))
            tell(f"told.{me()}")
            heard("late")
            return told
        heard("told.0")
        begun = time.time_ns()
        told = outcome(dist.all_reduce, torch.ones(8))
        told["begun"] = begun
        tell("late")
        return told

    return recorded(wrong)


@scene
def recorded_refused():
    """Rank 1 passes what is refused, and goes no further."""
    def wrong():
        if me() == 1:
            told = outcome(dist.all_reduce, torch.ones(8), op=object())
            dumped([0, *range(2, size())])
            return told
        return outcome(dist.all_reduce, torch.ones(8))

    return recorded(wrong)


@scene
def recorded_killed():
    """The survivors are in no operation, either."""
    def wrong():
        if me() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dumped([0, *range(2, size())])
        return {}

    return recorded(wrong)


@scene
def recorded_stopped():
    def wrong():
        if me() == 1:
            tell("stops")
            os.kill(os.getpid(), signal.SIGSTOP)
            dumped(range(size()))
            return {}
        pid = heard("stops")
        told = outcome(dist.all_reduce, torch.ones(8))
        dumped([0, *range(2, size())])
        tell(f"told.{me()}")
        if me() == 0:
            for r in range(2, size()):
                heard(f"told.{r}")
            told["left"] = sorted(os.listdir(os.path.join(RESULTS, "dumps")))
            os.kill(pid, signal.SIGCONT)
        return told

    return recorded(wrong)


@scene
def not_looked_at():
    """What the flight record says of operations that Python has not looked at since."""
    from ringup_torch.recorder import recorder
    begin()
    other = 1 - me()
    works = [dist.all_reduce(torch.ones(5), async_op=True),
             dist.all_reduce(torch.ones(100000), async_op=True)]
    if me() == 0:
        dist.send(torch.ones(2), other)
        works.append(dist.irecv(torch.empty(3), other))
    else:
        dist.recv(torch.empty(2), other)
    dist.barrier()
    found = [recorder.state()]
    if me() == 0:
        tell("looked")
    else:
        heard("looked")
        dist.send(torch.ones(3), other)
    dist.barrier()
    for work in works:
        work.wait()
    dist.destroy_process_group()
    return [*found, recorder.state()]


@scene
def under_way():
    """The states in which the flight record shows a sum while it is carried out."""
    from ringup_torch.recorder import recorder
    begin()
    seen, go_on = [], torch.ones(1)
    for _ in range(50):
        work = dist.all_reduce(torch.ones(1 << 24), async_op=True)
        while not work.is_completed():
            entry = recorder.state()["entries"][-1]
            if entry["state"] == "started":
                seen.append(entry)
                break
        work.wait()
        go_on.fill_(not seen)
        dist.broadcast(go_on, 0)
        if not go_on.item():
            break
    return seen


def main():
    torch.set_num_threads(1)
    ringup_torch.register()
    told = SCENES[sys.argv[1]]()
    with open(os.path.join(RESULTS, f"rank.{RANK}"), "w",
              encoding="utf-8") as f:
        json.dump(told, f)


if __name__ == "__main__":
    main()
