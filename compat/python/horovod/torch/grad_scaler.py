# grad_scaler.py - torch's GradScaler, for use with optimizers whose gradients are combined.
# SPDX-License-Identifier: Apache-2.0
"""GradScaler divides gradients by its scale and looks for infinite ones before it calls step().
Both must use combined gradients, or the ranks would act differently."""

import functools

import torch


def _classes():
    """Return the GradScaler classes, wherever this torch has them."""
    amp = getattr(torch, "amp", None)
    if hasattr(amp, "GradScaler"):
        return [amp.GradScaler]
    return [c for c in (getattr(torch.cuda.amp, "GradScaler", None),) if c is not None]


def _prepared(unscale):
    """Return a version of GradScaler's unscale function that first prepares the optimizer's
    gradients."""

    @functools.wraps(unscale)
    def unscale_ready(self, optimizer, *args, **kwargs):
        ready = getattr(optimizer, "_before_unscale", None)
        if ready is None:
            return unscale(self, optimizer, *args, **kwargs)
        ready()
        return optimizer._agree_on_inf(unscale(self, optimizer, *args, **kwargs))

    unscale_ready.knows_ringup = True
    return unscale_ready


def install():
    """Make every GradScaler call a DistributedOptimizer first."""
    for kind in _classes():
        unscale = getattr(kind, "_unscale_grads_", None)
        if unscale is not None and not hasattr(unscale, "knows_ringup"):
            kind._unscale_grads_ = _prepared(unscale)
