# torchrun.py - ranks that torchrun starts on several hosts meet in its store.
# SPDX-License-Identifier: Apache-2.0

import datetime
import itertools
import os

_NEEDED = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_meetings = itertools.count()


def meeting():
    """(rank, size, allgather) if torchrun started us on several hosts, else three times None.

    On one host the library finds the other ranks by itself, so torch is not imported.
    """
    env = os.environ
    if any(name not in env for name in _NEEDED):
        return None, None, None
    rank, size = int(env["RANK"]), int(env["WORLD_SIZE"])
    if int(env.get("LOCAL_WORLD_SIZE", size)) == size:
        return None, None, None
    return rank, size, allgather_of(store(rank, size), rank, size)


def store(rank, size):
    """torchrun's store, with keys of our own for this attempt and this init()."""
    from torch.distributed import PrefixStore, TCPStore

    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    base = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size,
                    is_master=rank == 0 and not agent, multi_tenant=True,
                    timeout=datetime.timedelta(seconds=60))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"ringup/{attempt}/{next(_meetings)}", base)


def allgather_of(where, rank, size):
    """allgather(bytes) -> list of bytes, on any torch Store."""
    rounds = itertools.count()

    def allgather(mine):
        n = next(rounds)
        where.set(f"{n}/{rank}", mine)
        return [where.get(f"{n}/{i}") for i in range(size)]

    return allgather
