# where_of_a_rank.py - what test_jobs.py starts: each rank says where it is.
# SPDX-License-Identifier: Apache-2.0
"""Without torch, which would take longer to import than all of the rest."""

import array
import json
import os

import ringup

ringup.init()
total = ringup.allreduce(array.array("d", [ringup.rank() + 1.0]))[0]
path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{ringup.rank()}")
with open(path, "w", encoding="utf-8") as f:
    json.dump([ringup.rank(), ringup.size(), ringup.local_rank(), ringup.local_size(),
               ringup.host_rank(), ringup.host_count(), total], f)
