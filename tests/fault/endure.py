#!/usr/bin/env python3
# endure.py - what faults cost that a job survives, and when one that cannot start says so.
"""Disturb jobs that live on, refuse ranks, and print one row of Markdown for each fault.

    endure.py [--build DIR] [--reps N] [--only F5,F13] [--list]

Run it on a quiet machine, as root.  measure.py breaks jobs for good; here the figures are
pauses beyond the fault's own length, the pace beside an undisturbed job's, and times until
a refusal.  Median / largest of the repetitions; limits are those of the default profile.
"""
import argparse
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Hosts, Job, await_pidfd, sh

FAULTS = {}


def fault(name):
    """Enter a function into the table; it returns a dictionary from labels to figures."""
    def enter(measure):
        FAULTS[name] = measure
        return measure
    return enter


def ms(since, until=None):
    return ((until or time.monotonic_ns()) - since) / 1e6


def job(setup, **env):
    made = Job(setup, "default")
    made.env.update(env)
    return made


def steps(made):
    """Median, 99th percentile and longest allreduce of a job that ends in peace, in ms."""
    made.await_said("done", 1, 300)
    made.finish(300)
    found = [line.split() for _, _, line in made.said("done").values()]
    if not found or any(line.startswith(("error", "wrong")) for _, line in made.lines):
        raise RuntimeError("".join(line for _, line in made.lines))
    return [max(float(f[i]) for f in found) / 1e6 for i in (6, 7, 8)]


def first_rank_env(made, name):
    """What a rank of the launcher has in its environment, once there is one."""
    end = time.monotonic() + 20
    launcher = made.procs[0].pid
    while time.monotonic() < end:
        for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            try:
                words = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for word in words:
                if word.startswith(name.encode() + b"="):
                    return word.split(b"=", 1)[1].decode()
        time.sleep(0.005)
    raise RuntimeError(f"no rank with {name}")


@fault("F5 SIGSTOP of a rank for 1.5 s")
def stopped(setup):
    made = setup.keep(job(setup).here(2, "-b", "65536", "-n", "60000"))
    at = time.monotonic_ns()
    os.kill(made.pid(1), signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(made.pid(1), signal.SIGCONT)
    away = ms(at)
    return {"goes on after, ms": steps(made)[2] - away}


@fault("F5 the whole job stopped for 3 s")
def all_stopped(setup):
    made = setup.keep(job(setup).here(2, "-b", "4", "-n", "10000000"))
    at = time.monotonic_ns()
    made.procs[0].send_signal(signal.SIGTSTP)
    time.sleep(3)
    made.procs[0].send_signal(signal.SIGCONT)
    away = ms(at)
    return {"goes on after, ms": steps(made)[2] - away}


@fault("F10 a partition of 10 s")
def blip(setup):
    with Hosts() as hosts:
        made = setup.keep(hosts.spread(job(setup), "-b", "262144", "-n", "2500", "-p", "2"))
        at = time.monotonic_ns()
        hosts.drop(hosts.a, "input", "output")
        time.sleep(10)
        for hook in ("input", "output"):
            hosts.rules(hosts.a, f"delete table inet f{hook}")
        away = ms(at)
        return {"goes on after, ms": steps(made)[2] - away}


@fault("F13 packets lost, 1 MiB")
def loss(setup):
    figures = {}
    for percent, turns in ((0, 1000), (1, 600), (5, 200), (20, 30)):
        with Hosts() as hosts:
            for host in (hosts.a, hosts.b):
                hosts.rules(host, "table inet l {\n chain c {\n type filter hook input "
                                  'priority 0;\n iifname "eth0" numgen random mod 100 < '
                                  f"{percent} drop\n }}\n}}\n")
            made = setup.keep(hosts.spread(job(setup), "-b", str(1 << 20), "-n", str(turns)))
            begun = max(t for _, t, _ in made.said("ready").values())
            middle = steps(made)[0]
            each = ms(begun, max(t for _, t, _ in made.said("done").values())) / (turns - 11)
            figures[f"at {percent} %, ms"] = middle
            figures[f"mean at {percent} %, ms"] = each
    return figures


@fault("F14 a rank that runs an eighth of the time, 16 MiB, two hosts")
def slow_reader(setup):
    def run(act):
        with Hosts() as hosts:
            made = setup.keep(hosts.spread(job(setup), "-b", str(16 << 20), "-n", "80"))
            begun = max(t for _, t, _ in made.said("ready").values())
            act(made)
            steps(made)
            return ms(begun, max(t for _, t, _ in made.said("done").values()))

    def drag(made):
        # Until it has ended; its process is there until we wait for it.
        fd = os.pidfd_open(made.pid(3))
        while not select.select([fd], [], [], 0.1)[0]:
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
            time.sleep(0.7)
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        os.close(fd)

    return {"pace": run(lambda _: None) / run(drag)}


@fault("F15 a line of 4 Mbit/s, 1 MiB")
def thin(setup):
    with Hosts() as hosts:
        sh("ip", "netns", "exec", hosts.a, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
           "rate", "4mbit", "burst", "32kbit", "latency", "400ms")
        made = setup.keep(hosts.spread(job(setup), "-b", str(1 << 20), "-n", "16"))
        # Each host sends the other as many bytes as the tensor has.
        least = (1 << 20) * 8 / 4e6 * 1e3
        return {"of the line": least / steps(made)[0]}


def knocked(how, count):
    def measure(setup):
        stranger = str(setup.build / "tests/fault/stranger")

        def run(strangers):
            made = setup.keep(job(setup))
            made.start(["ringup", "run", "-np", "2", "--no-prefix", "--", "bash", "-c",
                        'sleep 0.7; exec "$0" -b 4096 -n 400000', made.loop])
            at = time.monotonic_ns()
            where = first_rank_env(made, "RINGUP_MEET")
            before = resident(made.procs[0].pid)
            figures = {}
            if strangers:
                them = subprocess.Popen([stranger, where, str(count), "2500", how], text=True,
                                        stdout=subprocess.PIPE)
            made.await_said("ready", 2)
            ready = ms(at, max(t for _, t, _ in made.said("ready").values()))
            if strangers:
                figures["server grows, KiB"] = resident(made.procs[0].pid) - before
                out, half, last = map(int, them.communicate()[0].split())
                figures["put out"] = out
                figures["half of them after, ms"] = half
                figures["last after, ms"] = last
            took = steps(made)
            return figures, ready, took

        _, ready, took = run(False)
        figures, ready_then, took_then = run(True)
        figures["start later by, ms"] = ready_then - ready
        figures["step, median beside none"] = took_then[0] / took[0]
        figures["step, p99 beside none"] = took_then[1] / took[1]
        return figures
    return measure


for how, count, name in (("garbage", 50, "F17 noise from 50 strangers"),
                         ("trickle", 64, "F18 64 strangers, a byte at a time"),
                         ("huge", 50, "F19 50 announcements of 2 GiB"),
                         ("idle", 5000, "F20 5,000 connections")):
    fault(name)(knocked(how, count))


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)",
                         pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


@fault("F21 another job's secret")
def wrong_secret(setup):
    made = setup.keep(job(setup))
    flag = pathlib.Path(setup.tmp) / f"go.{time.monotonic_ns()}"
    made.start(["ringup", "run", "-np", "3", "--no-prefix", "--", "bash", "-c",
                'until [[ -e $1 ]]; do sleep 0.05; done; exec "$0" -n 100', made.loop, str(flag)])
    where = first_rank_env(made, "RINGUP_MEET")
    secret = pathlib.Path(setup.tmp) / "secret"
    secret.write_bytes(os.urandom(32))
    with open(secret, "rb") as f:
        at = time.monotonic_ns()
        refused = subprocess.run([made.loop], pass_fds=(f.fileno(),), check=False, text=True,
                                 capture_output=True,
                                 env={**made.env, "RINGUP_MEET": where, "RINGUP_RANK": "1",
                                      "RINGUP_SIZE": "3", "RINGUP_SECRET_FD": str(f.fileno())})
        took = ms(at)
    assert refused.returncode == 3 and "secret" in refused.stdout, refused
    flag.touch()
    steps(made)
    return {"refused after, ms": took}


def errors_after(made, at):
    made.finish()
    times = [ms(at, int(line.split()[3])) for _, line in made.lines if line.startswith("error -1")]
    if not times:
        raise RuntimeError("".join(line for _, line in made.lines))
    return times


@fault("F25 two of four ranks do not come within 3 s")
def missing(setup):
    made = setup.keep(job(setup, RINGUP_START_TIMEOUT_MS="3000"))
    at = time.monotonic_ns()
    made.start(["ringup", "run", "-np", "4", "--no-prefix", "--", "bash", "-c",
                '[[ $RINGUP_RANK != [12] ]] || exec sleep 60; exec "$0"', made.loop])
    return {"error after, ms": max(errors_after(made, at)), "gone after, ms": ms(at)}


@fault("F25 a rank dies while the job starts")
def dead_at_start(setup):
    made = setup.keep(job(setup))
    at = time.monotonic_ns()
    made.start(["ringup", "run", "-np", "3", "--no-prefix", "--", "bash", "-c",
                '[[ $RINGUP_RANK != 1 ]] || exit 9; exec "$0"', made.loop])
    made.finish()
    return {"gone after, ms": ms(at)}


@fault("F26 no port is left")
def no_port(setup):
    made = setup.keep(job(setup))
    at = time.monotonic_ns()
    made.start(["unshare", "-n", "bash", "-c",
                'ip link set lo up; echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range\n'
                'exec ringup run -np 4 --no-prefix -x RINGUP_BACKEND=tcp -- "$0" -n 20',
                made.loop])
    made.finish()
    if made.procs[0].returncode != 3:
        raise RuntimeError("".join(line for _, line in made.lines))
    return {"gone after, ms": ms(at)}


@fault("F30 kill -9 of everything, and again")
def kill_all(setup):
    def start():
        at = time.monotonic_ns()
        made = setup.keep(job(setup, TMPDIR=setup.tmp).here(4, "-b", "4096"))
        return made, ms(at, max(t for _, t, _ in made.said("ready").values()))

    made, first = start()
    pids = [pid for pid, _, _ in made.said("ready").values()]
    fds = [os.pidfd_open(pid) for pid in pids]
    at = time.monotonic_ns()
    for pid in [made.procs[0].pid, *pids]:
        os.kill(pid, signal.SIGKILL)
    for fd in fds:
        await_pidfd(fd)
    gone = ms(at)
    made.finish()
    made, again = start()
    return {"gone after, ms": gone, "start, ms": first, "next start, ms": again,
            "left over": len(list(pathlib.Path("/dev/shm").glob("*ringup*")))}


def small_room():
    """A control group with 256 MiB, of whichever version; None if there cannot be one."""
    name = f"ringup.measure.{os.getpid()}"
    for top, limits in (("/sys/fs/cgroup/memory", ("memory.limit_in_bytes",)),
                        ("/sys/fs/cgroup", ("memory.max",))):
        room = pathlib.Path(top) / name
        try:
            room.mkdir()
            for limit in limits:
                (room / limit).write_text(str(256 << 20))
            return room
        except OSError:
            if room.exists():
                room.rmdir()
    return None


@fault("F32 the kernel kills a rank for its memory")
def out_of_memory(setup):
    room = small_room()
    if not room:
        raise RuntimeError("no control group for memory")
    try:
        made = setup.keep(job(setup))
        made.start(["bash", "-c", 'echo $$ >"$1/cgroup.procs"; exec ringup run -np 3 '
                    '--no-prefix -- "$0" -b 4096 -m 1', made.loop, str(room)])
        made.await_said("ready", 3)
        fd = os.pidfd_open(made.pid(1))
        await_pidfd(fd)
        at = time.monotonic_ns()
        made.await_said("error", 2)
        made.finish()
        return {"error after death, ms": max(ms(at, t) for _, t, _ in made.said("error").values()),
                "gone after death, ms": ms(at)}
    finally:
        for _ in range(100):
            try:
                room.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def ready_within(setup, way):
    """Milliseconds until three ranks are ready, /dev/shm and its like being in that way."""
    made = setup.keep(job(setup))
    at = time.monotonic_ns()
    made.start(["unshare", "-m", "bash", "-ec", f'{way}; exec ringup run -np 3 --no-prefix '
                f'-- "$0" -n 50 -b 65536', made.loop])
    made.await_said("ready", 3)
    took = ms(at, max(t for _, t, _ in made.said("ready").values()))
    steps(made)
    return took


@fault("F33 /dev/shm small, read-only, absent")
def no_shm(setup):
    return {f"{label}: ready after, ms": ready_within(setup, way) for label, way in (
        ("as it is", "true"),
        ("64 KiB", "mount -t tmpfs -o size=64k none /dev/shm"),
        ("read-only", "mount -t tmpfs -o ro none /dev/shm"),
        ("absent", "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; "
                   "mknod -m 666 /dev/urandom c 1 9; mknod -m 666 /dev/zero c 1 5"))}


@fault("F33 ulimit -f")
def small_files(setup):
    made = setup.keep(job(setup))
    at = time.monotonic_ns()
    made.start(["ringup", "run", "-np", "3", "--no-prefix", "--", "bash", "-c",
                'ulimit -f 1000; exec "$0"', made.loop])
    return {"error after, ms": max(errors_after(made, at)), "gone after, ms": ms(at)}


@fault("F34 the disk is full where --output-dir points")
def full_disk(setup):
    logs = pathlib.Path(tempfile.mkdtemp(dir=setup.tmp))

    def run(size):
        made = setup.keep(job(setup))
        made.start(["unshare", "-m", "bash", "-c",
                    f"mount -t tmpfs -o size={size} none {logs}; exec ringup run -np 2 "
                    f"--no-prefix -o {logs} -- bash -c 'head -c 200000 /dev/zero | tr \"\\0\" x; "
                    f"echo; exec \"$0\" -n 2000' {made.loop}"])
        return steps(made)

    room, full = run("64M"), run("16k")
    return {"step, median beside a disk with room": full[0] / room[0]}


@fault("F41 the wall clock jumps by an hour at each fiftieth look")
def clock_jumps(setup):
    shim = str(setup.build / "tests/fault/.libs/libshim.so")

    def run(**env):
        return steps(setup.keep(job(setup, **env).here(2, "-b", "4096", "-n", "400000")))

    still = run(LD_PRELOAD=shim)
    jumping = run(LD_PRELOAD=shim, RINGUP_TEST_CLOCK="3600")
    return {"step, median beside a clock that does not": jumping[0] / still[0],
            "p99": jumping[1] / still[1]}


@fault("F44 ranks without /proc")
def no_proc(setup):
    def run(way):
        made = setup.keep(job(setup))
        at = time.monotonic_ns()
        made.start(["ringup", "run", "-np", "2", "--no-prefix", "--", "unshare", "-m", "bash",
                    "-c", f'{way}; exec "$0" -n 50', made.loop])
        made.await_said("ready", 2)
        took = ms(at, max(t for _, t, _ in made.said("ready").values()))
        steps(made)
        return took

    return {"ready after, ms": run("mount -t tmpfs none /proc"), "with it, ms": run("true")}


@fault("F48 nobody reads what ranks print")
def unread(setup):
    made = job(setup)
    at = time.monotonic_ns()
    with subprocess.Popen(["ringup", "run", "-np", "2", "--", made.loop, "-n", "20000"],
                          env=made.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as proc:
        proc.stdout.readline()
        proc.stdout.close()
        said = proc.stderr.read()
        status = proc.wait(60)
    if "signal 13" in said or status not in (0, -signal.SIGPIPE, 141):
        raise RuntimeError(f"status {status}: {said}")
    return {"ends after, ms": ms(at)}


@fault("F49 a debugger holds a rank for 20 s, liveness off")
def held(setup):
    made = setup.keep(job(setup, RINGUP_LIVENESS="off").here(2, "-b", "4", "-n", "10000000"))
    at = time.monotonic_ns()
    os.kill(made.pid(1), signal.SIGSTOP)
    time.sleep(20)
    os.kill(made.pid(1), signal.SIGCONT)
    away = ms(at)
    return {"goes on after, ms": steps(made)[2] - away}


def figure(values):
    values = sorted(values)
    middle, most = statistics.median(values), values[-1]

    def digits(v):
        return f"{v:.2f}" if abs(v) < 10 else f"{v:.1f}" if abs(v) < 1000 else f"{v:.0f}"
    return digits(middle) if len(values) == 1 else f"{digits(middle)} / {digits(most)}"


class Setup:
    """Where things are, and what has to be ended whatever happens."""

    def __init__(self, options):
        self.build, self.reps = options.build.resolve(), options.reps
        self.jobs = []

    def keep(self, made):
        self.jobs.append(made)
        return made

    def __enter__(self):
        self.tmp = tempfile.mkdtemp(prefix="endure-")
        return self

    def __exit__(self, *_):
        self.close_jobs()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def close_jobs(self):
        for made in self.jobs:
            made.close()
        self.jobs = []


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path.cwd(),
                   help="the build folder (.)")
    p.add_argument("--reps", type=int, default=3, help="how often each fault happens (3)")
    p.add_argument("--only", default="", help="faults by number, with commas between")
    p.add_argument("--list", action="store_true", help="list the faults and stop")
    options = p.parse_args()
    only = set(filter(None, options.only.split(",")))
    chosen = {n: f for n, f in FAULTS.items() if not only or n.split()[0] in only}
    if options.list:
        print("\n".join(chosen))
        return 0
    if os.geteuid():
        sys.exit("endure.py: mounts, namespaces and control groups need root; what to do: sudo")
    failed = 0
    print("| fault | times | measured: median / largest |")
    print("|---|---|---|")
    with Setup(options) as setup:
        for name, measure in chosen.items():
            rows = {}
            try:
                for _ in range(setup.reps):
                    for label, value in measure(setup).items():
                        rows.setdefault(label, []).append(value)
                    setup.close_jobs()
            except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as e:
                print(f"endure.py: {name}: {e}", file=sys.stderr)
                failed += 1
                setup.close_jobs()
                continue
            told = "; ".join(f"{label} {figure(v)}" for label, v in rows.items())
            print(f"| {name} | {setup.reps} | {told} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
