# state.py - models, optimizers, samplers and counters of a PyTorch training run as one state.
# SPDX-License-Identifier: Apache-2.0

import copy

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (allgather_object, broadcast_object,
                                     broadcast_optimizer_state, broadcast_parameters)
from horovod.torch.mpi_ops import rank


class StateHandler:
    """Saves, restores and synchronizes one value of a TorchState."""

    def __init__(self, value):
        self.value = value

    def save(self):
        """Save a copy for restore()."""
        raise NotImplementedError

    def restore(self):
        """Restore the copy that save() made."""
        raise NotImplementedError

    def sync(self):
        """Copy the value of rank 0 to all ranks."""
        raise NotImplementedError

    def reset(self):
        """Adapt to a new rank and size, before sync()."""

    def set_value(self, value):
        """Handle another value from now on."""
        self.value = value
        self.save()


class _StateDict(StateHandler):
    """Handles objects with state_dict() and load_state_dict()."""

    def __init__(self, value):
        super().__init__(value)
        _StateDict.save(self)

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(self._saved)


class ModelStateHandler(_StateDict):
    """Handles parameters and buffers."""

    def sync(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(_StateDict):
    """Handles momenta, step counts and options."""

    def sync(self):
        broadcast_optimizer_state(self.value, root_rank=0)

    def reset(self):
        """Discard gradients that were being added up or combined.  A new rank has none, and the
        other ranks may have left in the middle of a step."""
        if hasattr(self.value, "skip_synchronize"):  # a DistributedOptimizer
            self.value.load_state_dict(self.value.state_dict())
            self.value.zero_grad()


class SamplerStateHandler(_StateDict):
    """Handles the samples of the epoch that have been processed."""

    def sync(self):
        everybody = allgather_object(sorted(self.value.processed_indices))
        state = broadcast_object(self.value.state_dict())
        self.value.load_state_dict({**state, "processed_indices": set().union(*everybody)})

    def reset(self):
        self.value.reset()


_handlers_of = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry():
    """Return pairs (type, handler of its instances). The first type that matches is used."""
    return _handlers_of


def set_handler_registry(registry):
    """Replace all pairs."""
    global _handlers_of
    _handlers_of = registry


def _handler_of(value):
    """Return a handler for the value, or None for an ordinary object."""
    return next((make(value) for kind, make in _handlers_of if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """The state of training: TorchState(model, optimizer, sampler=sampler, epoch=0).

    Each keyword becomes an attribute.  For models, optimizers and ElasticSamplers, of which a state
    may have several under different names, the contents are saved and synchronized.  Any other
    object is broadcast and restored as a whole."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        values = {**kwargs, "model": model, "optimizer": optimizer}
        self.await_values()  # a handler saves its value when it is made
        found = {name: _handler_of(value) for name, value in values.items()}
        self._handlers = {name: handler for name, handler in found.items() if handler}
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)
        super().__init__(bcast_object=broadcast_object, get_rank=rank,
                         **{name: v for name, v in values.items() if name not in self._handlers})

    def save(self):
        # First of all: the copies are then made from right values, and one copy after the other
        # can be replaced.
        values = self._attributes()
        self.await_values(values)
        for handler in self._handlers.values():
            handler.save()
        self._saved_state = values

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()  # which calls save() first

    def reset(self):
        for handler in self._handlers.values():
            if hasattr(handler, "reset"):  # a handler of the program's own may be no StateHandler
                handler.reset()

    def __setattr__(self, name, value):
        if name in vars(self).get("_handlers", ()):
            self.await_values()
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)
