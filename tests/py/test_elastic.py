# test_elastic.py - elastic training without its launcher: the loop, states and the sampler.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import pytest
from conftest import checks_of, outcome

from horovod.common import elastic as common
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from ringup import elastic, errors, job


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", checks_of("elastic_of_a_rank.py"))
def test_state_and_sampler(n, name, parent, tmp_path_factory):
    outcome("elastic_of_a_rank.py", n, name, parent, tmp_path_factory)


@pytest.mark.parametrize("way", ["framework", "torch"])
def test_survivors_go_on_from_the_last_commit(parent, tmp_path, way):
    """Of four ranks one is killed in step 3: each step adds 1 << step times the ranks it had."""
    p = parent.ranks(4, tmp_path, "survive_of_a_rank.py", way)
    assert p.codes == [0, 0, 0, -9], p.text
    weights = sum((4 if step < 3 else 3) << step for step in range(6))
    for r in range(3):
        assert p.results[r][:5] == [[weights] * 5, 6, r, 3, 1], p.text
    assert "rank 3" in p.texts[0] and "the ranks meet again" in p.texts[0], p.text
    assert not p.texts[1] and not p.texts[2], p.text


@pytest.mark.parametrize("own, horovods, expected", [
    (None, None, False), ("1", None, True), ("on", None, True), ("off", None, False),
    ("no", "1", False), (None, "1", True), (None, "0", False), (None, "False", False)])
def test_a_setting_is_read_as_the_library_reads_it(monkeypatch, own, horovods, expected):
    for name, value in (("RINGUP_ELASTIC", own), ("HOROVOD_ELASTIC", horovods)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert elastic.is_elastic() is expected


class Hosts:
    """What a launcher would say when it is asked whether hosts have changed."""

    def __init__(self):
        self.bits, self.asked = 0, 0

    def __call__(self):
        self.asked += 1
        return self.bits


@pytest.fixture
def hosts(monkeypatch):
    """The launcher's answer, for states that are made in this test."""
    hosts = Hosts()
    manager = elastic.Notifications(hosts)
    monkeypatch.setattr(elastic, "notifications", manager)
    monkeypatch.setattr(common, "notification_manager", manager)
    return hosts


class Recorded(common.State):
    """A state that notes what is done to it."""

    def __init__(self):
        super().__init__(bcast_object=lambda x: x, get_rank=lambda: 0)
        self.done = []

    def save(self):
        self.done.append("save")

    def restore(self):
        self.done.append("restore")

    def sync(self):
        self.done.append("sync")

    def reset(self):
        self.done.append("reset")


def train_with(state, *ends, meet=None):
    """Run a training that ends each time as told: by an exception, or with a value."""
    ends = list(ends)

    def train(state, more):
        state.done.append("train")
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end, more

    def reset():
        state.done.append("meet")
        if meet:
            meet()

    return common.run_fn(train, reset)(state, more="kept")


def test_a_training_that_ends_is_called_once(hosts):
    state = Recorded()
    assert train_with(state, "value") == ("value", "kept")
    assert state.done == ["sync", "train"]


def test_a_lost_rank_takes_the_state_back(hosts):
    state = Recorded()
    state.register_reset_callbacks([lambda: state.done.append("callback")])
    state.register_reset_callbacks([lambda: state.done.append("another")])
    assert train_with(state, HorovodInternalError("rank 1 died"), "value") == ("value", "kept")
    assert state.done == ["sync", "train", "restore", "meet", "reset", "callback", "another",
                          "sync", "train"]


@pytest.mark.parametrize("skip", [False, True])
def test_changed_hosts_leave_the_state_as_it_is(hosts, skip):
    state = Recorded()
    train_with(state, HostsUpdatedInterrupt(skip_sync=skip), "value")
    assert state.done == ["sync", "train", "meet", "reset"] + ["sync"] * (not skip) + ["train"]


def test_a_loss_after_a_removal_is_synchronized(hosts):
    state = Recorded()
    train_with(state, HostsUpdatedInterrupt(skip_sync=True), HorovodInternalError("lost"), "value")
    assert state.done == ["sync", "train", "meet", "reset", "train", "restore", "meet", "reset",
                          "sync", "train"]


def test_a_loss_while_synchronizing_is_one_more_meeting(hosts):
    state = Recorded()
    sync, failures = state.sync, [HorovodInternalError("lost")]

    def fails_once():
        sync()
        if failures:
            raise failures.pop()

    state.sync = fails_once
    train_with(state, "value")
    assert state.done == ["sync", "restore", "meet", "reset", "sync", "train"]


def test_another_error_ends_the_training(hosts):
    state = Recorded()
    with pytest.raises(ZeroDivisionError):
        train_with(state, ZeroDivisionError())
    assert state.done == ["sync", "train"]
    assert not elastic.notifications._listeners


def mismatch():
    """What an allreduce raises on all ranks if their shapes differ."""
    e = HorovodInternalError("rank 0 has 3 elements, rank 1 has 4")
    e.__cause__ = errors.Mismatch(str(e))
    return e


def test_ranks_that_disagree_twice_in_one_place_end_the_job(hosts):
    state = Recorded()
    with pytest.raises(HorovodInternalError, match="rank 1 has 4"):
        train_with(state, mismatch(), mismatch(), "value")
    assert state.done == ["sync", "train", "restore", "meet", "reset", "sync", "train"]


def test_ranks_that_disagree_now_and_then_go_on(hosts):
    state, failures = Recorded(), [mismatch(), mismatch()]

    def train(state):
        state.commit()
        if failures:
            raise failures.pop()

    common.run_fn(train, lambda: None)(state)
    assert state.done.count("restore") == 2


def fails_to_meet(kind, times):
    """What a meeting does when a rank is lost on the way, so many times."""
    left = [times]

    def meet():
        left[0] -= 1
        if left[0] >= 0:
            raise HorovodInternalError("init: rank 2 died") from kind("rank 2 died")

    return meet


def test_a_rank_lost_in_a_meeting_is_one_more_meeting(hosts, monkeypatch):
    monkeypatch.setenv("RINGUP_ELASTIC", "1")
    state = Recorded()
    train_with(state, HorovodInternalError("lost"), "value",
               meet=fails_to_meet(errors.PeerLost, 2))
    assert state.done == ["sync", "train", "restore"] + ["meet"] * 3 + ["reset", "sync", "train"]


@pytest.mark.parametrize("kind, elastic_job", [(errors.PeerLost, "0"), (errors.TimedOut, "1"),
                                               (errors.InvalidArgument, "1")])
def test_a_meeting_that_cannot_succeed_is_not_repeated(hosts, monkeypatch, kind, elastic_job):
    monkeypatch.setenv("RINGUP_ELASTIC", elastic_job)
    state = Recorded()
    with pytest.raises(HorovodInternalError):
        train_with(state, HorovodInternalError("lost"), meet=fails_to_meet(kind, 1))
    assert state.done == ["sync", "train", "restore", "meet"]


def test_a_process_without_a_place_in_the_job_ends(hosts, monkeypatch, capsys):
    """Its host was taken away, or the training has ended meanwhile."""
    monkeypatch.setenv("RINGUP_ELASTIC", "1")
    state = Recorded()
    with pytest.raises(SystemExit) as e:
        train_with(state, HostsUpdatedInterrupt(), meet=fails_to_meet(errors.NotRunning, 1))
    assert e.value.code == 0 and "this process ends: rank 2" in capsys.readouterr().err
    assert state.done == ["sync", "train", "meet"] and not elastic.notifications._listeners


@pytest.mark.parametrize("bits, skip", [(elastic.REMOVED, True), (elastic.ADDED, False),
                                        (elastic.REMOVED | elastic.ADDED, False)])
def test_hosts_that_change_interrupt_the_next_commit(hosts, bits, skip):
    state, seen = Recorded(), []

    def train(state):
        state.commit()
        hosts.bits = bits
        try:
            state.commit()
        except HostsUpdatedInterrupt as e:
            seen.append(e.skip_sync)
        state.commit()  # told once
        hosts.bits = 3 - bits if bits < 3 else 1
        with pytest.raises(HostsUpdatedInterrupt):
            state.check_host_updates()

    common.run_fn(train, lambda: None)(state)
    assert seen == [skip] and state.done == ["sync"] + ["save"] * 3


def test_nobody_is_told_outside_of_a_training(hosts):
    state = Recorded()
    hosts.bits = elastic.ADDED
    state.check_host_updates()
    assert state._host_messages.empty()


def test_waiting_for_a_message_asks_for_it(hosts):
    """As programs for Horovod do, where a thread of its own writes to the queue."""
    state = Recorded()

    def train(state):
        assert state._host_messages.empty() and hosts.asked
        hosts.bits = elastic.ADDED
        assert not state._host_messages.empty()

    common.run_fn(train, lambda: None)(state)


def test_rank_0_decides_for_all():
    """Another rank that knows more waits until rank 0 knows it, too."""
    said = []

    def from_rank_0(mine):
        said.append(mine)
        return answer

    state = common.State(bcast_object=from_rank_0, get_rank=lambda: 1)
    state.on_hosts_updated(100, elastic.ADDED)
    answer = (0, 0, 0)
    state.check_host_updates()
    assert said == [(0, 100, elastic.ADDED)]
    answer = (0, 90, elastic.REMOVED)
    with pytest.raises(HostsUpdatedInterrupt) as e:
        state.check_host_updates()
    assert e.value.skip_sync


def test_messages_add_up_and_old_ones_do_not_count():
    state = common.State(bcast_object=lambda x: x, get_rank=lambda: 0)
    state.on_hosts_updated(1, common.HostUpdateResult.added)
    state.on_hosts_updated(2, common.HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as e:
        state.check_host_updates()
    assert not e.value.skip_sync
    state.on_hosts_updated(2, common.HostUpdateResult.added)
    state.check_host_updates()
    state.on_hosts_updated(4, common.HostUpdateResult.removed)
    state.on_hosts_updated(3, common.HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt) as e:
        state.check_host_updates()
    assert e.value.skip_sync


def test_a_new_generation_forgets_messages_and_times():
    state = Recorded()
    state.on_hosts_updated(1e12, elastic.ADDED)
    with pytest.raises(HostsUpdatedInterrupt):
        state.check_host_updates()
    state.on_hosts_updated(2e12, elastic.ADDED)
    state.on_reset()
    state.check_host_updates()
    state.on_hosts_updated(5, elastic.ADDED)  # by a clock that is behind
    with pytest.raises(HostsUpdatedInterrupt):
        state.check_host_updates()


def test_objects_are_attributes_that_are_saved_and_restored():
    sent = []

    def from_rank_0(mine):
        sent.append(mine)
        return {"epoch": 7, "note": "of rank 0"}

    state = common.ObjectState(bcast_object=from_rank_0, get_rank=lambda: 1, epoch=0, note="mine")
    state.epoch = 3
    state.restore()
    assert (state.epoch, state.note) == (0, "mine")
    state.epoch = 4
    state.save()
    state.epoch = 5
    state.restore()
    assert state.epoch == 4
    state.epoch = 6
    state.sync()
    assert sent == [{"epoch": 6, "note": "mine"}]  # what it is now, not what was saved
    assert (state.epoch, state.note) == (7, "of rank 0")
    state.epoch = 8
    state.restore()
    assert state.epoch == 7


def test_without_a_job_it_is_a_training_of_one(hosts):
    assert not job.is_initialized() and elastic.hosts_changed() == 0

    @elastic.run
    def train(state, most):
        """Count."""
        while state.step < most:
            state.step += 1
            state.commit()
        return state.step

    state = elastic.ObjectState(broadcast=lambda x: x, step=0)
    assert train(state, most=3) == 3 and train.__doc__ == "Count."


def test_names_that_programs_import():
    assert common.notification_manager.init(rendezvous_addr=None) is None
    assert common.HostUpdateResult.mixed == 3 and common.HostUpdateResult.no_update == 0
    listener = common.State(bcast_object=lambda x: x, get_rank=lambda: 0)
    manager = common.WorkerNotificationManager()
    manager.register_listener(listener)
    manager.handle_hosts_updated(1, common.HostUpdateResult.added)
    assert listener._host_messages.get() == (1, common.HostUpdateResult.added)
    manager.remove_listener(listener)
    manager.handle_hosts_updated(2, common.HostUpdateResult.added)
    assert listener._host_messages.qsize() == 0
