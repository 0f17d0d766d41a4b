# remote.py - train the module of a TorchEstimator for Lightning on one rank.
# SPDX-License-Identifier: Apache-2.0
"""Runs a Lightning Trainer with DDP over ringup's process group.  To Lightning, each rank is a node
with one device, so any number of ranks may run on any host."""

import importlib
import os

from horovod.spark.torch import remote


def package_of(model):
    """Return the Lightning package that a module comes from.  Two such packages exist, which do not
    mix."""
    for cls in type(model).__mro__:
        if cls.__name__ == "LightningModule":
            return "lightning.pytorch" if cls.__module__.startswith("lightning.") else \
                cls.__module__.partition(".")[0]
    raise TypeError(f"model is a {type(model).__name__}, not a LightningModule: for a plain model "
                    "of torch use horovod.spark.torch.TorchEstimator")


def _environment(package, hvd):
    """Return the cluster environment that Lightning requires, with this rank's place."""
    plugins = importlib.import_module(f"{package}.plugins.environments")

    class Ranks(plugins.LightningEnvironment):
        """The environment of ranks that ringup has started."""

        creates_processes_externally = True
        main_address = os.environ["MASTER_ADDR"]
        main_port = int(os.environ["MASTER_PORT"])

        def world_size(self):
            return hvd.size()

        def global_rank(self):
            return hvd.rank()

        def local_rank(self):
            return 0

        def node_rank(self):
            return hvd.rank()

        def set_world_size(self, size):
            pass

        def set_global_rank(self, rank):
            pass

    return Ranks()


def _watcher(pl, plan, hvd):
    """Return a callback that records the metrics of each epoch, and writes the checkpoint."""

    class Watcher(pl.callbacks.Callback):
        """The last of the callbacks, which runs when the epoch's metrics are known."""

        def __init__(self):
            self.history, self.before = [], {}

        def on_train_start(self, trainer, pl_module):
            for optimizer in trainer.optimizers:
                for group in optimizer.param_groups:
                    for name in ("lr", "initial_lr"):
                        if name in group:
                            group[name] = group[name] * hvd.size()
            for config in trainer.lr_scheduler_configs:
                scheduler = config.scheduler
                if hasattr(scheduler, "base_lrs"):
                    scheduler.base_lrs = [lr * hvd.size() for lr in scheduler.base_lrs]

        def on_train_epoch_end(self, trainer, pl_module):
            logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
            entry = {"epoch": trainer.current_epoch, **logged}
            self.history.append(entry)
            if hvd.rank() == 0 and plan["verbose"]:
                print(f"epoch {trainer.current_epoch + 1} of {plan['epochs']}: {entry}", flush=True)
            if hvd.rank() == 0 and plan["checkpoint"]:
                plan["store"].write(plan["checkpoint"], _state(pl_module.state_dict()))

    return Watcher()


def _state(state):
    return remote.saved({"model": {name: value.cpu() for name, value in state.items()}})


def _loader(plan, folder, batch_size, shuffle, hvd):
    """Return batches of this rank's rows in the form that Lightning requires: dicts of tensors by
    column."""
    import torch

    rows = remote.Rows(plan, folder, hvd.rank(), hvd.size(), 1)
    names = plan["feature_cols"] + plan["label_cols"]
    columns = dict(zip(names, rows.inputs + rows.labels))
    if rows.weights is not None:
        columns[plan["sample_weight_col"]] = rows.weights

    class ByBatch(torch.utils.data.Dataset):
        """A data set whose items are batches; an index is a list of rows."""

        def __len__(self):
            return rows.count

        def __getitem__(self, index):
            return {name: values[index] for name, values in columns.items()}

    data = ByBatch()
    if shuffle:
        seed = (plan["random_seed"] or 0) * 1000003 + hvd.rank()
        order = torch.utils.data.RandomSampler(data,
                                               generator=torch.Generator().manual_seed(seed))
    else:
        order = torch.utils.data.SequentialSampler(data)
    batches = torch.utils.data.BatchSampler(order, batch_size, drop_last=False)
    return torch.utils.data.DataLoader(data, batch_size=None, sampler=batches)


def _strategy(pl, plan, cuda, hvd):
    import ringup_torch

    ringup_torch.register()
    compression, hook = plan["gradient_compression"], None
    if compression is not None and compression is not hvd.Compression.none:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        hook = default_hooks.fp16_compress_hook
    backend = "cpu:ringup,cuda:nccl" if cuda else "ringup"  # GPU memory is NCCL's
    return pl.strategies.DDPStrategy(process_group_backend=backend, ddp_comm_hook=hook,
                                     cluster_environment=_environment(plan["package"], hvd))


def _trainer(pl, plan, callbacks, hvd):
    import torch

    cuda = plan["use_gpu"] and torch.cuda.is_available()
    keeps = [c for c in callbacks if isinstance(c, pl.callbacks.ModelCheckpoint)]
    if plan["checkpoint"]:
        for callback in keeps:
            callback.dirpath = os.path.dirname(plan["checkpoint"])
    if plan["logs"]:
        os.makedirs(plan["logs"], exist_ok=True)
    limits = {"limit_train_batches": plan["train_steps_per_epoch"],
              "limit_val_batches": plan["validation_steps_per_epoch"]}
    return pl.Trainer(**{
        "accelerator": "gpu" if cuda else "cpu", "devices": [hvd.local_rank()] if cuda else 1,
        "num_nodes": hvd.size(), "strategy": _strategy(pl, plan, cuda, hvd), "callbacks": callbacks,
        "max_epochs": plan["epochs"], "logger": plan["logger"] or bool(plan["logs"]),
        "default_root_dir": plan["logs"], "log_every_n_steps": plan["log_every_n_steps"],
        "profiler": plan["profiler"], "num_sanity_val_steps": 0,
        "enable_checkpointing": bool(keeps), "enable_progress_bar": False,
        "enable_model_summary": bool(plan["verbose"]),
        "accumulate_grad_batches": plan["backward_passes_per_step"],
        "use_distributed_sampler": False,
        **{name: steps for name, steps in limits.items() if steps}, **plan["trainer_args"]})


def _best(callbacks, pl):
    """Return the file of the best model that a ModelCheckpoint has kept, or None."""
    for callback in callbacks:
        if isinstance(callback, pl.callbacks.ModelCheckpoint) and callback.best_model_path:
            return callback.best_model_path
    return None


def train(plan):
    """Train as one rank.  Rank 0 returns (bytes of the model's state, history); the others return
    None.

    plan is a dict from estimator.py."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    pl = importlib.import_module(plan["package"])
    if plan["random_seed"] is not None:
        pl.seed_everything(plan["random_seed"])
    model, watcher = plan["model"], _watcher(pl, plan, hvd)
    if plan["resume"]:
        model.load_state_dict(remote.loaded(plan["resume"], only=True)["model"])
    plan.update(input_shapes=[None] * len(plan["feature_cols"]),
                label_shapes=plan["label_shapes"] or [None] * len(plan["label_cols"]))
    callbacks = [*plan["callbacks"], watcher]
    trainer = _trainer(pl, plan, callbacks, hvd)
    held = None
    if plan["val_path"]:
        held = _loader(plan, plan["val_path"], plan["val_batch_size"], False, hvd)
    trainer.fit(model, _loader(plan, plan["train_path"], plan["batch_size"], plan["shuffle"], hvd),
                held)
    state, best = model.state_dict(), _best(callbacks, pl)
    if best and hvd.rank() == 0:
        state = torch.load(best, map_location="cpu", weights_only=False)["state_dict"]
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return (_state(state), watcher.history) if hvd.rank() == 0 else None
