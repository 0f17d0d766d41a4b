# elastic_job_of_a_rank.py - what test_elastic_jobs.py starts: a training whose ranks come and go.
# SPDX-License-Identifier: Apache-2.0
"""Usage: elastic_job_of_a_rank.py PLAN, which is JSON:

    events    a file to which each rank appends a line per generation and at its end
    end       [[step, rank, "kill" | "raise" | "exit"], ...]: what was that rank in the first
              generation ends so when the job comes to that step
    hosts     [step, file, text]: rank 0 writes the file, once, when it comes to that step
    until     the size that the job must have before it may end
    steps     how many steps that are committed it does then

Each step adds 1 of each rank to the weights, so they are the sum of the sizes of all steps
that were committed.
"""

import array
import json
import os
import signal
import sys

import ringup
from ringup import elastic

plan = json.loads(sys.argv[1])
first_rank = []  # of this process, and in which generation that was


def event(what, state):
    """Tell what happens, in one write."""
    line = {"what": what, "pid": os.getpid(), "rank": ringup.rank(), "size": ringup.size(),
            "step": state.step, "weights": list(state.weights), "sizes": state.sizes,
            "generation": state.generation, "reset": state.resets}
    log = os.open(plan["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(log, json.dumps(line).encode() + b"\n")
    os.close(log)


def end_somehow(state):
    """End this rank if it is its turn: after what it does now nothing is committed."""
    for step, rank, way in plan.get("end", ()):
        if step == state.step and first_rank == [rank, 1]:
            state.weights = array.array("q", [-1] * 3)
            event(way, state)
            if way == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if way == "raise":
                raise KeyError("no such column")
            sys.exit(3)


def change_hosts(state):
    """Let the discovery script find other hosts."""
    step, path, text = plan.get("hosts", (-1, "", ""))
    if step == state.step and ringup.rank() == 0 and state.generation == 1:
        with open(path + ".part", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".part", path)


@elastic.run
def train(state):
    state.generation += 1
    if not first_rank:
        first_rank[:] = ringup.rank(), state.generation
    event("begin", state)
    while True:
        if state.left == 0:
            return
        if ringup.size() == plan["until"]:
            state.left -= 1
        change_hosts(state)
        end_somehow(state)
        gradient = array.array("q", [1] * 3)
        ringup.allreduce(gradient, name="gradient")
        state.weights = array.array("q", [a + b for a, b in zip(state.weights, gradient)])
        state.sizes += ringup.size()
        state.step += 1
        state.commit()


ringup.init()
state = elastic.ObjectState(weights=array.array("q", [1000 * ringup.rank()] * 3), sizes=0, step=0,
                            generation=0, left=plan["steps"])
state.resets = 0  # of this process, and no part of what ranks have in common


def on_reset():
    state.resets += 1


state.register_reset_callbacks([on_reset])
train(state)
event("done", state)
