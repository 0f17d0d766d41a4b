# failure.py - collect the results of all ranks, or find the failure that caused the others.
# SPDX-License-Identifier: Apache-2.0

import re
import time

import ray
from ray import exceptions

from ringup.spark.failure import JobFailed, is_consequence

GRACE_S = 2   # after the first failure: it may be the consequence of another one
ABORT_S = 5   # for the others to notice that the job has failed
USERS, DIED, CONSEQUENCE = range(3)
# What Ray says of each process that has died.
_NOISE = re.compile(r" class_name: .*? ip: \S+| Some common causes include:.*"
                    r"| The actor is dead because its worker process has died\.")


class _Failure:
    """The failure of one rank."""

    def __init__(self, member, error):
        self.member, self.error, self.cause = member, error, getattr(error, "cause", None)
        self.told = getattr(self.cause, "ringup_failure", None) or {}
        lacks = re.search("No module named '([^']*)'", str(self.cause))
        if lacks and isinstance(self.cause, exceptions.RaySystemError):  # the call cannot be read
            self.cause = ModuleNotFoundError(
                f"{lacks[0]}, which the function refers to: ray.init(runtime_env={{'working_dir': "
                "'.'}) sends the driver's folder to all nodes", name=lacks[1])
        self.missing = getattr(self.cause, "missing", ())
        if not isinstance(error, exceptions.RayTaskError):
            self.kind = DIED
        elif self.missing or is_consequence(
                self.told.get("types") or [t.__name__ for t in type(self.cause).__mro__],
                str(self.cause)):
            self.kind = CONSEQUENCE
        else:
            self.kind = USERS

    def describe(self):
        """Describe the failure in a sentence."""
        if self.kind == DIED:
            text = " ".join(str(self.error).split())
            return f"{self.member} died: {_NOISE.sub('', text)[:1000]}"
        name = self.told.get("type") or type(self.cause).__qualname__
        return f"{self.member} raised {name}: {self.told.get('message', self.cause)}"


class Member:
    """A rank, its actor and the place of the actor."""

    def __init__(self, rank, actor, node, pid):
        self.rank, self.actor, self.node, self.pid = rank, actor, node, pid

    def __str__(self):
        return f"rank {self.rank} on node {self.node}"


def collect(members, refs, meeting, idle=None):
    """Return the results of refs, which are calls of each member's actor; JobFailed if one has
    failed.

    Operations that wait for a failed rank also fail after a while.  idle() is called a few times a
    second."""
    pending, values, failures = dict(zip(refs, members)), {}, []
    until, has_ended = None, False
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=0.2 if failures or idle else None)
        for ref in ready:
            member = pending.pop(ref)
            try:
                values[member.rank] = ray.get(ref)
            except exceptions.RayError as e:
                failures.append(_Failure(member, e))
                until = until or time.monotonic() + GRACE_S
        if idle:
            idle()
        if failures and time.monotonic() > until:
            if has_ended:
                break
            has_ended, until = True, time.monotonic() + ABORT_S
            if not _end(failures, meeting):
                break
    if failures:
        raise _job_failed(failures, members, list(pending.values()))
    return [values[m.rank] for m in members]


def watch(members, refs, meeting):
    """Do the same for refs that another caller waits for; return when all have ended."""
    try:
        collect(members, refs, meeting)
    except Exception:  # he who waits for them has it
        pass


def _end(failures, meeting):
    """End the operations that the other ranks wait for; return False if they have no reason to
    wait."""
    first = min(failures, key=lambda f: f.kind)
    if first.kind == CONSEQUENCE:
        return False
    why = first.describe()
    meeting.end.remote(why)
    if first.kind == USERS:
        first.member.actor.abort.remote(why)
    return True


def _job_failed(failures, members, silent):
    """Return a JobFailed that also has the type of the user's exception."""
    first = min(failures, key=lambda f: f.kind)
    member, text = first.member, first.describe()
    if first.kind == CONSEQUENCE:
        absent = [members[r] for r in first.missing] or silent
        if absent:
            member = absent[0]
            text = f"{', '.join(map(str, absent))} " + (
                f"did not call init(), which the others wait for: {first.cause}" if first.missing
                else f"has not ended: {text}")
    trace = first.told.get("traceback")
    if trace and first.kind == USERS:
        text += "\n\n" + trace.rstrip()
    cause = first.error if first.kind == DIED else first.cause
    e = make(type(cause), text, rank=member.rank, host=member.node, pid=member.pid,
             type_name=first.told.get("type"), traceback=trace,
             others=[f.describe() for f in failures if f is not first])
    e.__cause__ = cause
    return e


def make(kind, text, **known):
    """Return a JobFailed that is also an instance of kind, if such a class can be created."""
    try:
        both = type(f"JobFailed({kind.__name__})", (JobFailed, kind), {
            "__init__": lambda self, text: JobFailed.__init__(self, text, **known),
            "__str__": lambda self: self.args[0], "__module__": __name__,
            "__reduce__": lambda self: (_again, (kind, text, known))})
        e = both(text)
        return e if e.args == (text,) and str(e) == text else JobFailed(text, **known)
    except Exception:  # a class that takes no heirs, or minds its arguments
        return JobFailed(text, **known)


def _again(kind, text, known):
    return make(kind, text, **known)
