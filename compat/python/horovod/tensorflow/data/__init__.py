# __init__.py - horovod.tensorflow.data, which ringup does not provide: says what to use instead.
# SPDX-License-Identifier: Apache-2.0

raise ImportError(
    "horovod.tensorflow.data, which runs tf.data servers during training, is not part of ringup; "
    "start a tf.data.experimental.service.DispatchServer and its WorkerServers yourself, or read "
    "a shard on each rank: dataset.shard(hvd.size(), hvd.rank())")
