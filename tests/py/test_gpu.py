# test_gpu.py - collectives and training on tensors of a GPU, by Horovod's interface and torch's.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/horovod compat/python/ringup tests/py

import glob

import pytest
from conftest import checks_of, outcome

MODULES = ["torch.distributed", "torch.nn.parallel", "torch.optim"]

# Not torch.cuda.is_available(), which this process would have to import torch for.
pytestmark = pytest.mark.skipif(not glob.glob("/dev/nvidia[0-9]*"), reason="no NVIDIA GPU here")


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("gpu_of_a_rank.py"))
def test_gpu(n, name, parent, tmp_path_factory):
    outcome("gpu_of_a_rank.py", n, name, parent, tmp_path_factory)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("process_group_gpu_of_a_rank.py"))
def test_process_group_on_a_gpu(n, name, parent, tmp_path_factory):
    outcome("process_group_gpu_of_a_rank.py", n, name, parent, tmp_path_factory)
