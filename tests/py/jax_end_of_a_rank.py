# jax_end_of_a_rank.py - what test_jax.py starts: rank 1 is killed, rank 0 tells its error.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy

import ringup
from ringup import jax as rj
from ringup import jax_primitive

if os.environ.get("RINGUP_TEST_JAX") == "host":
    jax_primitive.by_cpu = jax_primitive.by_host

def main():
    ringup.init()
    step = jax.jit(lambda x: rj.allreduce(x, rj.SUM, "x"))
    numpy.asarray(step(jnp.ones(1000)))
    # Rank 1 may have the first sum when rank 0 is still to take it.
    ready = os.path.join(os.environ["RINGUP_TEST_RESULTS"], "ready")
    if ringup.rank() == 0:
        with open(ready, "w", encoding="utf-8"):
            pass
    while not os.path.exists(ready):
        time.sleep(0.01)
    if ringup.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said = "nothing"
    try:
        numpy.asarray(step(jnp.ones(1000)))
    except Exception as e:
        said = f"{type(e).__name__}: {e}"
    with open(os.path.join(os.environ["RINGUP_TEST_RESULTS"], "rank.0"), "w",
              encoding="utf-8") as f:
        json.dump({"said": said}, f)
    os._exit(0)


if __name__ == "__main__":
    main()
