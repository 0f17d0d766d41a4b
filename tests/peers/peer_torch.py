#!/usr/bin/env python3
# peer_torch.py - torch's Gloo, or horovod.torch, as a peer in contest.py.
# SPDX-License-Identifier: Apache-2.0
"""Arguments: gloo or horovod, and the socket to connect to.

player.c tells what is said there; samples are taken as
measure.c takes them.  Whichever horovod Python finds is measured: the original, or ringup's.
"""

import functools
import math
import socket
import sys
import time
import warnings

import torch

TYPES = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
         "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
         "f64": torch.float64, "bool": torch.bool}
if hasattr(torch, "uint16"):  # from 2.3 on
    TYPES["u16"] = torch.uint16


class Cannot(Exception):
    """This peer has no such collective, type or operation."""


class Gloo:
    """torch.distributed over Gloo; an allreduce is in place, whatever was asked for."""

    def __init__(self):
        import torch.distributed as dist
        warnings.simplefilter("ignore", FutureWarning)  # all_reduce_coalesced() may go one day
        self.dist, self.coalesces = dist, hasattr(dist, "all_reduce_coalesced")
        dist.init_process_group("gloo", init_method="env://")
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.about = f"torch {torch.__version__}, Gloo"

    def op(self, name):
        ops = {"sum": "SUM", "min": "MIN", "max": "MAX", "product": "PRODUCT"}
        if name not in ops:
            raise Cannot(f"Gloo has no {name}")
        return getattr(self.dist.ReduceOp, ops[name])

    def meet(self):
        self.dist.barrier()

    def call(self, task):
        dist, t = self.dist, task
        if t.is_set:
            for work in [dist.all_reduce(x, op=t.op, async_op=True) for x in t.tensors]:
                work.wait()
        elif t.collective == "allreduce" and len(t.ins) > 1 and self.coalesces:
            dist.all_reduce_coalesced(t.ins, op=t.op)
        else:
            for i in range(len(t.ins)):
                self.call_one(t, t.ins[i], t.outs[i], t.pieces[i])

    def call_one(self, t, data, out, pieces):
        dist = self.dist
        if t.collective == "allreduce":
            dist.all_reduce(data, op=t.op)
        elif t.collective == "broadcast":
            dist.broadcast(data, 0)
        elif t.collective == "allgather":
            if pieces:
                dist.all_gather(pieces, data)
            else:
                dist.all_gather_into_tensor(out, data)
        elif t.collective == "reducescatter":
            if pieces:
                dist.reduce_scatter(out, pieces, op=t.op)
            else:
                dist.reduce_scatter_tensor(out, data, op=t.op)
        elif t.collective == "alltoall":
            dist.all_to_all_single(out, data, t.own, t.blocks)
        else:
            dist.barrier()

    def is_in_place(self, task):
        parts = task.collective in ("allgather", "reducescatter")
        return task.collective == "allreduce" or task.is_set or (parts and task.in_place)

    def close(self):
        self.dist.destroy_process_group()


class Horovod:
    """horovod.torch, by name."""

    def __init__(self):
        import horovod
        import horovod.torch as hvd
        self.hvd = hvd
        hvd.init()
        self.rank, self.ranks = hvd.rank(), hvd.size()
        try:
            # Ours says what it runs on, as ringup bench's own ranks do.
            import ringup
            self.about = f"{ringup.backend()} {ringup.host_count()} {ringup.__version__}"
        except ImportError:
            self.about = f"Horovod {horovod.__version__}, torch {torch.__version__}"

    def op(self, name):
        ops = {"sum": "Sum", "average": "Average", "min": "Min", "max": "Max",
               "product": "Product", "adasum": "Adasum"}
        return getattr(self.hvd, ops[name])

    def meet(self):
        self.hvd.barrier()

    def call(self, task):
        hvd, t = self.hvd, task
        if t.is_set:
            for handle in [hvd.allreduce_async_(x, name=n, op=t.op)
                           for n, x in zip(t.names, t.tensors)]:
                hvd.synchronize(handle)
        elif len(t.ins) > 1:
            self.call_many(t)
        elif t.collective == "allreduce":
            if t.in_place:
                hvd.allreduce_(t.data, name=t.name, op=t.op)
            else:
                t.outs = [hvd.allreduce(t.data, name=t.name, op=t.op)]
        elif t.collective == "broadcast":
            if t.in_place:
                hvd.broadcast_(t.data, 0, name=t.name)
            else:
                t.outs = [hvd.broadcast(t.data, 0, name=t.name)]
        elif t.collective == "allgather":
            t.outs = [hvd.allgather(t.data, name=t.name)]
        elif t.collective == "reducescatter":
            t.outs = [hvd.reducescatter(t.rows[0], name=t.name, op=t.op)]
        elif t.collective == "alltoall":
            t.outs = [hvd.alltoall(t.data, splits=t.splits, name=t.name)]
        else:
            hvd.barrier()

    def call_many(self, t):
        hvd = self.hvd
        if t.collective == "allgather":
            t.outs = hvd.grouped_allgather(t.ins, name=t.name)
        elif t.collective == "reducescatter":
            t.outs = hvd.grouped_reducescatter(t.rows, name=t.name, op=t.op)
        elif t.in_place:
            hvd.grouped_allreduce_(t.ins, name=t.name, op=t.op)
        else:
            t.outs = hvd.grouped_allreduce(t.ins, name=t.name, op=t.op)

    def is_in_place(self, task):
        return task.in_place and task.collective not in ("allgather", "reducescatter")

    def close(self):
        self.hvd.shutdown()


class Task:
    """The words of an order, and buffers for it."""

    def __init__(self, peer, words, counts):
        self.collective, dtype, op, in_place, uneven, members = words
        if dtype not in TYPES:
            raise Cannot(f"torch has no {dtype}")
        self.peer, self.counts = peer, counts
        self.is_set = len(counts) > 1 and uneven == "0"
        self.in_place = in_place == "1" or self.is_set
        self.op = peer.op(op)
        self.dtype, self.sums = TYPES[dtype], dtype == "f32" and op == "sum"
        ranks = peer.ranks
        if uneven == "1" and len(counts) != ranks:
            raise Cannot("these blocks are not for as many ranks")
        blocks = counts if uneven == "1" else [sum(counts)] * ranks
        own, whole = blocks[peer.rank], sum(blocks)
        give = whole if self.collective in ("reducescatter", "alltoall") else own
        take = {"allgather": whole, "alltoall": own * ranks}.get(self.collective, own)
        many = range(int(members))
        room = max(give, take) if peer.is_in_place(self) else give
        self.data = torch.zeros(room * len(many), dtype=self.dtype)
        self.ins = self.outs = self.rows = [self.data[i * room:(i + 1) * room] for i in many]
        if not peer.is_in_place(self):
            self.outs = [torch.zeros(take, dtype=self.dtype) for i in many]
        elif give != take:
            # The shorter lies where it belongs in the longer.
            first = sum(blocks[:peer.rank])
            mine = [x[first:first + own] for x in self.ins]
            self.ins, self.outs = (mine, self.outs) if give < take else (self.ins, mine)
        self.blocks, self.own, self.splits, self.pieces = None, None, None, [None for i in many]
        if uneven == "1":
            self.blocks, self.own = blocks, [own] * ranks
            self.splits = torch.tensor(blocks, dtype=torch.int32)
            if self.collective != "alltoall":
                parted = self.outs if self.collective == "allgather" else self.ins
                self.pieces = [list(x.split(blocks)) for x in parted]
            # Horovod deals out rows, the first ranks getting one more, as these blocks are made.
            self.rows = [x.view(-1, functools.reduce(math.gcd, blocks)) for x in self.ins]
        self.name = "bench." + ".".join(words)
        self.names = [f"{self.name}.{i}" for i in range(len(counts))]
        self.tensors = list(self.data.split(counts)) if self.is_set else []
        # What is written anew before each sample, again and again.
        period = ((torch.arange(ranks) + peer.rank) % ranks).to(self.dtype)
        period = period.repeat(1 + min(give, 65536) // ranks)
        self.slices = [(y, period[:len(y)]) for x in self.ins for y in x.split(len(period)) if give]

    def can_check(self):
        return self.sums and (self.collective in ("allreduce", "reducescatter") or self.is_set)

    def wrong(self):
        want = self.peer.ranks * (self.peer.ranks - 1) / 2
        return sum(int((x != want).sum()) for x in self.outs)

    def sample(self, calls):
        """Microseconds of one call, of calls in a row."""
        for x, period in self.slices:
            x.copy_(period)
        self.peer.meet()
        begun = time.perf_counter()
        for _ in range(calls):
            self.peer.call(self)
        us = (time.perf_counter() - begun) * 1e6 / calls
        self.peer.meet()
        return us

    def play(self, warm, samples, calls, check):
        check = check and self.can_check()
        apart = calls > 1 and self.peer.is_in_place(self)
        wrong = 0
        for _ in range(warm):
            self.sample(calls)
        if check and apart:
            self.sample(1)
            wrong += self.wrong()
        times = []
        for _ in range(samples):
            times.append(self.sample(calls))
            if check and not apart:
                wrong += self.wrong()
        return wrong if check else -1, times


class Rank:
    def __init__(self, peer):
        self.peer, self.before, self.task = peer, None, None

    def prepare(self, words, counts):
        if self.before == (words, counts):
            return
        self.before = self.task = None
        task = Task(self.peer, words, [int(n) for n in counts.split(",")])
        try:
            task.sample(1)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError) as e:
            raise Cannot(str(e).splitlines()[0]) from e
        self.before, self.task = (words, counts), task

    def answer(self, line):
        words = line.split()
        if words == ["rest"]:
            self.before = self.task = None
            return "ok"
        try:
            self.prepare(words[1:7], words[11])
            wrong, times = self.task.play(*map(int, words[7:11]))
        except Cannot as e:
            return f"no {e}"
        return f"ok {wrong} " + " ".join(f"{us:.4f}" for us in times)


def main():
    torch.set_num_threads(1)
    peer = {"gloo": Gloo, "horovod": Horovod}[sys.argv[1]]()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[2])
        with s.makefile("rw") as f:
            print("hello", peer.rank, peer.ranks, peer.about, file=f, flush=True)
            rank = Rank(peer)
            for line in iter(f.readline, ""):
                print(rank.answer(line), file=f, flush=True)
    peer.close()


main()
