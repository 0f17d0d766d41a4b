#!/usr/bin/env python3
# measure.py - how long after a fault ranks hear of it, and the job is gone.
"""Break jobs on purpose and print one row of Markdown for each kind of fault.

    measure.py [--build DIR] [--reps N] [--profile default|fast] [--only F1,F7] [--list]

Run it on a quiet machine; faults of networks need root.  All times are of
CLOCK_MONOTONIC: the fault's is taken just before it happens, an error's by the rank
that has it, the end's when the launcher has been waited for.  "warning" is when the
first rank says it on stderr, as this program reads it.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CLEAN = re.compile(r"^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE)$")
WARNING = re.compile(r"has not moved|has been silent|has confirmed no data|has stalled")


class Job:
    """Looping ranks, started by `ringup run` or, rank by rank, in namespaces."""

    def __init__(self, setup, profile):
        self.build = setup.build
        self.env = {k: v for k, v in os.environ.items() if not CLEAN.match(k)}
        self.env["PATH"] = f"{self.build}:{self.env['PATH']}"
        self.env["RINGUP_LIVENESS_PROFILE"] = profile
        self.loop = str(self.build / "tests/fault/loop")
        self.procs = []
        self.lines = []  # (nanoseconds, line)
        self.threads = []

    def start(self, argv, env=None):
        proc = subprocess.Popen(argv, env={**self.env, **(env or {})}, text=True, bufsize=1,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        reader = threading.Thread(target=self.read, args=(proc,), daemon=True)
        reader.start()
        self.procs.append(proc)
        self.threads.append(reader)

    def read(self, proc):
        for line in proc.stdout:
            self.lines.append((time.monotonic_ns(), line))

    def here(self, ranks, *args, env=None, command=None, options=()):
        """Ranks of this host, under the launcher."""
        self.start(["ringup", "run", "-np", str(ranks), "--no-prefix", *options, "--",
                    *(command or [self.loop]), *args], env)
        self.await_said("ready", ranks)
        return self

    def said(self, word):
        found = {}
        for _, line in list(self.lines):
            part = line.split()
            if part and part[0] == word and len(part) >= 4:
                found[int(part[1])] = (int(part[2]), int(part[3]), line)
        return found

    def await_said(self, word, count, seconds=120):
        end = time.monotonic() + seconds
        while len(self.said(word)) < count:
            if time.monotonic() > end:
                told = "".join(line for _, line in self.lines)
                raise RuntimeError(f"not {count} ranks {word}:\n{told}")
            time.sleep(0.01)

    def pid(self, rank):
        return self.said("ready")[rank][0]

    def warned(self, after):
        times = [t for t, line in list(self.lines) if WARNING.search(line) and t > after]
        return min(times, default=None)

    def finish(self, seconds=120):
        for proc in self.procs:
            proc.wait(seconds)
        gone = time.monotonic_ns()
        for thread in self.threads:
            thread.join(5)
        return gone

    def close(self):
        for _, (pid, _, _) in self.said("ready").items():
            try:
                if pathlib.Path(f"/proc/{pid}/exe").resolve().name == "loop":
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for proc in self.procs:
            if proc.poll() is None:
                proc.kill()
            proc.wait()


class Hosts:
    """Two hosts: network namespaces with a cable between."""

    def __enter__(self):
        self.a, self.b = f"ma{os.getpid()}", f"mb{os.getpid()}"
        self.meet = tempfile.mkdtemp(prefix="measure-")
        for host in (self.a, self.b):
            sh("ip", "netns", "add", host)
        sh("ip", "link", "add", "eth0", "netns", self.a, "type", "veth", "peer", "name", "eth0",
           "netns", self.b)
        for host, end in ((self.a, 1), (self.b, 2)):
            sh("ip", "-n", host, "addr", "add", f"10.9.0.{end}/24", "dev", "eth0")
            sh("ip", "-n", host, "link", "set", "lo", "up")
            sh("ip", "-n", host, "link", "set", "eth0", "up")
        # The kernel notices a carrier in its own time.
        while not all(is_up(host) for host in (self.a, self.b)):
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        for host in (self.a, self.b):
            subprocess.run(["ip", "netns", "del", host], check=False)
        shutil.rmtree(self.meet, ignore_errors=True)

    def spread(self, job, *args):
        for rank in range(4):
            job.start(["ip", "netns", "exec", self.a if rank < 2 else self.b, job.loop, *args],
                      {"RINGUP_RANK": str(rank), "RINGUP_SIZE": "4", "RINGUP_MEET": self.meet,
                       "RINGUP_JOB": f"measure{os.getpid()}"})
        job.await_said("ready", 4)
        return job

    def rules(self, host, text):
        subprocess.run(["ip", "netns", "exec", host, "nft", "-f", "-"], input=text, text=True,
                       check=True)

    def drop(self, host, *hooks):
        for hook in hooks:
            card = "iifname" if hook == "input" else "oifname"
            self.rules(host, f"table inet f{hook} {{\n chain c {{\n"
                             f" type filter hook {hook} priority 0;\n"
                             f" {card} \"eth0\" drop\n }}\n}}\n")


def sh(*argv):
    subprocess.run(argv, check=True)


def is_up(host):
    shown = subprocess.run(["ip", "-n", host, "link", "show", "eth0"], check=True,
                           capture_output=True, text=True).stdout
    return "state UP" in shown


def kill_rank(setup, profile, size, backend):
    job = Job(setup, profile).here(4, "-b", str(size), env={"RINGUP_BACKEND": backend})
    at = time.monotonic_ns()
    os.kill(job.pid(1), signal.SIGKILL)
    return job, at, 3


def freeze_rank(setup, profile):
    job = Job(setup, profile).here(4, "-b", "4096")
    at = time.monotonic_ns()
    os.kill(job.pid(1), signal.SIGSTOP)
    return job, at, 3


def stall(setup, profile):
    job = Job(setup, profile).here(4, "-s", "2",
                                   env={"RINGUP_STALL_ABORT_MS": setup.stall_abort[profile]})
    return job, max(t for _, t, _ in job.said("ready").values()), 3


def disagree(setup, profile):
    job = Job(setup, profile).here(4, "-d", "3", "-n", "50")
    return job, max(t for _, t, _ in job.said("ready").values()), 4


def kill_launcher(setup, profile):
    return until_gone(Job(setup, profile).here(4, "-b", "65536"), signal.SIGKILL)


def end_launcher(setup, profile):
    return until_gone(Job(setup, profile).here(4, "-b", "65536"), signal.SIGTERM)


def ignore_end(setup, profile):
    """The ranks ignore SIGTERM: that they are killed is due after the grace, here of 1 s."""
    deaf = ["bash", "-c", 'trap "" TERM; exec "$0" "$@"', Job(setup, profile).loop]
    job = Job(setup, profile).here(4, "-b", "65536", command=deaf, options=("--grace", "1"))
    return until_gone(job, signal.SIGTERM)


def until_gone(job, what):
    """Send the launcher a signal, and wait for the last rank to end."""
    fds = [os.pidfd_open(pid) for pid, _, _ in job.said("ready").values()]
    at = time.monotonic_ns()
    job.procs[0].send_signal(what)
    for fd in fds:
        await_pidfd(fd)
    job.gone = time.monotonic_ns()
    return job, at, 0


def kill_helper(setup, profile):
    """Two ranks, each started by what goes by the name of Open MPI's daemon."""
    job, meet = Job(setup, profile), tempfile.mkdtemp(prefix="measure-", dir=setup.tmp)
    helper = pathlib.Path(meet) / "orted"
    shutil.copy(shutil.which("bash"), helper)
    for rank in range(2):
        job.start([str(helper), "-c", '"$0" -b 4096; exit', job.loop],
                  {"RINGUP_RANK": str(rank), "RINGUP_SIZE": "2", "RINGUP_MEET": meet,
                   "RINGUP_JOB": "helped", "RINGUP_BACKEND": "tcp"})
    job.await_said("ready", 2)
    at = time.monotonic_ns()
    job.procs[1].kill()
    return job, at, 2


def kill_mpirun(setup, profile):
    job = Job(setup, profile)
    job.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=setup.tmp)
    job.start(["mpirun", "--oversubscribe", "-np", "4", job.loop, "-p", "10"])
    job.await_said("ready", 4)
    return until_gone(job, signal.SIGKILL)


def await_pidfd(fd):
    import select
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(30000):
        raise RuntimeError("a rank outlived its launcher by 30 s")
    os.close(fd)


def on_hosts(act, expect=4, args=("-b", "65536")):
    def measure(setup, profile):
        hosts = setup.hosts
        job = hosts.spread(Job(setup, profile), *args)
        at = time.monotonic_ns()
        act(hosts, job)
        return job, at, expect
    measure.network = True
    return measure


def power_loss(hosts, job):
    hosts.drop(hosts.a, "input", "output")
    for rank in (2, 3):
        os.kill(job.pid(rank), signal.SIGKILL)


def reset(hosts, _):
    for host in (hosts.a, hosts.b):
        hosts.rules(host, 'table inet f {\n chain c {\n type filter hook input priority 0;\n'
                          ' iifname "eth0" tcp flags & rst == 0 reject with tcp reset\n }\n}\n')


FAULTS = {
    "F1 kill -9 of a rank, 4 ranks, shared memory, 4 B": lambda s, p: kill_rank(s, p, 4, ""),
    "F1 the same, 4 KiB": lambda s, p: kill_rank(s, p, 4096, ""),
    "F1 the same, 4 MiB": lambda s, p: kill_rank(s, p, 4 << 20, ""),
    "F2 kill -9 of a rank, 4 ranks, TCP, 4 KiB": lambda s, p: kill_rank(s, p, 4096, "tcp"),
    "F2 the same, 4 MiB": lambda s, p: kill_rank(s, p, 4 << 20, "tcp"),
    "F3 kill -9 of a rank, two hosts, 64 KiB":
        on_hosts(lambda h, j: os.kill(j.pid(3), signal.SIGKILL), 3),
    "F4 SIGSTOP of a rank, 4 ranks": freeze_rank,
    "F6 a tensor that one rank never submits": stall,
    "F7 partition, data under way": on_hosts(lambda h, j: h.drop(h.a, "input", "output")),
    "F8 partition, nothing under way for 20 s":
        on_hosts(lambda h, j: h.drop(h.a, "input", "output"), args=("-w", "20000")),
    "F9 packets lost in one direction": on_hosts(lambda h, j: h.drop(h.a, "input")),
    "F11 link down": on_hosts(lambda h, j: sh("ip", "-n", h.b, "link", "set", "eth0", "down")),
    "F11 address removed":
        on_hosts(lambda h, j: sh("ip", "-n", h.b, "addr", "flush", "dev", "eth0")),
    "F11 card removed": on_hosts(lambda h, j: sh("ip", "-n", h.b, "link", "del", "eth0")),
    "F12 TCP reset, both ways": on_hosts(reset),
    "F16 power loss of a host": on_hosts(power_loss, 2),
    "F24 ranks disagree, 4 ranks": disagree,
    "F27 kill -9 of ringup run": kill_launcher,
    "F27 kill -9 of mpirun (Open MPI), ranks that are no MPI programs": kill_mpirun,
    "F28 SIGTERM to ringup run": end_launcher,
    "F29 kill -9 of a node's helper": kill_helper,
    "F31 ranks ignore SIGTERM, a grace of 1 s": ignore_end,
}


def milliseconds(values):
    """Median and largest, with as many digits as mean something."""
    values = [v / 1e6 for v in values if v is not None]
    if not values:
        return "-"
    both = statistics.median(values), max(values)
    return " / ".join(f"{v:.1f}" if v < 1000 else f"{v:.0f}" for v in both)


def once(setup, fault, profile, row):
    job = None
    try:
        if getattr(fault, "network", False):
            with Hosts() as setup.hosts:
                job, at, expect = fault(setup, profile)
                note(job, at, expect, row)
        else:
            job, at, expect = fault(setup, profile)
            note(job, at, expect, row)
    finally:
        if job:
            job.close()


def note(job, at, expect, row):
    if expect:
        job.await_said("error", expect)
    gone = getattr(job, "gone", None) or job.finish()
    warned = job.warned(at)
    row["warning"].append(warned - at if warned else None)
    row["error"].extend(t - at for _, t, _ in job.said("error").values())
    row["gone"].append(gone - at)
    row["deaths"] += sum("killed by signal" in line for _, line in job.lines)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path.cwd(),
                   help="the build folder (.)")
    p.add_argument("--reps", type=int, default=10, help="how often each fault happens (10)")
    p.add_argument("--profile", choices=("default", "fast"), default="default")
    p.add_argument("--only", default="", help="faults by number, with commas between")
    p.add_argument("--list", action="store_true", help="list the faults and stop")
    setup = p.parse_args()
    setup.build = setup.build.resolve()
    setup.stall_abort = {"default": "40000", "fast": "5000"}
    only = set(filter(None, setup.only.split(",")))
    print("| fault | profile | times | warning, ms | error on a survivor, ms | all gone, ms |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as setup.tmp:
        for name, fault in FAULTS.items():
            if only and name.split()[0] not in only:
                continue
            if setup.list:
                print(name)
                continue
            if getattr(fault, "network", False) and os.geteuid():
                print(f"| {name} | needs root |", file=sys.stderr)
                continue
            if "mpirun" in name and not shutil.which("mpirun"):
                print(f"| {name} | needs mpirun |", file=sys.stderr)
                continue
            row = {"warning": [], "error": [], "gone": [], "deaths": 0}
            for _ in range(setup.reps):
                once(setup, fault, setup.profile, row)
            times = " | ".join(milliseconds(row[k]) for k in ("warning", "error", "gone"))
            print(f"| {name} | {setup.profile} | {setup.reps} | {times} |", flush=True)


if __name__ == "__main__":
    main()
