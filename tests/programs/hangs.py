# hangs.py - a rank of torch.distributed or Horovod that hangs in one of several ways, or is healthy.
# SPDX-License-Identifier: Apache-2.0
"""hangs.py BACKEND KIND RANK ANNOUNCE, as tests/programs/hangs.c; BACKEND is gloo, ringup or horovod.

hangs.py BACKEND serve FOLDER imports torch once, for many trials: for each file FOLDER/0, FOLDER/1 ..., which has
KIND RANK ANNOUNCE PORT, it forks a rank that meets the others at this port. FOLDER/N.RANK is made when that has ended.
"""

import ctypes
import os
import signal
import sys
import tempfile
import time

BACKEND = sys.argv[1]
EARLY = 20
rank = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"])


def announce(file):
    with open(file, "w"):
        pass


def load_batch():
    time.sleep(1000)


def compute_for_ever():
    x = 0
    while True:
        x += 1


def bring():
    """Import what the back end needs."""
    import torch.utils.data
    if BACKEND == "horovod":
        import horovod.torch  # noqa: F401 - its import takes long
    elif BACKEND == "ringup":
        import ringup_torch  # noqa: F401 - likewise
    return torch


class Engine:
    """The collectives of a back end."""

    def __init__(self):
        torch = bring()
        self.tensor = torch.ones(1000)
        if BACKEND == "horovod":
            import horovod.torch as hvd
            hvd.init()
            self.total, self.meet = (lambda name: hvd.allreduce_(self.tensor, name=name)), hvd.barrier
            return
        import torch.distributed as dist
        if BACKEND == "ringup":
            import ringup_torch
            ringup_torch.register()
        dist.init_process_group(BACKEND)
        self.total, self.meet = (lambda _name: dist.all_reduce(self.tensor)), dist.barrier
        self.receive = lambda: dist.recv(torch.empty(1), (rank + 1) % 3)


def stuck_loader():
    """A data loader whose worker never has its first sample."""
    import torch.utils.data

    class Stuck(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, _i):
            time.sleep(1000)

    for _ in torch.utils.data.DataLoader(Stuck(), num_workers=1):
        pass


def go_wrong(engine, kind, culprit, file):
    if rank == culprit:
        announce(file)
    if kind == "circle":
        engine.receive()
    if rank != culprit:
        return
    if kind == "sleep":
        load_batch()
    if kind == "spin":
        compute_for_ever()
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "branch":
        engine.meet()
        load_batch()
    if kind == "skip":
        engine.total("grad.second")
    if kind == "loader":
        stuck_loader()


def save_model():
    """Write a file for about three seconds."""
    with tempfile.TemporaryFile() as f:
        for _ in range(1000):
            f.write(bytes(65536))
            f.flush()
            time.sleep(0.003)


def train(kind, culprit, file):
    if kind == "absent" and rank == culprit:
        announce(file)
        load_batch()
    engine, i = Engine(), 0
    while not (kind == "short" and i == 400):
        if kind == "uneven":
            time.sleep(0.08 if rank == culprit else 0.02)
        if kind == "checkpoint" and rank == culprit and i % 50 == 49:
            save_model()
        engine.total("grad.first")
        if i == EARLY:
            go_wrong(engine, kind, culprit, file)
        engine.total("grad.second")
        i += 1


def call_itself(name):
    """Set the process's name in /proc: the rank is the child, and this one its wrapper."""
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def serve(folder):
    bring()
    call_itself("timeout")
    number = 0
    while True:
        file = f"{folder}/{number}"
        while not os.path.exists(file):
            time.sleep(0.05)
        with open(file) as f:
            kind, culprit, hung, port = f.read().split()
        child = os.fork()
        if not child:
            call_itself("python3")
            os.environ["MASTER_PORT"] = port
            train(kind, int(culprit), hung)
            os._exit(0)
        os.waitpid(child, 0)
        announce(f"{file}.{rank}")
        number += 1


if sys.argv[2] == "serve":
    serve(sys.argv[3])
else:
    train(sys.argv[2], int(sys.argv[3]), sys.argv[4])
