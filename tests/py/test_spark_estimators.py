# test_spark_estimators.py - estimators as Horovod's own examples use them, in a real Spark session.
# SPDX-License-Identifier: Apache-2.0
#
# One session local[2]; RINGUP_TEST_SPARK is a folder with pyspark, and pyarrow is beside it.
#
# needs: cpu
# tests: compat/python/horovod/spark compat/python/ringup/spark

import datetime
import io
import os
import re
import shutil
import sys

import pytest
from conftest import HANG

SPARK = os.environ.get("RINGUP_TEST_SPARK4") or os.environ.get("RINGUP_TEST_SPARK", "")
if not SPARK:
    pytest.skip("no pyspark: set RINGUP_TEST_SPARK", allow_module_level=True)
if not shutil.which("java"):
    pytest.skip("no Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
sys.path.append(SPARK)
pytest.importorskip("pyarrow")

import torch  # noqa: E402

import horovod.spark.torch as hvd  # noqa: E402
from horovod.spark.common.backend import Backend, SparkBackend  # noqa: E402
from horovod.spark.common.store import HDFSStore, LocalStore, Store  # noqa: E402
from horovod.spark.common.util import get_dataset_properties, prepare_data  # noqa: E402


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session whose file system is not the host's unless a path says so, as on a cluster; the JVM
    ends with it."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
                      PYTHONPATH=os.pathsep.join([os.environ["PYTHONPATH"], SPARK]))
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (SparkSession.builder.master("local[2]").appName("ringup-test")
               .config("spark.ui.enabled", "false").config("spark.local.dir", str(folder))
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "512m")
               .config("spark.hadoop.fs.defaultFS", "hdfs://127.0.0.1:1")
               .config("spark.sql.shuffle.partitions", "2")
               .config("spark.sql.warehouse.dir", f"file://{folder}").getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(HANG)


@pytest.fixture(autouse=True)
def by_value():
    """This file is a module of its own, and no worker has it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def loss_of(output, label):
    return ((output.flatten() - label.float()) ** 2).mean()


def frame(spark, rows=40):
    """y is what x says; the bytes say it, too."""
    from pyspark.ml.linalg import Vectors

    return spark.createDataFrame(
        [(float(i % 2), [float(i % 2), 1.0], bytearray([i % 2, 0, 0]),
          Vectors.sparse(2, {0: float(i % 2)}) if i % 4 < 2 else Vectors.dense([i % 2, 1.0]),
          i % 5 == 0) for i in range(rows)], ["y", "x", "raw", "v", "held"])


def estimator(folder, **more):
    torch.manual_seed(5)
    m = torch.nn.Linear(2, 1)
    given = {"store": Store.create(str(folder)), "model": m, "loss": loss_of,
             "optimizer": torch.optim.SGD(m.parameters(), lr=0.1), "feature_cols": ["x"],
             "label_cols": ["y"], "batch_size": 4, "epochs": 2, "verbose": 1, "random_seed": 1,
             "input_shapes": [[-1, 2]]}
    return hvd.TorchEstimator(**{**given, **more})


def close(model, df):
    """Does a fitted model tell 0 from 1?"""
    return all(abs(r["y__output"] - r["y"]) < 0.3 for r in model.transform(df).collect())


class Here(Backend):
    """A backend of a program's own: one rank, on the driver."""

    calls = 0

    def run(self, fn, args=(), kwargs={}, env=None):
        from ringup.spark import job

        Here.calls += 1
        work = job.Job.of_function(1, fn, args, kwargs, env=env)
        return job.run_here(work)

    def num_processes(self):
        return 1


# -- backends --------------------------------------------------------------------------------------

def test_a_spark_backend_says_where_ranks_run_and_where_their_lines_go(spark, tmp_path):
    out = io.StringIO()
    backend = SparkBackend(num_proc=2, stdout=out, stderr=out, prefix_output_with_timestamp=True,
                           env={"OF_THE_TEST": "1", "CUDA_VISIBLE_DEVICES": "-1"})
    assert backend.num_processes() == 2

    def rank():
        import horovod.torch as hvd

        hvd.init()
        print("rank", hvd.rank(), "has", os.environ["OF_THE_TEST"], os.environ["MORE"])
        return hvd.rank(), os.environ.get("CUDA_VISIBLE_DEVICES")

    assert backend.run(rank, env={"MORE": "2"})[0] == (0, None)
    assert sorted(re.findall(r"rank (\d) has 1 2", out.getvalue())) == ["0", "1"]
    fitted = estimator(tmp_path, backend=backend).fit(frame(spark))
    assert re.search(r"\d\d:\d\d.*\[0\]<stdout>: ?epoch 2 of 2", out.getvalue()), out.getvalue()
    assert len(fitted.getHistory()) == 2
    assert os.listdir(tmp_path) == ["runs"], "the rows are removed"


def test_a_backend_of_the_program_s_own_runs_the_ranks(spark, tmp_path):
    before = Here.calls
    fitted = estimator(tmp_path, backend=Here(), epochs=20, backend_env={"X": "1"}).fit(
        frame(spark))
    assert Here.calls == before + 1 and close(fitted, frame(spark))


@pytest.mark.parametrize("how, error", [
    ({"num_proc": 0}, ValueError), ({"num_proc": "2"}, ValueError), ({"stdou": 1}, TypeError),
    ({"fn": 1}, TypeError)])
def test_what_a_backend_does_not_take_is_told_when_it_is_made(how, error):
    with pytest.raises(error, match="num_proc"):
        SparkBackend(**how)


def test_a_backend_and_num_proc_exclude_each_other(spark, tmp_path):
    with pytest.raises(ValueError, match="num_proc or backend, not both"):
        estimator(tmp_path, backend=Here(), num_proc=2).fit(frame(spark))


# -- Parquet that is there already -----------------------------------------------------------------

def test_an_estimator_fits_on_parquet_that_is_there(spark, tmp_path):
    """Of prepare_data() or of another program, with vectors, and with rows to validate with."""
    df = frame(spark)
    store = Store.create(str(tmp_path))
    with prepare_data(2, store, df, label_columns=["y"], feature_columns=["v", "x"],
                      validation="held") as index:
        assert os.path.isdir(store.get_train_data_path(index))
        rows, held, metadata, size = get_dataset_properties(index)
        assert (rows, held) == (32, 8) and size > 16
        assert metadata["v"]["shape"] == [2] and metadata["y"]["shape"] == []
        with pytest.raises(ValueError, match="a separate Store"):
            with prepare_data(2, store, df, ["y"], ["x"]):
                pass
        fitted = estimator(tmp_path, backend=Here(), epochs=20).fit_on_parquet()
    assert fitted.getHistory()[-1]["validation"]["loss"] < 0.1 and close(fitted, df)
    again = estimator(tmp_path, backend=Here(), feature_cols=["v"]).fit_on_parquet({})
    assert "validation" in again.getHistory()[0], "the rows stay"
    with prepare_data(2, store, df, ["y"], ["x"]):
        assert "validation" not in estimator(
            tmp_path, backend=Here()).fit_on_parquet().getHistory()[0]
    df.write.parquet(f"file://{tmp_path}/other")
    other = LocalStore(train_path=f"file://{tmp_path}/other", val_path=f"{tmp_path}/none")
    fitted = estimator(tmp_path, store=other, backend=Here()).fit_on_parquet()
    assert list(fitted.getHistory()[0]) == ["epoch", "train"]
    with pytest.raises(ValueError, match="have no column z; they have y, x, raw"):
        estimator(tmp_path, store=other, label_cols=["z"]).fit_on_parquet()


def test_rows_to_validate_with_are_those_of_the_column_and_no_row_is_lost(spark, tmp_path):
    import pyarrow.dataset

    store = Store.create(str(tmp_path))
    df = spark.createDataFrame([(float(i), [None, 0, 1, 2][i % 4]) for i in range(12)],
                               "x double, y int")
    with prepare_data(1, store, df, ["y"], ["x"], validation="y"):
        counts = [pyarrow.dataset.dataset(folder).to_table()["x"].to_pylist() for folder in
                  (store.get_train_data_path(), store.get_val_data_path())]
    assert [sorted(int(x) % 4 for x in xs) for xs in counts] == [[0] * 3 + [1] * 3,
                                                                 [2] * 3 + [3] * 3]
    with pytest.raises(ValueError, match="validation='z': the DataFrame has no such column"):
        with prepare_data(1, store, df, ["y"], ["x"], validation="z"):
            pass


def test_without_parquet_it_is_said_what_to_write(spark, tmp_path):
    with pytest.raises(ValueError, match=f"ringup found no Parquet files in {tmp_path}.*prepare_d"):
        estimator(tmp_path).fit_on_parquet()
    (tmp_path / "intermediate_train_data").mkdir()
    with pytest.raises(ValueError, match="ringup found no Parquet files"):
        estimator(tmp_path).fit_on_parquet()


# -- save and load ---------------------------------------------------------------------------------

def test_estimators_and_models_are_saved_and_loaded(spark, tmp_path):
    class Net(torch.nn.Module):
        """A class that lives in this test alone."""

        def __init__(self):
            super().__init__()
            self.one = torch.nn.Linear(2, 1)

        def forward(self, x):
            return self.one(x)

    df, model = frame(spark), Net()
    first = estimator(tmp_path, backend=Here(), model=model, epochs=20, loss=None,
                      loss_constructors=[lambda: loss_of],
                      optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
    path = f"file://{tmp_path}/saved"
    first.save(path)
    with pytest.raises(Exception, match="already exists"):
        first.save(path)
    first.write().overwrite().save(path)
    second = hvd.TorchEstimator.load(path)
    assert second.uid == first.uid and second.getStore() is None and second.getEpochs() == 20
    with pytest.raises(ValueError, match="TorchEstimator needs store"):
        second.fit(df)
    fitted = second.setStore(first.getStore()).setBackend(Here()).fit(df)
    assert fitted.getOptimizer().param_groups[0]["momentum"] == 0.5
    fitted.setOutputCols(["out"]).write().overwrite().save(f"{path}-model")
    loaded = hvd.TorchModel.read().load(f"{path}-model")
    assert loaded.getHistory() == fitted.getHistory() and loaded.getOutputCols() == ["out"]
    rows = [(a["out"], b["out"]) for a, b in zip(fitted.transform(df).collect(),
                                                 loaded.transform(df).collect())]
    assert all(a == b for a, b in rows) and len(rows) == 40
    with pytest.raises(ValueError, match="holds a .*TorchModel, not a .*TorchEstimator"):
        hvd.TorchEstimator.load(f"{path}-model")


def test_pipelines_with_an_estimator_are_saved_and_loaded(spark, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler

    df = frame(spark).select("y", data_of("x")[0].alias("a"), data_of("x")[1].alias("b"))
    stages = [VectorAssembler(inputCols=["a", "b"], outputCol="x"),
              estimator(tmp_path, backend=Here(), epochs=20)]
    path = f"file://{tmp_path}/pipeline"
    Pipeline(stages=stages).save(path)
    pipeline = Pipeline.load(path)
    pipeline.getStages()[1].setStore(Store.create(str(tmp_path))).setBackend(Here())
    fitted = pipeline.fit(df)
    fitted.save(f"{path}-model")
    assert close(PipelineModel.load(f"{path}-model"), df)


def data_of(name):
    from pyspark.sql.functions import col

    return col(name)


def test_parameters_are_those_of_spark_ml(spark, tmp_path):
    from pyspark.ml.tuning import ParamGridBuilder

    e = estimator(tmp_path, backend=Here())
    assert "batch_size" in e.setMetrics((loss_of,)).explainParams()
    assert e.getPartitionsPerProcess() == 10
    assert e.setShufflingBufferSize(0).getShufflingBufferSize() == 0
    grid = ParamGridBuilder().addGrid(e.epochs, [1, 3]).build()
    assert [len(m.getHistory()) for m in e.fit(frame(spark), grid)] == [1, 3]
    assert e.getEpochs() == 2 and e.copy({e.epochs: 7}).getEpochs() == 7
    assert e.setParams(batch_size=None, epochs=4).getBatchSize() == 4 and e.getEpochs() == 4


# -- training --------------------------------------------------------------------------------------

def test_training_goes_on_from_the_checkpoint_of_its_run(spark, tmp_path, capsys):
    df = frame(spark)
    fitted = estimator(tmp_path, backend=Here(), run_id="r", epochs=20).fit(df)
    store = Store.create(str(tmp_path))
    saved = torch.load(store.get_checkpoint_file("r"), weights_only=True)
    state = fitted.getModel().state_dict()
    assert all(torch.equal(saved["model"][name], value) for name, value in state.items())
    again = estimator(tmp_path, backend=Here(), run_id="r", epochs=1).fit(df)
    assert "training goes on from" in capsys.readouterr().out
    first, second = fitted.getHistory(), again.getHistory()
    assert second[0]["train"]["loss"] < first[0]["train"]["loss"] / 3


def test_the_learning_rate_grows_with_the_ranks_and_the_model_s_is_that_of_one(spark, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()

    def step(model, optimizer, inputs, labels, weights):
        with open(f"{seen}/{os.getpid()}", "w", encoding="ascii") as f:
            f.write(str(optimizer.param_groups[0]["lr"]))
        return model(*inputs), loss_of(model(*inputs), labels[0])

    fitted = estimator(tmp_path / "store", num_proc=2, train_minibatch_fn=step, verbose=0,
                       epochs=1).fit(frame(spark))
    assert [float(f.read_text()) for f in seen.iterdir()] == [0.2, 0.2]
    assert fitted.getOptimizer().param_groups[0]["lr"] == pytest.approx(0.1)


def test_bytes_reach_the_function_that_decodes_them_whole(spark, tmp_path):
    import numpy

    def decode(row):
        assert len(row["raw"]) == 3, row
        return {"raw": numpy.frombuffer(row["raw"], "uint8")[:2].astype("float32"), "y": row["y"]}

    e = estimator(tmp_path, backend=Here(), feature_cols=["raw"], epochs=30)
    with pytest.raises(Exception, match="column raw has values of type bytes"):
        e.fit(frame(spark))
    assert e.setTransformationFn(decode).fit(frame(spark)).getHistory()[-1]["train"]["loss"] < 0.1


def test_columns_that_a_model_cannot_take_are_refused_by_name(spark, tmp_path):
    df = spark.createDataFrame([([1.0] * (1 + i % 2), None if i == 3 else 1.0, 0.0,
                                 datetime.datetime(2026, 1, 1)) for i in range(8)],
                               "ragged array<double>, hole double, y double, when timestamp")
    for name, why in (("ragged", "unequal length"), ("hole", "nulls"), ("when", "dates or times")):
        e = estimator(tmp_path, backend=Here(), feature_cols=[name], input_shapes=None)
        with pytest.raises(Exception, match=f"column {name} has .*{why}"):
            e.fit(df)
    with pytest.raises(ValueError, match="the DataFrame has no column z; it has ragged, hole"):
        estimator(tmp_path, feature_cols=["z"]).fit(df)
    with pytest.raises(TypeError, match=r"feature_cols='x' is a string: give a list, \['x'\]"):
        estimator(tmp_path, feature_cols="x").fit(df)


def test_transform_keeps_labels_types_and_other_columns(spark, tmp_path):
    df = frame(spark).selectExpr("cast(y as int) as i", "cast(y as boolean) as b", "x", "raw")
    for label, kind in (("i", "int"), ("b", "double")):
        model = hvd.TorchModel(model=torch.nn.Linear(2, 1), feature_columns=["x"],
                               label_columns=[label],
                               label_types={label: df.schema[label].dataType})
        out = model.transform(df)
        assert dict(out.dtypes)[f"{label}__output"] == kind
        assert out.first()["raw"] == bytearray([0, 0, 0]) and out.count() == 40
    with pytest.raises(ValueError, match="has a column raw already"):
        model.setOutputCols(["raw"]).transform(df)


# -- what there is not -----------------------------------------------------------------------------

def test_a_store_on_hdfs_says_what_to_do_instead():
    for make in (lambda: HDFSStore("/user/x"), lambda: Store.create("hdfs://h:8020/x"),
                 lambda: HDFSStore(train_path="/a", val_path="/b")):
        with pytest.raises(ValueError, match="ringup only supports stores in folders; mount .*Sto"):
            make()
    assert HDFSStore.matches("hdfs://h/x") and not HDFSStore.matches("/x")


def test_stores_have_upstream_s_paths(tmp_path):
    store = Store.create(f"file://{tmp_path}")
    assert store.get_checkpoint_path("r") == store.get_run_path("r") == f"{tmp_path}/runs/r"
    assert store.get_checkpoint_file("r") == f"{tmp_path}/runs/r/{store.get_checkpoint_filename()}"
    assert store.get_logs_path("r") == f"{tmp_path}/runs/r/{store.get_logs_subdir()}"
    store.write(f"{tmp_path}/runs/r/1.ckpt", b"")
    assert store.get_checkpoints("r") == [f"{tmp_path}/runs/r/1.ckpt"]
    assert not store.is_parquet_dataset(store.get_train_data_path())
    own = LocalStore(train_path="/t", val_path="/v")
    assert own.get_checkpoint_path("r") is None and own.get_val_data_path() == "/v"
    with pytest.raises(ValueError, match="prefix_path, or train_path and val_path"):
        LocalStore(train_path="/t")


@pytest.mark.parametrize("harmless", [{"callbacks": []}, {"data_module": None},
                                      {"partitions_per_process": 3}, {"reader_pool_type": "dummy"},
                                      {"transformation_edit_fields": [("x",)]}])
def test_what_changes_nothing_is_accepted(spark, harmless):
    hvd.TorchEstimator(**harmless)


@pytest.mark.parametrize("how, message", [
    ({"callbacks": [1]}, "does not support callbacks: .*getHistory"),
    ({"data_module": int}, "does not support data_module: .*transformation_fn"),
    ({"continuous_cols": ["x"]}, "feature_cols")])
def test_what_ringup_lacks_is_told_with_what_to_do_instead(spark, how, message):
    with pytest.raises(ValueError, match=message):
        hvd.TorchEstimator(**how)
