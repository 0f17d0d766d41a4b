# nccl_of_a_rank.py - what test_nccl.py starts on every rank: arrays of a GPU that is a fake.
# SPDX-License-Identifier: Apache-2.0
"""No framework runs without the real driver.  An array here has its memory from the driver that
the loader finds, says so by DLPack, and has an adapter as thin as torch's."""

import ctypes
import os
import signal
import sys
import time
import weakref

import numpy

import ringup
import ringup.elastic
from horovod.common.adapter import Adapter
from horovod.common.basics import HorovodBasics
from horovod.common.collectives import Collectives
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set
from horovod.common.semantics import Adasum, Average, Sum, synchronize
from ringup import constants, dlpack, operation

cuda = ctypes.CDLL("libcuda.so.1")
LEGACY = ctypes.c_void_p(dlpack.LEGACY)
seat = ctypes.c_void_p()  # the context of this rank's GPU


def call(name, *args):
    """A call of the driver."""
    rc = getattr(cuda, name)(*args)
    assert rc == 0, (name, rc)


def sit(rank):
    """Work on the GPU of a rank."""
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(seat), rank)
    call("cuCtxSetCurrent", seat)


class Array:
    """float32 in the memory of a GPU."""

    dtype, device, kept = numpy.dtype("float32"), "gpu", "float32"

    def __init__(self, host):
        host = numpy.ascontiguousarray(host, self.kept)
        self.shape, self.at = host.shape, ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(host.nbytes or 1))
        self.fill(host)

    def fill(self, host):
        """Take the elements of an array of numpy's."""
        call("cuMemcpyHtoD_v2", self.at, host.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_size_t(host.nbytes))
        call("cuStreamSynchronize", LEGACY)  # it may still be on its way

    def __del__(self):
        cuda.cuMemFree_v2(self.at)

    def numpy(self):
        """On the host, when all that was queued has run."""
        host = numpy.empty(self.shape, self.kept)
        call("cuMemcpyDtoHAsync_v2", host.ctypes.data_as(ctypes.c_void_p), self.at,
             ctypes.c_size_t(host.nbytes), LEGACY)
        call("cuStreamSynchronize", LEGACY)
        return host

    def __dlpack_device__(self):
        return dlpack.CUDA, 0

    def __dlpack__(self, stream=None):
        assert stream == dlpack.LEGACY
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        tensor = dlpack._Tensor(self.at.value, dlpack.CUDA, 0, len(self.shape), 2, 32, 1, shape,
                                None, 0)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                         ctypes.c_void_p]
        self.told = tensor, shape
        return make(ctypes.addressof(tensor), b"dltensor", None)


class Brain(Array):
    """bfloat16, which numpy does not have: the upper half of a float32."""

    dtype, kept = "bfloat16", "uint16"

    def __init__(self, host):
        super().__init__(numpy.ascontiguousarray(host, "float32").view("uint32") >> 16)

    def numpy(self):
        return (super().numpy().astype("uint32") << 16).view("float32")


class ArrayAdapter(Adapter):
    """As torch's: a GPU's arrays stay there, or go through host memory where they cannot."""

    dtypes = {Array.dtype: constants.F32, Brain.dtype: constants.BF16}

    @staticmethod
    def memory(tensor):
        return ringup.memory.of(tensor.numpy())

    @staticmethod
    def from_memory(memory):
        return Array(numpy.frombuffer(memory.bytes, "float32").reshape(memory.shape))

    @staticmethod
    def copy_into(tensor, memory):
        tensor.fill(numpy.frombuffer(memory.bytes, "float32"))
        return tensor

    @staticmethod
    def address(place):
        return place.at.value if isinstance(place, Array) else place.address

    @staticmethod
    def queue(_tensor):
        return dlpack.LEGACY

    @staticmethod
    def far_places(tensor, output):
        output = type(tensor)(numpy.zeros(tensor.shape)) if output is None else output
        return tensor, output, output

    @staticmethod
    def on_queue(_tensor):
        def within(f):  # in a thread of the library's
            call("cuCtxSetCurrent", seat)
            return f()
        return within

    def far_room(self, tensor):
        within = self.on_queue(tensor)
        return lambda shape: within(lambda: Array(numpy.zeros(shape)))

    def deliver(self, places):
        _source, target, output = places
        return output if target is output else super().deliver(places)


hvd, basics = Collectives(ArrayAdapter()), HorovodBasics()
WORLD = global_process_set


def equal(array, value):
    """All elements are value."""
    assert (array.numpy() == numpy.float32(value)).all(), (array.numpy(), value)


def train():
    """Every rank has the same weights after each step, those of one process on all batches."""
    n, r = basics.size(), basics.rank()
    weights = hvd.broadcast_async(Array(numpy.full((4, 3), 7.0 + r)), None, 0, "weights", WORLD)
    here = synchronize(weights)
    equal(here, 7)
    for step in range(20):
        grads = [Array(numpy.full(s, step + r)) for s in ((4, 3), (5,), (1000,))]
        handles = [hvd.allreduce_async(g, g if i else None, f"grad.{i}", Average, 1.0, 1.0, WORLD)
                   for i, g in enumerate(grads)]
        for h in handles:
            equal(synchronize(h), step + (n - 1) / 2)
    both = synchronize(hvd.grouped_allreduce_async(
        [Array(numpy.ones(3)), Array(numpy.full(200, 2.0))], None, "both", Sum, 1.0, 1.0, WORLD))
    equal(both[0], n)
    equal(both[1], 2 * n)
    equal(hvd.allreduce(Array(numpy.full(9, r)), None, "now", Sum, 1.0, 1.0, WORLD),
          n * (n - 1) / 2)
    rows = synchronize(hvd.allgather_async(Array(numpy.full((r + 1, 2), r)), "rows", WORLD))
    assert rows.numpy()[:, 0].tolist() == [i for i in range(n) for _ in range(i + 1)]


class HostAdapter(ArrayAdapter):
    """Its arrays are in host memory, whatever the other ranks' are."""

    @staticmethod
    def queue(_tensor):
        return None


def blocks():
    """What is gathered, exchanged and scattered stays on the GPU, in any order, also empty; a rank
    with its part in host memory gets the same through host memory."""
    n, r = basics.size(), basics.rank()
    asked = []
    start = operation._start

    def watch(call, group, called, keep, finish, *args):
        asked.extend(getattr(a, "memory", 0) for arg in args[:1]
                     for a in (arg if hasattr(arg, "_length_") else [arg._obj]))
        return start(call, group, called, keep, finish, *args)

    def went_to(kind, calls):
        kinds = [asked.pop(0) for _ in range(len(asked))]
        assert kinds.count(kind) >= calls, (kinds, kind, calls)

    operation._start = watch
    for names in (("a", "b"), (None, None)):
        for collectives, kind in ((hvd, constants.CUDA), (
                hvd if r else Collectives(HostAdapter()),
                constants.CUDA if r else constants.HOST)):
            mine = Array(numpy.full((r, 2), r))
            one = collectives.allgather_async(mine, names[0], WORLD)
            two = collectives.allgather_async(Array(numpy.full((2, 1), r)), names[1], WORLD)
            # The first to be waited for is another one on each rank.
            done = [synchronize(h) for h in ((one, two) if r % 2 else (two, one))]
            one, two = done if r % 2 else done[::-1]
            assert one.numpy().tolist() == [[i, i] for i in range(n) for _ in range(i)]
            assert two.numpy().tolist() == [[i] for i in range(n) for _ in range(2)]
            both = synchronize(collectives.grouped_allgather_async(
                [mine, Array(numpy.full(3, r))], names[0], WORLD))
            assert both[0].numpy().tolist() == one.numpy().tolist()
            assert both[1].numpy().tolist() == [i for i in range(n) for _ in range(3)]
            # Rank r sends r + i rows to rank i.
            rows = Array(numpy.full((n * r + n * (n - 1) // 2, 3), r))
            got, counts = synchronize(collectives.alltoall_async(
                rows, [r + i for i in range(n)], names[0], WORLD))
            assert counts == [i + r for i in range(n)], counts
            assert got.numpy()[:, 0].tolist() == [i for i in range(n) for _ in range(i + r)]
            whole = Array(numpy.full((n, 2), r))
            equal(synchronize(collectives.reducescatter_async(whole, names[0], Sum, WORLD, 1.0,
                                                              1.0)), n * (n - 1) / 2)
            equal(synchronize(collectives.broadcast_async(whole, None, 0, names[0], WORLD)), 0)
            equal(synchronize(collectives.broadcast_async(whole, None, n - 1, names[0], WORLD)),
                  n - 1)
            equal(collectives.allreduce(whole, whole, names[0], Average, 1.0, 1.0, WORLD),
                  (n - 1) / 2)
            went_to(kind, 7)
    whole = Array(numpy.tile(numpy.arange(n + 1.0)[:, None], 2))
    for part in (synchronize(hvd.reducescatter_async(whole, None, Sum, WORLD, 1.0, 1.0)),
                 synchronize(hvd.grouped_reducescatter_async([whole], None, Average, WORLD, 1.0,
                                                             n))[0]):
        want = [[n * i] * 2 for i in ((0, 1) if r == 0 else (r + 1,))]
        assert part.numpy().tolist() == want, (part.numpy(), want)
    went_to(constants.CUDA, 2)
    try:
        hvd.alltoall_async(Array(numpy.ones(n + 1)), None, None, WORLD)
        raise AssertionError("rows that cannot be split")
    except ValueError as e:
        assert "split evenly" in str(e), e


def bfloat16():
    """A training in bfloat16: gradients are averaged on the GPU as they are, alone and fused, and
    what bfloat16 has no digits for is rounded, not wrong."""
    n, r = basics.size(), basics.rank()
    weights = synchronize(hvd.broadcast_async(Brain(numpy.full(64, 0.5 + r)), None, 0, "w", WORLD))
    equal(weights, 0.5)
    for step in range(5):
        grads = [Brain(numpy.full(size, 2.0 ** step * (r + 1))) for size in (1, 7, 1000)]
        handles = [hvd.allreduce_async(g, g, f"grad.{i}", Average, 1.0, 1.0, WORLD)
                   for i, g in enumerate(grads)]
        for h in handles:
            equal(synchronize(h), 2.0 ** step * (n + 1) / 2)
    both = synchronize(hvd.grouped_allreduce_async(
        [Brain(numpy.ones(3)), Brain(numpy.full(5, 3.0))], None, "both", Sum, 1.0, 0.5, WORLD))
    equal(both[0], n / 2)
    equal(both[1], 3 * n / 2)


def adasum():
    """What NCCL does not have goes through host memory."""
    one = Array(numpy.ones(8))
    equal(synchronize(hvd.allreduce_async(one, None, "adasum", Adasum, 1.0, 1.0, WORLD)), 1)


def arrays():
    """Without a framework, by DLPack."""
    n, sum_ = basics.size(), sum(range(1, basics.size() + 1))
    a = Array(numpy.full(33, basics.rank() + 1.0))
    assert ringup.allreduce(a) is a
    equal(a, sum_)
    ringup.broadcast(a, 0)
    # With a stream, work on that stream finds the result.  Without one, nobody knows where the
    # next work on an array of this library is queued, so its result is there.
    os.environ["FAKE_NCCL"] = f"late={basics.rank()}:200"
    for stream, status in ((None, 0), (dlpack.LEGACY, 600)):
        assert ringup.allreduce(a, stream=stream) is a and cuda.cuStreamQuery(LEGACY) == status
    ringup.broadcast(a, 0)
    assert cuda.cuStreamQuery(LEGACY) == 0
    del os.environ["FAKE_NCCL"]
    equal(a, sum_ * n * n)
    for stream in (0, -1):
        try:
            ringup.allreduce(a, stream=stream)
            raise AssertionError(f"stream={stream} is taken")
        except ValueError as e:
            assert f"stream={stream}" in str(e), e

    class Stream:
        """As CuPy's: its end destroys the stream."""

        ptr = dlpack.LEGACY

    stream = Stream()
    lives = weakref.ref(stream)
    work = ringup.allreduce(a, async_op=True, stream=stream)
    del stream
    assert lives() is not None, "the stream ends before its operation"
    assert work.wait() is a and lives() is None
    equal(a, sum_ * n ** 3)
    try:
        ringup.allgather(a)
        raise AssertionError("what is gathered has no room on the GPU")
    except ValueError as e:
        assert "copy it to host memory first" in str(e), e


def nameless():
    """An error of an operation without a name tells its number.  The driver has no compiler, and
    NCCL alone scales nothing."""
    a = Array(numpy.ones(8))
    equal(ringup.allreduce(a), basics.size())
    try:
        ringup.allreduce(a, pre=0.5)
        raise AssertionError("nothing has scaled it")
    except ringup.errors.RingupError as e:
        assert "): allreduce '#1': GPU " in str(e), e


def backlog():
    """The GPU is long behind the program, and each collective takes a moment: none is late, also
    if the job ends meanwhile."""
    n = basics.size()
    groups = [ringup.WORLD, ringup.new_group(range(n))]
    for g in groups:
        g.allreduce(Array(numpy.ones(9)), stream=1)
    os.environ["FAKE_NCCL"] = "late=0:60"
    rounds = [[Array(numpy.ones(9)) for _ in range(24)] for _ in range(2)]
    for some in rounds:
        for i, a in enumerate(some):
            groups[i % 2].allreduce(a, name=f"{i}", stream=1)
        if some is rounds[0]:
            call("cuStreamSynchronize", LEGACY)
            ringup.barrier()
    basics.shutdown()
    for a in rounds[0] + rounds[1]:
        equal(a, n)
    basics.init()


def sets():
    """Process sets in another order on each rank."""
    r = basics.rank()
    pairs = [add_process_set(ProcessSet(p)) for p in ([0, 1], [1, 2], [0, 2])]
    for step in range(20):
        mine = [p for p in pairs if r in p.ranks] + [WORLD]
        mine = mine[step % 3 * r % 3:] + mine[:step % 3 * r % 3]
        handles = [hvd.allreduce_async(Array(numpy.ones(50)), None, "same", Sum, 1.0, 1.0, p)
                   for p in mine]
        for h, p in zip(handles, mine):
            equal(synchronize(h), p.size())


def killed(sign):
    """Rank 1 dies or stands still between two steps; the others are told who, and when."""
    a = Array(numpy.ones(8))
    equal(hvd.allreduce(a, None, "first", Sum, 1.0, 1.0, WORLD), basics.size())
    if basics.rank() == 1:
        os.kill(os.getpid(), sign)
    since = time.monotonic()
    try:
        for i in range(1000):
            hvd.allreduce(a, None, f"more.{i}", Sum, 1.0, 1.0, WORLD).numpy()
        raise AssertionError("nobody says so")
    except HorovodInternalError as e:
        assert "rank 1 (process " in str(e) and "allreduce 'allreduce.more." in str(e), e
        print(f"told after {time.monotonic() - since:.2f} s: {e}", flush=True)
    # The program's stream goes on.
    call("cuStreamSynchronize", LEGACY)
    if sign == signal.SIGSTOP:
        sys.exit(3)  # the launcher ends the other


def elastic():
    """Ranks die, all at once; the others, still running, meet again and compute on their GPUs.
    Each step adds the number of ranks to the weights, which come from the host's memory when a
    step has to be done again."""
    here, size, doomed = os.getpid(), ringup.size(), [int(rank) for rank in sys.argv[2:]]

    @ringup.elastic.run
    def go(state):
        print(f"generation of {ringup.size()} at step {state.step} in {here}", flush=True)
        while state.step < 20:
            if state.step == 7 and ringup.size() == size and ringup.rank() in doomed:
                os.kill(here, signal.SIGKILL)
            one = Array(numpy.full(100, state.weight))
            ringup.allreduce(one, "average", name="weight")
            equal(one, state.weight)
            step = Array(numpy.ones(100))
            ringup.allreduce(step, name="step")
            equal(step, ringup.size())
            state.weight, state.step = state.weight + ringup.size(), state.step + 1
            state.commit()

    state = ringup.elastic.ObjectState(weight=0, step=0)
    go(state)
    print(f"weight {state.weight} in {here}", flush=True)


class Model:
    """Weights on the GPU."""

    def __init__(self, value):
        self.weights = Array(numpy.full(100, value))


def on_gpu(to, of):
    """Copy one array to another, on the program's stream, and do not wait."""
    call("cuMemcpyDtoDAsync_v2", to.at, of.at, ctypes.c_size_t(4 * of.shape[0]),
         LEGACY)
    return to


def lagging():
    """Rank 1 dies while the GPUs are behind the hosts: the commit of that step must not keep what
    an aborted allreduce has left.  The state is horovod.torch's, with copies on the GPU."""
    import horovod.torch.elastic as hvd_elastic
    from horovod.torch.elastic import state as states

    class Handler(states.StateHandler):
        """Keeps a copy, as a module's handler does."""

        def __init__(self, value):
            super().__init__(value)
            self.save()

        def save(self):
            self.kept = on_gpu(Array(numpy.zeros(100)), self.value.weights)

        def restore(self):
            on_gpu(self.value.weights, self.kept)

        def sync(self):
            a = self.value.weights
            synchronize(hvd.broadcast_async(a, a, 0, "model", WORLD))

    states.set_handler_registry([(Model, Handler)])
    size = ringup.size()

    @hvd_elastic.run
    def go(state):
        print(f"generation of {ringup.size()} at step {state.step}", flush=True)
        equal(state.model.weights, state.product)
        while state.step < 6:
            a = state.model.weights
            doomed = state.step == 2 and ringup.size() == size and ringup.rank() == 1
            if doomed:
                call("cuStreamSynchronize", LEGACY)
                os.environ["FAKE_NCCL"] = "late=1:60000"
            synchronize(hvd.allreduce_async(a, a, "weights", Sum, 1.0, 1.0, WORLD))
            if doomed:
                time.sleep(0.5)  # the others have come to their commit
                os.kill(os.getpid(), signal.SIGKILL)
            state.product *= ringup.size()
            state.step += 1
            state.commit()

    state = states.TorchState(model=Model(1), step=0, product=1)
    go(state)
    equal(state.model.weights, state.product)
    print("the weights are right", flush=True)


def checkpoint():
    """What a program does before it saves: to wait until the GPU is done, or to hear that the job
    has failed.  A rank that has left is no failure."""
    a = Array(numpy.ones(8))
    ringup.allreduce(a, stream=1)
    os.environ["FAKE_NCCL"] = "late=0:300"
    ringup.allreduce(a, stream=1)
    late = cuda.cuStreamQuery(LEGACY)
    ringup.wait_for_gpu()
    assert (late, cuda.cuStreamQuery(LEGACY)) == (600, 0), late
    equal(a, basics.size() ** 2)
    if basics.rank() == 1 and sys.argv[2] == "leaves":
        return
    if basics.rank() == 1:
        os.environ["FAKE_NCCL"] = "late=1:60000"
    if sys.argv[2] == "dies":
        ringup.allreduce(a, stream=1)
        assert cuda.cuStreamQuery(LEGACY) == 600
    if basics.rank() == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    world = ringup.job.get_running().world
    until = time.monotonic() + 20
    while sys.argv[2] == "leaves" and time.monotonic() < until:
        if ringup.job.lib.ringup_group_error(world.handle):
            until = 0
    assert sys.argv[2] == "dies" or until == 0, "nobody has left"
    try:
        ringup.wait_for_gpu()
        assert sys.argv[2] == "leaves", "the sum is wrong, and nobody says so"
    except ringup.PeerLost as e:
        assert sys.argv[2] == "dies" and "rank 1 (process " in str(e), e


def elsewhere():
    """The stream on which the program waits sees the result, and the one on which it submitted
    does not wait."""
    n, r = basics.size(), basics.rank()
    submits, waits = ctypes.c_void_p(), ctypes.c_void_p()
    for stream in (submits, waits):
        call("cuStreamCreate", ctypes.byref(stream), 1)  # no barrier with the legacy stream
    now = [submits]

    class StreamAdapter(ArrayAdapter):
        """Its arrays are used on a stream that the program chooses."""

        @staticmethod
        def queue(_tensor):
            return now[0].value

        @staticmethod
        def at_wait(_tensors):
            return lambda: now[0].value

    def done(work, *arrays):
        now[0] = waits
        found = work.wait(stream=waits.value) if arrays else synchronize(work)
        states = cuda.cuStreamQuery(submits), cuda.cuStreamQuery(waits)
        assert states == (0, 600), states
        now[0] = submits
        flat = []
        for a in arrays or (found if isinstance(found, (list, tuple)) else [found]):
            if isinstance(a, Array):
                host = numpy.empty(a.shape, "float32")
                call("cuMemcpyDtoHAsync_v2", host.ctypes.data_as(ctypes.c_void_p), a.at,
                     ctypes.c_size_t(host.nbytes), waits)
                call("cuStreamSynchronize", waits)
                flat += host.flatten().tolist()
        return flat

    on, one, rows = Collectives(StreamAdapter()), Array(numpy.ones(3)), Array(numpy.ones((n, 1)))
    first = synchronize(on.allreduce_async(one, None, "first", Sum, 1.0, 1.0, WORLD))
    call("cuCtxSynchronize")
    equal(first, n)
    os.environ["FAKE_NCCL"] = f"late={r}:100"
    assert done(on.allreduce_async(one, None, "a", Sum, 1.0, 1.0, WORLD)) == [n] * 3
    assert done(on.grouped_allreduce_async([one, one], None, "b", Sum, 1.0, 1.0, WORLD)) == (
        [n] * 6)
    mine = Array(numpy.full(3, r))
    assert done(on.broadcast_async(mine, None, n - 1, "c", WORLD)) == [n - 1] * 3
    assert done(on.allgather_async(mine, "d", WORLD)) == [i for i in range(n) for _ in range(3)]
    assert done(on.alltoall_async(rows, None, "e", WORLD)) == [1] * n
    assert done(on.reducescatter_async(rows, "f", Sum, WORLD, 1.0, 1.0)) == [n]
    assert done(on.grouped_reducescatter_async([rows], "g", Sum, WORLD, 1.0, 1.0)) == [n]

    class Told(Array):
        """By DLPack, on any stream."""

        def __dlpack__(self, stream=None):
            assert stream == submits.value
            return super().__dlpack__(dlpack.LEGACY)

    a = Told(numpy.full(3, r))
    assert done(ringup.allreduce(a, async_op=True, stream=submits.value), a) == (
        [n * (n - 1) / 2] * 3)
    for stream in (submits, waits):
        call("cuStreamDestroy_v2", stream)


def recorded():
    """torch's allocator hears on which stream ringup uses tensors, whichever stream allocated
    them.  This torch has no GPU: its tensors are in host memory and only the streams are fakes."""
    import torch

    from horovod.torch.adapter import TorchAdapter

    class Tensor(torch.Tensor):
        """Notes the streams that it is told of."""

        def record_stream(self, stream):
            seen.append((self.data_ptr(), stream))

    def check(places, *expected):
        told = sorted(at for at, _ in seen)
        assert told == sorted(t.data_ptr() for t in expected), (places, seen)
        assert all(stream is now for _, stream in seen), seen
        seen.clear()

    class Stream:
        """The current stream."""

        cuda_stream = 7

    seen, now, adapter = [], Stream, TorchAdapter()
    torch.cuda.current_stream = lambda _device: now
    one, other = (torch.ones(2, 3).as_subclass(Tensor) for _ in range(2))
    check(adapter.far_places(one, None), one)
    check(adapter.far_places(one, one), one)
    check(adapter.far_places(one, other), one, other)
    check(adapter.far_places(one.t(), other.t()), one, other)
    check(adapter.far_source(one.t()), one)
    here = adapter.at_wait((one, other, one))
    now = type("Other", (Stream,), {"cuda_stream": 8})
    check(here(), one, other)
    assert here() == 8


def versions():
    """Rank 1 has another NCCL: no rank starts, and each is told both."""
    if os.environ["RINGUP_RANK"] == "1":
        os.environ["RINGUP_NCCL"] = sys.argv[2]
    try:
        basics.init()
    except Exception as e:  # of whatever kind
        print(f"told: {e}", flush=True)
        return
    raise AssertionError("two versions of NCCL meet")


if __name__ == "__main__":
    if sys.argv[1] == "versions":
        versions()
        sys.exit()
    basics.init()
    local = basics.local_rank()
    if sys.argv[1] == "visible":
        # As many programs do; CUDA reads it when it starts, and serves no child of that process.
        os.environ["CUDA_VISIBLE_DEVICES"], local = str(local), 0
        child = os.fork()
        if not child:
            os._exit(cuda.cuInit(0))
        assert os.waitpid(child, 0)[1] == 0, "CUDA had started before the first tensor"
    sit(local)
    {"train": train, "visible": train, "adasum": adasum, "arrays": arrays, "bfloat16": bfloat16,
     "blocks": blocks, "sets": sets, "elastic": elastic, "killed": lambda: killed(signal.SIGKILL),
     "lagging": lagging, "backlog": backlog, "nameless": nameless, "recorded": recorded,
     "elsewhere": elsewhere, "checkpoint": checkpoint,
     "stopped": lambda: killed(signal.SIGSTOP)}[sys.argv[1]]()
    print(f"rank {basics.rank()} is through", flush=True)
    basics.shutdown()
    call("cuDevicePrimaryCtxRelease_v2", local)
