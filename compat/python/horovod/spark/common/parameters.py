# parameters.py - parameters of estimators and models: Params of Spark ML with upstream's names.
# SPDX-License-Identifier: Apache-2.0

from pyspark.ml.param import Param, Params

# Upstream's names of getters and setters that do not follow from the parameter's.
_UNLIKE = {
    "shuffle_buffer_size": "ShufflingBufferSize", "train_reader_num_workers":
    "TrainReaderNumWorker", "val_reader_num_workers": "ValReaderNumWorker",
    "inmemory_cache_all": "InMemoryCacheAll",
}


class Parameters(Params):
    """A subclass lists its parameters in DEFAULTS, and decorates itself with named().

    REFUSED contains the upstream parameters that ringup does not support, with the reasons.  Each
    parameter is a Param, so explainParams(), copy(), fit(df, {param: value}) and ParamGridBuilder
    work."""

    DEFAULTS = {}
    REFUSED = {}

    def __init__(self, given):
        super().__init__()
        self._setDefault(**self.DEFAULTS)
        self.setParams(**given)

    def setParams(self, **given):
        """Set parameters by name; None keeps the default.  Return self."""
        for name, value in given.items():
            if name not in self.DEFAULTS and name not in self.REFUSED:
                raise TypeError(f"{type(self).__name__} has no parameter {name}")
            self._refuse(name, value)
        return self._set(**{name: _listed(value) for name, value in given.items()
                            if value is not None and name in self.DEFAULTS})

    def _refuse(self, name, value):
        if name in self.REFUSED and not _is_nothing(value):
            raise ValueError(f"ringup's {type(self).__name__} does not support {name}: "
                             f"{self.REFUSED[name]}")

    def values(self):
        """Return {name: value} of all parameters."""
        return {name: self.getOrDefault(name) for name in self.DEFAULTS}


def _listed(value):
    """Return a list for a tuple, because explainParams() formats no tuples."""
    return list(value) if isinstance(value, tuple) else value


def _is_nothing(value):
    """Return whether a parameter with this value has no effect."""
    return value is None or (isinstance(value, (bool, list, tuple, dict)) and not value)


def named(cls):
    """Give a class a Param, a getter and a setter for each name of DEFAULTS."""
    for name in [*cls.DEFAULTS, *cls.REFUSED]:
        camel = _UNLIKE.get(name) or "".join(part.capitalize() for part in name.split("_"))
        if name in cls.DEFAULTS:
            setattr(cls, name, Param(Params._dummy(), name, name.replace("_", " ")))
        for accessor, function in zip((f"set{camel}", f"get{camel}"), _pair(name)):
            if not hasattr(cls, accessor):
                setattr(cls, accessor, function)
    return cls


def _pair(name):
    def setter(owner, value):
        owner._refuse(name, value)
        return owner._set(**{name: _listed(value)}) if name in owner.DEFAULTS else owner

    def getter(owner):
        return owner.getOrDefault(name) if name in owner.DEFAULTS else None

    setter.__doc__, getter.__doc__ = f"Set {name}; returns self.", f"The value of {name}."
    return setter, getter
