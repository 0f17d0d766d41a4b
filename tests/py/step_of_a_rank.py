# step_of_a_rank.py - one rank of a training of one step by Horovod's interface; tells its weights.
# SPDX-License-Identifier: Apache-2.0

import torch
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
before = model.weight.detach().clone()
model(torch.full((4, 3), float(hvd.rank()))).pow(2).sum().backward()
optimizer.step()
assert not torch.equal(before, model.weight) and hvd.size() == 4
print("weights", model.weight.detach().flatten().tolist(), flush=True)
