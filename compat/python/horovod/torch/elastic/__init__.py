# __init__.py - horovod.torch.elastic: training that continues when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

from horovod.common.elastic import meet_again, run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func):
    """Decorate the training function, whose first argument is a State.

    On every rank, the function is called with the state of rank 0. It is called again each time the
    ranks have met again: with the last commit if a rank was lost, with the current state if hosts
    have changed.  Call collectives inside or after the function, not before it: a new rank would
    call them, but the other ranks, which do not run the beginning of the program again, would not.
    """
    return run_fn(func, meet_again)
