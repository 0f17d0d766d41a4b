# test_spark_tensorflow.py - HorovodRunner with TensorFlow: what published pages tell to write.
# SPDX-License-Identifier: Apache-2.0
#
# The Pythons are RINGUP_TEST_TENSORFLOW_215 and _221, the pyspark is RINGUP_TEST_SPARK.
#
# needs: cpu
# tests: compat/python/ringup/spark compat/python/sparkdl docs/examples tests/py/frameworks.py

import json
import os
import re
import shutil
import textwrap

import frameworks
import pytest
from conftest import HANG, ROOT, start

SPARK = os.environ.get("RINGUP_TEST_SPARK", "")
if not SPARK:
    pytest.skip("no pyspark: set RINGUP_TEST_SPARK", allow_module_level=True)
if not shutil.which("java"):
    pytest.skip("no Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
VERSIONS = sorted(frameworks.PYTHONS)


def run(version, tmp_path, *argv, spark=SPARK):
    """Run a driver with that TensorFlow; its output."""
    python = frameworks.python_of(version)
    p = start([python, *argv], 4 * HANG, cwd=str(tmp_path), PYSPARK_PYTHON=python,
              SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=os.pathsep.join(
                  [spark, os.environ["PYTHONPATH"]]), **frameworks.QUIET)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_the_example_goes_from_one_process_to_spark(version, tmp_path):
    out = run(version, tmp_path, os.path.join(ROOT, "docs", "examples", "spark_keras_digits.py"),
              str(tmp_path))
    values = dict(re.findall(r"^([\w ]+(?:\(np=.*?\))?): ([0-9.]+)$", out, re.M))
    assert list(values) == ["one process", "HorovodRunner(np=-2)", "HorovodRunner(np=2)",
                            "events in the timeline"], out
    assert all(float(v) > 0.85 for v in list(values.values())[:3]), out
    assert int(values["events in the timeline"]) > 100
    for epoch in range(4):
        assert len(re.findall(rf"^Epoch {epoch} begin$", out, re.M)) == 2, out
        assert len(re.findall(rf"^Epoch {epoch} end after .* s, accuracy: ", out, re.M)) == 2, out
    assert sorted(re.findall(r"^rank (\d) of 2 is done$", out, re.M)) == ["0", "0", "1", "1"]


# Cells of a notebook, one after the other in one interpreter.  What a cell leaves in `said` is
# looked at afterwards.
CELLS = [
    """
    import json, os, sys, uuid
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    said = {}
    """,
    # Two ranks in task slots; the imports stand in the function, and so does the interface that all
    # libraries shall take: this host's is the loopback.
    """
    from sparkdl import HorovodRunner
    hr = HorovodRunner(np=2)

    def train():
        import os
        os.environ["OMPI_MCA_btl_tcp_if_include"] = "lo"
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        import tensorflow as tf
        import horovod.tensorflow as hvd
        hvd.init()
        return float(hvd.allreduce(tf.constant([1.0 + hvd.rank()]), op=hvd.Sum)[0]), hvd.size()

    said["np=2"] = hr.run(train)
    """,
    # Ranks on the driver alone.
    """
    hr = HorovodRunner(np=-2)
    said["np=-2"] = hr.run(train)
    """,
    # The timeline, on storage that all hosts share; the function uses what the notebook imports.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf
    timeline_dir = os.path.join(os.getcwd(), "horovod-timeline", str(uuid.uuid4()))
    os.makedirs(timeline_dir)
    os.environ["HOROVOD_TIMELINE"] = timeline_dir + "/horovod_timeline.json"

    def run_training_horovod(params):
        hvd.init()
        for step in range(params["steps"]):
            hvd.allreduce(tf.ones(4), name="of the timeline")
        return params["steps"]

    hr = HorovodRunner(np=2)
    said["steps"] = hr.run(run_training_horovod, params={"steps": 3})
    with open(os.environ.pop("HOROVOD_TIMELINE")) as f:
        said["timeline"] = "of the timeline" in json.dumps(json.load(f))
    """,
    # What cannot be sent is named, with the cure that the pages give.
    """
    session = tf.compat.v1.Session(graph=tf.Graph())

    def train():
        return session.run(1)

    try:
        HorovodRunner(np=2).run(train)
    except TypeError as e:
        said["session"] = str(e)
    images = tf.data.Dataset.range(10)

    def train():
        return len(list(images))

    try:
        HorovodRunner(np=2).run(train)
    except TypeError as e:
        said["dataset"] = str(e)
    """,
    # A rank that fails inside TensorFlow.
    """
    def train():
        import tensorflow as tf
        import horovod.tensorflow as hvd
        hvd.init()
        if hvd.rank() == 1:
            tf.constant([1.0]) + tf.constant([1.0, 2.0, 3.0]) @ tf.constant([[1.0]])
        hvd.allreduce(tf.ones(3))

    try:
        HorovodRunner(np=2).run(train)
    except RuntimeError as e:
        said["failure"] = [e.rank, e.type_name]
    print("SAID", json.dumps(said))
    """,
]


@pytest.mark.parametrize("version", VERSIONS)
def test_cells_of_a_notebook_run_as_they_are(version, tmp_path):
    cells = [textwrap.dedent(cell) for cell in CELLS]
    notebook = tmp_path / "notebook.py"
    notebook.write_text("\n".join(cells))
    out = run(version, tmp_path, str(notebook))
    said = json.loads(re.search(r"^SAID (.*)$", out, re.M).group(1))
    assert said["np=2"] == said["np=-2"] == [3.0, 2]
    assert said["steps"] == 3 and said["timeline"]
    for name, kind in (("session", "Session"), ("images", "Dataset")):
        text = said["session" if name == "session" else "dataset"]
        assert re.search(rf"train\(\) refers to {name}, of type tensorflow\S*{kind}", text), text
        assert "make the object inside train()" in text
    assert said["failure"][0] == 1 and "InvalidArgumentError" in said["failure"][1]


ESTIMATOR = """
    import json, os
    import keras
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import SparkSession
    from sklearn.datasets import load_digits

    import horovod.spark.keras as hvd
    from horovod.spark.common.store import Store

    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    digits = load_digits()
    df = spark.createDataFrame(
        [(Vectors.dense((x / 16).tolist()), int(y), i % 5 == 0)
         for i, (x, y) in enumerate(zip(digits.data, digits.target))], ["x", "y", "held"])
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(32, activation="relu"),
                              keras.layers.Dense(10, activation="softmax")])
    before = model.get_weights()
    store = Store.create(os.path.join(os.getcwd(), "store"))
    estimator = hvd.KerasEstimator(
        num_proc=2, store=store, model=model, loss="sparse_categorical_crossentropy",
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9), metrics=["accuracy"],
        feature_cols=["x"], label_cols=["y"], validation="held", batch_size=16, epochs=4,
        random_seed=1, run_id="run")
    fitted = estimator.fit(df).setOutputCols(["digit"])
    rows = fitted.transform(df.filter("held")).collect()
    said = {"history": fitted.getHistory(), "rows": len(rows),
            "right": sum(int(r["digit"].toArray().argmax()) == r["y"] for r in rows) / len(rows),
            "untouched": all((a == b).all() for a, b in zip(before, model.get_weights())),
            "checkpoint": store.exists(store.get_checkpoint_file("run")),
            "data": store.exists(store.get_train_data_path("run")),
            "epochs": hvd.KerasEstimator(epochs=2).setEpochs(3).getEpochs()}
    for name, how in (("refused", {"data_module": 1}), ("unknown", {"epoch": 1})):
        try:
            hvd.KerasEstimator(**how)
        except (TypeError, ValueError) as e:
            said[name] = f"{type(e).__name__}: {e}"
    try:
        hvd.KerasEstimator(feature_cols=["x"], label_cols=["y"]).fit(df)
    except ValueError as e:
        said["missing"] = str(e)

    # As Horovod's own example: a backend with streams, callbacks, a compiled model; and what is
    # saved comes back.  One more epoch begins where the last checkpoint was.
    import importlib.util, io
    from horovod.spark.common.backend import SparkBackend

    out = io.StringIO()
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    more = hvd.KerasEstimator(
        backend=SparkBackend(num_proc=2, stdout=out, stderr=out), store=store, model=model,
        loss="sparse_categorical_crossentropy", metrics=["accuracy"], feature_cols=["x"],
        label_cols=["y"], batch_size=16, epochs=1, run_id="run", inmemory_cache_all=True,
        callbacks=[keras.callbacks.LambdaCallback(on_train_begin=lambda logs: print("BEGUN"))])
    has_board = importlib.util.find_spec("tensorboard") is not None
    if has_board:
        more.setCallbacks([*more.getCallbacks(), keras.callbacks.TensorBoard(profile_batch=0)])
    path = "file://" + os.path.join(os.getcwd(), "saved")
    more.save(path)
    loaded = hvd.KerasEstimator.load(path).setStore(store).setBackend(more.getBackend())
    again = loaded.fit(df)
    again.write().overwrite().save(path + "-model")
    model_again = hvd.KerasModel.load(path + "-model")
    said["again"] = again.getHistory()
    said["lr"] = float(loaded.getOptimizer().learning_rate)
    said["begun"] = out.getvalue().count("BEGUN")
    said["equal"] = all((a == b).all() for a, b in zip(again.getModel().get_weights(),
                                                       model_again.getModel().get_weights()))
    said["outputs"] = model_again.transform(df.limit(1)).first()["y__output"].size
    said["logs"] = os.path.isdir(store.get_logs_path("run")) == has_board
    raw = df.selectExpr("cast('a' as binary) as x", "y")
    try:
        loaded.fit(raw)
    except Exception as e:
        said["bytes"] = str(e)
    print("SAID", json.dumps(said))
    """


@pytest.mark.parametrize("version", VERSIONS)
def test_an_estimator_of_keras_fits_and_transforms(version, tmp_path):
    spark4 = os.environ.get("RINGUP_TEST_SPARK4")
    if not spark4:
        pytest.skip("no pyarrow: RINGUP_TEST_SPARK4 names no folder with it and pyspark 4")
    script = tmp_path / "estimator.py"
    script.write_text(textwrap.dedent(ESTIMATOR))
    out = run(version, tmp_path, str(script), spark=spark4)
    said = json.loads(re.search(r"^SAID (.*)$", out, re.M).group(1))
    assert said["rows"] == 360 and said["right"] > 0.85, said
    history = said["history"]
    assert set(history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert all(len(values) == 4 for values in history.values())
    assert history["val_accuracy"][-1] > 0.85 and history["loss"][-1] < history["loss"][0]
    assert said["untouched"] and said["checkpoint"] and not said["data"] and said["epochs"] == 3
    assert said["refused"].startswith("ValueError: ringup's KerasEstimator does not support data_m")
    assert said["unknown"] == "TypeError: KerasEstimator has no parameter epoch"
    assert said["missing"] == "KerasEstimator needs store, model, optimizer, loss"
    assert said["again"]["loss"][0] < history["loss"][0] / 2, "training did not go on"
    assert abs(said["lr"] - 0.05) < 1e-6 and said["begun"] == 2 and said["equal"]
    assert said["outputs"] == 10 and said["logs"]
