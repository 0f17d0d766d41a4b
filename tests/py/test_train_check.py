# test_train_check.py - init-scripts/lib/train_check.py notices what it is for.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python init-scripts/lib/train_check.py tests/py

import importlib.util
import json
import os
import sys
import threading

import pytest

from conftest import HANG, ROOT, launcher, start

MODULES = ["torch.optim"]
PATH = os.path.join(ROOT, "init-scripts", "lib", "train_check.py")


def test_four_real_ranks_agree():
    p = start([*launcher("ringup", 4), PATH, "--plain"])
    assert p.returncode == 0, p.stderr
    said = json.loads(p.stdout.split(" ", 1)[1])
    assert said["agreed"] and said["ranks"] == 4 and said["framework"] == "plain Python"


def test_four_real_ranks_agree_with_torch(parent, tmp_path):
    p = parent.ranks(4, tmp_path, PATH, "--torch")
    assert p.codes == [0] * 4, p.text
    said = json.loads(p.texts[0])
    assert said["agreed"] and said["ranks"] == 4 and said["framework"].startswith("torch")


class Ranks:
    """The part of ringup that the check uses, for threads; broken on demand."""

    AVERAGE = "average"

    def __init__(self, size, broken):
        self.n, self.broken = size, broken
        self.me = threading.local()
        self.seats, self.gate = [None] * size, threading.Barrier(size, timeout=HANG)

    def exchange(self, mine):
        self.seats[self.me.rank] = mine
        self.gate.wait()
        seats = list(self.seats)
        self.gate.wait()
        return seats

    def rank(self):
        return self.me.rank

    def size(self):
        return self.n

    def init(self):
        pass

    barrier = shutdown = init

    def allgather(self, data, name=None):
        return self.exchange(data)

    def broadcast(self, w, root=0):
        seats = self.exchange(w[:])
        return w if self.broken == "broadcast" else seats[root][:]

    def allreduce(self, g, op, name):
        seats = self.exchange(g[:])
        if self.broken == "nothing" or (self.broken == "one rank" and self.me.rank == 1):
            return g
        scale = 1 if self.broken == "sum" else self.n
        return type(g)("d", (sum(c) / scale for c in zip(*seats)))


def outcomes(broken, monkeypatch, capsys):
    """What each of four ranks ends with: None, or its last words."""
    spec = importlib.util.spec_from_file_location("train_check", PATH)
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    ranks = Ranks(4, broken)
    monkeypatch.setitem(sys.modules, "ringup", ranks)
    monkeypatch.setattr(check, "choose", lambda: check.Plain)
    ends = [None] * 4

    def one(rank):
        ranks.me.rank = rank
        try:
            check.main()
        except SystemExit as e:
            ends[rank] = e.code

    threads = [threading.Thread(target=one, args=(r,)) for r in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    capsys.readouterr()
    return ends


def test_ranks_that_average_pass(monkeypatch, capsys):
    assert outcomes(None, monkeypatch, capsys) == [None] * 4


@pytest.mark.parametrize("broken, words", [
    ("nothing", "nothing was averaged"),
    ("one rank", "different sets of weights"),
    ("sum", "from those of averaged gradients"),
    ("broadcast", "different sets of weights"),
])
def test_ranks_that_do_not_are_found_out(broken, words, monkeypatch, capsys):
    ends = outcomes(broken, monkeypatch, capsys)
    assert all(e and words in e for e in ends), ends
