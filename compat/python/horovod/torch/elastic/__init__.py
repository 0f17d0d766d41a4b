# __init__.py - horovod.torch.elastic: training that continues when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

from horovod.common.elastic import meet_again, run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func):
    """Decorate the training function, whose first argument is a State.

    It is called with the state of rank 0 on every rank, and again when ranks had to meet again:
    with the last commit if one was lost, with the state as it is if hosts have changed.
    Collectives belong into it or behind it, not in front: a new rank would carry them out, and
    the others, which do not repeat the program's beginning, would not.
    """
    return run_fn(func, meet_again)
