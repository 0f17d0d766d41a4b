# delta.py - an optimizer for Adasum: it combines the changes of a step, not the gradients.
# SPDX-License-Identifier: Apache-2.0

import torch

from horovod.torch.mpi_ops import Adasum, Max, allreduce, allreduce_async_, size, synchronize
from horovod.torch.wrapping import Wrapped


class DeltaOptimizer(Wrapped):
    """The class that precedes the class of the wrapped optimizer for op=hvd.Adasum."""

    def _distribute(self, named_parameters, compression, passes, process_set):
        self._compression, self._process_set = compression, process_set
        self._remember({"named_parameters": named_parameters, "compression": compression,
                        "passes": passes, "process_set": process_set})
        self.backward_passes_per_step = passes

    def set_backward_passes_per_step(self, passes):
        """Set how many backward() calls are accumulated before step(); for Adasum, the number does
        not matter."""
        self.backward_passes_per_step = passes

    def synchronize(self):
        """Do nothing: gradients remain local to this rank."""

    def skip_synchronize(self):
        """Raise an exception, as Horovod does."""
        raise AssertionError("skip_synchronize() does not work with op=hvd.Adasum, which combines "
                             "the changes of step(), not gradients")

    def step(self, closure=None):
        """Do the wrapped optimizer's step, then combine its changes across all ranks."""
        self._name_parameters()
        params = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [p.detach().clone() for p in params]
        loss = super().step(closure) if closure is not None else super().step()
        if self._process_set.included():
            self._combine(params, before)
        self._stepped()
        return loss

    step.hooked = True  # torch wraps the inner step() for its step hooks; once is enough

    def _combine(self, params, before):
        """Replace this rank's changes with the combined changes."""
        with torch.no_grad():
            started = []
            for p, start in zip(params, before):
                small, ctx = self._compression.compress(p - start)
                name = f"delta.{self._travel_name(p)}"
                started.append((allreduce_async_(small, name=name, op=Adasum,
                                                 process_set=self._process_set), ctx))
            for p, start, (handle, ctx) in zip(params, before, started):
                p.copy_(start + self._compression.decompress(synchronize(handle), ctx))

    # What GradScaler asks for

    def _before_unscale(self):
        """Do nothing: gradients remain local to this rank."""

    def _agree_on_inf(self, found):
        """If a rank has found an infinite gradient, skip the step on all ranks, because the others
        would wait for its changes."""
        if self._process_set.included() and size() > 1:
            here = torch.stack([t.to("cpu") for t in found.values()]).max() if found else None
            anywhere = allreduce(torch.zeros(()) if here is None else here, op=Max,
                                 name="found_inf", process_set=self._process_set)
            for t in found.values():
                t.fill_(anywhere.item())
        return found
