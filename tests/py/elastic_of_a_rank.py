# elastic_of_a_rank.py - what test_elastic.py starts on every rank: one check after the other.
# SPDX-License-Identifier: Apache-2.0

import contextlib
import json
import os
import sys
import traceback

import torch
from torch.utils.data import DataLoader, Dataset

import horovod.torch as hvd
from horovod.common.elastic import ObjectState, meet_again, run_fn
from horovod.common.exceptions import HostsUpdatedInterrupt
from horovod.torch.elastic import ElasticSampler, TorchState, sampler, state as states

CHECKS = {}


def check(f):
    CHECKS[f.__name__] = f
    return f


@contextlib.contextmanager
def as_rank(rank, size):
    """Let samplers believe that this is that rank."""
    before = sampler.rank, sampler.size
    sampler.rank, sampler.size = lambda: rank, lambda: size
    try:
        yield
    finally:
        sampler.rank, sampler.size = before


class Numbers(Dataset):
    """The numbers below n."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        return i

    def __len__(self):
        return self.n


def dealt(n, size, **options):
    """The samplers of all ranks."""
    out = []
    for r in range(size):
        with as_rank(r, size):
            out.append(ElasticSampler(Numbers(n), **options))
    return out


@check
def every_sample_is_dealt_out_once():
    for n, size in [(12, 4), (12, 1), (13, 4), (3, 4), (1, 4), (0, 4), (100, 3)]:
        for shuffle in (True, False):
            parts = [list(s) for s in dealt(n, size, shuffle=shuffle)]
            assert {len(p) for p in parts} == {-(-n // size)}, parts
            flat = [i for round_ in zip(*parts) for i in round_]
            assert sorted(flat[:n]) == list(range(n)), flat
            assert flat[n:] == (flat[:n] * size)[:len(flat) - n], "not from the front again"
            assert shuffle or flat[:n] == list(range(n))


@check
def the_order_is_another_in_each_epoch_and_for_each_seed():
    one, = dealt(50, 1, seed=3)
    first, other = list(one), list(dealt(50, 1, seed=4)[0])
    assert first == list(one) == list(dealt(50, 1, seed=3)[0]) and first != other
    one.set_epoch(1)
    assert list(one) != first == list(dealt(50, 1, seed=3)[0])


@check
def what_has_been_seen_is_not_dealt_out_again():
    """Four ranks see two batches of three; then they are two, and each has loaded the state."""
    n, size, batch = 60, 4, 3
    four = dealt(n, size)
    seen = []
    for s in four:
        for b, batch_ in enumerate(DataLoader(Numbers(n), batch_size=batch, sampler=s)):
            if b == 2:
                break
            seen += batch_.tolist()
            s.record_batch(b, batch)
    assert {s.processed_num for s in four} == {2 * batch * size}
    rest = []
    for r in range(2):
        with as_rank(r, 2):
            two = ElasticSampler(Numbers(n))
            two.load_state_dict(four[0].state_dict())
            assert len(two) == (n - len(seen)) // 2
            rest += list(two)
            two.set_epoch(1)
            assert len(two) == n // 2 and two.processed_num == 0
    assert sorted(seen + rest) == list(range(n))


@check
def samples_can_be_recorded_by_their_numbers():
    s, = dealt(20, 1)
    order = list(s)
    assert s.get_indices(1, 6) == order[6:12] and s.get_indices(3, 6) == order[18:]
    s.record_indices(order[:5])
    saved = s.state_dict()
    s.record_indices(order[5:6])
    with as_rank(0, 1):
        s.load_state_dict(saved)
        assert list(s) == order[5:]
        s.load_state_dict({"epoch": 0, "processed_num": 2})  # of Horovod's own
        assert list(s) == order[2:]


def model_of(value):
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)
    return model


def values(model):
    return {float(x) for p in model.state_dict().values() for x in p.flatten()}


@check
def state_follows_rank_0_and_goes_back():
    me, size = hvd.rank(), hvd.size()
    model, other = model_of(1.0 + me), model_of(5.0 + me)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 + me, momentum=0.9)
    state = TorchState(model, optimizer, second=other, batch=20 + me, epoch=10 + me)
    assert state.model is model and state.optimizer is optimizer and state.second is other
    state.sync()
    assert values(model) == {1.0} and values(other) == {5.0}
    assert (state.batch, state.epoch) == (20, 10) and optimizer.param_groups[0]["lr"] == 0.1

    def change(by):
        with torch.no_grad():
            for p in (*model.parameters(), *other.parameters()):
                p.fill_(by)
                p.grad = torch.ones_like(p)
        optimizer.param_groups[0]["lr"], state.batch = by, by

    change(30.0)
    state.restore()  # to sync(): nothing has been committed
    assert values(model) == {1.0} and values(other) == {5.0} and state.batch == 20
    assert optimizer.param_groups[0]["lr"] == 0.1 and not optimizer.state
    change(40.0)
    optimizer.step()
    state.commit()
    committed = values(model)
    momenta = [s["momentum_buffer"].clone() for s in optimizer.state.values()]
    change(50.0)
    optimizer.step()
    state.restore()
    assert values(model) == committed and values(other) == {40.0} and state.batch == 40.0
    for before, now in zip(momenta, optimizer.state.values()):
        assert torch.equal(before, now["momentum_buffer"])
    assert hvd.size() == size


@check
def a_value_that_is_assigned_takes_its_place():
    state = TorchState(model_of(1.0), extra=1)
    assert state.optimizer is None and state.extra == 1
    new = model_of(2.0)
    state.model = new
    with torch.no_grad():
        new.bias.fill_(9.0)
    state.restore()
    assert state.model is new and values(new) == {2.0}


@check
def samplers_are_part_of_the_state():
    me, size = hvd.rank(), hvd.size()
    s = ElasticSampler(Numbers(8 * size), shuffle=False)
    state = TorchState(sampler=s)
    state.sync()
    s.record_batch(0, 2)
    assert s.processed_num == 2 * size
    state.commit()
    s.record_batch(1, 2)
    state.restore()
    assert s.processed_num == 2 * size
    s.record_indices([2 * size + 2 + me])  # each has seen another
    state.sync()
    assert s.processed_indices == {2 * size + 2 + r for r in range(size)}
    assert len(s) == 8 - 2 - 1
    s.num_replicas = 77
    state.on_reset()
    assert s.num_replicas == size, "hosts were removed: nobody synchronizes"


@check
def handlers_of_a_program():
    class Own:
        handled = 0

    class Handler:  # no StateHandler
        def __init__(self, value):
            self.value, value.handled = value, 1

        def save(self):
            self.value.handled += 1

        restore = sync = save

    before = states.get_handler_registry()
    try:
        states.set_handler_registry([*before, (Own, Handler)])
        own = Own()
        state = TorchState(model_of(1.0), thing=own)
        assert state.thing is own and own.handled == 1
        state.restore()
        assert own.handled == 2
        state.on_reset()
        state.sync()
        assert own.handled >= 3
    finally:
        states.set_handler_registry(before)
    for name in ("save", "restore", "sync"):
        try:
            getattr(states.StateHandler(0), name)()
        except NotImplementedError:
            continue
        raise AssertionError(name)
    assert issubclass(TorchState, ObjectState)


@check
def a_training_in_a_job_that_is_not_elastic():
    model = model_of(float(hvd.rank()))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5),
                                         named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, step=0)

    @hvd.elastic.run
    def train(state, steps):
        while state.step < steps:
            optimizer.zero_grad()
            model(torch.full((1, 2), 1.0 + hvd.rank())).sum().backward()
            optimizer.step()
            state.step += 1
            state.commit()
        return state.step

    assert train(state, steps=3) == 3
    # each step takes the average input from the weights, and 1 from the biases
    mean = sum(1.0 + r for r in range(hvd.size())) / hvd.size()
    assert values(model) == {-1.5 * mean, -1.5}, values(model)


@check
def gradients_under_way_end_with_their_generation():
    """The ranks leave in the middle of a step: after one backward() of two, and after the last."""
    for backwards in (1, 2):
        model = model_of(0.0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0),
                                             named_parameters=model.named_parameters(),
                                             backward_passes_per_step=2)
        state = TorchState(model, optimizer, left=False)

        def train(state):
            for n in range(2):
                if not state.left and n == backwards:
                    break
                model(torch.full((1, 2), 1.0 + hvd.rank())).sum().backward()
            if not state.left:
                state.left = True
                raise HostsUpdatedInterrupt(skip_sync=True)
            optimizer.step()

        run_fn(train, meet_again)(state)
        mean = sum(1.0 + r for r in range(hvd.size())) / hvd.size()
        assert values(model) == {-2.0 * mean, -2.0}, values(model)


@check
def ranks_agree_whether_state_is_synchronized():
    """The last one knows of a loss, the others do not: all of them synchronize."""
    synced, ends = [], [True]

    class State(ObjectState):
        def sync(self):
            synced.append(hvd.rank())
            super().sync()

    state = State(hvd.broadcast_object, hvd.rank, step=0)

    def train(state):
        if ends.pop() if ends else False:
            if hvd.rank() == hvd.size() - 1:
                raise hvd.HorovodInternalError("lost")
            raise HostsUpdatedInterrupt(skip_sync=True)

    run_fn(train, lambda: None)(state)
    assert synced == [hvd.rank()] * 2, synced


@check
def init_again_has_the_same_process_sets():
    few, alone = hvd.ProcessSet([0]), hvd.size() == 1
    hvd.shutdown()
    try:
        hvd.init(process_sets=[few])
    except ValueError:
        assert alone  # the same ranks as all; in a later generation that is no mistake
    more = hvd.add_process_set(list(range(hvd.size()))[-1:]) if hvd.size() > 1 else None
    for _generation in range(2):
        meet_again()
        assert few.process_set_id == (0 if alone else 1) and few.size() == 1
        assert few.included() == (hvd.rank() == 0)
        if few.included():
            assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=few).item() == 1
        if more is not None:  # ended with its generation, and can be added again
            try:
                hvd.allreduce(torch.ones(1), process_set=more)
            except ValueError:
                hvd.add_process_set(more)
            else:
                raise AssertionError("a process set of another generation was used")


def main():
    hvd.init()
    said, number = {}, hvd.rank()
    for name, f in CHECKS.items():
        try:
            f()
            said[name] = ""
        except Exception:
            said[name] = traceback.format_exc()
    path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{number}")
    with open(path + ".part", "w", encoding="utf-8") as out:
        json.dump(said, out)
    os.replace(path + ".part", path)
    sys.exit(any(said.values()))


if __name__ == "__main__":
    main()
