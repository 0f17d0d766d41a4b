# jax_places_of_a_rank.py - what test_jax.py starts on each rank: programs that differ, derivatives.
# SPDX-License-Identifier: Apache-2.0
"""RINGUP_TEST_JAX=host: arrays on CPUs go the way of those on GPUs."""

import os
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
import optax  # noqa: E402
from checks import Checks, end, raises  # noqa: E402

import ringup  # noqa: E402
from ringup import jax as rj  # noqa: E402
from ringup import jax_primitive  # noqa: E402

WAY = os.environ.get("RINGUP_TEST_JAX", "cpu")
if WAY == "host":
    jax_primitive.by_cpu = jax_primitive.by_host
check = Checks()


def near(got, want, tolerance=1e-5):
    numpy.testing.assert_allclose(numpy.asarray(got, "float64"), numpy.asarray(want, "float64"),
                                  rtol=tolerance, atol=1e-6)


def loss_of(w, x):
    return jnp.mean((x @ w - 1) ** 2)


def make_step():
    @jax.jit
    def step(w, x):
        loss, grads = jax.value_and_grad(loss_of)(w, x)
        return w - 0.1 * rj.allreduce(grads), rj.allreduce(loss), rj.allreduce(loss, rj.MAX)

    return step


def same_everywhere(x):
    everybody = numpy.asarray(rj.allgather(x[None]))
    assert (everybody == everybody[0]).all(), everybody


# Programs

@check
def a_smaller_batch_on_one_rank():
    step, w = make_step(), jnp.zeros(4)
    rows = [10, 10, 10 if ringup.rank() else 6, 10, 10 - ringup.rank()]
    for n in rows:
        w, _, _ = step(w, jnp.ones((n, 4)))
    same_everywhere(w)


@check
def a_rank_that_traces_and_compiles_more():
    step, w, x = make_step(), jnp.zeros(4), jnp.ones((5, 4))
    if ringup.rank() == 0:
        jax.eval_shape(step, w, x)
        jax.make_jaxpr(step)(w, x)
        step.lower(w, x)
        compiled = step.lower(w, x).compile()
        step.lower(w, x[:3]).compile()
        jax.jit(lambda x: rj.allreduce(x) + rj.broadcast(x)).lower(x).compile()
    else:
        compiled = step
    for _ in range(3):
        w, _, _ = step(w, x)
        w, _, _ = compiled(w, x)
    same_everywhere(w)
    near(rj.allreduce(jnp.ones(2), rj.SUM), [ringup.size()] * 2)


@check
def a_small_program_that_runs_in_another_order():
    if WAY == "host":  # where a collective blocks its program
        return
    rank, size = ringup.rank(), ringup.size()

    @jax.jit
    def step(x):
        a, b = rj.allreduce(x, rj.SUM), rj.allreduce(x * 2, rj.SUM)
        c = rj.allreduce(rj.allreduce(x, rj.SUM) + 1, rj.SUM)
        # XLA leaves out a sum with 0, and begins with another collective then.
        return a, b, c, rj.allgather(a + rank), rj.broadcast(x, size - 1)

    @jax.jit
    def count(x, rows):
        total = jnp.sum(rows @ rows.T) + rank
        return rj.allreduce(x, rj.SUM), rj.allreduce(total * 0 + 1, rj.SUM), rj.allreduce(x, rj.MAX)

    x = jnp.ones(2) * (rank + 1)
    total = size * (size + 1) / 2
    a, b, c, d, e = step(x)
    near(a, [total] * 2)
    near(b, [2 * total] * 2)
    near(c, [size * (total + 1)] * 2)
    near(d, [total + r for r in range(size) for _ in range(2)])
    near(e, [size] * 2)
    for rows in (3, 3 + rank):
        a, b, c = count(x, jnp.ones((rows, 2)))
        near(a, [total] * 2)
        near([b, *c], [size] * 3)

    # Collectives in a loop, beside others.
    @jax.jit
    def loop(x):
        many = jax.lax.fori_loop(0, 3, lambda i, v: rj.allreduce(v + i * rank, rj.MAX), x)
        return many, rj.allreduce(x + rank, rj.SUM)

    many, one = loop(x)
    near(many, [size + 3 * (size - 1)] * 2)
    near(one, [total + size * (size - 1) / 2] * 2)


@check
def programs_traced_in_another_order():
    n = ringup.size()

    def first(x):
        return rj.allreduce(x, rj.SUM) + 1

    def second(x):
        return rj.allreduce(x, rj.SUM) * 2 + rj.allreduce(x * x, rj.SUM)

    a, b = jax.jit(first), jax.jit(second)
    for f in (a, b) if ringup.rank() % 2 else (b, a):
        f.lower(jnp.ones(3)).compile()
    near(a(jnp.ones(3)), [n + 1] * 3)
    near(b(jnp.ones(3)), [3 * n] * 3)


@check
def a_program_that_is_started_again_before_it_has_ended():
    n = ringup.size()

    @jax.jit
    def slow(x, w):
        for _ in range(3):
            w = jnp.tanh(w @ w)
        return rj.allreduce(x + 0 * w[0, 0], rj.SUM)

    w = jnp.ones((150 + 50 * ringup.rank(),) * 2)
    got = [slow(jnp.full(700, float(i)), w) for i in range(30)]
    for i, x in enumerate(got):
        near(x, [i * n] * 700)


@check
def results_that_one_rank_does_not_use():
    f = jax.jit(lambda x: (rj.allreduce(x, rj.SUM), rj.allreduce(2 * x, rj.SUM))[
        0 if ringup.rank() == 0 else 1])
    near(f(jnp.ones(2)), [ringup.size() * (1 if ringup.rank() == 0 else 2)] * 2)


# A function that a program uses several times: XLA runs its calls in any order.

def mixed(inner, count=12):
    """Many independent calls, whose arguments are ready in another order on other ranks."""
    if WAY != "cpu":
        return  # GPUs run them in the program's order, and CPUs in any
    n, sizes = ringup.size(), (200, 20) if ringup.rank() % 2 else (20, 200)

    @jax.jit
    def program(xs, w):
        out = []
        for i in range(count):
            late = jnp.tanh(w[i % 2] @ w[i % 2] * (i + 1))[0, 0]
            out.append(inner(xs[i] + 0 * late))
        return out

    for _ in range(5):
        for i, got in enumerate(program([jnp.full(1000, i + 1.0) for i in range(count)],
                                        [jnp.ones((k, k)) for k in sizes])):
            near(got, [n * (i + 1)] * 1000)


@check
def calls_of_a_jitted_function():
    mixed(jax.jit(lambda x: rj.allreduce(x, rj.SUM)))


@check
def calls_with_a_name_of_their_own():
    mixed(jax.jit(lambda x: rj.allreduce(x, rj.SUM, "named")))
    mixed(lambda x: rj.allreduce(x, rj.SUM, "inlined"), 4)


@check
def calls_of_a_loop_a_branch_and_a_remembered_layer():
    def body(carry, _):
        return rj.allreduce(carry, rj.AVERAGE), None

    def branch(x):
        return rj.allreduce(x, rj.SUM)

    @jax.custom_vjp
    def own(x):
        return rj.allreduce(x, rj.SUM)

    own.defvjp(lambda x: (own(x), None), lambda _kept, g: (rj.allreduce(g, rj.SUM),))
    n = ringup.size()
    mixed(lambda x: jax.lax.scan(body, x, None, length=2)[0] * n, 6)
    mixed(lambda x: jax.lax.cond(x[0] > 0, branch, lambda x: x, x), 6)
    mixed(lambda x: jax.lax.fori_loop(0, 2, lambda _i, x: rj.allreduce(x), x) * n, 6)
    mixed(jax.checkpoint(branch), 6)
    mixed(own, 6)


@check
def calls_of_a_function_beside_another_batch():
    """The ranks' programs differ in shapes, and the numbers of the calls do not."""
    if WAY != "cpu":
        return
    n, inner = ringup.size(), jax.jit(lambda x: rj.allreduce(x, rj.SUM))

    @jax.jit
    def step(weights, x):
        def loss(weights):
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return jnp.mean(h ** 2)

        grads = jax.grad(loss)(weights)
        return [inner(0 * g + i) for i, g in enumerate(grads)]

    for rows in (8, 8 + 300 * ringup.rank()):
        for i, got in enumerate(step([jnp.full((16, 16), 0.01)] * 8, jnp.ones((rows, 16)))):
            near(got, numpy.full((16, 16), n * i))


# Derivatives

def derivatives(f, x):
    """Of a function that is the same on all ranks; both ways agree."""
    forward, reverse = jax.jacfwd(f)(x), jax.jacrev(f)(x)
    near(forward, reverse)
    near(jax.jit(jax.jacfwd(f))(x), forward)
    near(jax.jit(jax.jacrev(f))(x), forward)
    return forward


@check
def both_ways_of_differentiation_agree():
    n, r = ringup.size(), ringup.rank()
    total = n * (n + 1) / 2
    x = jnp.array([1.0, 2.0])
    for name in (None, "named"):
        near(derivatives(lambda x: rj.allreduce(x * x, rj.SUM, name), x), n * numpy.diag([2, 4]))
    near(jax.jacfwd(lambda x: rj.allreduce(x * (r + 1), rj.SUM))(x), numpy.eye(2) * total)
    near(derivatives(lambda x: rj.allreduce(jnp.sin(x), rj.AVERAGE, pre=2.0), x),
         numpy.diag(2 * numpy.cos([1.0, 2.0])))


@check
def tangents_of_all_collectives():
    n, r = ringup.size(), ringup.rank()

    def tangent(f, x, t):
        out, dot = jax.jvp(f, (x,), (t,))
        near(jax.jit(lambda x, t: jax.jvp(f, (x,), (t,))[1])(x, t), dot)
        near(jax.linearize(f, x)[1](t), dot)
        near(f(x), out)
        return dot

    x, t = jnp.arange(2.0), jnp.array([1.0, 10.0]) * (r + 1)
    everybody = numpy.concatenate([numpy.array([1.0, 10.0]) * (i + 1) for i in range(n)])
    near(tangent(rj.allgather, x, t), everybody)
    near(tangent(lambda x: rj.broadcast(x, n - 1), x, t), [n, 10 * n])
    rows, t = jnp.arange(2.0 * n), jnp.arange(2.0 * n) + 100 * r
    near(tangent(rj.alltoall, rows, t), [2 * r + k + 100 * i for i in range(n) for k in range(2)])
    near(tangent(lambda x: rj.reducescatter(x, rj.SUM), rows, t),
         [n * (2 * r + k) + 50 * n * (n - 1) for k in range(2)])
    near(tangent(lambda x: rj.allgather(x, "named"), x, x), numpy.tile([0.0, 1.0], n))


@check
def hessians_and_derivatives_of_derivatives():
    n, r = ringup.size(), ringup.rank()

    def f(w):
        return rj.allreduce(jnp.sum(w ** 3) * (r + 1.0))

    w, mean = jnp.array([1.0, 2.0]), (n + 1) / 2
    # A gradient is itself combined: psum's rule.
    near(jax.hessian(f)(w), numpy.asarray(jax.jacfwd(jax.grad(f))(w)))
    near(jax.grad(f)(w), 3 * numpy.array([1.0, 4.0]) * (r + 1))
    near(jax.jit(jax.hessian(f))(w), numpy.diag(6 * numpy.array([1.0, 2.0]) * (r + 1)))
    near(jax.jacrev(jax.jacrev(f))(w), jax.jacfwd(jax.jacrev(f))(w))
    near(jax.jacfwd(jax.jacfwd(f))(w), numpy.diag(6 * numpy.array([1.0, 2.0])) * mean)
    near(jax.linear_transpose(lambda x: rj.allreduce(x, rj.SUM, "t"), w)(w)[0], n * w)


@check
def recomputed_layers():
    r = ringup.rank()

    def f(x):
        return rj.allreduce(jnp.sin(x * (r + 1))) * jnp.cos(x)

    def layers(x):
        for _ in range(3):
            x = jnp.sin(rj.allreduce(x * x + r))
        return x.sum()

    for g, x in ((f, 1.0), (layers, jnp.arange(3.0))):
        want = jax.grad(g)(x)
        near(jax.grad(jax.checkpoint(g))(x), want)
        near(jax.jit(jax.grad(jax.checkpoint(g)))(x), want)
        policy = jax.checkpoint_policies.nothing_saveable
        near(jax.jit(jax.grad(jax.checkpoint(g, policy=policy)))(x), want)
        near(jax.jit(jax.jvp, static_argnums=0)(jax.checkpoint(g), (x,), (jnp.ones_like(x),))[1],
             jax.jvp(g, (x,), (jnp.ones_like(x),))[1])

    def loop(x):
        return jax.lax.scan(jax.checkpoint(lambda c, _: (jnp.sin(rj.allreduce(c)), None)), x, None,
                            length=3)[0]

    plain = jax.lax.scan(lambda c, _: (jnp.sin(rj.allreduce(c)), None), 0.5, None, length=3)[0]
    near(jax.jit(loop)(0.5), plain)
    near(jax.jit(jax.grad(loop))(0.5),
         jax.grad(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))(0.5))


@check
def batches():
    n, r = ringup.size(), ringup.rank()
    x = jnp.arange(6.0).reshape(3, 2) + r
    near(jax.vmap(lambda x: rj.allreduce(x, rj.SUM), 1, 1)(x),
         numpy.arange(6).reshape(3, 2) * n + n * (n - 1) / 2)
    near(jax.vmap(lambda x: rj.broadcast(x, n - 1))(x), numpy.arange(6).reshape(3, 2) + n - 1)
    got = jax.vmap(rj.allgather)(x)
    near(got, [[2 * i + k + j for j in range(n) for k in range(2)] for i in range(3)])
    rows = jnp.arange(3.0 * n)[:, None] * jnp.ones((1, 2)) + 100 * r
    near(jax.vmap(lambda x: rj.reducescatter(x, rj.AVERAGE), 1, 0)(rows),
         [[3 * r + k + 50 * (n - 1) for k in range(3)]] * 2)
    near(jax.vmap(rj.alltoall, 1, 1)(rows),
         [[3 * r + k + 100 * i] * 2 for i in range(n) for k in range(3)])
    near(jax.vmap(jax.grad(lambda x: rj.allreduce(x ** 2, rj.SUM)))(jnp.arange(3.0)),
         2 * n * numpy.arange(3))
    one = rj.allreduce(jnp.arange(3.0) + r, rj.ADASUM)
    near(jax.vmap(lambda x: rj.allreduce(x, rj.ADASUM))(jnp.stack([jnp.arange(3.0) + r] * 2)),
         [one, one])


@check
def a_maximum_has_no_derivative_but_may_be_in_a_loss():
    def loss(x):
        return (rj.allreduce(x, rj.SUM) * jax.lax.stop_gradient(rj.allreduce(x, rj.MAX))).sum()

    def aux(x):
        return rj.allreduce(x, rj.SUM).sum(), rj.allreduce(x, rj.MIN)

    n = ringup.size()
    near(jax.grad(loss)(jnp.ones(2)), [n] * 2)
    near(jax.jit(jax.grad(loss))(jnp.ones(2)), [n] * 2)
    near(jax.jit(jax.jacfwd(loss))(jnp.ones(2)), [n] * 2)
    near(jax.grad(aux, has_aux=True)(jnp.ones(2))[0], [n] * 2)
    for op in (rj.MAX, rj.MIN, rj.PRODUCT):
        for way in (jax.grad, jax.jacfwd, lambda f: jax.jit(jax.jacfwd(f))):
            raises(Exception, lambda: numpy.asarray(
                way(lambda x: rj.allreduce(x, op).sum())(jnp.ones(2))), says="has no derivative")


# Outside of compiled code

@check
def calls_without_a_name_are_compiled_once():
    n, compiled = ringup.size(), []

    def note(event, *_args, **_kwargs):
        if "compile" in event:
            compiled.append(event)

    for i in range(20):
        x = jnp.full(5, float(i))
        near(rj.allreduce(x, rj.SUM), [i * n] * 5)
        near(rj.allgather(x), [i] * 5 * n)
        near(rj.broadcast(x, n - 1), [i] * 5)
        if i == 0:
            jax.monitoring.register_event_duration_secs_listener(note)
    assert not compiled, compiled
    with jax.disable_jit():
        near(jax.jit(lambda x: rj.allreduce(x, rj.SUM))(jnp.ones(5)), [n] * 5)


# Pytrees

@check
def random_keys_and_numbers_in_trees():
    n, r = ringup.size(), ringup.rank()
    last = n - 1
    tree = {"key": jax.random.key(r), "keys": jax.random.split(jax.random.key(7 * r), 3),
            "old": jax.random.PRNGKey(r), "other": jax.random.key(r, impl="rbg"),
            "none": None, "rate": 0.1 * (r + 1), "step": 2 ** 40 + r, "on": bool(r),
            "host": numpy.arange(3) * 2 ** 33 + r, "scalar": numpy.float64(r), "w": jnp.ones(2) * r}
    want = dict(tree, key=jax.random.key(last), keys=jax.random.split(jax.random.key(7 * last), 3),
                old=jax.random.PRNGKey(last), other=jax.random.key(last, impl="rbg"),
                rate=0.1 * n, step=2 ** 40 + last, on=bool(last),
                host=numpy.arange(3) * 2 ** 33 + last, scalar=numpy.float64(last),
                w=jnp.ones(2) * last)
    got = rj.broadcast_parameters(tree, last)
    assert set(got) == set(want)
    for name, value in want.items():
        assert type(got[name]) is type(value), (name, got[name])
        if name in ("key", "keys", "other"):
            assert got[name].dtype == value.dtype, (name, got[name])
            assert (jax.random.key_data(got[name]) == jax.random.key_data(value)).all(), name
        elif value is not None:
            assert (numpy.asarray(got[name]) == numpy.asarray(value)).all(), (name, got[name])
    inside = jax.jit(lambda t: rj.broadcast_parameters(t, last))(
        {k: v for k, v in tree.items() if k not in ("none", "step", "host")})
    assert (jax.random.key_data(inside["keys"]) == jax.random.key_data(want["keys"])).all()
    near(inside["rate"], want["rate"])
    keys = rj.allgather(tree["keys"])
    assert keys.shape == (3 * n,) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    raises(ValueError, rj.allreduce, tree["key"], says="random keys")
    raises(TypeError, rj.broadcast_parameters, {"a": "text"}, says="parameters['a'] is of the type "
           "str")


@check
def gradients_of_integers_and_keys():
    n = ringup.size()
    tree = {"w": jnp.ones(2), "i": jnp.arange(3), "key": jax.random.key(0)}

    def loss(t):
        return (t["w"] * t["i"].sum()).sum() + jax.random.uniform(t["key"])

    got = rj.allreduce_gradients(jax.grad(loss, allow_int=True)(tree), rj.SUM)
    near(got["w"], [3 * n] * 2)
    assert got["i"].dtype == got["key"].dtype == jax.dtypes.float0
    got = jax.jit(lambda t: rj.allreduce_gradients(jax.grad(loss, allow_int=True)(t), rj.SUM)["w"])
    near(got(tree), [3 * n] * 2)
    near(rj.allreduce_gradients({"count": jnp.array(4), "none": None}, rj.SUM)["count"], 4 * n)


# Weights

def training(distributed, apart):
    """Three steps; before the third, the last rank is apart."""
    optimizer = distributed(optax.adam(0.1))
    params = {"w": jnp.ones((3, 2)), "b": {"c": jnp.zeros(2, "bfloat16")}, "k": jnp.arange(3)}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        grads = jax.tree.map(jnp.ones_like, params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for i in range(4):
        if i == 2:
            params = apart(params)
        params, state = jax.block_until_ready(step(params, state))
    return params


@check
def weights_that_differ_are_found():
    last = ringup.size() - 1

    def apart(params):
        if ringup.rank() == last:
            params["b"]["c"] = params["b"]["c"].at[1].add(0.01)
        return params

    os.environ["RINGUP_CHECK_WEIGHTS"] = "2"
    try:
        training(rj.distributed, lambda params: params)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            optimizer = rj.distributed(optax.sgd(0.1))
            optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)))
        assert "without params" in str(told[0].message), told
        e = raises(Exception, training, rj.distributed, apart, says="weights differ")
        assert f"['b']['c'] (rank {last} unlike rank 0)" in str(e), e
        assert "'w'" not in str(e), e
        ringup.barrier()
        text = str(jax.make_jaxpr(lambda: rj.check_weights(jnp.ones(2)))())
        assert "check_weights" in text, text
        os.environ["RINGUP_CHECK_WEIGHTS"] = "0"
        training(rj.distributed, apart)
        text = str(jax.make_jaxpr(lambda: rj.check_weights(jnp.ones(2)))())
        assert "check_weights" not in text and not text.count("ringup"), text
    finally:
        del os.environ["RINGUP_CHECK_WEIGHTS"]
    tree = {"key": jax.random.key(1), "z": jnp.ones(2, "complex64"), "on": True, "n": 3}
    rj.check_weights(tree, 1)
    if ringup.rank() == last:
        tree["key"] = jax.random.key(2)
    for _ in range(2):
        raises(Exception, rj.check_weights, tree, 1, says="['key']")
        rj.check_weights(tree["key"], 2)
        raises(Exception, rj.check_weights, tree["key"], 2, says="the array")


def main():
    ringup.init()
    check.run(ringup.rank(), between=ringup.barrier)
    ringup.shutdown()
    end()


if __name__ == "__main__":
    main()
