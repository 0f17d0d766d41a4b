# adapter.py - what a framework tells of its tensors, for collectives.py to work on them.
# SPDX-License-Identifier: Apache-2.0

import operator


class Adapter:
    """A framework says how its tensors become memory and back; the rest has a default.  Its tensors
    have a dtype and a shape, both of which can be keys, and perhaps a device.

    dtypes        the framework's types that the library can reckon with, and its numbers of them
    memory(t)     ringup.memory.Memory of the tensor's elements: the tensor's own, whose keep is
                  the tensor, or, where that is not contiguous in host memory, of a copy
    from_memory(m)  a tensor of the elements of a Memory that memory(), room() or its like() has
                  made
    room(m, shape)  new memory for elements like m's; from_memory() is told of it later
    copy_into(t, m)  the tensor t, which now has the elements of m; where tensors never change, a
                  new one

    What follows has a default.  Most is asked for in each step of a training, so a framework may
    have its own.

    itemsize(d)   bytes of an element of a type
    from_block(m, shape, block)  a tensor of elements like m's that fill a block of bytes, which is
                  None if there are none
    places(t, output)  (where to read, where to write, the tensor that the result is for) of a
                  reduction into output; without output into a new tensor
    address(x)    of where to read or to write
    deliver(places)  the tensor with the result; called if it is not where it was written
    """

    dtypes = {}
    address = staticmethod(operator.attrgetter("address"))

    def memory(self, tensor):
        raise NotImplementedError

    def from_memory(self, memory):
        raise NotImplementedError

    def copy_into(self, tensor, memory):
        raise NotImplementedError

    def room(self, memory, shape):
        return memory.like(shape)

    def itemsize(self, dtype):
        return dtype.itemsize

    def from_block(self, memory, shape, block):
        return self.from_memory(memory.like(shape, block))

    def places(self, tensor, output):
        source = self.memory(tensor)
        if output is None:
            return source, self.room(source, source.shape), None
        target = source if output is tensor else self.memory(output)
        return source, target, output

    def deliver(self, places):
        _source, target, output = places
        if output is None:
            return self.from_memory(target)
        return output if target.keep is output else self.copy_into(output, target)
