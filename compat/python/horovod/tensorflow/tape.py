# tape.py - a GradientTape whose gradients are combined across ranks.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Average
from horovod.tensorflow import gradients
from horovod.tensorflow.compression import Compression


class _DistributedGradientTape:
    """The class that precedes the class of the wrapped tape; see DistributedGradientTape()."""

    def register_local_source(self, source):
        """Keep the gradient of this variable local to this rank."""
        self._local.add(source)

    def gradient(self, target, sources, output_gradients=None, use_generic_names=False, **kwargs):
        """Compute the gradients as tf.GradientTape.gradient() does, and combine them across the
        ranks."""
        grads = super().gradient(target, sources, output_gradients, **kwargs)
        variables = tf.nest.flatten(sources)
        scope = "grad" if use_generic_names else "DistributedGradientTape"
        combined = self._local.reduce_by(
            lambda g, v: gradients.reduce(g, v, self._how, scope), _flat(grads, len(variables)),
            variables)
        if not isinstance(sources, (list, tuple, dict)):
            return combined[0]
        return list(combined) if isinstance(sources, list) else tf.nest.pack_sequence_as(
            sources, combined)

    def jacobian(self, *_args, **_kwargs):
        """Raise an exception.  A jacobian is computed row by row, and the gradient of each row
        would be combined."""
        self._refuse("jacobian")

    def batch_jacobian(self, *_args, **_kwargs):
        """Raise an exception, as jacobian() does; in addition, ranks have different batches."""
        self._refuse("batch_jacobian")

    @staticmethod
    def _refuse(what):
        raise NotImplementedError(
            f"DistributedGradientTape.{what}() is not supported, since it could mean this rank's "
            f"own Jacobian or that of all ranks.  Call {what}() on a plain tf.GradientTape; "
            "hvd.allreduce() averages its result")

    def get_local_and_global_gradients(self, target, sources, output_gradients=None,
                                       use_generic_names=False):
        """Return the result of gradient() as two lists of pairs (source, gradient): first those of
        local sources, then all others."""
        grads = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(sources, grads))
        return ([(s, g) for s, g in pairs if s in self._local],
                [(s, g) for s, g in pairs if s not in self._local])


def _flat(grads, count):
    """Return a list of gradients; some may be IndexedSlices or None."""
    if isinstance(grads, dict):
        return [grads[key] for key in sorted(grads)]
    if isinstance(grads, (list, tuple)) and len(grads) == count:
        return list(grads)
    if count == 1:
        return [grads]
    return tf.nest.flatten(grads)


def DistributedGradientTape(gradtape, device_dense="", device_sparse="",
                            compression=Compression.none, sparse_as_dense=False, op=Average,
                            gradient_predivide_factor=1.0, num_groups=0, groups=None,
                            process_set=global_process_set, scale_local_gradients=True):
    """Return a tape that records what gradtape records, and combines gradients across the ranks.

    gradtape may have recorded already, or may record later, as in `with
    hvd.DistributedGradientTape( tf.GradientTape()) as tape`. op is hvd.Average, hvd.Sum or another
    operation.  With gradient_predivide_factor, gradients are divided by the factor before they are
    added, and multiplied by it afterwards.  groups is a number of groups, or lists of variables;
    the gradients of a group are combined together.  Gradients of sources that were passed to
    register_local_source() remain local to this rank, and are divided by the number of ranks unless
    scale_local_gradients=False."""
    kind = type(gradtape)
    if issubclass(kind, _DistributedGradientTape):
        raise ValueError("this tape is already a DistributedGradientTape: its gradients would be "
                         "combined twice")
    cls = type(kind.__name__, (_DistributedGradientTape, kind), {})
    tape = cls.__new__(cls)
    vars(tape).update(vars(gradtape))
    tape._how = gradients.how(op, gradient_predivide_factor, compression, sparse_as_dense,
                              num_groups, groups, process_set)
    tape.process_set = process_set
    tape._local = gradients.Local(process_set, scale_local_gradients)
    return tape


def PartialDistributedGradientTape(gradtape, device_dense="", device_sparse="",
                                   compression=Compression.none, sparse_as_dense=False, op=Average,
                                   gradient_predivide_factor=1.0, num_groups=0, groups=None,
                                   process_set=global_process_set, local_layers=None,
                                   scale_local_gradients=True):
    """Return a DistributedGradientTape() that keeps the gradients for the weights of local_layers
    local to this rank."""
    if local_layers is None:
        local_layers = []
    elif isinstance(local_layers, tf.keras.layers.Layer):
        local_layers = [local_layers]
    elif not all(isinstance(layer, tf.keras.layers.Layer) for layer in local_layers):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression,
                                   sparse_as_dense, op, gradient_predivide_factor, num_groups,
                                   groups, process_set, scale_local_gradients)
    for layer in local_layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape
