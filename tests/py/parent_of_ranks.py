# parent_of_ranks.py - a process that has imported torch, and forks ranks that need not do so.
# SPDX-License-Identifier: Apache-2.0
"""Usage: parent_of_ranks.py [MODULE]...

Imports torch, horovod.torch and the modules.  Then each line of the standard input is one request:
JSON that says what every process runs and where its output goes (see conftest.py).  The processes
run at once; when all have ended, a line with their exit statuses answers.

A forked child is a process as any other where it matters: it runs its script as __main__ at the
outermost level of the interpreter, so exceptions, atexit and exit statuses are the interpreter's
own.  A fork copies one thread, so the parent must not have another one, and says so if it has.
"""

import gc
import importlib
import json
import mmap
import os
import sys
import types

import torch

kept = []


def move_apart(n):
    """Take memory, so that what this rank allocates lies elsewhere than in the others: else
    nothing would tell an address of its own from one of theirs."""
    for power in range(6, 18):
        kept.extend(bytearray(1 << power) for _ in range(2 * n))
    for power in range(20, 26):
        kept.extend(mmap.mmap(-1, 1 << power) for _ in range(n))


def fork(process, apart):
    """Fork one process; returns its id, and 0 in the child, which is ready to run."""
    if len(os.listdir("/proc/self/task")) != 1:
        sys.exit("parent_of_ranks.py: this process has threads, which a child would not have")
    pid = os.fork()
    if pid == 0:
        out = os.open(process["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for new, old in ((null, 0), (out, 1), (out, 2)):
            os.dup2(new, old)
        os.close(null), os.close(out)
        os.environ.update(process["env"])
        move_apart(apart)
    return pid


def serve():
    """Answer requests until there are no more; returns in a child, with its arguments."""
    # What anything prints while modules are imported must not be taken for an answer.
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for module in ("horovod.torch", *sys.argv[1:]):
        importlib.import_module(module)
    if "torch.optim" in sys.argv:
        torch.optim.SGD([torch.zeros(1)], lr=1.0)  # the first one imports as much again
    gc.collect()
    gc.freeze()  # else each child's collector writes to all of it, and so copies it
    for line in iter(requests.readline, ""):
        pids = []
        for process in json.loads(line):
            pids.append(fork(process, 1 + len(pids)))
            if pids[-1] == 0:
                requests.close(), answers.close()
                return process["argv"]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps(codes), file=answers, flush=True)
    return None


def run(argv):
    """Be a process that was started with these arguments."""
    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = argv[0]
    with open(argv[0], encoding="utf-8") as f:
        exec(compile(f.read(), argv[0], "exec"), main.__dict__)


arguments = serve()
if arguments:
    run(arguments)
