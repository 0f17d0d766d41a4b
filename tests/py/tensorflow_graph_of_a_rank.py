# tensorflow_graph_of_a_rank.py - what test_tensorflow.py starts: programs as for TensorFlow 1.
# SPDX-License-Identifier: Apache-2.0


import numpy
import tensorflow
from checks import Checks, end

import horovod.tensorflow as hvd

tf = tensorflow.compat.v1
tf.disable_eager_execution()
check = Checks()
STEPS, BATCH = 6, 4
MAKE = {"sgd": lambda: tf.train.GradientDescentOptimizer(0.05),
        "adagrad": lambda: tf.train.AdagradOptimizer(0.05),
        "adam": lambda: tf.train.AdamOptimizer(0.01)}


def near(got, want):
    numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def data_of(rank):
    g = numpy.random.RandomState(50 + rank)
    x = g.uniform(-1, 1, (STEPS, BATCH, 3)).astype("float32")
    return x, x.sum(2, keepdims=True) * (rank + 1) / 3


def joined(times=1):
    """The batches of all ranks, of so many steps in one."""
    parts = [data_of(r) for r in range(hvd.size())]
    return [numpy.concatenate([p[i].reshape(STEPS // times, times * BATCH, -1) for p in parts], 1)
            for i in (0, 1)]


class Program:
    """A small model in a graph of its own; each rank begins with other weights if asked."""

    def __init__(self, make, seed=3):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(seed)
            self.x = tf.placeholder(tf.float32, [None, 3])
            self.y = tf.placeholder(tf.float32, [None, 1])
            self.w = tf.get_variable("w", [3, 1], initializer=tf.random_normal_initializer(),
                                     use_resource=True)
            self.loss = tf.reduce_mean(tf.square(tf.tanh(self.x @ self.w) - self.y))
            self.step = tf.train.get_or_create_global_step()
            self.train = make(self)

    def run(self, data, session=None):
        """Weights after training."""
        with self.graph.as_default(), session or tf.train.MonitoredTrainingSession(
                hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as s:
            for x, y in zip(*data):
                s.run(self.train, {self.x: x, self.y: y})
            return s.run(self.w), s.run(self.step)


def plain(make, times=1):
    """Weights of one process that has trained on the joined batches."""
    program = Program(lambda p: make().minimize(p.loss, global_step=p.step))
    with program.graph.as_default(), tf.Session() as s:
        s.run(tf.global_variables_initializer())
        for x, y in zip(*joined(times)):
            s.run(program.train, {program.x: x, program.y: y})
        return s.run(program.w)


@check
def minimize_in_a_monitored_session():
    """Ranks begin with other weights; the hook makes them alike."""
    for make in MAKE.values():
        program = Program(lambda p: hvd.DistributedOptimizer(make()).minimize(
            p.loss, global_step=p.step), seed=3 + hvd.rank())
        w, step = program.run(data_of(hvd.rank()))
        near(w, plain(make))
        assert step == STEPS


@check
def gradients_are_computed_and_applied():
    def train(p):
        optimizer = hvd.DistributedOptimizer(MAKE["sgd"]())
        pairs = optimizer.compute_gradients(p.loss, [p.w])
        return optimizer.apply_gradients([(g * 1.0, v) for g, v in pairs], global_step=p.step)

    near(Program(train).run(data_of(hvd.rank()))[0], plain(MAKE["sgd"]))


@check
def variables_are_broadcast_in_a_session():
    program = Program(lambda p: hvd.broadcast_global_variables(0), seed=3 + hvd.rank())
    with program.graph.as_default(), tf.Session() as s:
        s.run(tf.global_variables_initializer())
        s.run(program.train)
        mine = s.run(program.w)
        state = hvd.elastic.TensorFlowState(session=s, step=hvd.rank())
        state.sync()
        assert state.step == 0
        program.w.load(mine * 2, s)
        state.restore()
        near(s.run(program.w), mine)
    assert all(numpy.array_equal(mine, w) for w in hvd.allgather_object(mine))


@check
def a_state_of_keras_in_a_graph():
    """Keras 2 keeps the values of its variables in a session then."""
    if hasattr(tensorflow.keras, "ops"):  # Keras 3 has no graphs
        return
    import horovod.tensorflow.keras as hvd_keras

    commits = []

    class Callback(hvd_keras.elastic.CommitStateCallback):
        def commit(self):
            commits.append(len(commits))
            super().commit()

    keras, r = tf.keras, hvd.rank()
    with tf.Graph().as_default(), tf.Session() as s:
        keras.backend.set_session(s)
        tf.set_random_seed(1 + r)
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
        model.compile(loss="mse", optimizer=hvd_keras.DistributedOptimizer(
            keras.optimizers.SGD(0.05, momentum=0.9)))
        state = hvd_keras.elastic.KerasState(model, batch=r)
        state.sync()
        assert state.batch == 0
        begun = model.get_weights()
        assert all(numpy.array_equal(begun[0], w) for w in hvd.allgather_object(begun[0]))
        x, y = data_of(r)
        model.fit(x[0], y[0], batch_size=BATCH // 2, epochs=1, verbose=0, shuffle=False,
                  callbacks=[Callback(state, 1)])
        trained = model.get_weights()
        assert not numpy.array_equal(trained[0], begun[0]) and len(commits) == 3
        assert all(numpy.array_equal(trained[0], w) for w in hvd.allgather_object(trained[0]))
        model.set_weights(begun)
        state.restore()
        near(model.get_weights()[0], trained[0])


@check
def a_rank_that_has_built_more():
    """Other names of operations and variables, and a training of another size, in one graph."""
    r = hvd.rank()
    with tf.Graph().as_default(), tf.Session() as s:
        if r == 0:
            u = tf.get_variable("u", [2, 2], use_resource=True)
            hvd.DistributedOptimizer(MAKE["adam"]()).minimize(tf.reduce_sum(u), var_list=[u])
            tf.identity(1.0, name="x")
        with tf.variable_scope(f"of_{r}"):
            v = [tf.get_variable(f"v_{i}_{r}", [i + 1], use_resource=True,
                                 initializer=tf.ones_initializer()) for i in range(3)]
        x = tf.constant([r + 1.0], name="x")
        loss = tf.add_n([tf.reduce_sum(w) for w in v]) * tf.reduce_sum(hvd.allreduce(x) * x)
        train = hvd.DistributedOptimizer(MAKE["sgd"]()).minimize(loss, var_list=v)
        same = hvd.broadcast_variables(v, 0)
        s.run(tf.global_variables_initializer())
        s.run(same)
        s.run(train)
        got = s.run(v)
    assert all(numpy.array_equal(a, b) for other in hvd.allgather_object(got)
               for a, b in zip(other, got))
    assert not numpy.array_equal(got[0], [1.0])


@check
def passes_are_added_up():
    program = Program(lambda p: hvd.DistributedOptimizer(
        MAKE["sgd"](), backward_passes_per_step=2, average_aggregated_gradients=True).minimize(
        p.loss, global_step=p.step))
    w, step = program.run(data_of(hvd.rank()))
    near(w, plain(MAKE["sgd"], 2))
    assert step == STEPS


@check
def adasum_combines_what_a_step_changes():
    program = Program(lambda p: hvd.DistributedOptimizer(MAKE["sgd"](), op=hvd.Adasum).minimize(
        p.loss, global_step=p.step))
    w = program.run(data_of(hvd.rank()))[0]
    everybody = hvd.allgather_object(w)
    assert all(numpy.array_equal(w, other) for other in everybody)
    assert numpy.isfinite(w).all() and not numpy.allclose(w, plain(MAKE["sgd"]))


@check
def operations_tell_numbers():
    with tf.Graph().as_default(), tf.Session() as s:
        asked = [hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op(),
                 hvd.process_set_included_op()]
        n, r = hvd.size(), hvd.rank()
        assert s.run(asked) == [n, r, n, r, 1]
        total = hvd.allreduce(tf.constant([1.0, r]), op=hvd.Sum)
        near(s.run(total), [n, n * (n - 1) / 2])
        try:
            hvd.broadcast_global_variables(0)
        except ValueError:
            pass  # a graph without variables


def main():
    hvd.init()
    check.run(hvd.rank())
    hvd.shutdown()
    end()


if __name__ == "__main__":
    main()
