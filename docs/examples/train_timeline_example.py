#!/usr/bin/env python3
# train_timeline_example.py - record a timeline of training, as a notebook cell does.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python train_timeline_example.py [FOLDER]

Trains on two ranks on this host and writes FOLDER/horovod-timeline/ID/horovod_timeline.json, which
you can open in chrome://tracing or https://ui.perfetto.dev.
"""

import os
import sys
import uuid

import horovod


def run_training_horovod(params):
    import horovod.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=params["lr"] * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _step in range(params["steps"]):
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
    hvd.shutdown()
    return hvd.is_initialized()


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    timeline_dir = os.path.join(folder, "horovod-timeline", str(uuid.uuid4()))
    os.makedirs(timeline_dir)
    os.environ["HOROVOD_TIMELINE"] = timeline_dir + "/horovod_timeline.json"
    horovod.run(run_training_horovod, kwargs={"params": {"lr": 0.01, "steps": 10}}, num_proc=2)
    print(os.environ["HOROVOD_TIMELINE"])
