# functions.py - broadcast the state of models and optimizers between ranks.
# SPDX-License-Identifier: Apache-2.0

import torch

from horovod.common.objects import allgather_object, broadcast_object
from horovod.torch.mpi_ops import broadcast_async_, rank, synchronize


def broadcast_parameters(params, root_rank):
    """Overwrite tensors with root's values.  The argument is model.state_dict(), or a list of
    (name, tensor)."""
    if isinstance(params, dict):
        pairs = sorted(params.items())
    elif isinstance(params, list):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError(f"broadcast_parameters() takes a dict or a list, not {type(params)}")
    for name, p in pairs:
        if not isinstance(p, torch.Tensor):
            raise ValueError(f"broadcast_parameters(): {name!r} is {type(p)}, not a tensor; "
                             "use broadcast_object() for it")
    for handle in [broadcast_async_(p, root_rank, name) for name, p in pairs]:
        synchronize(handle)


class _Place:
    """Stands for the n-th tensor while the rest of a state is sent as an object."""

    def __init__(self, n, tensor):
        self.n, self.shape, self.dtype = n, tensor.shape, tensor.dtype
        self.on_host = tensor.is_cpu


def _take_out(x, tensors):
    """Return a copy of nested containers in which each tensor is replaced by its place."""
    if isinstance(x, torch.Tensor):
        tensors.append(x)
        return _Place(len(tensors) - 1, x)
    if isinstance(x, dict):
        return {k: _take_out(v, tensors) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(_take_out(v, tensors) for v in x)
    return x


def _put_in(x, tensors, device):
    """Undo _take_out(). Tensors that root kept in host memory remain in host memory here."""
    if isinstance(x, _Place):
        return tensors[x.n] if x.on_host else tensors[x.n].to(device)
    if isinstance(x, dict):
        return {k: _put_in(v, tensors, device) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(_put_in(v, tensors, device) for v in x)
    return x


def _places(x):
    """Return every place in nested containers, by its number."""
    if isinstance(x, _Place):
        return {x.n: x}
    inner = x.values() if isinstance(x, dict) else x if type(x) in (list, tuple) else ()
    return {n: p for v in inner for n, p in _places(v).items()}


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Copy root's optimizer state to every rank: momenta, counters and learning rates.

    The previous state of a rank does not matter.  A new optimizer gets the state of a restored one,
    and no step is needed to allocate it."""
    mine, tensors = None, []
    # as in Horovod, an optimizer that is new has gradients, of zero; SparseAdam refuses dense ones
    if not optimizer.state and not isinstance(optimizer, torch.optim.SparseAdam):
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
    if rank() == root_rank:
        mine = _take_out(optimizer.state_dict(), tensors)
    sent = broadcast_object(mine, root_rank, name="optimizer_state")
    if rank() != root_rank:
        places = _places(sent)
        tensors = [torch.empty(places[n].shape, dtype=places[n].dtype) for n in sorted(places)]
    for handle in [broadcast_async_(t, root_rank, f"optimizer_state.{i}")
                   for i, t in enumerate(tensors)]:
        synchronize(handle)
    if rank() != root_rank:
        _adopt(optimizer, sent, tensors)


def _adopt(optimizer, sent, tensors):
    """Give the optimizer the received options and state, in place, because schedulers refer to
    them."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    groups = sent["param_groups"]
    if [len(g["params"]) for g in groups] != [len(g["params"]) for g in optimizer.param_groups]:
        raise ValueError("the optimizer of the root rank has different parameter groups")
    for group, root in zip(optimizer.param_groups, groups):
        device = group["params"][0].device if group["params"] else torch.device("cpu")
        group.update({k: _put_in(v, tensors, device) for k, v in root.items() if k != "params"})
    optimizer.state.clear()
    members = dict(zip((n for g in groups for n in g["params"]), params))
    for key, state in sent["state"].items():
        p = members.get(key)
        if p is None:  # not a parameter's number: a key of the program's own
            optimizer.state[key] = _put_in(state, tensors, device)
        else:
            optimizer.state[p] = _put_in(state, tensors, p.device)
