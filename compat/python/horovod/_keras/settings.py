# settings.py - how an optimizer combines gradients, kept in its configuration and its copies.
# SPDX-License-Identifier: Apache-2.0
"""Programs make optimizers from configurations: tuners, compile_from_config(), a cloned model.
Such an optimizer must combine gradients if the one that the configuration came from does, or the
ranks would train separate models.  The settings are an attribute of the optimizer's name, which is
a subclass of str.  In JSON it is an ordinary name, so saved models do not need this package."""

import copy
import functools
import importlib
import warnings

from horovod.common.process_sets import number_of, set_of_number

_FOLLOWED = "_ringup_follows_settings"  # the attribute of a from_config() that looks for settings


class Settings:
    """The arguments of horovod._keras.distribute(), except lists of variables, which differ in the
    model of a copy."""

    def __init__(self, keras, **how):
        self.keras, self.how, self.has_local = keras, how, False
        if isinstance(how.get("groups"), list):
            how["groups"] = None

    def apply(self, optimizer):
        """Make an optimizer from a configuration combine gradients, unless it already does."""
        from horovod._keras import imply  # which uses this module
        if self.has_local:
            warnings.warn("local variables are not part of an optimizer's configuration: call "
                          "register_local_var() again for the new optimizer", RuntimeWarning,
                          stacklevel=4)
        imply(self.keras, optimizer, self.how)
        return optimizer

    def __getstate__(self):
        return {"keras": self.keras.__name__, "has_local": self.has_local,
                "how": {**self.how, "process_set": number_of(self.how["process_set"])}}

    def __setstate__(self, state):
        self.keras, self.has_local = importlib.import_module(state["keras"]), state["has_local"]
        self.how = {**state["how"], "process_set": set_of_number(state["how"]["process_set"])}


class _Name(str):
    """An optimizer's name in a configuration, with its settings."""

    def __new__(cls, name, settings):
        new = super().__new__(cls, name)
        new.settings = settings
        return new

    def __deepcopy__(self, _memo):
        return self

    def __reduce__(self):
        return _Name, (str(self), self.settings)


def _marked(config, settings):
    """Return a configuration with settings.  The configuration of Keras 2's LossScaleOptimizer has
    only the name of the inner optimizer."""
    if "name" in config:
        return {**config, "name": _Name(config["name"], settings)}
    inner = config.get("inner_optimizer")
    if not isinstance(inner, dict):
        return config
    return {**config, "inner_optimizer": {**inner, "config": _marked(inner["config"], settings)}}


def _follow(cls):
    """Make a class of optimizers look for settings in the configurations that it is made from."""
    for base in cls.__mro__:
        method = vars(base).get("from_config")
        if isinstance(method, classmethod) and not hasattr(method.__func__, _FOLLOWED):
            base.from_config = classmethod(_following(method.__func__))


def _following(inner):
    @functools.wraps(inner)
    def from_config(cls, config, *args, **kwargs):
        name = config.get("name") if isinstance(config, dict) else None
        if not isinstance(name, _Name):
            return inner(cls, config, *args, **kwargs)
        return name.settings.apply(inner(cls, {**config, "name": str(name)}, *args, **kwargs))

    setattr(from_config, _FOLLOWED, True)
    return from_config


def keep(optimizer, settings, plain):
    """Give the settings to the configuration and the copies of an optimizer.  plain() makes the
    optimizer behave as Keras's own while a block runs."""
    _follow(type(optimizer))
    inner = optimizer.get_config

    @functools.wraps(inner)
    def get_config():
        return _marked(inner(), settings)

    def deepcopy(memo):
        with plain():
            return settings.apply(copy.deepcopy(optimizer, memo))

    def reduce(protocol):
        with plain():
            reduced = optimizer.__reduce_ex__(protocol)
        if len(reduced) > 2:  # Keras 2's own, which pickle refuses for what is in them
            return reduced
        return _restored, (settings, *reduced)

    optimizer.get_config, optimizer.__deepcopy__, optimizer.__reduce_ex__ = (get_config, deepcopy,
                                                                             reduce)


def _restored(settings, make, args):
    """Recreate an optimizer with settings, for pickle."""
    return settings.apply(make(*args))
