# torchrun.py - the rendezvous of ranks that torchrun starts on several hosts, in torchrun's store.
# SPDX-License-Identifier: Apache-2.0

import datetime
import functools
import os

from .meeting import Meeting

_NEEDED = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SECONDS = 60  # within which all ranks have to come


def meeting():
    """Return (rank, size, allgather) if torchrun started this process on several hosts, otherwise
    (None, None, None).

    On one host, the library finds the other ranks itself, so torch is not imported."""
    env = os.environ
    if any(name not in env for name in _NEEDED):
        return None, None, None
    rank, size = int(env["RANK"]), int(env["WORLD_SIZE"])
    if int(env.get("LOCAL_WORLD_SIZE", size)) == size:
        return None, None, None
    there = Meeting(store(rank, size), rank, size, SECONDS)
    there.come()
    return rank, size, there.allgather


@functools.lru_cache(None)
def _base(rank, size):
    """Return torchrun's store.

    If no agent serves the store, rank 0 serves it as long as its process lives: the other ranks may
    already be in another init(), or may still use the store."""
    from torch.distributed import TCPStore

    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size,
                    is_master=rank == 0 and not agent, multi_tenant=True,
                    timeout=datetime.timedelta(seconds=SECONDS))


def store(rank, size):
    """Return the store with a key prefix for this attempt of torchrun."""
    from torch.distributed import PrefixStore

    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"ringup/{attempt}", _base(rank, size))
