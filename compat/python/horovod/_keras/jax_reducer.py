# jax_reducer.py - a step of a Keras optimizer on JAX.
# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp

from horovod._keras.backends import ArrayReducer
from horovod._keras.jax_passes import Passes
from horovod.common.compression import CastCompressor, NoneCompressor
from horovod.common.process_sets import number_of
from horovod.common.semantics import reduction_of
from ringup import jax as collectives


class _HalfCompressor(CastCompressor):
    """Send floating-point numbers with two bytes each; send integers unchanged."""

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
    """The values of compression=."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


class JaxReducer(ArrayReducer):
    """Combines gradients in compiled code, each under its name."""

    def passes_of(self, optimizer, update):
        """Return the object that sums several passes, or None.  update is the optimizer's
        stateless_apply()."""
        if self.passes == 1:
            return None
        return Passes(optimizer, self.passes, self.average, self._combined, update)

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
