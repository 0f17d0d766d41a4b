# array_weights.py - samples of weights that numpy can read, to check that all ranks hold the same.
# SPDX-License-Identifier: Apache-2.0
"""A check runs before a step and compares the weights that the previous steps have produced.
Before the first step, weights may differ, because callbacks broadcast them after it."""

import numpy

from horovod.common import arrays
from horovod.common.semantics import Max, Min
from horovod.common.weights import ELEMENTS, chosen, complain, interval, places

_steps = {}  # how many steps have been counted, by the scope and the first of the variables


class Check:
    """Compares variables of a scope, which are the same on all ranks and in the same order."""

    def __init__(self, scope, variables, process_set):
        self.key = scope, len(variables), id(variables[0])
        self.names = [getattr(v, "path", None) or getattr(v, "name", "") for v in variables]
        self.scope, self.process_set = scope, process_set

    def turn(self):
        """Count a step.  Return which check is due, or None.  The ranks may have counted different
        numbers of steps, for example after one rank has loaded its optimizer, so they agree on the
        smallest number."""
        counted = numpy.int64(_steps.get(self.key, 0))
        steps = int(arrays.allreduce(counted, f"check_weights.{self.scope}.steps", Min, 1.0, 1.0,
                                     self.process_set))
        _steps[self.key] = steps + 1
        turn, rest = divmod(steps, interval() or steps + 1)
        return turn if steps and not rest else None

    def compare(self, *values):
        """If a check is due, raise an exception on all ranks if a sample of the variables' values
        differs."""
        turn = self.turn()
        if turn is None:
            return
        some = chosen(list(zip(self.names, values)), turn)
        mine = numpy.stack([_sampled(value, turn) for _name, value in some])
        name = f"check_weights.{self.scope}"
        both = arrays.allreduce(numpy.stack([mine, ~mine]), name, Max, 1.0, 1.0, self.process_set)
        differ = [i for i, same in enumerate((both[0] == ~both[1]).all(1)) if not same]
        if not differ:
            return
        everybody = arrays.allgather(mine[None], name, self.process_set)
        complain([some[i][0] for i in differ],
                 [[tuple(row) for row in everybody[:, i].tolist()] for i in differ],
                 self.process_set.ranks,
                 "Start with BroadcastGlobalVariablesCallback(0) or hvd.broadcast_variables(); run "
                 "the same steps with the same options on all ranks, and combine all gradients: "
                 "hvd.DistributedOptimizer or hvd.DistributedGradientTape")


def _sampled(value, turn):
    """Return the bits of some elements of an array, as integers."""
    flat = numpy.ascontiguousarray(value).reshape(-1)
    if not flat.size:
        return numpy.zeros(ELEMENTS, "int64")
    first, each = places(turn, flat.size)
    some = flat[(first + numpy.arange(ELEMENTS) * each) % flat.size]
    if some.dtype.kind == "c":
        some = numpy.ascontiguousarray((some.real, some.imag)[turn % 2])
    return some.view(f"u{some.itemsize}").astype("int64")


def check(scope, variables, value_of, process_set):
    """Count a step.  If a check is due, compare variables, whose values value_of() returns."""
    if variables:
        Check(scope, variables, process_set).compare(*map(value_of, variables))
