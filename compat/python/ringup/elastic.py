# elastic.py - training that continues when ranks of the job are lost or join.
# SPDX-License-Identifier: Apache-2.0
"""The ranks of an elastic job rendezvous again when a rank is lost or when hosts come and go.  A
process that continues keeps its memory; its rank and the size of the job change.

    import ringup
    from ringup import elastic

    ringup.init()

    @elastic.run
    def train(state):
        while state.step < 1000:
            state.weights = improve(state.weights)
            state.step += 1
            state.commit()

    train(elastic.ObjectState(weights=start(), step=0))

Two functions depend on the program that starts the ranks.  This module has them for `ringup run`;
rerun() accepts others, for the elasticity of torchrun or Spark:

    hosts_changed()   returns whether the ranks should meet again
    meet_again()      leaves the job and joins its next generation
"""

import functools
import queue
import sys
import threading
import time

from . import collectives, constants, errors, gpu, job, objects, setting

REMOVED, ADDED = 1, 2  # bits of hosts_changed()

# Errors of operations when another rank is gone.  All other errors are the program's own.
LOST = (errors.PeerLost, errors.NotRunning, errors.Aborted)


class HostsChanged(RuntimeError):
    """Hosts were added or are about to be removed.  skip_sync means that no new rank needs the
    state."""

    def __init__(self, skip_sync=False):
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync


def hosts_changed():
    """Return the changes of hosts since this rank joined: 0, or REMOVED | ADDED. Never blocks."""
    current = job.get_or_none()
    if current is None or not current.running:
        return 0
    return job.lib.ringup_hosts_changed(current.handle)


def meet_again():
    """Leave the job and join its next generation."""
    job.shutdown()
    job.init()


def state_synced(synced):
    """Record whether this process has the state; it reports this to the launcher at the next
    rendezvous."""
    job.lib.ringup_state_synced(int(synced))


def is_elastic():
    """Return whether the launcher of this process runs elastic jobs."""
    return setting.is_on("RINGUP_ELASTIC", default=setting.is_on("HOROVOD_ELASTIC"))


class Notifications:
    """Notifies states of changed hosts.  It sends no messages: a state calls poll()."""

    def __init__(self, ask=hosts_changed):
        self._ask, self._listeners, self._lock = ask, set(), threading.Lock()
        self._told = None  # (the job, its answer) that the listeners know of

    def init(self, *_args, **_kwargs):
        """Do nothing.  In Horovod, this connects to a service of the launcher."""

    def register_listener(self, listener):
        """Call listener.on_hosts_updated(timestamp, bits) for each change from now on."""
        self._listeners.add(listener)

    def remove_listener(self, listener):
        """Stop notifying the listener."""
        self._listeners.remove(listener)

    def handle_hosts_updated(self, timestamp, bits):
        """Notify all listeners."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, bits)

    def poll(self):
        """Check for changes, and notify the listeners of new ones."""
        with self._lock:
            bits, current = self._ask(), job.get_or_none()
            news = bits > 0 and self._told != (current, bits)
            if news:
                self._told = current, bits
        if news:
            self.handle_hosts_updated(time.time(), bits)


notifications = Notifications()


class _Messages(queue.Queue):
    """The changes that a state was notified of, as pairs of a time and bits."""

    def empty(self):
        """Check for changes; return True if there are none."""
        notifications.poll()
        return super().empty()


class State:
    """Values that all ranks share.  Subclasses save, restore and synchronize them."""

    Interrupt = HostsChanged  # raised when hosts have changed

    def __init__(self, broadcast):
        """broadcast(object) must return rank 0's object on every rank."""
        self._bcast_object = broadcast
        self._host_messages = _Messages()
        self._last_updated_timestamp = 0
        self._reset_callbacks = []
        self._commits = 0  # of this process

    def register_reset_callbacks(self, callbacks):
        """Register functions without arguments to be called after each rendezvous, before the
        state is synchronized.  A new rank does not call them."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """Run after each rendezvous."""
        # Messages of the last generation are answered by this one.  Times start anew as well: rank
        # 0 may be a process on another host now, whose clock is behind.
        self._host_messages, self._last_updated_timestamp = _Messages(), 0
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, bits):
        """Record a change; check_host_updates() acts on it."""
        self._host_messages.put((timestamp, bits))

    def commit(self):
        """Save the state, then let the ranks meet again if hosts have changed.

        When a rank is lost, the others repeat the steps since their last commit.  Saving takes
        time, so a program may, for example, commit every ten steps and call check_host_updates() in
        the other steps."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self):
        """Raise an exception if hosts have changed.  Every rank must call it; rank 0 decides for
        all."""
        before = last = self._last_updated_timestamp
        bits = 0
        while not self._host_messages.empty():
            timestamp, more = self._host_messages.get()
            if timestamp > last:
                last, bits = timestamp, bits | more
        before, self._last_updated_timestamp, bits = self._bcast_object((before, last, bits))
        if self._last_updated_timestamp > before:
            self.await_values()  # the next generation continues with them
            raise self.Interrupt(bits == REMOVED)

    def await_values(self, *values):
        """Wait until the GPU has computed the values, and raise an exception if the job has failed
        meanwhile, since they may come from an operation that was aborted.

        save() calls this before it replaces the previous copy.  It has no effect unless the job
        keeps tensors on the GPU."""
        current = job.get_or_none()
        if current is not None and current.running and current.world.cuda:
            gpu.wait_for_gpu(*values)

    def save(self):
        """Save a copy for restore(), after await_values()."""
        raise NotImplementedError

    def restore(self):
        """Restore the state of the last save() or sync()."""
        raise NotImplementedError

    def sync(self):
        """Copy the state of rank 0 to all ranks, and save it."""
        raise NotImplementedError

    def reset(self):
        """Adapt to a new rank and size, before the state is synchronized."""


class Values:
    """The part of a State that saves attributes, which are the keywords of the constructor.

    Values are kept by reference.  Replace a value instead of changing it in place, because
    restore() cannot undo changes in place."""

    def save(self):
        values = self._attributes()
        self.await_values(values)
        self._saved_state = values

    def _attributes(self):
        return {name: getattr(self, name) for name in self._saved_state}

    def restore(self):
        self._set_attrs()

    def sync(self):
        # The attributes as they are now, not as they were saved: after Interrupt the program goes
        # on from here, and rank 0 may be ahead of its last save().
        self.save()
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, value)


class ObjectState(Values, State):
    """Values that all ranks share: ObjectState(weights=w, step=0) has .weights and .step."""

    def __init__(self, broadcast=objects.broadcast, **values):
        self._saved_state = values
        self._set_attrs()
        super().__init__(broadcast)


def any_rank(flag):
    """Return whether the flag is set on any rank.  All ranks must call it."""
    if not job.is_initialized() or job.size() == 1:
        return flag
    flags = bytearray([flag])
    collectives.allreduce(flags, constants.MAX, name="elastic.any")
    return bool(flags[0])


def _meet(meet):
    """Meet the other ranks, and again if a rank is lost meanwhile.  The loop ends, because the
    launcher ends a job whose ranks cannot meet.  If the job continues without this process, the
    process exits here."""
    while True:
        try:
            return meet()
        except Exception as e:
            why = _cause(e)
            if not is_elastic():
                raise
            if isinstance(why, errors.NotRunning):
                print(f"ringup: this process ends: {why}", file=sys.stderr, flush=True)
                raise SystemExit(0) from e
            if not isinstance(why, (errors.PeerLost, errors.Aborted)):
                raise


def _tell(why):
    """Print one line to the job's log, on rank 0 only."""
    if job.is_initialized() and job.rank() == 0 and job.size() > 1:
        print(f"ringup: {why}; the ranks meet again", file=sys.stderr, flush=True)


def _cause(e):
    """Return the library's error that caused an exception, or the exception itself."""
    return e.__cause__ if isinstance(e.__cause__, errors.RingupError) else e


def rerun(train, state, meet=meet_again, failed=LOST, changed=HostsChanged, agree=any_rank,
          listen=notifications):
    """Call train() again each time the ranks have met again, and return its result.

    meet()        leaves the job and joins its next generation
    failed        exceptions that mean that a rank is lost: the saved state is restored
    changed       exceptions that mean that hosts have changed: the state is kept
    agree(flag)   returns whether the flag is set on any rank

    The state is synchronized before train() is called, with one exception: if hosts were only
    removed, and no rank has been started or has restored its state meanwhile.  The ranks agree on
    this, since they may leave train() for different reasons."""
    listen.init()
    listen.register_listener(state)
    needs_sync, disagreed = True, -1  # commits when ranks disagreed last
    try:
        while True:
            try:
                state_synced(False)
                if agree(needs_sync):
                    state.sync()
                state_synced(True)
                return train()
            except failed as e:
                # The ranks that are left would wait for each other again.
                if isinstance(_cause(e), errors.Deadlock):
                    raise
                # If ranks disagree about an operation, none is lost, and all have this error.  A
                # second time without a commit in between, they would disagree for ever.
                if isinstance(_cause(e), errors.Mismatch):
                    if disagreed == vars(state).get("_commits"):
                        raise
                    disagreed = vars(state).get("_commits")
                _tell(e)
                state.restore()
                needs_sync = True
            except changed as e:
                _tell(e)
                needs_sync = not e.skip_sync
            _meet(meet)
            state.on_reset()
    finally:
        listen.remove_listener(state)


def run(train):
    """Decorate train(state, ...), the part of a program that all ranks run together, so that it is
    called again after each rendezvous."""
    @functools.wraps(train)
    def wrapper(state, *args, **kwargs):
        return rerun(lambda: train(state, *args, **kwargs), state)

    return wrapper
