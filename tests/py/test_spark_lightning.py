# test_spark_lightning.py - Lightning's estimator: a Trainer on ranks in Spark's task slots.
# SPDX-License-Identifier: Apache-2.0
#
# RINGUP_TEST_SPARK is a folder with pyspark; pyarrow and lightning are beside it.
#
# needs: cpu
# tests: compat/python/horovod/spark compat/python/ringup/spark compat/python/ringup_torch

import json
import os
import re
import shutil
import sys
import textwrap

import pytest
from conftest import HANG, start

SPARK = os.environ.get("RINGUP_TEST_SPARK4") or os.environ.get("RINGUP_TEST_SPARK", "")
if not SPARK:
    pytest.skip("no pyspark: set RINGUP_TEST_SPARK", allow_module_level=True)
if not shutil.which("java"):
    pytest.skip("no Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
TRAINERS = os.environ.get("RINGUP_TEST_TRAINERS", "")
PATH = [SPARK, *filter(None, [TRAINERS])]

ESTIMATOR = """
    import io, json, os, sys
    import torch
    import lightning.pytorch as pl
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import SparkSession

    import horovod.spark.lightning as hvd
    from horovod.spark.lightning.estimator import MIN_PL_VERSION
    from horovod.spark.common.backend import SparkBackend
    from horovod.spark.common.store import Store

    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.driver.memory", "512m").getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    df = spark.createDataFrame([(Vectors.dense([i % 2, 1.0]), float(i % 2), i % 5 == 0)
                                for i in range(80)], ["features", "label", "held"])

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Linear(2, 1)

        def forward(self, x):
            return self.one(x.float().reshape((-1, 2)))

        def configure_optimizers(self):
            o = torch.optim.SGD(self.parameters(), lr=0.1)
            return [o], [torch.optim.lr_scheduler.StepLR(o, 1000)]

        def training_step(self, batch, index):
            loss = ((self(batch["features"]).flatten() - batch["label"]) ** 2).mean()
            self.log("train_loss", loss)
            self.log("lr", self.optimizers().param_groups[0]["lr"])
            return loss

        def validation_step(self, batch, index):
            x, y = batch["features"], batch["label"]
            self.log("val_loss", ((self(x).flatten() - y) ** 2).mean(), sync_dist=True)

    class Ends(pl.callbacks.Callback):
        def on_train_end(self, trainer, module):
            with torch.no_grad():
                print("END", trainer.world_size, module.one.weight.sum().item())

    torch.manual_seed(1)
    out, model = io.StringIO(), Net()
    store = Store.create(os.path.join(os.getcwd(), "store"))
    given = dict(store=store, model=model, input_shapes=[[-1, 2]], feature_cols=["features"],
                 label_cols=["label"], batch_size=4, validation="held", verbose=1, run_id="r",
                 random_seed=3)
    before = model.one.weight.clone()
    callbacks = [Ends(), pl.callbacks.ModelCheckpoint(monitor="val_loss"),
                 pl.callbacks.EarlyStopping(monitor="val_loss", patience=50)]
    estimator = hvd.TorchEstimator(
        backend=SparkBackend(num_proc=2, stdout=out, stderr=out), epochs=6, callbacks=callbacks,
        **given)
    fitted = estimator.fit(df).setOutputCols(["out"])
    rows = fitted.transform(df).collect()
    said = {"out": out.getvalue(), "history": fitted.getHistory(),
            "right": all(abs(r["out"] - r["label"]) < 0.3 for r in rows), "rows": len(rows),
            "untouched": torch.equal(before, model.one.weight),
            "kept": sorted(os.listdir(store.get_run_path("r")))}
    path = "file://" + os.path.join(os.getcwd(), "saved")
    estimator.save(path)
    again = hvd.TorchEstimator.load(path).setStore(store).setBackend(
        SparkBackend(num_proc=1, stdout=io.StringIO())).setEpochs(1).setCallbacks([]).fit(df)
    said["again"] = again.getHistory()
    said["class"] = type(again).__module__
    for name, how in (("loss", {"loss": len}), ("plain", {"model": torch.nn.Linear(1, 1)})):
        try:
            hvd.TorchEstimator(**{**given, **how}).fit(df)
        except (TypeError, ValueError) as e:
            said[name] = str(e)
    print("SAID", json.dumps(said))
    """


def test_a_module_of_lightning_is_fitted_and_transforms(tmp_path):
    found = start([sys.executable, "-c", "import lightning, pyarrow, pyspark"], HANG,
                  PYTHONPATH=os.pathsep.join([*PATH, os.environ["PYTHONPATH"]]))
    if found.returncode:
        pytest.skip(f"no lightning or no pyarrow: {found.stderr.splitlines()[-1]}")
    script = tmp_path / "estimator.py"
    script.write_text(textwrap.dedent(ESTIMATOR))
    p = start([sys.executable, str(script)], 4 * HANG, cwd=str(tmp_path),
              PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
              PYTHONPATH=os.pathsep.join([*PATH, os.environ["PYTHONPATH"]]))
    assert p.returncode == 0, p.stdout + p.stderr
    said = json.loads(re.search(r"^SAID (.*)$", p.stdout, re.M).group(1))
    ends = re.findall(r"\[(\d)\]<stdout>: ?END 2 (\S+)", said["out"])
    assert sorted(rank for rank, _ in ends) == ["0", "1"], said["out"]
    assert ends[0][1] == ends[1][1], "the ranks trained apart"
    history = said["history"]
    assert [e["epoch"] for e in history] == list(range(6))
    assert history[-1]["val_loss"] < history[0]["val_loss"] and history[-1]["val_loss"] < 0.1
    assert all(abs(e["lr"] - 0.2) < 1e-6 for e in history), history
    assert "epoch 6 of 6" in said["out"]
    assert said["right"] and said["rows"] == 80 and said["untouched"]
    assert "checkpoint.pt" in said["kept"] and any(k.endswith(".ckpt") for k in said["kept"])
    assert said["again"][0]["train_loss"] < history[0]["train_loss"], "training did not go on"
    assert abs(said["again"][0]["lr"] - 0.1) < 1e-6
    assert said["class"] == "horovod.spark.lightning.estimator"
    assert "configure_optimizers()" in said["loss"]
    assert said["plain"].startswith("model is a Linear, not a LightningModule")
