# adapter.py - access to the tensors of a framework, for collectives.py.
# SPDX-License-Identifier: Apache-2.0

import operator


class Adapter:
    """Defines how a framework's tensors become memory and back.

    A framework must define the functions in the first list; the others have defaults.  Its tensors
    have a dtype and a shape, both of which can be dictionary keys, and may have a device.

    dtypes        the framework's types that the library can reduce, and the library's numbers of
                  them
    itemsize(d)   the number of bytes in an element of a type
    memory(t)     the ringup.memory.Memory of the tensor's elements.  It is the tensor's own memory,
                  and its keep is the tensor.  If the tensor is not contiguous in host memory, it is
                  the memory of a copy.
    from_memory(m)  a tensor of the elements of a Memory that came from memory(), or from the like()
                  of one
    copy_into(t, m)  the tensor t with the elements of m; a new tensor if tensors are immutable

    The defaults of the next functions use these.  Training calls them in each step, so a framework
    may define faster ones, whose places are not Memory; a place is passed to address() and kept
    alive.

    places(t, output)  (place to read, place to write, tensor of the result) for a reduction into
                  output; without output, into a new tensor
    address(place)  the address of a place
    deliver(places)  the tensor with the result; called if the result was written elsewhere
    source(t)     the place to read, for operations that only read
    from_block(source, t, shape, block)  a tensor of elements like those of t, which fill a block of
                  bytes; block is None if it has no elements
    room(source, shape)  a place to write elements like those of source
    from_room(place, t)  a tensor like t with the elements written there

    The last functions are for GPU tensors of a framework that uses streams.  RINGUP_BACKEND=nccl
    uses them:

    queue(t)      the number of the CUDA stream on which work on the tensor is queued.  None: the
                  tensor is in host memory, or work on it may be on any stream.
    far_places(t, output)  as places(), on the GPU
    far_source(t)  as source(), on the GPU
    far_room(t)   a function of a shape that returns a new tensor like t on the GPU, for work on the
                  stream of the thread that calls far_room()
    at_wait(tensors)  a function without arguments that the thread calls that waits for an operation
                  on these tensors: it returns the number of that thread's stream.  None: the result
                  is used on the stream that queue() returned.
    on_queue(t)   a function that calls its argument so that the work is queued on the stream of t
    """

    dtypes = {}

    def itemsize(self, dtype):
        return dtype.itemsize

    def queue(self, _tensor):
        return None

    def far_source(self, tensor):
        return tensor

    def at_wait(self, _tensors):
        return None

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
