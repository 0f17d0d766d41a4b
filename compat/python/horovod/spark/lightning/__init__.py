# __init__.py - horovod.spark.lightning: not there, and says what is.
# SPDX-License-Identifier: Apache-2.0

raise ImportError(
    "ringup has no horovod.spark.lightning: a Trainer of Lightning with strategy=\"ddp\" runs as "
    "the ranks of ringup.spark.TorchDistributor, and a training loop of yours as those of "
    "horovod.spark.run(); horovod.spark.torch has an estimator for models of torch")
