# copies.py - copy a Keras optimizer with its settings.
# SPDX-License-Identifier: Apache-2.0
"""Keras makes an optimizer from a configuration, which contains the schedule of its learning rate.
Schedules that a program defines itself may not fit into a configuration; the copy then gets the
same object."""

import contextlib


def copy_of(optimizer):
    """Return a copy of an optimizer, without its state."""
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
    """Return the schedule or function that sets an optimizer's learning rate; None if it is a
    number."""
    rate = getattr(optimizer, "_hyper", {}).get("learning_rate")  # Keras 2's legacy ones
    if rate is None:
        rate = getattr(optimizer, "_learning_rate", None)
    return rate if callable(rate) else None


@contextlib.contextmanager
def _not_written_down(rate):
    """Give a schedule an empty configuration while the block runs, because nobody reads it."""
    if not hasattr(type(rate), "get_config"):
        yield
        return
    rate.get_config = dict
    try:
        yield
    finally:
        del rate.get_config
