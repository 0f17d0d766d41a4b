# adapter.py - adapts torch tensors to the interface that horovod.common's collectives expect.
# SPDX-License-Identifier: Apache-2.0
"""A tensor that is contiguous in host memory is passed to the library directly.  Any other tensor
(on a GPU, transposed, channels_last) goes through a contiguous copy in host memory.  With
RINGUP_BACKEND=nccl, tensors that are reduced or broadcast stay on the GPU."""

import torch

from horovod.common.adapter import Adapter
from ringup import dlpack
from ringup_torch import tensors


def _copy(tensor):
    """Return a contiguous copy in host memory."""
    if tensor.layout is not torch.strided:
        raise ValueError("a sparse tensor cannot be reduced or sent directly: use "
                         "hvd.sparse_allreduce_async(), sparse_as_dense=True, or .to_dense()")
    return tensors.copy(tensor)


def _empty(tensor):
    """Return an uninitialized contiguous tensor of the same shape, type and device."""
    if tensor.is_contiguous():
        return torch.empty_like(tensor)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _used(tensor):
    """Return the tensor.  torch's allocator gives its memory away when the last reference is gone,
    to work that is queued later on the stream on which it was allocated.  From now on that work
    waits for the current stream, on which ringup uses the tensor."""
    tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor


class TorchAdapter(Adapter):
    """An Adapter whose places are tensors, so that no step creates further objects."""

    dtypes = tensors.DTYPES
    address = staticmethod(torch.Tensor.data_ptr)

    def itemsize(self, dtype):
        return torch.empty(0, dtype=dtype).element_size()

    @staticmethod
    def places(tensor, output):
        try:  # as tensors.is_direct(), but without a call
            direct = (tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj()
                      and not tensor.is_neg())
        except RuntimeError:
            direct = False
        if direct:
            if output is None:
                output = torch.empty_like(tensor)
                return tensor, output, output
            if output is tensor or tensors.is_direct(output):
                return tensor, output, output
        both = _copy(tensor)
        return both, both, _empty(tensor) if output is None else output

    @staticmethod
    def deliver(places):
        _source, target, output = places
        if output is target:
            return output
        with torch.no_grad():
            return output.copy_(target)

    @staticmethod
    def queue(tensor):
        if not tensor.is_cuda or tensor.layout is not torch.strided:
            return None
        # 0 is the legacy default stream, which has a number of its own in the driver.
        return torch.cuda.current_stream(tensor.device).cuda_stream or dlpack.LEGACY

    @staticmethod
    def far_places(tensor, output):
        source = TorchAdapter.far_source(tensor)
        if output is None:
            output = _empty(tensor)  # on the current stream
        elif output is not tensor:
            _used(output)
        plain = output.is_contiguous() and not output.is_conj() and not output.is_neg()
        return source, output if plain else torch.empty_like(source), output

    @staticmethod
    def far_source(tensor):
        _used(tensor)
        return tensor.detach().resolve_conj().resolve_neg().contiguous()

    @staticmethod
    def at_wait(tensors):
        tensors = list({id(t): t for t in tensors}.values())

        def here():
            stream = torch.cuda.current_stream(tensors[0].device)
            # Only this stream waits until NCCL has read and written them.
            for tensor in tensors:
                tensor.record_stream(stream)
            return stream.cuda_stream or dlpack.LEGACY
        return here

    @staticmethod
    def on_queue(tensor):
        stream = torch.cuda.current_stream(tensor.device)

        def within(f):
            with torch.cuda.stream(stream):
                return f()
        return within

    def far_room(self, tensor):
        within = self.on_queue(tensor)
        return lambda shape: within(
            lambda: torch.empty(shape, dtype=tensor.dtype, device=tensor.device))

    @staticmethod
    def source(tensor):
        return tensor if tensors.is_direct(tensor) else _copy(tensor)

    @staticmethod
    def from_block(_source, tensor, shape, block):
        if not block:
            return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
        flat = torch.frombuffer(block, dtype=torch.uint8)
        return flat.view(tensor.dtype).view(shape).to(tensor.device)

    @staticmethod
    def room(source, shape):
        return torch.empty(shape, dtype=source.dtype)

    @staticmethod
    def from_room(place, tensor):
        return place.to(tensor.device)
