# jax_reducer.py - an optimizer's step of Keras on JAX.
# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp

from horovod._keras.backends import ArrayReducer
from horovod.common.compression import CastCompressor, NoneCompressor
from horovod.common.process_sets import number_of
from horovod.common.semantics import reduction_of
from ringup import jax as collectives


class _HalfCompressor(CastCompressor):
    """Send floating point numbers with two bytes each; leave integers alone."""

    @staticmethod
    def is_floating_point(tensor):
        return jnp.issubdtype(tensor.dtype, jnp.floating)

    @staticmethod
    def cast(tensor, dtype):
        return tensor.astype(dtype)


class FP16Compressor(_HalfCompressor):
    """IEEE half precision."""

    dtype = jnp.float16


class BF16Compressor(_HalfCompressor):
    """bfloat16."""

    dtype = jnp.bfloat16


class Compression:
    """The choices for compression=."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


class JaxReducer(ArrayReducer):
    """Gradients are combined in compiled code, each by its name."""

    def __init__(self, how, scope, scale_local_gradients, passes, average_aggregated_gradients):
        if passes > 1:
            raise ValueError("backward_passes_per_step > 1: compiled code of JAX cannot count "
                             "steps; use the optimizer's own gradient_accumulation_steps")
        super().__init__(how, scope, scale_local_gradients, passes, average_aggregated_gradients)

    def combine(self, grads, variables):
        h, out = self.how, list(grads)
        for i, g in enumerate(grads):
            if g is None:
                continue
            small, ctx = h.compression.compress(g)
            small = collectives.allreduce(small, reduction_of(h.op), self.label(i, variables),
                                          number_of(h.process_set), 1.0 / h.predivide,
                                          h.predivide)
            out[i] = h.compression.decompress(small, ctx)
        return out
