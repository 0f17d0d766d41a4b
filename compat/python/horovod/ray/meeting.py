# meeting.py - the rendezvous of a Ray job's ranks: an actor that relays short byte strings.
# SPDX-License-Identifier: Apache-2.0

import asyncio
import itertools
import os

import ray

ANSWER_S = 10  # beyond the time for the ranks to come


class _Round:
    def __init__(self):
        self.data, self.full, self.readers, self.why = {}, asyncio.Event(), 0, None


class Meeting:
    """An actor whose methods run concurrently, each until the ranks that it waits for have joined.
    """

    def __init__(self, size):
        self.size, self.rounds, self.told = size, {}, []

    async def exchange(self, key, rank, data, seconds):
        """Return ("all", the bytes of all ranks), ("missing", ranks that have not come within this
        time) or ("failed", reason)."""
        now = self.rounds.setdefault(key, _Round())
        now.data[rank] = data
        if len(now.data) == self.size:
            now.full.set()
        try:
            await asyncio.wait_for(now.full.wait(), seconds)
        except asyncio.TimeoutError:
            missing = [r for r in range(self.size) if r not in now.data]
            now.data.pop(rank, None)  # a rank that comes later does not meet this one
            return "missing", missing
        if now.why:
            return "failed", now.why
        now.readers += 1
        if now.readers == self.size:
            self.rounds.pop(key, None)
        return "all", [now.data[r] for r in range(self.size)]

    async def end(self, why):
        """End the waiting calls."""
        for now in self.rounds.values():
            if not now.full.is_set():
                now.why = why
                now.full.set()
        self.rounds.clear()

    async def tell(self, info):
        """Store messages of ray_logger."""
        self.told.append(info)

    async def take(self):
        """Return all messages since the last call."""
        told, self.told = self.told, []
        return told


class Place:
    """The place of a rank in the meeting.  meet() does in the rank's process what
    ringup.job.meeting() does."""

    def __init__(self, actor, rank, nodes, seconds):
        self.actor, self.rank, self.nodes, self.seconds = actor, rank, nodes, seconds
        self.count = 0  # meetings that have taken place

    def meet(self):
        """Wait for the other ranks; return (rank, size, allgather)."""
        if len(self.nodes) == 1:
            return 0, 1, None
        self._exchange(("here", self.count), b"")
        self.count += 1
        number, rounds = self.count, itertools.count()
        return (self.rank, len(self.nodes),
                lambda mine: self._exchange((number, next(rounds)), mine))

    def _exchange(self, key, mine):
        from ringup import errors

        seconds = float(os.environ.get("HOROVOD_START_TIMEOUT") or self.seconds)
        answer, what = ray.get(self.actor.exchange.remote(key, self.rank, mine, seconds),
                               timeout=seconds + ANSWER_S)
        if answer == "all":
            return what
        if answer == "failed":
            raise errors.Aborted(what)
        missing = ", ".join(f"rank {r}" for r in what)
        e = errors.TimedOut(f"{missing} of {len(self.nodes)} did not join within {seconds:g} s; "
                            "to allow more, use create_settings(timeout_s=SECONDS)")
        e.missing = what
        raise e
