# meeting.py - the rendezvous of ranks in a torch Store, repeated if some did not arrive.
# SPDX-License-Identifier: Apache-2.0
"""A meeting begins when all ranks wait in the Store at the same time.  A rank whose time is up
leaves, and can come again.  The ranks may have tried different numbers of times before.

The key "state" contains the name of the next meeting and the ranks that wait for it.  Every change
of this key is atomic, so the last rank to come begins the meeting, and a rank whose time is up
learns whether it has left or takes part.  The next rank to come after that opens another meeting,
so one Store serves several jobs, one after the other.

The values that the ranks exchange are deleted as soon as all have read them, because they include
the key of the job's connections."""

import contextlib
import datetime
import itertools
import os
import random
import time

from . import errors

_STATE = "state"
_PATIENCE = 10  # seconds at least for those who have come to tell something
# Seconds of the first wait.  torch's TCPStore sometimes does not wake all that wait, and it prints
# two warnings whenever a wait ends without the key, so each wait is twice as long as the last.
_SLICE = 2.0
_ERRORS = (RuntimeError, LookupError)  # of a Store: the second of the one for etcd, in time-outs


class _State:
    """The next meeting: its name, and two sets of ranks as bits of a number: those that wait, and
    those that have waited and left."""

    def __init__(self, name, here=0, left=0):
        self.name, self.here, self.left = name, here, left

    def __str__(self):
        return f"{self.name} {self.here:x} {self.left:x}"


def _parse(text, size):
    """Return the state in the Store; None if the next meeting has no name yet."""
    if not text:
        return None
    try:
        name, here, left = text.split(" ")
        state = _State(name, int(here, 16), int(left, 16))
    except ValueError:
        state = None
    if state is None or not (0 <= state.here < 1 << size and 0 <= state.left < 1 << size):
        raise errors.InvalidArgument(
            f"the store has {text[:80]!r} where ranks meet, which {size} ranks of this ringup did "
            "not write: start all ranks with the same number of ranks and the same ringup, and "
            "give each job its own store or prefix")
    return state


def _compare_set(store, key, expected, wanted):
    """Set a key if it has the expected value; return its value afterwards."""
    try:
        return store.compare_set(key, expected, wanted).decode(errors="replace")
    except (AttributeError, NotImplementedError, RuntimeError):
        # It fails, too, if the store has gone.
        return _compare_set_locked(store, key, expected, wanted)


def _compare_set_locked(store, key, expected, wanted):
    """Do the same in a store that has no compare_set(), such as one written in Python."""
    while store.add(f"{key}/lock", 1) != 1:
        store.add(f"{key}/lock", -1)
        time.sleep(random.uniform(0.005, 0.02))
    try:
        found = store.get(key).decode(errors="replace") if store.check([key]) else ""
        if found == expected:
            store.set(key, wanted)
        return wanted if found == expected else found
    finally:
        store.add(f"{key}/lock", -1)


def _change(store, size, seen, change):
    """Replace the state by change(state), unless that is None, and return both.  seen is the latest
    known text of the state."""
    while True:
        state = _parse(seen, size)
        wanted = change(state)
        if wanted is None:
            return state, None
        found = _compare_set(store, _STATE, seen, str(wanted))
        if found == str(wanted):
            return state, wanted
        seen = "" if found == seen else found  # the same: there is no such key


def delete(store, *keys):
    """Delete keys from a Store, or clear their values if the Store cannot delete keys."""
    for key in keys:
        try:
            store.delete_key(key)
        except (AttributeError, NotImplementedError, RuntimeError):
            with contextlib.suppress(*_ERRORS):
                store.set(key, "")


def _listed(ranks):
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}"


class Meeting:
    """The part of one rank in one meeting.

    what     a description of what the ranks form at the meeting
    is_once  the ranks never come back to this place in the Store.  When one leaves, all leave,
             since it tries again elsewhere, as torch does with each new_group().
    """

    def __init__(self, store, rank, size, seconds, what="the job", is_once=False):
        self._store, self._rank, self._size, self._seconds = store, rank, size, seconds
        self._what, self._is_once, self._state = what, is_once, None
        self._patience = max(seconds, _PATIENCE)
        self._rounds = itertools.count()

    @property
    def name(self):
        """The name of the meeting, which is unique in the Store."""
        return self._state.name

    def _others(self, bits):
        """Return the other ranks in a set of ranks."""
        return [r for r in range(self._size) if bits >> r & 1 and r != self._rank]

    def _is_full(self, state):
        return state.here == (1 << self._size) - 1

    def come(self):
        """Return when all ranks have arrived; TimedOut names the missing ones."""
        mine, begin = 1 << self._rank, time.monotonic()

        def join(state):
            if state is None or self._is_full(state):
                return _State(os.urandom(8).hex(), mine)
            if self._is_once and state.left:
                return _State(os.urandom(8).hex(), mine) if state.left & mine else None
            return _State(state.name, state.here | mine, state.left & ~mine)

        before, self._state = _change(self._store, self._size, "", join)
        if self._state is None:
            raise self._others_left(before, 0)
        begun = f"{self.name}/all"
        if self._is_full(self._state):
            self._store.set(begun, "")
            return
        try:
            self._wait([begun], self._seconds - (time.monotonic() - begin))
        except BaseException as e:
            self._leave(e)
            return
        if self._is_once and self._store.get(begun):
            raise self._others_left(
                _parse(self._store.get(_STATE).decode(errors="replace"), self._size),
                time.monotonic() - begin)

    def _wait(self, keys, seconds):
        """Wait for keys; raise the Store's exception if the time is up or the Store is gone."""
        end, piece = time.monotonic() + seconds, _SLICE
        while True:
            left = end - time.monotonic()
            try:
                self._store.wait(keys, datetime.timedelta(seconds=max(min(left, piece), 0.001)))
                return
            except _ERRORS:
                if self._store.check(keys):
                    return
                if left <= piece:
                    raise
            piece *= 2

    def _leave(self, error):
        """Leave because of an error, and raise that error or the one that it implies.  Return if
        the meeting has begun meanwhile, because the others then count on this rank."""
        mine = 1 << self._rank

        def leave(state):
            if state is None or state.name != self.name or self._is_full(state):
                return None
            return _State(state.name, state.here & ~mine, state.left | mine)

        try:
            before, after = _change(self._store, self._size, str(self._state), leave)
            if after is not None and self._is_once:
                self._store.set(f"{self.name}/all", "left")
        except _ERRORS:
            raise self._gone(error) from error
        if not isinstance(error, _ERRORS):
            raise error
        if after is not None:
            raise self._absent(before) from error

    def _gone(self, error):
        """Return the exception for a Store that no longer answers; keep the program's own
        exceptions."""
        if not isinstance(error, _ERRORS):
            return error
        return errors.PeerLost(
            f"the store in which the ranks of {self._what} meet no longer answers: the process "
            "that serves it, usually rank 0, has ended or timed out "
            f"({str(error).splitlines()[0] if str(error) else type(error).__name__}); create the "
            "group again")

    def _absent(self, state):
        """Return the error that names the missing ranks."""
        missing = self._others(~state.here)
        gone = [r for r in missing if state.left >> r & 1]
        absent = [r for r in missing if r not in gone]
        said = []
        if absent:
            said.append(f"{_listed(absent)} of {self._what} did not join within {self._seconds:g} "
                        "s: check that they still run and create the same groups in the same order")
        if gone:
            said.append(f"{_listed(gone)} of {self._what} joined, but gave up before the others "
                        "joined: check that all ranks have the same time-out")
        return errors.TimedOut("; ".join(said))

    def _others_left(self, state, seconds):
        """Return the error that reports that the other ranks gave up."""
        gone, absent = self._others(state.left), self._others(~(state.here | state.left))
        came = f" {seconds:.1f} s after this rank joined" if seconds else ""
        not_here = f"{_listed(absent)} of {self._what} did not join, and " if absent else ""
        return errors.TimedOut(f"{not_here}{_listed(gone)} of {self._what} gave up waiting{came}: "
                               f"create {self._what} again on all its ranks")

    def allgather(self, mine):
        """Return the bytes of all ranks.  Call it after the meeting has begun.

        Rank 0 may exit as soon as this returns, and the store with it, so rank 0 waits until the
        others have read."""
        n, store = f"{self.name}/{next(self._rounds)}", self._store
        keys = [f"{n}/{r}" for r in range(self._size)]
        store.set(keys[self._rank], mine)
        try:
            self._await(keys)
            everybody = [store.get(key) for key in keys]
            if store.add(f"{n}/read", 1) == self._size:
                delete(store, *keys)
                store.set(f"{n}/over", "")
            if self._rank == 0:
                self._clear(n, keys)
        except BaseException:
            delete(store, keys[self._rank])
            raise
        return everybody

    def _clear(self, n, keys):
        """Wait until all ranks have read a round of allgather(), and delete the keys of the
        meeting."""
        store = self._store
        try:
            self._wait([f"{n}/over"], self._patience)
        except _ERRORS:  # a rank has died; the library will say which one
            delete(store, *keys)
        delete(store, f"{n}/over", f"{n}/read", f"{self.name}/all")
        if self._is_once:
            delete(store, _STATE)

    def _await(self, keys):
        """Wait for the values of all ranks."""
        try:
            self._wait(keys, self._patience)
        except _ERRORS as e:
            try:
                missing = [r for r, key in enumerate(keys) if not self._store.check([key])]
            except _ERRORS:
                raise self._gone(e) from e
            if not missing:
                raise
            raise errors.TimedOut(
                f"{_listed(missing)} of {self._what} joined, but then sent nothing for "
                f"{self._patience:g} s: check that they still run") from e
