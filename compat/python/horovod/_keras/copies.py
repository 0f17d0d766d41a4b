# copies.py - copy a Keras optimizer with its settings.
# SPDX-License-Identifier: Apache-2.0
"""Keras makes one of a configuration, in which a learning rate that follows a schedule is written
down.  Programs have schedules of their own that cannot be; the copy gets the same object."""

import contextlib


def copy_of(optimizer):
    """A new optimizer like this one, without its state."""
    inner = getattr(optimizer, "inner_optimizer", None)
    rate = _rate_of(inner if inner is not None else optimizer)
    if rate is None:
        return type(optimizer).from_config(optimizer.get_config())
    with _not_written_down(rate):
        config = optimizer.get_config()
    if inner is None:
        config["learning_rate"] = rate
        return type(optimizer).from_config(config)
    config.pop("inner_optimizer")
    return type(optimizer)(copy_of(inner), **config)


def _rate_of(optimizer):
    """The schedule, or the function, that tells an optimizer its learning rate; None: a number
    does."""
    rate = getattr(optimizer, "_hyper", {}).get("learning_rate")  # Keras 2's legacy ones
    if rate is None:
        rate = getattr(optimizer, "_learning_rate", None)
    return rate if callable(rate) else None


@contextlib.contextmanager
def _not_written_down(rate):
    """Let a configuration have a schedule in it that need not be read again."""
    if not hasattr(type(rate), "get_config"):
        yield
        return
    rate.get_config = dict
    try:
        yield
    finally:
        del rate.get_config
