# remote.py - train a TorchEstimator's model on one rank.
# SPDX-License-Identifier: Apache-2.0

import io

from horovod.spark.common import data


class Rows:
    """Rows in memory as tensors, in batches.

    plan contains the facts that the driver has found (columns, shapes) and the estimator's
    parameters."""

    def __init__(self, plan, folder, rank, size, least):
        columns = plan["feature_cols"] + plan["label_cols"]
        weight = plan["sample_weight_col"]
        rows = data.transformed(
            data.read_rows(folder, columns + ([weight] if weight else []), rank, size, least),
            plan["transformation_fn"])
        self.inputs = [tensor(c, rows[c], s) for c, s in
                       zip(plan["feature_cols"], plan["input_shapes"])]
        self.labels = [tensor(c, rows[c], s) for c, s in
                       zip(plan["label_cols"], plan["label_shapes"])]
        self.weights = tensor(weight, rows[weight], None).float() if weight else None
        self.count = len(self.labels[0])

    def batches(self, size, steps, order):
        """Yield (inputs, labels, weights) of each step.  order is a tensor of row numbers.  With a
        number of steps, the rows start again when all have been used; without one, each row is used
        once."""
        import torch

        for step in range(-(-self.count // size) if steps is None else steps):
            at = torch.arange(step * size, (step + 1) * size)
            index = order[at[at < self.count] if steps is None else at % self.count]
            yield ([x[index] for x in self.inputs], [y[index] for y in self.labels],
                   self.weights[index] if self.weights is not None else None)


def tensor(name, values, shape):
    """Return a column as a tensor.  Floats and bools become float32, the type that models use."""
    import torch

    t = torch.as_tensor(data.numbers(name, values))
    t = t.float() if t.is_floating_point() or t.dtype == torch.bool else t
    return t.reshape(shape) if shape else t


def losses_of(plan, outputs, labels, weights):
    """Return the weighted sum of the losses of all outputs."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if len(outputs) != len(labels):
        raise ValueError(f"the model has {len(outputs)} outputs, but there are {len(labels)} "
                         "label columns")
    total = 0
    for loss, factor, out, y in zip(plan["loss"], plan["loss_weights"], outputs, labels):
        y = y.to(out.dtype) if y.is_floating_point() else y
        value = loss(out, y) if weights is None else loss(out, y, reduction="none")
        if weights is not None:
            value = (value.reshape(len(weights), -1).mean(1) * weights).mean()
        total = total + factor * value
    return total


def saved_optimizer(model, optimizer):
    """Return the data that recreates the optimizer for the same model."""
    names = {id(p): name for name, p in model.named_parameters()}
    try:
        groups = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
    except KeyError:
        raise ValueError("the optimizer has parameters that are not the model's: create it with "
                         "model.parameters()") from None
    lr = {"lr": optimizer.defaults["lr"]} if "lr" in optimizer.defaults else {}
    return {"groups": groups, "optimizer_class": type(optimizer), "optimizer_defaults": lr,
            "optimizer_state": saved(optimizer.state_dict())}


def made_optimizer(plan, model):
    """Return the optimizer for the data of saved_optimizer(), for this model."""
    by_name = dict(model.named_parameters())
    optimizer = plan["optimizer_class"](
        [{"params": [by_name[name] for name in group]} for group in plan["groups"]],
        **plan["optimizer_defaults"])
    optimizer.load_state_dict(loaded(plan["optimizer_state"]))
    return optimizer


def saved(obj):
    """Return an object as bytes, written by torch."""
    import torch

    out = io.BytesIO()
    torch.save(obj, out)
    return out.getvalue()


def loaded(saved, only=False):
    """Load saved bytes, on the host.  only: load tensors and plain values, and run no code."""
    import torch

    return torch.load(io.BytesIO(saved), map_location="cpu", weights_only=only)


def scale_lr(optimizer, factor):
    """Multiply the learning rates of an optimizer."""
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = group["lr"] * factor


def state_of(model, optimizer, size):
    """Return the bytes of the states of a model and an optimizer, with the learning rate of one
    rank."""
    state = optimizer.state_dict()
    groups = [{**g, "lr": g["lr"] / size} if "lr" in g else g for g in state["param_groups"]]
    return saved({"model": {name: value.cpu() for name, value in model.state_dict().items()},
                   "optimizer": {**state, "param_groups": groups}})


def device_of(plan, hvd):
    """Return this rank's GPU, or the CPU."""
    import torch

    cuda = plan["use_gpu"] and torch.cuda.is_available()
    return torch.device("cuda", hvd.local_rank()) if cuda else torch.device("cpu")


def train(plan):
    """Train as one rank.  Rank 0 returns (bytes of the states, history); the others return None.

    plan is a dict from estimator.py."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    device = device_of(plan, hvd)
    if plan["random_seed"] is not None:
        torch.manual_seed(plan["random_seed"])
    if plan["loss_constructors"]:
        plan["loss"] = [make() for make in plan["loss_constructors"]]
    resume = loaded(plan["resume"], only=True) if plan["resume"] else None
    model = plan["model"].to(device)
    if resume:
        model.load_state_dict(resume["model"])
    optimizer = made_optimizer(plan, model)
    if resume:
        optimizer.load_state_dict(resume["optimizer"])
    scale_lr(optimizer, hvd.size())
    more = {"compression": plan["gradient_compression"]} if plan["gradient_compression"] else {}
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(),
        backward_passes_per_step=plan["backward_passes_per_step"], **more)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    rows = Rows(plan, plan["train_path"], hvd.rank(), hvd.size(), 1)
    held = Rows(plan, plan["val_path"], hvd.rank(), hvd.size(), 1) if plan["val_path"] else None
    history = []
    for epoch in range(plan["epochs"]):
        entry = {"epoch": epoch,
                 "train": _one_epoch(plan, model, optimizer, rows, device, epoch, hvd)}
        if held:
            entry["validation"] = _evaluate(plan, model, held, device, hvd)
        history.append(entry)
        if hvd.rank() == 0 and plan["verbose"]:
            print(f"epoch {epoch + 1} of {plan['epochs']}: {entry}", flush=True)
        if hvd.rank() == 0 and plan["checkpoint"]:
            state = state_of(model, optimizer, hvd.size())
            hvd.wait_for_gpu()
            plan["store"].write(plan["checkpoint"], state)
    state = state_of(model, optimizer, hvd.size()) if hvd.rank() == 0 else None
    hvd.wait_for_gpu()
    return (state, history) if hvd.rank() == 0 else None


def _order(plan, rows, epoch, rank):
    import torch

    if not plan["shuffle"]:
        return torch.arange(rows.count)
    g = torch.Generator().manual_seed((plan["random_seed"] or 0) * 1000003 + epoch * 1009 + rank)
    return torch.randperm(rows.count, generator=g)


def _mean(hvd, totals, count, device):
    """Return averages over the batches of all ranks."""
    import torch

    names = sorted(totals)
    values = torch.tensor([totals[n] for n in names] + [float(count)], dtype=torch.float64)
    values = hvd.allreduce(values, name="metrics", op=hvd.Sum)
    return {n: (values[i] / values[-1]).item() for i, n in enumerate(names)}


def _metrics(plan, outputs, labels):
    out = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
    for i, metric in enumerate(plan["metrics"]):
        name = getattr(metric, "__name__", f"metric_{i}")
        yield name, float(metric(out, labels[0]))


def _one_epoch(plan, model, optimizer, rows, device, epoch, hvd):
    import torch

    model.train()
    totals, count = {}, 0
    order = _order(plan, rows, epoch, hvd.rank())
    for inputs, labels, weights in rows.batches(plan["batch_size"],
                                                plan["train_steps_per_epoch"], order):
        inputs, labels = [x.to(device) for x in inputs], [y.to(device) for y in labels]
        weights = weights.to(device) if weights is not None else None
        if plan["train_minibatch_fn"]:
            outputs, loss = plan["train_minibatch_fn"](model, optimizer, inputs, labels, weights)
        else:
            optimizer.zero_grad()
            outputs = model(*inputs)
            loss = losses_of(plan, outputs, labels, weights)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            _add(totals, [("loss", float(loss)), *_metrics(plan, outputs, labels)])
        count += 1
    return _mean(hvd, totals, count, device)


def _evaluate(plan, model, rows, device, hvd):
    import torch

    model.train(False)
    totals, count = {}, 0
    with torch.no_grad():
        for inputs, labels, weights in rows.batches(
                plan["val_batch_size"], plan["validation_steps_per_epoch"],
                torch.arange(rows.count)):
            inputs, labels = [x.to(device) for x in inputs], [y.to(device) for y in labels]
            weights = weights.to(device) if weights is not None else None
            outputs = model(*inputs)
            _add(totals, [("loss", float(losses_of(plan, outputs, labels, weights))),
                          *_metrics(plan, outputs, labels)])
            count += 1
    return _mean(hvd, totals, count, device)


def _add(totals, pairs):
    for name, value in pairs:
        totals[name] = totals.get(name, 0.0) + value
