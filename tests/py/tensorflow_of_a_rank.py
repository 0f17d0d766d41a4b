# tensorflow_of_a_rank.py - what test_tensorflow.py starts on each rank: one check after the other.
# SPDX-License-Identifier: Apache-2.0
"""Each check knows all ranks' inputs (they are made from a seed) and so the result.  The checks run
with TensorFlow 2.15 and 2.21, in eager code and in graphs."""

import importlib
import os

import interfaces
import numpy
import tensorflow as tf
from checks import Checks, end, raises

import horovod.tensorflow as hvd
from horovod.tensorflow import library

NUMBERS = [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.float16, tf.bfloat16,
           tf.float32, tf.float64]
SHAPES = [(), (1,), (17, 3), (2, 3, 4)]
check = Checks()


def inputs(shape, dtype, low=0, high=6):
    """Every rank's tensor; small whole numbers, so that sums are exact in every type."""
    return [tf.cast(numpy.random.RandomState(100 + r).randint(low, high, shape), dtype)
            for r in range(hvd.size())]


def equal(got, want):
    want = tf.convert_to_tensor(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert numpy.array_equal(got.numpy(), want.numpy()), f"{got} is not {want}"


def near(got, want, tolerance=1e-5):
    numpy.testing.assert_allclose(numpy.asarray(got), numpy.asarray(want), rtol=tolerance,
                                  atol=1e-6)


def both(f):
    """A function in eager code, and in a graph that does not know the first dimension."""
    def graph(x, *args):
        unknown = tf.TensorSpec([None] * len(x.shape[:1]) + list(x.shape[1:]), x.dtype)
        return tf.function(lambda t: f(t, *args), input_signature=[unknown])(x)

    return [f, graph]


@check
def functions_take_what_they_take_in_horovod():
    scope = {name: getattr(hvd, name) for name in ("Compression", "Average", "global_process_set")}
    assert interfaces.differences(hvd, interfaces.TENSORFLOW, scope) == []
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))


@check
def sums_of_all_types():
    n, r = hvd.size(), hvd.rank()
    for dtype in NUMBERS:
        for shape in SHAPES if dtype in (tf.float32, tf.bfloat16) else SHAPES[2:3]:
            xs = inputs(shape, dtype)
            for f in both(lambda t: hvd.allreduce(t, op=hvd.Sum)):
                equal(f(xs[r]), tf.cast(sum(tf.cast(x, tf.float64) for x in xs), dtype))
    flags = [tf.constant([True, False, i == 0]) for i in range(n)]
    equal(hvd.allreduce(flags[r], op=hvd.Max), tf.constant([True, False, True]))


@check
def every_reduction_and_scale():
    r, xs = hvd.rank(), inputs((5,), tf.float32, 1, 4)
    stack = tf.stack(xs)
    for op, want in ((hvd.Sum, tf.reduce_sum(stack, 0)), (hvd.Average, tf.reduce_mean(stack, 0)),
                     (hvd.Min, tf.reduce_min(stack, 0)), (hvd.Max, tf.reduce_max(stack, 0)),
                     (hvd.Product, tf.reduce_prod(stack, 0))):
        for f in both(lambda t, op=op: hvd.allreduce(t, op=op, name="x")):
            near(f(xs[r]), want)
    near(hvd.allreduce(xs[r], op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
         1.5 * tf.reduce_sum(stack, 0))
    near(hvd.allreduce(xs[r], average=False), tf.reduce_sum(stack, 0))
    near(hvd.allreduce(xs[r], compression=hvd.Compression.fp16), tf.reduce_mean(stack, 0), 1e-3)
    near(hvd.allreduce(xs[r], op=hvd.Adasum, name="a"), hvd.broadcast(
        hvd.allreduce(xs[r], op=hvd.Adasum, name="b"), 0))
    raises(ValueError, hvd.allreduce, xs[r], op=9)
    raises(ValueError, hvd.allreduce, xs[r], average=True, op=hvd.Sum)
    raises(ValueError, hvd.allreduce, xs[r], prescale_factor=0.0, says="zeros")


@check
def groups_are_one():
    r = hvd.rank()
    xs, ys = inputs((4,), tf.float32), inputs((2, 3), tf.float64)
    for wrap in (lambda f: f, tf.function):
        a, b = wrap(lambda x, y: hvd.grouped_allreduce([x, y], op=hvd.Sum))(xs[r], ys[r])
        equal(a, tf.add_n(xs))
        equal(b, tf.add_n(ys))
        a, b = wrap(lambda x, y: hvd.grouped_allgather([x, y]))(xs[r], ys[r])
        equal(a, tf.concat(xs, 0))
        equal(b, tf.concat(ys, 0))
        a, b = wrap(lambda x, y: hvd.grouped_reducescatter([x, y], op=hvd.Sum))(xs[r], ys[r])
        equal(a, own_rows(tf.add_n(xs)))
        equal(b, own_rows(tf.add_n(ys)))


def own_rows(t):
    """This rank's rows of a reducescatter."""
    n, r = hvd.size(), hvd.rank()
    each, more = divmod(int(t.shape[0]), n)
    first = r * each + min(r, more)
    return t[first:first + each + (r < more)]


@check
def rows_of_all_ranks():
    """Their numbers differ, and may be none; so may types that cannot be added."""
    n, r = hvd.size(), hvd.rank()
    for dtype in NUMBERS + [tf.bool, tf.uint32, tf.uint64, tf.complex64, tf.complex128]:
        xs = [tf.cast(tf.reshape(tf.range(i * 3 * 2), (i * 3, 2)), tf.int32) for i in range(n)]
        xs = [tf.cast(x, dtype) for x in xs]
        for f in both(hvd.allgather):
            equal(f(xs[r]), tf.concat(xs, 0))
    raises(tf.errors.InvalidArgumentError, hvd.allgather, tf.constant(1.0), says="at least one dimension")


@check
def roots_tensor_for_all():
    n, r = hvd.size(), hvd.rank()
    for root in range(n):
        for dtype in (tf.float32, tf.bool, tf.complex64, tf.int64):
            xs = [tf.cast(tf.constant([[i, 1], [0, i]]), dtype) for i in range(n)]
            for f in both(lambda t, root=root: hvd.broadcast(t, root)):
                equal(f(xs[r]), xs[root])
    v = tf.Variable([r, r], dtype=tf.float32)
    near(hvd.broadcast_([v], n - 1)[0], [n - 1, n - 1])
    raises(tf.errors.InvalidArgumentError, hvd.broadcast, tf.ones(2), n, says=f"rank {n}")
    v.assign([r, r])
    hvd.broadcast_variables([v, tf.Variable(1.0)], 0)
    near(v, [0, 0])
    assert hvd.broadcast_object({"a": r}, 0) == {"a": 0}
    assert hvd.allgather_object(("x", r)) == [("x", i) for i in range(n)]
    assert hvd.broadcast_object_fn(0)(r) == 0


@check
def rows_from_each_to_each():
    n, r = hvd.size(), hvd.rank()
    x = tf.range(2 * n) + 100 * r
    for f in both(hvd.alltoall):
        equal(f(x), tf.concat([tf.range(2 * r, 2 * r + 2) + 100 * i for i in range(n)], 0))
    splits = [i + 1 for i in range(n)]
    x = tf.repeat(tf.range(n), splits) * 10 + r
    for f in both(lambda t: hvd.alltoall(t, tf.constant(splits))):
        rows, received = f(x)
        equal(rows, tf.concat([tf.fill([r + 1], r * 10 + i) for i in range(n)], 0))
        equal(received, tf.fill([n], r + 1))
    raises(tf.errors.InvalidArgumentError, hvd.alltoall, x, tf.constant([1] * (n + 1)),
           says="splits")
    raises(ValueError, hvd.alltoall, x, tf.constant([1.0] * n), says="whole numbers")


@check
def rows_dealt_out():
    r = hvd.rank()
    for rows in (5, 2, 1):
        xs = inputs((rows, 3), tf.float32)
        for f in both(lambda t: hvd.reducescatter(t, op=hvd.Sum)):
            equal(f(xs[r]), own_rows(tf.add_n(xs)))
    raises(NotImplementedError, hvd.reducescatter, tf.ones(2), op=hvd.Adasum)


@check
def gradients_of_collectives():
    """In eager code and in graphs, of one and of several tensors."""
    n, r = hvd.size(), hvd.rank()
    weights = tf.constant([1.0, 2.0, 3.0, 4.0]) * (r + 1)

    def gradient(f, rows=4):
        x = tf.ones([rows])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
            loss = tf.reduce_sum(y * weights[:1])
        return tape.gradient(loss, x)

    average = sum(range(1, n + 1)) / n
    for wrap in (lambda f: f, tf.function):
        near(wrap(lambda: gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)))(), [average * n] * 4)
        near(wrap(lambda: gradient(hvd.allreduce))(), [average] * 4)
        near(wrap(lambda: gradient(lambda x: hvd.grouped_allreduce([x, x])[1]))(), [average] * 4)
        near(wrap(lambda: gradient(hvd.allgather, r + 1))(), [average] * (r + 1))
        near(wrap(lambda: gradient(lambda x: hvd.broadcast(x, n - 1)))(),
             [average if r == n - 1 else 0] * 4)
        near(wrap(lambda: gradient(lambda x: hvd.alltoall(tf.tile(x, [n]))))(),
             [sum(range(1, n + 1))] * 4)
        near(wrap(lambda: gradient(lambda x: hvd.reducescatter(tf.tile(x, [n]), op=hvd.Sum)))(),
             [n * sum(range(1, n + 1))] * 4)


@check
def ranks_that_disagree_are_told():
    r = hvd.rank()
    for wrap in (lambda f: f, tf.function):
        e = raises(tf.errors.FailedPreconditionError,
                   wrap(lambda: hvd.allreduce(tf.ones([2 + r]), name="x")), says="allreduce.x")
        assert "EMISMATCH" in str(e)
        equal(wrap(lambda: hvd.allreduce(tf.ones([2]), op=hvd.Sum, name="x"))(),
              tf.fill([2], float(hvd.size())))


@check
def a_rank_that_has_traced_more():
    """Names of collectives in a graph follow from the place in the function, and not from what the
    process has traced before, nor from names of tensors, variables and layers."""
    n, r = hvd.size(), hvd.rank()

    def body(x):
        with tf.name_scope(f"scope_{r}"):
            x = tf.identity(x, name=f"x_of_{r}")
            total = hvd.allreduce(x[:1], op=hvd.Sum) + hvd.allreduce(x[:1] * 2.0, op=hvd.Sum)
            rows = hvd.allgather(x)
            if tf.reduce_sum(total) > -1e9:  # in a branch
                total += hvd.grouped_allreduce([x[:1], total], op=hvd.Sum)[0]
            for _ in tf.range(2):            # and in a loop
                total += hvd.broadcast(x[:1], 0)
        return total, rows

    def rows_of(i, step):
        # Rank 0's last batch is smaller, and traces the function once more.
        return tf.ones([1 if step and not i else 3]) * (i + 1.0)

    inner = tf.function(body)
    outer = tf.function(lambda x: inner(x))
    if r == 0:  # a look at what others do not look at
        inner.get_concrete_function(tf.ones([7]))
        tf.function(body).get_concrete_function(tf.ones([3]))
    for f in (inner, outer):
        for step in range(2):
            total, rows = f(rows_of(r, step))
            near(total, [4 * sum(i + 1 for i in range(n)) + 2])
            equal(rows, tf.concat([rows_of(i, step) for i in range(n)], 0))


@check
def gradients_of_a_rank_that_has_traced_more():
    n, r = hvd.size(), hvd.rank()
    tf.function(lambda x: hvd.allreduce(x)).get_concrete_function(tf.ones([r + 1]))
    v = [tf.Variable([1.0], name=f"v_{r}"), tf.Variable([[2.0]], name="v"),
         tf.Variable(tf.ones([n + 1, 2]), name=f"table_{r}")]

    @tf.function
    def inner(x):
        return hvd.allreduce(x * v[0]) + hvd.allreduce(x * v[1][0])

    def step(x, wrap):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(inner(x)) + tf.reduce_sum(tf.gather(v[2], [r, r + 1])) * x[0]
        return wrap(tape).gradient(loss, v)

    mean = (n + 1) / 2
    for wrap in (hvd.DistributedGradientTape, lambda t: hvd.DistributedGradientTape(t, groups=2),
                 lambda t: hvd.DistributedGradientTape(t, sparse_as_dense=True),
                 lambda t: hvd.PartialDistributedGradientTape(t, local_layers=[])):
        for f in (step, tf.function(step)):
            for _ in range(2):
                a, b, table = f(tf.constant([r + 1.0]), wrap)
                near(a, [mean])
                near(b, [[mean]])
                want = [sum(i + 1 for i in range(n) if row in (i, i + 1)) / n
                        for row in range(n + 1)]
                near(tf.convert_to_tensor(table)[:, 0], want)


@check
def variables_of_other_names_are_broadcast():
    r = hvd.rank()
    v = [tf.Variable([float(r), i], name=f"weight_{i + r}") for i in range(4)]
    hvd.broadcast_variables(v, 0)
    near(tf.stack(v), [[0, i] for i in range(4)])
    state = hvd.elastic.TensorFlowState(variables=v, step=r)
    v[1].assign([r, r])
    state.sync()
    near(v[1], [0, 0])
    if hvd.size() > 1:
        raises(ValueError, hvd.broadcast_variables, v[:4 - (r == 1)], 0, says="4 variables")


@check
def any_order_of_many_gradients():
    """200 of them in a graph, in the reverse order on one rank, with two threads."""
    n, r = hvd.size(), hvd.rank()
    from horovod.tensorflow import mpi_ops

    @tf.function
    def step(x):
        order = range(200) if r else reversed(range(200))
        started = {i: mpi_ops.allreduce_start([x * i], f"g.{i}", False, hvd.Sum, 1.0, 1.0,
                                              hvd.global_process_set) for i in order}
        return mpi_ops.wait_all([started[i] for i in range(200)])

    for _ in range(3):
        got = step(tf.constant([1.0, 2.0]))
        for i in (0, 1, 199):
            near(got[i], [n * i, 2.0 * n * i])
    tape_of_many(n)


def tape_of_many(n):
    """A tape's gradients of 200 variables: those of a graph and of eager code are alike."""
    v = [tf.Variable([float(i)]) for i in range(200)]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.add_n([x * float(hvd.rank() + 1) for x in v])
        return hvd.DistributedGradientTape(tape).gradient(loss, v)

    for wrap in (lambda f: f, tf.function):
        for g in wrap(step)():
            near(g, [(n + 1) / 2])


@check
def what_is_not_waited_for_is_in_nobodys_way():
    from horovod.tensorflow import mpi_ops
    for i in range(5):
        mpi_ops.allreduce_start([tf.ones(1000)], f"lost.{i}", False, hvd.Sum, 1.0, 1.0,
                                hvd.global_process_set)
    raises(tf.errors.InvalidArgumentError, mpi_ops.operations.ringup_wait_all, [tf.ones(1)],
           [tf.constant(77, tf.int64)], says="not the handle")
    hvd.barrier()


@check
def jobs_follow_each_other():
    """A graph outlives them."""
    n, r = hvd.size(), hvd.rank()
    graph = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    for _ in range(3):
        equal(graph(tf.ones(3)), tf.fill([3], float(n)))
        hvd.barrier()
        hvd.shutdown()
        raises(tf.errors.AbortedError, graph, tf.ones(3), says="hvd.init()")
        hvd.init()
        assert (hvd.size(), hvd.rank()) == (n, r)
    assert [int(f()) for f in (hvd.size_op, hvd.rank_op, hvd.local_size_op, hvd.local_rank_op,
                               hvd.process_set_included_op)] == [n, r, n, r, 1]


@check
def sets_of_ranks():
    n, r = hvd.size(), hvd.rank()
    mine = hvd.add_process_set([r for r in range(n) if r])
    if r:
        equal(hvd.allreduce(tf.ones(2), op=hvd.Sum, process_set=mine), tf.fill([2], n - 1.0))
        equal(hvd.broadcast(tf.constant(r), 1, process_set=mine), tf.constant(1))
    else:
        raises(tf.errors.InvalidArgumentError, hvd.allreduce, tf.ones(2), process_set=mine,
               says="not in process set")
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = v * (r + 1.0)
    grad = hvd.DistributedGradientTape(tape, process_set=mine).gradient(loss, v)
    near(grad, sum(range(2, n + 1)) / (n - 1) if r else 1.0)
    hvd.barrier()
    traced = tf.function(lambda: hvd.allreduce(tf.ones(2), op=hvd.Sum, process_set=mine))
    traced = traced.get_concrete_function()
    former = mine.process_set_id
    hvd.remove_process_set(mine)
    raises(ValueError, hvd.allreduce, tf.ones(2), process_set=mine, says="add_process_set")
    other = hvd.add_process_set([r for r in range(n - 1)])
    assert other.process_set_id == former  # and yet compiled code does not take it for the old one
    raises(tf.errors.InvalidArgumentError, traced, says="no process set")
    if other.included():
        equal(hvd.allreduce(tf.ones(2), op=hvd.Sum, process_set=other), tf.fill([2], n - 1.0))
        assert int(hvd.process_set_included_op(former)) == 1
    hvd.barrier()
    hvd.remove_process_set(other)


@check
def joined_ranks_add_nothing():
    n, r = hvd.size(), hvd.rank()
    for last in range(n):
        if r == last:
            near(hvd.allreduce(tf.ones(2), op=hvd.Sum, name="alone"), [1, 1])
        assert int(hvd.join()) == last


@check
def indexed_slices():
    n, r = hvd.size(), hvd.rank()
    table = tf.Variable(tf.ones([5, 2]))

    def step(**kwargs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [0, r]))
        return hvd.DistributedGradientTape(tape, **kwargs).gradient(loss, table)

    want = numpy.zeros((5, 2))
    for i in range(n):
        want[0] += 1 / n
        want[i] += 1 / n
    for wrap in (lambda f: f, tf.function):
        grad = wrap(step)()
        assert isinstance(grad, tf.IndexedSlices)
        near(tf.convert_to_tensor(grad), want)
        near(wrap(lambda: step(sparse_as_dense=True))(), want)
    near(tf.convert_to_tensor(hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [r], [n, 2]),
                                            op=hvd.Sum)), tf.ones([n, 2]))
    raises(NotImplementedError, step, op=hvd.Max)


@check
def options_of_the_tape():
    n, r = hvd.size(), hvd.rank()
    a, b, c = (tf.Variable([1.0, 2.0]) for _ in range(3))

    def step(partial=False, **kwargs):
        with hvd.DistributedGradientTape(tf.GradientTape(), **kwargs) as tape:
            loss = tf.reduce_sum(a * (r + 1.0) + b * (r + 2.0))
        if partial:
            tape.register_local_source(b)
        return tape.gradient(loss, [a, b, c])

    mean = (n + 1) / 2
    for kwargs in ({}, {"gradient_predivide_factor": 2.0}, {"groups": 1}, {"groups": 7},
                   {"groups": [[b, a]]}, {"compression": hvd.Compression.fp16}):
        for wrap in (lambda f: f, tf.function):
            ga, gb, gc = wrap(lambda kwargs=kwargs: step(**kwargs))()
            near(ga, [mean, mean]), near(gb, [mean + 1, mean + 1])
            assert gc is None
    ga, gb, _ = step(op=hvd.Sum)
    near(ga, [mean * n] * 2)
    ga, gb, _ = step(partial=True)
    near(ga, [mean, mean]), near(gb, [(r + 2) / n] * 2)
    ga, gb, _ = step(partial=True, scale_local_gradients=False)
    near(gb, [r + 2.0] * 2)
    raises(ValueError, step, op=hvd.Sum, gradient_predivide_factor=2.0)
    raises(ValueError, step, groups=-1)
    tape = hvd.DistributedGradientTape(tf.GradientTape())
    raises(ValueError, hvd.DistributedGradientTape, tape, says="already")


@check
def what_is_not_there_tells_what_to_use():
    v = tf.Variable([1.0, 2.0])
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        y = v * v
    raises(NotImplementedError, tape.jacobian, y, v, says="plain tf.GradientTape")
    raises(NotImplementedError, tape.batch_jacobian, y[None], v, says="plain tf.GradientTape")
    raises(ImportError, importlib.import_module, "horovod.tensorflow.data.compute_service",
           says="dataset.shard(hvd.size(), hvd.rank())")


def main():
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    check.run(hvd.rank(), between=hvd.barrier, told={
        "told": {"version": tf.__version__, "library": list(os.stat(library.find()))[:3]}})
    hvd.shutdown()
    end()


if __name__ == "__main__":
    main()
