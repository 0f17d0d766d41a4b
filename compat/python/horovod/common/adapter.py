# adapter.py - access to the tensors of a framework, for collectives.py.
# SPDX-License-Identifier: Apache-2.0

import operator


class Adapter:
    """A framework says how its tensors become memory and back; the rest has a default.  Its tensors
    have a dtype and a shape, both of which can be keys, and perhaps a device.

    dtypes        the framework's types that the library can reduce, and its numbers of them
    itemsize(d)   bytes of an element of a type
    memory(t)     ringup.memory.Memory of the tensor's elements: the tensor's own, whose keep is
                  the tensor, or, where that is not contiguous in host memory, of a copy
    from_memory(m)  a tensor of the elements of a Memory that came from memory(), or of its like()
    copy_into(t, m)  the tensor t, which now has the elements of m; where tensors never change, a
                  new one

    The defaults of what follows are made of these.  It is asked for in each step of a training, so
    a framework may have its own instead, and places that are not Memory: they are given to
    address() and kept alive.

    places(t, output)  (where to read, where to write, the tensor that the result is for) of a
                  reduction into output; without output into a new tensor
    address(place)  of where to read or to write
    deliver(places)  the tensor with the result; called if it is not where it was written
    source(t)     where to read only
    from_block(source, t, shape, block)  a tensor of elements like t's that fill a block of bytes,
                  which is None if there are none
    room(source, shape)  where to write elements like those of source
    from_room(place, t)  a tensor like t of what was written there

    For tensors on a GPU whose framework works on streams; RINGUP_BACKEND=nccl uses both:

    queue(t)      the number of the CUDA stream that the work on the tensor is queued on; None: it
                  is in host memory, or may lie anywhere in it
    far_places(t, output)  as places(), on the GPU
    far_source(t) where to read only, on the GPU
    far_room(t)   a function of a shape: a new tensor like t on the GPU, for work on the stream of
                  the thread that asks for the function
    on_queue(t)   a function of a function, which is called so that its work is on that stream
    """

    dtypes = {}

    def itemsize(self, dtype):
        return dtype.itemsize

    def queue(self, _tensor):
        return None

    def far_source(self, tensor):
        return tensor

    def on_queue(self, _tensor):
        return lambda f: f()

    def memory(self, tensor):
        raise NotImplementedError

    def from_memory(self, memory):
        raise NotImplementedError

    def copy_into(self, tensor, memory):
        raise NotImplementedError

    def places(self, tensor, output):
        source = self.memory(tensor)
        if output is None:
            return source, source.like(source.shape), None
        target = source if output is tensor else self.memory(output)
        return source, target, output

    address = staticmethod(operator.attrgetter("address"))

    def deliver(self, places):
        _source, target, output = places
        if output is None:
            return self.from_memory(target)
        return output if target.keep is output else self.copy_into(output, target)

    def source(self, tensor):
        return self.memory(tensor)

    def from_block(self, source, _tensor, shape, block):
        return self.from_memory(source.like(shape, block))

    def room(self, source, shape):
        return source.like(shape)

    def from_room(self, place, _tensor):
        return self.from_memory(place)
