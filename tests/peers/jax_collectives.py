#!/usr/bin/env python3
# jax_collectives.py - allreduce in compiled code: ringup.jax beside JAX's own collectives on Gloo.
# SPDX-License-Identifier: Apache-2.0
"""Both are compiled into programs of the same processes, on CPUs, and take turns:

    tests/peers/jax_collectives.py --ringup build/ringup --python VENV/bin/python --rounds 7

prints a line for each size: the median microseconds of an allreduce in a program of many that
follow each other, and of a program that has one, with both and their ratio (Gloo / ringup).
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SIZES = (4, 64 << 10, 16 << 20)
RANKS = 2


def programs(jax, jnp, count, size):
    """{name: a function of no arguments that carries count allreduces out}"""
    import numpy

    from ringup import jax as rj

    mesh = jax.sharding.Mesh(numpy.array(jax.devices()), ("ranks",))
    spec = jax.sharding.PartitionSpec("ranks")
    mine = numpy.ones((1, size // 4), "float32")

    def chain(combine):
        def run(x):
            for i in range(count):
                x = combine(x, i) * 0.5
            return x
        return run

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    of_gloo = jax.jit(shard_map(chain(lambda x, _i: jax.lax.psum(x, "ranks")), mesh=mesh,
                                in_specs=spec, out_specs=spec))
    sharding = jax.sharding.NamedSharding(mesh, spec)
    everywhere = jax.make_array_from_process_local_data(sharding, mine)
    of_ringup = jax.jit(chain(lambda x, i: rj.allreduce(x, rj.SUM, f"{size}.{i}")))
    here = jax.device_put(mine, jax.local_devices()[0])
    return {"gloo": lambda: of_gloo(everywhere).block_until_ready(),
            "ringup": lambda: of_ringup(here).block_until_ready()}


def turns(functions, barrier, rounds, calls):
    """The median seconds of a call of each; they take turns."""
    times = {name: [] for name in functions}
    for f in functions.values():
        f()
    for _ in range(rounds):
        for name, f in functions.items():
            barrier()
            begun = time.perf_counter()
            for _ in range(calls):
                f()
            times[name].append((time.perf_counter() - begun) / calls)
    return {name: statistics.median(t) for name, t in times.items()}


def rank(port, rounds):
    """One rank; the first prints."""
    import jax

    import ringup

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    ringup.init()
    jax.distributed.initialize(f"127.0.0.1:{port}", RANKS, ringup.rank())
    for size in SIZES:
        for count in (16, 1):
            functions = programs(jax, jax.numpy, count, size)
            calls = max(1, min(200, (64 << 20) // size // 16 // count))
            m = turns(functions, ringup.barrier, rounds, calls)
            if ringup.rank() == 0:
                gloo, ours = (m[name] / count * 1e6 for name in ("gloo", "ringup"))
                print(f"allreduce {size:>9} B, {count:2} in a program: gloo {gloo:10.1f} us  "
                      f"ringup {ours:10.1f} us  ratio {gloo / ours:.2f}", flush=True)
    ringup.barrier()
    ringup.shutdown()
    jax.distributed.shutdown()


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ringup", default=os.path.join(ROOT, "build", "ringup"))
    a.add_argument("--python", default=sys.executable, help="a Python that has JAX")
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--rank", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = a.parse_args()
    if args.rank:
        rank(args.rank, args.rounds)
        return
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    library = os.path.join(os.path.dirname(os.path.abspath(args.ringup)), ".libs",
                           "libringup.so.0")
    sys.exit(subprocess.run(
        [args.ringup, "run", "-np", str(RANKS), "--no-prefix", "--", args.python,
         os.path.abspath(__file__), "--rank", str(port), "--rounds", str(args.rounds)],
        env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "compat", "python"),
             "RINGUP_LIBRARY": library, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"},
        check=False).returncode)


if __name__ == "__main__":
    main()
