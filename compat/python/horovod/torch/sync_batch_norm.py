# sync_batch_norm.py - batch normalization with the statistics of all ranks' batches.
# SPDX-License-Identifier: Apache-2.0

import torch

from horovod.torch.mpi_ops import Sum, allreduce, size


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """torch.nn.BatchNorm over the combined batches of all ranks.

    The batches may differ in size.  Unlike Horovod's, it works on any device."""

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm needs at least 2 dimensions, not {input.dim()}")

    def forward(self, input):
        x = input
        if size() == 1 or not (self.training or not self.track_running_stats):
            return super().forward(x)
        self._check_input_dim(x)
        # Two passes, for E[x^2] - E[x]^2 loses what matters; autograd goes through allreduce().
        dims = [d for d in range(x.dim()) if d != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        count = allreduce(torch.tensor([float(x.numel() // x.size(1))]), op=Sum).item()
        mean = allreduce(wide.sum(dims), op=Sum) / count
        centered = wide - mean.view(shape)
        variance = allreduce(centered.square().sum(dims), op=Sum) / count
        self._remember(mean.detach(), variance.detach(), count)
        out = centered * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(x.dtype)

    def _remember(self, mean, variance, count):
        """Update the running statistics as torch does."""
        if not self.track_running_stats:
            return
        self.num_batches_tracked += 1
        part = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * (count / max(count - 1, 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), part)
