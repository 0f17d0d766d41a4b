# __init__.py - horovod.tensorflow.data, which ringup does not have: says what to use instead.
# SPDX-License-Identifier: Apache-2.0

raise ImportError(
    "horovod.tensorflow.data, which runs servers of tf.data beside a training, is not part of "
    "ringup; start a tf.data.experimental.service.DispatchServer and its WorkerServers yourself, "
    "or let each rank read its part: dataset.shard(hvd.size(), hvd.rank())")
