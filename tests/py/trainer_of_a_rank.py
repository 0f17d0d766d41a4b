# trainer_of_a_rank.py - a training by Lightning, accelerate, transformers or ignite over "ringup".
# SPDX-License-Identifier: Apache-2.0
"""Started by torchrun with the name of the library.  Rank 0 prints the back end, the number of
ranks, and whether all ranks have the same weights, which are not those of the beginning."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TRAINERS = {}


def trainer(f):
    TRAINERS[f.__name__] = f
    return f


def data(n=32):
    torch.manual_seed(1)
    return TensorDataset(torch.randn(n, 8), torch.randn(n, 2))


def remembered(net):
    """The same network, of which main() then knows the weights that it begins with."""
    net.begun_with = weights_of(net).clone()
    return net


def weights_of(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def network():
    torch.manual_seed(2)
    return remembered(torch.nn.Linear(8, 2))


@trainer
def lightning():
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, _index):
            return F.mse_loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    L.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="ringup"),
              max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
              enable_model_summary=False).fit(module, DataLoader(data(), batch_size=4))
    return module.net


@trainer
def accelerate():
    from accelerate import Accelerator

    dist.init_process_group("ringup")  # accelerate takes the group that is there
    accelerator = Accelerator(cpu=True)
    net = network()
    model, optimizer, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(data(), batch_size=4))
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(F.mse_loss(model(x), y))
        optimizer.step()
    return net


@trainer
def transformers():
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    dist.init_process_group("ringup")  # as with accelerate, on which it is built
    torch.manual_seed(3)
    model = remembered(BertForSequenceClassification(BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16)))
    rows = [{"input_ids": torch.randint(50, (8,)), "labels": torch.tensor(i % 2)}
            for i in range(16)]
    Trainer(model=model, train_dataset=rows, args=TrainingArguments(
        output_dir=os.environ["RINGUP_TEST_RESULTS"], max_steps=3, use_cpu=True,
        report_to=[], save_strategy="no", per_device_train_batch_size=2,
        disable_tqdm=True)).train()
    return model


@trainer
def ignite():
    from ignite.engine import Engine

    dist.init_process_group("ringup")
    net = network()
    model = torch.nn.parallel.DistributedDataParallel(net)  # idist.auto_model() knows names only
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(_engine, batch):
        optimizer.zero_grad()
        F.mse_loss(model(batch[0]), batch[1]).backward()
        optimizer.step()

    share = torch.utils.data.Subset(data(), range(dist.get_rank(), 32, dist.get_world_size()))
    Engine(step).run(DataLoader(share, batch_size=4), max_epochs=1)
    return net


def main():
    torch.set_num_threads(1)
    net = TRAINERS[sys.argv[1]]()
    weights = weights_of(net)
    every = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(every, weights)
    same = all(torch.equal(w, every[0]) for w in every)
    moved = not torch.equal(weights, net.begun_with)
    if dist.get_rank() == 0:
        print(f"trained: {dist.get_backend()}, {dist.get_world_size()} ranks, same {same}, "
              f"moved {moved}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
