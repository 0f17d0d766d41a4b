# test_meeting.py - ranks meet in a torch Store, at once, late, and after they have given up.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu waits
# tests: compat/python/ringup/meeting.py compat/python/ringup_torch tests/py
"""Ranks are threads here: a meeting needs nothing but the Store."""

import concurrent.futures
import datetime
import os
import random
import threading
import time

import pytest
import torch.distributed as dist

from ringup import errors
from ringup.meeting import Meeting

LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
HANG = 60  # seconds that no meeting takes, however slow the machine is


class PlainStore(dist.Store):
    """A store of Python's that has what every store has, as that of etcd."""

    def __init__(self):
        super().__init__()
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value if isinstance(value, bytes) else value.encode()
            self.changed.notify_all()

    def get(self, key):
        self.wait([key])
        return self.values[key]

    def add(self, key, n):
        with self.changed:
            self.values[key] = str(int(self.values.get(key, b"0")) + n).encode()
            return int(self.values[key])

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout=datetime.timedelta(seconds=HANG)):
        with self.changed:
            if not self.changed.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                raise LookupError("time-out")  # no RuntimeError, as etcd's


class Stores:
    """A Store of some kind, and each rank's way to it."""

    def __init__(self, kind, n, folder):
        self.kind, self.n, self.path = kind, n, str(folder / "store")
        if kind == "tcp":
            self.server = dist.TCPStore("127.0.0.1", 0, n, is_master=True, wait_for_workers=False)
        elif kind != "file":
            self.server = dist.HashStore() if kind == "hash" else PlainStore()

    def of(self, rank):
        """The Store as a rank has it."""
        if self.kind == "tcp" and rank:
            return dist.TCPStore("127.0.0.1", self.server.port, self.n, wait_for_workers=False)
        return dist.FileStore(self.path, self.n) if self.kind == "file" else self.server


KINDS = ["tcp", "file", "hash", "plain"]


@pytest.fixture(params=KINDS)
def stores(request, tmp_path):
    """Makes a Stores for n ranks."""
    return lambda n: Stores(request.param, n, tmp_path)


def together(n, rank):
    """What rank(r) returns in n threads."""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return [f.result(HANG) for f in [pool.submit(rank, r) for r in range(n)]]


def meet(store, r, n, seconds=HANG, **how):
    """Come to one meeting and tell the others a number there; returns its name, and theirs."""
    meeting = Meeting(store, r, n, seconds, **how)
    meeting.come()
    return meeting.name, [int(b) for b in meeting.allgather(b"%d" % r)]


def until_met(store, r, n, tries, pause=lambda: 0):
    """meet() again and again, for as long as tries say; returns what the last one returns, and the
    errors before it."""
    failed = []
    for seconds in tries:
        try:
            return (*meet(store, r, n, seconds), failed)
        except errors.TimedOut as e:
            failed.append(str(e))
            time.sleep(pause())
    raise AssertionError(failed)


def all_met(results, n):
    assert len({r[0] for r in results}) == 1, results
    assert all(r[1] == list(range(n)) for r in results), results


def test_ranks_meet_again_and_again_and_leave_one_key(stores):
    there = stores(3)
    ways = [there.of(r) for r in range(3)]
    names = set()
    for _ in range(4):
        results = together(3, lambda r: meet(ways[r], r, 3))
        all_met(results, 3)
        names.add(results[0][0])
    assert len(names) == 4
    if there.kind in ("tcp", "hash"):
        own = 2 if there.kind == "tcp" else 1  # torch counts the clients of a TCPStore
        assert ways[0].num_keys() <= own, ways[0].num_keys()
    if there.kind == "plain":
        left = [k for k, v in there.server.values.items() if v not in (b"", b"0")]
        assert left == ["state"], left


def test_one_gives_up_and_comes_again_while_another_comes_late(stores):
    """Rank 1's first try meets the third of rank 0."""
    there = stores(2)
    late, store = threading.Event(), there.of(0)

    def first():
        tries = []
        for seconds in (0.2, 0.2, HANG):
            if seconds == HANG:
                late.set()
            try:
                return (*meet(store, 0, 2, seconds), tries)
            except errors.TimedOut as e:
                tries.append(str(e))
        return None

    def rank(r):
        if r == 0:
            return first()
        assert late.wait(HANG)
        return (*meet(there.of(1), 1, 2), [])

    results = together(2, rank)
    all_met(results, 2)
    assert len(results[0][2]) == 2
    assert all(e.startswith("rank 1 of the job did not join within 0.2 s") for e in results[0][2])
    assert results[1][2] == []


def test_a_rank_that_left_is_named_as_that(stores):
    there = stores(3)
    ways = [there.of(r) for r in range(2)]
    with pytest.raises(errors.TimedOut, match=r"^ranks 1, 2 of the job did not join"):
        meet(ways[0], 0, 3, 0.1)
    with pytest.raises(errors.TimedOut, match=r"^rank 2 .*did not join.*; rank 0 .*gave up"):
        meet(ways[1], 1, 3, 0.1)


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_whoever_tries_for_how_long_all_meet(seed, stores):
    """Short tries at random; a rank whose time is up as the last one comes is in or out for all."""
    n = 4
    there = stores(n)
    random.seed(seed)
    plans = [[random.uniform(0.005, 0.05) for _ in range(random.randrange(12))]
             for _ in range(n)]

    def rank(r):
        store, dice = there.of(r), random.Random(seed * n + r)
        time.sleep(dice.uniform(0, 0.2))
        return until_met(store, r, n, [*plans[r], HANG], lambda: dice.uniform(0, 0.02))

    all_met(together(n, rank), n)


def test_at_a_place_for_one_try_all_leave_when_one_does(stores):
    """As torch wants it for new_group(), whose next try has another name."""
    there, come = stores(3), threading.Event()
    ways = [there.of(r) for r in range(3)]
    place = [dist.PrefixStore("1", way) for way in ways]

    def rank(r):
        try:
            meet(place[r], r, 3, 0.3 if r == 0 else HANG, is_once=True)
        except errors.TimedOut as e:
            return str(e)
        finally:
            come.set()
        return None

    said = together(2, rank)
    assert "rank 2 of the job did not join" in said[0], said
    assert "rank 2 of the job did not join, and rank 0 of the job gave up waiting" in said[1], said
    late = rank(2)  # waits for nobody
    assert late.startswith("rank 0 of the job gave up waiting: create"), late
    place = [dist.PrefixStore("2", way) for way in ways]
    all_met(together(3, lambda r: meet(place[r], r, 3, is_once=True)), 3)


def test_what_the_ranks_told_is_gone():
    store = dist.HashStore()
    seen = {}

    def rank(r):
        meeting = Meeting(store, r, 2, HANG)
        meeting.come()
        seen[r] = meeting.allgather(b"secret") == meeting.allgather(b"secret") == [b"secret"] * 2

    together(2, rank)
    assert seen == {0: True, 1: True} and store.num_keys() == 1


def test_a_rank_that_comes_and_dies_is_named(monkeypatch):
    monkeypatch.setattr("ringup.meeting._PATIENCE", 0)
    store = dist.HashStore()

    def rank(r):
        meeting = Meeting(store, r, 2, HANG if r else 0.3)
        meeting.come()
        if r == 0:
            with pytest.raises(errors.TimedOut, match="rank 1 of the job joined, but then sent"):
                meeting.allgather(b"x")

    together(2, rank)
    assert store.num_keys() <= 2  # nothing of what rank 0 told


@pytest.mark.parametrize("text", ["x", "a b c", "name -1 0", "name 8 0", "name 0 ffff", "\xff"])
def test_a_store_with_something_else_in_it_is_refused(text):
    store = dist.HashStore()
    store.set("state", text)
    with pytest.raises(errors.InvalidArgument, match="which 3 ranks of this ringup did not write"):
        meet(store, 0, 3, 0.1)


def test_a_store_that_goes_away_is_named(tmp_path):
    there = Stores("tcp", 2, tmp_path)
    way = there.of(1)
    threading.Timer(0.3, lambda: setattr(there, "server", None)).start()
    with pytest.raises(errors.PeerLost, match="the store .* no longer answers"):
        meet(way, 1, 2)
