#!/usr/bin/env python3
# tensorflow_steps.py - TensorFlow and Keras on ringup: an operation, training steps, fit(), import.
# SPDX-License-Identifier: Apache-2.0
"""ringup beside TensorFlow itself, Horovod, MultiWorkerMirroredStrategy and DDP on Gloo:

    tests/peers/tensorflow_steps.py --python215 A/bin/python --python221 B/bin/python \\
        --horovod C/bin/python --rounds 3 --seconds 8

A has TensorFlow 2.15, B TensorFlow 2.21, Keras 3 and torch, C TensorFlow 2.15 and Horovod 0.28.1;
what is not named is left out.  Each rank has one thread.  --only takes some of:

    op      what an allreduce of one rank adds to a graph, over what tf.sin adds; and the least
            that a start and a wait can add, which do nothing
    steps   a training step of ResNet-50 and of a small dense model, with and without
            communication: its share of the step, beside Horovod's
    fit     model.fit() on two ranks: what communication takes of a step, beside
            MultiWorkerMirroredStrategy (gRPC, ring), which has no fit() for Keras 3 and so
            runs with TensorFlow 2.15; with Keras on torch beside DDP on Gloo
    import  what `import horovod.tensorflow` adds to `import tensorflow`
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KINDS = ("op", "import", "steps", "fit")
RANKS = 2
BATCH = 32
STEPS_OF_FIT = 40


def told(result):
    """What a child tells its parent."""
    print("RESULT", json.dumps(result), flush=True)


def turns(functions, seconds, together):
    """The median seconds of a call of each; they take turns, as often on every rank."""
    times = {name: [] for name in functions}
    for f in functions.values():
        f()
    going, until = True, time.monotonic() + seconds
    while going or len(next(iter(times.values()))) < 3:
        for name, f in functions.items():
            together(0.0)
            begun = time.perf_counter()
            f()
            times[name].append(time.perf_counter() - begun)
        going = together(float(time.monotonic() < until)) > 0
    return {name: statistics.median(t) for name, t in times.items()}


# What a child measures

def one_thread():
    import tensorflow as tf
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    return tf


def empty_operations(tf):
    """Operations that do nothing, by TensorFlow's C interface as ours are."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "empty_ops.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE",
                        "-I", os.path.join(ROOT, "src"), "-o", path,
                        os.path.join(HERE, "empty_ops.c"),
                        os.path.join(ROOT, "src", "frameworks", "tensorflow_api.c"), "-ldl"],
                       check=True)
        return tf.load_op_library(path)


def child_op(_seconds):
    """Microseconds that an operation adds to a graph: tf.sin, an allreduce, and what an allreduce
    would add if its start and its wait did nothing, with and without handles."""
    tf = one_thread()
    import horovod.tensorflow as hvd
    from horovod.tensorflow import mpi_ops

    hvd.init()
    # Else a chain of sines becomes one operation.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    count = 100

    def sines(x):
        for _ in range(count):
            x = tf.sin(x)
        return x

    def sums(x):
        started = [mpi_ops.allreduce_start([x], f"op.{i}", False, hvd.Sum, 1.0, 1.0,
                                           hvd.global_process_set) for i in range(count)]
        return mpi_ops.wait_all(started)[-1]

    empty = empty_operations(tf)

    def starts(x):
        outputs, handles = zip(*[empty.empty_start(x) for _ in range(count)])
        return empty.empty_wait(outputs, handles)[-1]

    def passes(x):
        return empty.empty_join([empty.empty_pass(x) for _ in range(count)])[-1]

    functions = {"nothing": tf.function(lambda x: x + 1.0), "sin": tf.function(sines),
                 "allreduce": tf.function(sums), "empty": tf.function(starts),
                 "no handle": tf.function(passes)}
    x = tf.ones([1])
    m = turns({name: (lambda f=f: [f(x) for _ in range(20)]) for name, f in functions.items()},
              4, lambda going: going)
    told({name: (m[name] - m["nothing"]) / 20 / count * 1e6 for name in functions
          if name != "nothing"})


def child_import(_seconds):
    """Milliseconds of an import after TensorFlow's."""
    begun = time.perf_counter()
    import tensorflow  # noqa: F401
    middle = time.perf_counter()
    import horovod.tensorflow  # noqa: F401
    told({"tensorflow": (middle - begun) * 1e3, "added": (time.perf_counter() - middle) * 1e3})


def models(tf):
    """{name: (a model, a batch)}"""
    dense = tf.keras.Sequential([tf.keras.layers.Input((784,)),
                                 tf.keras.layers.Dense(256, activation="relu"),
                                 tf.keras.layers.Dense(256, activation="relu"),
                                 tf.keras.layers.Dense(10)])
    resnet = tf.keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3),
                                            classifier_activation=None)
    return {"dense": (dense, tf.random.normal((BATCH, 784))),
            "resnet50": (resnet, tf.random.normal((2, 64, 64, 3)))}


def child_steps(seconds):
    """Seconds of a step of each model, with and without communication."""
    tf = one_thread()
    import horovod.tensorflow as hvd

    hvd.init()

    def together(going):
        return float(hvd.allreduce(tf.constant([going]), op=hvd.Sum, name="together")[0])

    def step_of(model, batch, wrap):
        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(batch, training=True)))
            grads = wrap(tape).gradient(loss, model.trainable_variables)
            for v, g in zip(model.trainable_variables, grads):
                v.assign_sub(1e-5 * g)
        return step

    result = {}
    for name, (model, batch) in models(tf).items():
        result[name] = turns({"alone": step_of(model, batch, lambda tape: tape),
                              "shared": step_of(model, batch, hvd.DistributedGradientTape)},
                             seconds, together)
    if hvd.rank() == 0:
        told(result)


def data():
    import numpy
    g = numpy.random.RandomState(1)
    n = STEPS_OF_FIT * BATCH
    return g.uniform(-1, 1, (n, 784)).astype("float32"), g.randint(0, 10, (n,)).astype("int32")


def compiled(keras, optimizer, **kwargs):
    model = keras.Sequential([keras.layers.Input((784,)),
                              keras.layers.Dense(512, activation="relu"),
                              keras.layers.Dense(512, activation="relu"),
                              keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, **kwargs)
    return model


def epoch(model, batches):
    """A function that fits one epoch of a tf.data.Dataset, or of a pair of arrays."""
    if isinstance(batches, tuple):
        return lambda: model.fit(*batches, batch_size=BATCH, verbose=0, shuffle=False)
    return lambda: model.fit(batches, verbose=0)


def child_fit(seconds):
    """Seconds of an epoch with ringup and without communication."""
    if os.environ.get("KERAS_BACKEND") == "torch":
        import torch
        torch.set_num_threads(1)
        import keras
    else:
        one_thread()
        from tensorflow import keras
    import numpy

    import horovod.keras as hvd
    hvd.init()
    batches = data()

    def together(going):
        return float(numpy.asarray(hvd.allreduce(numpy.array([going]), op=hvd.Sum))[0])

    plain = compiled(keras, keras.optimizers.SGD(0.01))
    shared = compiled(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)))
    m = turns({"alone": epoch(plain, batches), "shared": epoch(shared, batches)}, seconds, together)
    if hvd.rank() == 0:
        told(m)


def child_strategy(seconds):
    """The same with MultiWorkerMirroredStrategy.  Both ranks fit as often: there is no way to ask
    the others, so the number of epochs follows from the seconds."""
    tf = one_thread()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    keras = tf.keras
    x, y = data()

    def dataset(size):
        made = tf.data.Dataset.from_tensor_slices((x, y)).batch(size, drop_remainder=True)
        policy = tf.data.Options()
        policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return made.with_options(policy)

    plain = compiled(keras, keras.optimizers.SGD(0.01))
    with strategy.scope():
        shared = compiled(keras, keras.optimizers.SGD(0.01))
    # A batch of the dataset is what each worker gets.
    functions = {"alone": epoch(plain, dataset(BATCH)), "shared": epoch(shared, dataset(BATCH))}
    times = {name: [] for name in functions}
    for f in functions.values():
        f()
    for _ in range(max(3, int(seconds))):
        for name, f in functions.items():
            begun = time.perf_counter()
            f()
            times[name].append(time.perf_counter() - begun)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        told({name: statistics.median(t) for name, t in times.items()})


def child_ddp(seconds):
    """A loop of torch over a model of Keras, wrapped by DDP on Gloo, and without."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    import keras

    dist.init_process_group("gloo")
    x, y = data()
    x, y = torch.tensor(x), torch.tensor(y, dtype=torch.int64)

    def together(going):
        t = torch.tensor([going])
        dist.all_reduce(t)
        return float(t[0])

    def loop(wrap):
        model = wrap(compiled(keras, keras.optimizers.SGD(0.01)))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        loss = torch.nn.CrossEntropyLoss()

        def run():
            for i in range(0, len(x), BATCH):
                optimizer.zero_grad()
                loss(model(x[i:i + BATCH]), y[i:i + BATCH]).backward()
                optimizer.step()
        return run

    m = turns({"alone": loop(lambda model: model),
               "shared": loop(torch.nn.parallel.DistributedDataParallel)}, seconds, together)
    if dist.get_rank() == 0:
        told(m)


# What the parent does

class Bench:
    """Starts children, and prints what they tell."""

    def __init__(self, args):
        self.args = args
        self.common = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2",
                       "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}
        library = os.path.join(os.path.dirname(os.path.abspath(args.ringup)), ".libs",
                               "libringup.so.0")
        self.ours = {**self.common, "PYTHONPATH": os.path.join(ROOT, "compat", "python"),
                     "RINGUP_LIBRARY": library}

    def words(self, python, what):
        return [python, os.path.abspath(__file__), "--child", what, "--seconds",
                str(self.args.seconds)]

    @staticmethod
    def result(processes):
        """What rank 0 of them has told; None, and a complaint, if one has failed."""
        texts = [p.communicate()[0] for p in processes]
        for p, text in zip(processes, texts):
            if p.returncode:
                print(f"{' '.join(p.args)}: status {p.returncode}\n{text[-1500:]}", file=sys.stderr)
                return None
        found = [line for text in texts for line in text.splitlines() if "RESULT" in line]
        return json.loads(found[0].split("RESULT", 1)[1])

    def start(self, words, env):
        return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def by_ringup(self, python, what, ranks=RANKS, **env):
        """Ranks of `ringup run`."""
        words = [self.args.ringup, "run", "-np", str(ranks), "--no-prefix", "--",
                 *self.words(python, what)]
        return self.result([self.start(words, {**self.ours, **env})])

    def by_horovod(self, python, what):
        """Ranks of Horovod, on Gloo."""
        run = os.path.join(os.path.dirname(python), "horovodrun")
        return self.result([self.start([run, "-np", str(RANKS), "--gloo", "--network-interfaces",
                                        "lo", *self.words(python, what)], self.common)])

    def by_itself(self, python, what, **env):
        """Processes that find each other by TF_CONFIG, or by torch's variables."""
        ports = []
        sockets = [socket.socket() for _ in range(RANKS)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
        for s in sockets:
            s.close()
        started = []
        for r in range(RANKS):
            config = {"cluster": {"worker": [f"127.0.0.1:{p}" for p in ports]},
                      "task": {"type": "worker", "index": r}}
            started.append(self.start(self.words(python, what), {
                **self.common, "TF_CONFIG": json.dumps(config), "RANK": str(r),
                "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(ports[0]), **env}))
        return self.result(started)

    def versions(self):
        """(TensorFlow's version, a Python) of those that are there."""
        return [(v, p) for v, p in (("2.15", self.args.python215), ("2.21", self.args.python221))
                if p]

    def op(self):
        for version, python in self.versions():
            got = self.by_ringup(python, "op", 1)
            if got:
                print(f"op      TensorFlow {version}: tf.sin adds {got['sin']:.2f} us; times that: "
                      + ", ".join(f"{name} {got[name] / got['sin']:.1f}"
                                  for name in ("allreduce", "empty", "no handle")), flush=True)

    def imports(self):
        for version, python in self.versions():
            got = [self.result([self.start(self.words(python, "import"), self.ours)])
                   for _ in range(self.args.rounds)]
            got = [g for g in got if g]
            if got:
                m = {k: statistics.median(g[k] for g in got) for k in got[0]}
                print(f"import  TensorFlow {version}: {m['tensorflow']:.0f} ms, "
                      f"horovod.tensorflow adds {m['added']:.1f} ms", flush=True)

    def steps(self):
        contenders = [(f"ringup, TensorFlow {v}", self.by_ringup, p) for v, p in self.versions()]
        if self.args.horovod:
            contenders.append(("Horovod, TensorFlow 2.15", self.by_horovod, self.args.horovod))
        rows = {name: [] for name, _how, _python in contenders}
        for _ in range(self.args.rounds):
            for name, how, python in contenders:
                got = how(python, "steps")
                if got:
                    rows[name].append(got)
        for model in ("dense", "resnet50"):
            shares = {}
            for name, got in rows.items():
                if got:
                    shares[name] = self.say_share(f"steps   {model:8} {name}",
                                                  [g[model] for g in got])
            self.say_ratio(f"steps   {model:8}", shares)

    @staticmethod
    def say_share(what, got):
        """Print medians of steps; returns the share of communication."""
        alone, shared = (statistics.median(g[k] for g in got) for k in ("alone", "shared"))
        share = max(0.0, 1 - alone / shared)
        print(f"{what}: step {shared * 1e3:.2f} ms, alone {alone * 1e3:.2f} ms, communication "
              f"{share:.1%} of it", flush=True)
        return share

    @staticmethod
    def say_ratio(what, shares):
        horovod = [s for name, s in shares.items() if name.startswith("Horovod")]
        for name, share in shares.items():
            if horovod and horovod[0] and not name.startswith("Horovod"):
                print(f"{what} share of {name} / share of Horovod: {share / horovod[0]:.2f}",
                      flush=True)

    def fit(self):
        torch = {"KERAS_BACKEND": "torch"}
        other = self.args.python221
        pairs = [(f"fit     TensorFlow {v}", p, self.args.python215, {}, "strategy",
                  "MultiWorkerMirroredStrategy") for v, p in self.versions()]
        if other:
            pairs.append(("fit     Keras 3 on torch", other, other, torch, "ddp", "DDP on Gloo"))
        for what, python, python_of_peer, env, peer, called in pairs:
            got = {"ringup": [], called: []}
            for _ in range(self.args.rounds):
                got["ringup"].append(self.by_ringup(python, "fit", **env))
                if python_of_peer:
                    got[called].append(self.by_itself(python_of_peer, peer, **env))
            spent = {name: self.say_spent(f"{what}, {name}", [r for r in results if r])
                     for name, results in got.items()}
            if all(spent.values()):
                print(f"{what}: communication of {called} / of ringup: "
                      f"{spent[called] / spent['ringup']:.2f}", flush=True)

    @staticmethod
    def say_spent(what, got):
        """Print medians of a step of fit(); returns what communication takes, in ms."""
        if not got:
            return None
        alone, shared = (statistics.median(g[k] for g in got) / STEPS_OF_FIT * 1e3
                         for k in ("alone", "shared"))
        print(f"{what}: step {shared:.2f} ms, alone {alone:.2f} ms, communication "
              f"{shared - alone:.2f} ms", flush=True)
        return max(shared - alone, 1e-3)


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ringup", default=os.path.join(ROOT, "build", "ringup"))
    a.add_argument("--python215", help="a Python with TensorFlow 2.15")
    a.add_argument("--python221", help="a Python with TensorFlow 2.21, Keras 3 and torch")
    a.add_argument("--horovod", help="a Python with TensorFlow 2.15 and Horovod 0.28.1")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=8, help="for each model and round")
    a.add_argument("--only", default=",".join(KINDS))
    a.add_argument("--child", help=argparse.SUPPRESS)
    args = a.parse_args()
    if args.child:
        {"op": child_op, "import": child_import, "steps": child_steps, "fit": child_fit,
         "strategy": child_strategy, "ddp": child_ddp}[args.child](args.seconds)
        return
    bench = Bench(args)
    for kind in args.only.split(","):
        {"op": bench.op, "import": bench.imports, "steps": bench.steps, "fit": bench.fit}[kind]()


if __name__ == "__main__":
    main()
