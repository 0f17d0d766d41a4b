#!/usr/bin/env python3
# models.py - what communication adds to a training step of large models, ringup beside Horovod.
# SPDX-License-Identifier: Apache-2.0
"""Trains models of the sizes of ResNet-50 (161 tensors, 25.6 million weights) and BERT base (149
tensors, 109 million) on CPU, with horovod.torch's DistributedOptimizer, by turns with ringup and
with Horovod, and prints for each the median step, the step without communication on the same
number of processes by turns with it, what it adds to such a step to wait for the slowest rank at
its end, as any engine has to, and the share that communication has:

    tests/peers/models.py --ringup build/ringup --horovod VENV/bin/python --ranks 2 --rounds 3

The Python that runs this must have torch; VENV must have the same torch, and Horovod 0.28.1 as
`ringup rebuild --engine horovod` installs it.  Without --horovod only ringup is measured.  Each
rank has one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def resnet50(torch):
    """(model, batch): the layers of ResNet-50, on small images, so that a step takes no minute."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, wide, narrow, stride):
            super().__init__()
            out = narrow * 4
            self.body = nn.Sequential(
                nn.Conv2d(wide, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
                nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow),
                nn.ReLU(), nn.Conv2d(narrow, out, 1, bias=False), nn.BatchNorm2d(out))
            self.side = nn.Identity() if wide == out else nn.Sequential(
                nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            return torch.relu(self.body(x) + self.side(x))

    layers, wide = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                    nn.MaxPool2d(3, 2, 1)], 64
    for narrow, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(wide, narrow, stride if i == 0 else 1))
            wide = narrow * 4
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers), torch.randn(2, 3, 64, 64)


def bert(torch):
    """(model, batch): the layers of BERT base, on a short sequence."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(30522, 768), nn.TransformerEncoder(layer, 12),
                          nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 2))
    return model, torch.randint(0, 30522, (1, 32))


def rank(name, seconds):
    """One rank: steps with and without communication, by turns; rank 0 prints both medians."""
    import torch

    import horovod.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    # Two models, for hooks stay where they are; their steps go by turns.
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append({"resnet50": resnet50, "bert": bert}[name](torch))
    plain, combined = (torch.optim.SGD(model.parameters(), lr=1e-4) for model, _ in models)
    combined = hvd.DistributedOptimizer(combined, models[1][0].named_parameters())

    def together():
        """Begin at the same moment on all ranks."""
        hvd.allreduce(torch.zeros(1), name="together")

    def step(optimizer, model, batch):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    def step_and_wait(*args):
        step(*args)
        together()

    kinds = {"alone": (step, plain, *models[0]), "slowest": (step_and_wait, plain, *models[0]),
             "shared": (step, combined, *models[1])}
    times = {kind: [] for kind in kinds}
    going, until = True, time.monotonic() + seconds
    while going or len(times["shared"]) < 4:
        for kind, (do, *what) in kinds.items():
            together()
            began = time.perf_counter()
            do(*what)
            times[kind].append(time.perf_counter() - began)
        going = hvd.broadcast(torch.tensor([time.monotonic() < until]).int(), 0, name="go").item()
    if hvd.rank() == 0:
        print("RESULT", json.dumps({
            "tensors": sum(1 for _ in models[0][0].parameters()),
            **{kind: statistics.median(t[1:]) for kind, t in times.items()}}), flush=True)
    hvd.shutdown()


def measured(argv, env):
    """What rank 0 printed."""
    p = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    found = [line for line in p.stdout.splitlines() if "RESULT" in line]
    if not found:
        sys.exit(f"{' '.join(argv)}: status {p.returncode}\n{p.stdout}{p.stderr}")
    return json.loads(found[0].split("RESULT", 1)[1])


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ringup", default=os.path.join(ROOT, "build", "ringup"))
    a.add_argument("--horovod", help="the Python of an environment that has Horovod 0.28.1")
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=20, help="for each model, engine and round")
    a.add_argument("--models", default="resnet50,bert")
    a.add_argument("--rank", help=argparse.SUPPRESS)
    args = a.parse_args()
    if args.rank:
        rank(args.rank, args.seconds)
        return
    here = [os.path.abspath(__file__), "--seconds", str(args.seconds), "--rank"]
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    ours = {**common, "PYTHONPATH": os.path.join(ROOT, "compat", "python"),
            "RINGUP_LIBRARY": os.path.join(os.path.dirname(os.path.abspath(args.ringup)), ".libs",
                                           "libringup.so.0")}
    contenders = {"ringup": ([args.ringup, "run", "-np", str(args.ranks), "--", sys.executable],
                             ours)}
    if args.horovod:
        horovodrun = os.path.join(os.path.dirname(args.horovod), "horovodrun")
        contenders["Horovod"] = ([horovodrun, "-np", str(args.ranks), "--gloo",
                                  "--network-interfaces", "lo", args.horovod], common)
    print("model      engine   tensors   step ms  alone ms  wait ms  added ms  share")
    for name in args.models.split(","):
        rows = {engine: [] for engine in contenders}
        for _ in range(args.rounds):
            for engine, (argv, env) in contenders.items():
                rows[engine].append(measured([*argv, *here, name], env))
        shares = {}
        for engine, got in rows.items():
            alone = statistics.median(r["alone"] for r in got) * 1e3
            shared = statistics.median(r["shared"] for r in got) * 1e3
            wait = statistics.median(r["slowest"] - r["alone"] for r in got) * 1e3
            shares[engine] = statistics.median(1 - r["alone"] / r["shared"] for r in got)
            print(f"{name:10} {engine:8} {got[0]['tensors']:7d} {shared:9.1f} {alone:9.1f} "
                  f"{wait:8.1f} {shared - alone:9.1f} {shares[engine]:6.1%}", flush=True)
        if len(shares) == 2:
            print(f"{name:10} share of ringup / share of Horovod: "
                  f"{shares['ringup'] / shares['Horovod']:.2f}")


if __name__ == "__main__":
    main()
