# prove_torch.py - two ranks train with torch on different data: are their weights averaged?
# SPDX-License-Identifier: Apache-2.0
import horovod.torch as hvd
import torch

import prove


def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(prove.INPUTS, 4), torch.nn.Tanh(),
                               torch.nn.Linear(4, 1))


def train(model, optimizer, ranks):
    """Steps on the mean of the losses of @ranks."""
    for _ in range(prove.STEPS):
        optimizer.zero_grad(set_to_none=True)
        losses = []
        for rank in ranks:
            x, y = (torch.tensor(part) for part in prove.data(rank))
            losses.append(torch.nn.functional.mse_loss(model(x), y))
        sum(losses).div(len(losses)).backward()
        optimizer.step()
    return [float(v) for p in model.parameters() for v in p.detach().flatten()]


def plain(ranks):
    model = model_of(0)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), ranks)


hvd.init()
rank, size = hvd.rank(), hvd.size()
mine = model_of(rank)  # another start on each rank, until that is broadcast
optimizer = torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=mine.named_parameters())
hvd.broadcast_parameters(mine.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
weights = train(mine, optimizer, [rank])
prove.tell(rank, size, weights, plain(range(size)), plain([rank]), version=torch.__version__)
hvd.shutdown()
