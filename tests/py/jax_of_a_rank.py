# jax_of_a_rank.py - what test_jax.py starts on each rank: collectives in compiled code.
# SPDX-License-Identifier: Apache-2.0
"""RINGUP_TEST_JAX=host: arrays on CPUs go the way of those on GPUs.  RINGUP_TEST_JAX=cuda: arrays
are on GPUs."""

import os
import threading
import time
import types

WAY = os.environ.get("RINGUP_TEST_JAX", "cpu")
if WAY != "cuda":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
import optax  # noqa: E402
from checks import Checks, end, raises  # noqa: E402

import ringup  # noqa: E402
from ringup import jax as rj  # noqa: E402
from ringup import job  # noqa: E402
from ringup import jax_primitive  # noqa: E402

jax.config.update("jax_enable_x64", True)
if WAY == "host":
    jax_primitive.by_cpu = jax_primitive.by_host
TYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64")
check = Checks()


def near(got, want, tolerance=1e-5):
    numpy.testing.assert_allclose(numpy.asarray(got, "float64"), numpy.asarray(want, "float64"),
                                  rtol=tolerance, atol=1e-6)


@check
def collectives_of_all_types():
    n, r = ringup.size(), ringup.rank()
    for dtype in TYPES:
        x = jnp.arange(6, dtype=dtype).reshape(2 * 1, 3) + jnp.asarray(r, dtype)
        total = sum(numpy.arange(6).reshape(2, 3) + i for i in range(n))
        got = jax.jit(lambda x: rj.allreduce(x, rj.SUM))(x)
        assert got.dtype == x.dtype
        near(got, total)
    for dtype in (*TYPES, "bool", "uint32", "uint64", "complex64", "complex128"):
        x = jnp.full((2, 2), r, dtype)
        got = jax.jit(rj.allgather)(x)
        assert got.dtype == x.dtype and got.shape == (2 * n, 2)
        assert all(bool(got[2 * i, 0] == jnp.asarray(i, dtype)) for i in range(n))
        assert bool((jax.jit(lambda x: rj.broadcast(x, n - 1))(x)
                     == jnp.asarray(n - 1, dtype)).all())
    near(rj.allreduce(float(r)), (n - 1) / 2)
    near(jax.jit(lambda x: rj.allreduce(x, rj.MAX))(jnp.ones(3) * r), [n - 1] * 3)
    x = jnp.arange(2.0 * n) + 100 * r
    near(jax.jit(rj.alltoall)(x), [2 * r + k + 100 * i for i in range(n) for k in range(2)])
    near(jax.jit(lambda x: rj.reducescatter(x, rj.SUM))(x),
         [n * (2 * r + k) + 50 * n * (n - 1) for k in range(2)])


@check
def arguments_that_no_rank_could_accept():
    n = ringup.size()
    raises(ValueError, rj.allgather, jnp.float32(1), says="at least one dimension")
    raises(ValueError, rj.alltoall, jnp.ones(n + 1), says="evenly")
    raises(ValueError, rj.reducescatter, jnp.ones(n + 1), says="evenly")
    raises(ValueError, rj.allreduce, jnp.ones(1, "complex64"), says="cannot be reduced")
    raises(ValueError, rj.allreduce, jnp.ones(1), pre=0, says="zeros")


@check
def gradients():
    n, r = ringup.size(), ringup.rank()
    w = jnp.arange(1.0, 5.0) * (r + 1)
    total = n * (n + 1) / 2

    def gradient(f, rows=4):
        return jax.jit(jax.grad(lambda x: (f(x) * w[0]).sum()))(jnp.ones(rows))

    near(gradient(lambda x: rj.allreduce(x, rj.SUM)), [total] * 4)
    near(gradient(rj.allreduce), [total / n] * 4)
    near(gradient(rj.allgather), [total] * 4)
    near(gradient(lambda x: rj.broadcast(x, 0)), [0 if r else total] * 4)
    near(gradient(rj.alltoall, 2 * n), [i + 1 for i in range(n) for _ in range(2)])
    near(gradient(lambda x: rj.reducescatter(x, rj.SUM), 2 * n),
         [i + 1 for i in range(n) for _ in range(2)])
    raises(NotImplementedError, gradient, lambda x: rj.allreduce(x, rj.MAX))


@check
def programs_for_a_gpu():
    """JAX lowers them without one: arrays stay there, if the group takes them (by NCCL)."""
    def lowered():
        program = jax.jit(lambda x: rj.allgather(rj.allreduce(x, rj.SUM)))
        return program.trace(jnp.ones((2, 3))).lower(lowering_platforms=("cuda",)).as_text()

    real, by_host = job.group, jax_primitive.by_host

    def through_the_host(*_what):
        raise LookupError("through the host")

    try:
        jax_primitive.by_host = through_the_host
        job.group = lambda _number: types.SimpleNamespace(cuda=True, size=ringup.size())
        text = lowered()
        assert "@ringup_allreduce" in text and "@ringup_allgather" in text, text
        job.group = lambda _number: types.SimpleNamespace(cuda=False, size=1)
        raises(LookupError, lowered, says="through the host")
    finally:
        job.group, jax_primitive.by_host = real, by_host


@check
def loops_and_vectors():
    n = ringup.size()
    near(jax.jit(jax.vmap(lambda x: rj.allreduce(x, rj.SUM)))(jnp.ones((3, 2))), [[n] * 2] * 3)

    def body(carry, x):
        carry = rj.allreduce(carry + x, rj.AVERAGE)
        return carry, carry

    near(jax.jit(lambda xs: jax.lax.scan(body, 0.0, xs)[1])(jnp.ones(5)), [1, 2, 3, 4, 5])


@check
def any_order_of_many():
    """40 independent ones in a program, in the reverse order on one rank; none is folded away.
    Those that go through host memory come in the program's order."""
    n, r = ringup.size(), ringup.rank() if WAY == "cpu" else 0

    @jax.jit
    def step(x):
        order = range(40) if r else reversed(range(40))
        out = {i: rj.allreduce(x * i, rj.SUM, f"many.{i}") for i in order}
        return [out[i] for i in range(40)]

    for _ in range(3):
        for i, got in enumerate(step(jnp.ones(2))):
            near(got, [n * i] * 2)


@check
def devices_of_a_process_do_not_mix():
    """Each of two devices combines with the same one of the other ranks, or it is refused."""
    n, r = ringup.size(), ringup.rank()
    if len(jax.devices()) < 2:
        return
    mesh = jax.sharding.Mesh(numpy.array(jax.devices()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    shard_map = getattr(jax, "shard_map", None)
    f = jax.jit(shard_map(lambda x: rj.allreduce(x, rj.SUM, "shards"), mesh=mesh, in_specs=spec,
                          out_specs=spec, check_vma=False))
    if WAY != "cpu":
        raises(Exception, lambda: numpy.asarray(f(jnp.ones(2))), says="CUDA_VISIBLE_DEVICES")
        return
    for _ in range(3):
        near(f(jnp.array([1.0 + r, 10.0 + r])),
             [n + n * (n - 1) / 2, 10 * n + n * (n - 1) / 2])


@check
def ranks_and_devices_add_up_in_one_program():
    """XLA waits for a process's other devices in the thread that tells it a collective's end."""
    if WAY != "cpu" or not hasattr(jax, "shard_map"):
        return
    n, r = ringup.size(), ringup.rank()
    spec = jax.sharding.PartitionSpec("d")
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def step(x):
        for i in range(3):
            x = jax.lax.psum(rj.allreduce(x + i, rj.SUM), "d") / (2 * n)
        return x

    f = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    for i in range(10):
        whole = f(jnp.array([1.0 + r, 2.0 + r + i]))
        near(whole, [1.5 + (n - 1) / 2 + i / 2 + 3] * 2)
    raises(ValueError, rj.allreduce, whole, says="jax.shard_map")
    near(rj.allreduce(jax.device_put(whole, jax.devices()[1])), whole)


@check
def programs_for_gpus_leave_the_functions_for_cpus_out():
    """A CPU can compile for a GPU, but for functions of Python; a product stands for them."""
    if WAY == "host" or not hasattr(jax, "export"):
        return
    by_host = jax_primitive.by_host
    jax_primitive.by_host = lambda word, x, *_how: x * 3
    try:
        for platform, of_cpus in (("cpu", True), ("cuda", False)):
            f = jax.jit(lambda x, p=platform: rj.allreduce(x, rj.SUM, f"for.{p}"))
            allowed = [jax.export.DisabledSafetyCheck.custom_call("ringup_allreduce")]
            text = jax.export.export(f, platforms=[platform], disabled_checks=allowed)(
                jnp.ones(3)).mlir_module()
            assert ("ringup_allreduce" in text) == of_cpus, text
            assert ("stablehlo.multiply" in text) != of_cpus, text
    finally:
        jax_primitive.by_host = by_host


@check
def arrays_are_on_the_device_that_is_meant():
    x = jax.jit(rj.allreduce)(jnp.ones(3))
    assert {d.platform for d in x.devices()} == {"gpu" if WAY == "cuda" else "cpu"}


@check
def training_is_that_of_one_process():
    n, r = ringup.size(), ringup.rank()
    g = numpy.random.RandomState(1)
    x, y = g.uniform(-1, 1, (4, n, 8, 3)), g.uniform(-1, 1, (4, n, 8, 1))

    def loss(params, x, y):
        return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    def train(optimizer, params, batches):
        state = optimizer.init(params)

        @jax.jit
        def step(params, state, x, y):
            updates, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
            return optax.apply_updates(params, updates), state

        for a, b in batches:
            params, state = step(params, state, a, b)
        return params

    start = {"w": jnp.asarray(g.uniform(-1, 1, (3, 5))), "v": jnp.asarray(g.uniform(-1, 1, (5, 1)))}
    mine = rj.broadcast_parameters(jax.tree.map(lambda p: p + r, start))
    for make in (lambda: optax.sgd(0.1), lambda: optax.adam(0.01)):
        want = train(make(), start, [(a.reshape(8 * n, 3), b.reshape(8 * n, 1))
                                     for a, b in zip(x, y)])
        got = train(rj.distributed(make()), mine, zip(x[:, r], y[:, r]))
        near(got["w"], want["w"]), near(got["v"], want["v"])


@check
def what_an_optimizer_is_told_arrives_in_a_chain():
    """optax hands arguments of update() on to those that say that they take them."""
    value = 1.0 + ringup.rank()
    seen = []

    def update(grads, state, params=None, *, loss, **_extra):
        seen.append(loss)
        return grads, state

    asks = optax.GradientTransformationExtraArgs(lambda params: (), update)
    for inner in (asks, optax.sgd(0.1), optax.chain(optax.sgd(0.1), asks)):
        optimizer = optax.chain(rj.distributed(inner))
        state = optimizer.init(jnp.ones(2))
        optimizer.update(jnp.ones(2), state, jnp.ones(2), loss=value)
    assert seen == [value] * 2, seen


@check
def ranks_that_disagree_are_told():
    r = ringup.rank()
    f = jax.jit(lambda x: rj.allreduce(x, rj.SUM, "differs"))
    e = raises(Exception, lambda: numpy.asarray(f(jnp.ones(2 + r))), says="differs")
    assert "EMISMATCH" in str(e), e
    near(jax.jit(lambda x: rj.allreduce(x, rj.SUM, "agrees"))(jnp.ones(2)), [ringup.size()] * 2)


@check
def jobs_follow_each_other():
    n = ringup.size()
    f = jax.jit(lambda x: rj.allreduce(x, rj.SUM, "again"))
    for _ in range(2):
        near(f(jnp.ones(2)), [n] * 2)
        ringup.barrier()
        ringup.shutdown()
        raises(Exception, lambda: numpy.asarray(f(jnp.ones(2))), says="init()")
        ringup.init()
    near(f(jnp.ones(2)), [n] * 2)


def leave_and_look(left):
    """Close the job as Job.close() does, after a while; what was said in cut_short() before."""
    close, early = ringup.job.Job.close, []

    def look_and_close(job):
        for _ in range(30):
            early.extend(said)
            time.sleep(0.01)
        with open(left, "w", encoding="utf-8"):
            close(job)  # which waits for the others

    ringup.job.Job.close = look_and_close
    try:
        ringup.shutdown()
    finally:
        ringup.job.Job.close = close
    return early


said = []


def cut_short(compute, left, wait):
    """Leave while another thread computes; true if the collective was under way by then."""
    said.clear()
    thread = threading.Thread(target=lambda: said.append(
        str(raises(Exception, lambda: numpy.asarray(compute(jnp.ones(3)))))))
    thread.start()
    time.sleep(wait)
    early = leave_and_look(left)
    thread.join()
    if "init()" in said[0]:
        return False
    assert not early and "is leaving the job" in said[0], (early, said)
    return True


@check
def arrays_live_until_the_job_is_closed():
    """A rank leaves while compiled code waits for the others: XLA frees no array before that."""
    if WAY != "cpu":
        return  # there a function of Python keeps the arrays
    f = jax.jit(lambda x: rj.allreduce(x, rj.SUM, "cut.short"))
    compute, good, attempt = f.lower(jnp.ones(3)).compile(), False, 0
    while not good:
        left = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"left.{attempt}")
        if ringup.rank() == 0:
            good = cut_short(compute, left, 0.1 * 2 ** attempt)
        else:
            while not os.path.exists(left):
                time.sleep(0.01)
            ringup.shutdown()
        ringup.init()
        good, attempt = bool(rj.broadcast(jnp.array(good))), attempt + 1
    near(f(jnp.ones(2)), [ringup.size()] * 2)


def main():
    ringup.init()
    check.run(ringup.rank(), between=ringup.barrier)
    ringup.shutdown()
    end()


if __name__ == "__main__":
    main()
