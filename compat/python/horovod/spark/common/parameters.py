# parameters.py - what can be set of an estimator: names, defaults, getters and setters.
# SPDX-License-Identifier: Apache-2.0


class Table:
    """The parameters of an estimator: defaults, a dict; accepted, names of upstream's that change
    nothing here; refused, {name: why} of upstream's that mean something which is not there."""

    def __init__(self, owner, defaults, accepted, refused):
        self.owner, self.defaults = owner, defaults
        self.accepted, self.refused = accepted, refused

    def check(self, kwargs):
        """TypeError or ValueError where a parameter is unknown or means what is not there."""
        for name, value in kwargs.items():
            if name in self.refused and value is not None:
                raise ValueError(f"{name} is not there in ringup's {self.owner}: "
                                 f"{self.refused[name]}")
            if name not in self.defaults and name not in self.accepted and \
                    name not in self.refused:
                raise TypeError(f"{self.owner} has no parameter {name}")

    def values(self, kwargs):
        """All parameters, of which some are given."""
        self.check(kwargs)
        return {**self.defaults, **{k: v for k, v in kwargs.items() if k in self.defaults}}

    def add_accessors(self, cls, names=None):
        """Give a class setNumProc(), getNumProc() and so on for its dict _values."""
        for name in names or self.defaults:
            setter, getter = self._pair(name)
            camel = "".join(part.capitalize() for part in name.split("_"))
            setattr(cls, f"set{camel}", setter)
            setattr(cls, f"get{camel}", getter)

    def _pair(self, name):
        def setter(owner, value):
            self.check({name: value})
            owner._values[name] = value
            return owner

        def getter(owner):
            return owner._values[name]

        setter.__doc__, getter.__doc__ = f"Set {name}; returns self.", f"The value of {name}."
        return setter, getter
