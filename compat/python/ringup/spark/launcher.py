# launcher.py - the driver's side of a job: `ringup run`, its output, the ranks' reports.
# SPDX-License-Identifier: Apache-2.0
"""`ringup run --parent FD` starts the ranks through rank daemons to which this process has
connections, and ends them together; src/launch/parent.h describes the protocol.  Threads of this
module read the messages.  If the code that prints the output is slow, lines are lost, but the ranks
never wait for it."""

import array
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import types

from ringup import program

from . import failure, gather, pickling, rank as frames

CONNECT, REPORT, ENDED = 15, 16, 17  # enum order_kind of src/launch/order.h
FRAME_MOST = 8 << 20
CLD_EXITED = 1
GRACE_S = 1       # from SIGTERM to SIGKILL
INTERRUPT_S = 8   # for a job to end after SIGINT
LINES_WAITING = 10000
LAST_LINES = 30


def pieces(stream):
    """Yield the lines of a buffered stream, and pieces that end with "\\r", as soon as they arrive.
    """
    rest = b""
    while data := stream.read1(65536):
        *whole, rest = re.split(rb"(?<=\n)|(?<=\r)(?!\n)", rest + data)
        yield from filter(None, whole)
    if rest:
        yield rest


class Sink:
    """Passes lines to a function in a separate thread; put() never blocks."""

    def __init__(self, write):
        self.write, self.dropped = write, 0
        self.lines = queue.Queue(LINES_WAITING)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def put(self, line):
        try:
            self.lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def _run(self):
        while (line := self.lines.get()) is not None:
            try:
                self.write(line)
            except Exception:  # a stream that is closed: the job goes on
                self.dropped += 1

    def finish(self, seconds=5):
        """Accept no more lines; wait briefly for the buffered ones."""
        try:
            self.lines.put(None, timeout=seconds)
        except queue.Full:
            return
        self.thread.join(seconds)


class RankState(failure.Ended):
    """The state of one rank's process; worker is its number in the job."""

    def __init__(self, worker):
        super().__init__(worker)
        self.worker = worker
        self.buffer, self.result = bytearray(), None

    def take(self, data, log):
        """Process bytes that the rank has written to its RINGUP_REPORT_FD."""
        self.buffer += data
        while len(self.buffer) >= frames.HEAD_BYTES:
            head = bytes(self.buffer[:frames.HEAD_BYTES])
            end = frames.HEAD_BYTES + int.from_bytes(head[1:9], "little")
            if len(self.buffer) < end:
                return
            kind, body = head[:1], bytes(memoryview(self.buffer)[frames.HEAD_BYTES:end])
            del self.buffer[:end]
            if kind == frames.LOG:
                log(body.decode("utf-8", "replace"))
            elif kind == frames.RESULT:
                self.result = body
            elif kind == frames.ERROR:
                head = int.from_bytes(body[:4], "little")
                self.error = json.loads(body[4:4 + head])
                self.error["pickled"] = body[4 + head:]

    def exception(self):
        """Return the exception that the rank's function raised, or None."""
        try:
            e = pickling.loads_result(self.error["pickled"])
        except Exception:  # none, or its class cannot be made again from its arguments
            return None
        return e if isinstance(e, BaseException) else None


class Output:
    """What to do with the ranks' output.

    stdout and stderr are called with each line; None drops the line.  form contains options of
    `ringup run` for the prefix of lines.  log is called with each message of log_to_driver()."""

    def __init__(self, stdout=None, stderr=None, log=None, form=("--tag-output",)):
        self.stdout, self.stderr, self.log, self.form = stdout, stderr, log, tuple(form)


class Launcher:
    """A running job.

    hosts is a list of (name, slots) in the order of the ranks.  connections is a dict name ->
    (socket to that host's rank daemon, which this object takes over; key of the connection).
    address is the address of this host at which the ranks meet.  elastic contains options of
    `ringup run` for a job whose ranks may change; they name the hosts instead of hosts, and
    connections may be added while the job runs."""

    def __init__(self, hosts, connections, size, address, output, elastic=()):
        self.connections, self.output = connections, output
        self.is_elastic = bool(elastic)
        self.workers = {} if elastic else {r: RankState(r) for r in range(size)}
        self.said, self.last, self.spark = [], [], None
        self.arrival = []  # workers in the order in which they failed
        where = elastic or ["-H", ",".join(f"{name}:{slots}" for name, slots in hosts)]
        log = output.log or (lambda text: None)
        self.sinks = {"stdout": Sink(output.stdout or (lambda line: None)),
                      "stderr": Sink(output.stderr or (lambda line: None)), "log": Sink(log)}
        self.parent, far = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [program.find(), "run", "--parent", str(far.fileno()), "-np", str(size),
                 *where, "--grace", str(GRACE_S), *output.form, "--", "ranks"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=(far.fileno(),), start_new_session=True, env=self._environment(address))
        except BaseException:
            self._hang_up()
            raise
        finally:
            far.close()
        self.threads = [threading.Thread(target=f, args=a, daemon=True) for f, a in (
            (self._serve, ()), (self._pass_on, (self.process.stdout, "stdout")),
            (self._pass_on, (self.process.stderr, "stderr")))]
        for t in self.threads:
            t.start()

    def __getstate__(self):
        """Return the state for pickling.  An ended job can be pickled: its data, without its
        resources."""
        means = {"connections", "output", "sinks", "parent", "process", "threads"}
        return {**{k: v for k, v in vars(self).items() if k not in means},
                "process": types.SimpleNamespace(returncode=self.process.returncode)}

    @staticmethod
    def _environment(address):
        """Return the launcher's own environment, which the ranks do not get."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HOROVOD_", "OMPI_"))}
        for name in ("RINGUP_RANK", "RINGUP_SIZE", "RINGUP_MEET", "RINGUP_TIMELINE"):
            env.pop(name, None)
        env["RINGUP_INTERFACE"] = address
        return env

    # -- threads

    def _pass_on(self, stream, name):
        sink = self.sinks[name]
        for raw in pieces(stream):
            line = raw.decode("utf-8", "replace")
            if name == "stderr" and line.startswith("ringup run: "):
                self.said.append(line.strip()[len("ringup run: "):])
            keep = -1 if self.last and self.last[-1].endswith("\r") else None
            self.last = [*self.last[-LAST_LINES:keep], line]
            sink.put(line)
        stream.close()

    def _receive(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.parent.recv(min(count - len(data), 1 << 20))
            if not part:
                return None
            data += part
        return data

    def _serve(self):
        """Read the launcher's frames until it closes the socket; an invalid frame ends the job."""
        try:
            while (head := self._receive(5)) is not None:
                length = int.from_bytes(head[:4], "little")
                if length > FRAME_MOST:
                    break
                data = self._receive(length)
                if data is None:
                    break
                self._take(head[4], data)
        except (ValueError, LookupError) as e:
            self.said.insert(0, str(e))
        except OSError:
            pass
        try:
            self.parent.shutdown(socket.SHUT_RDWR)
        except OSError:  # the launcher has closed its end
            pass

    def _take(self, kind, data):
        if kind == CONNECT:
            sock, key = self.connections.pop(data.decode(), (None, None))
            if sock is None:
                self.parent.sendall(b"-")
                return
            with sock:
                self.parent.sendmsg([key], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                              array.array("i", [sock.fileno()]))])
            return
        numbers = [int.from_bytes(data[i:i + 4], "little", signed=True) for i in
                   range(0, 24 if kind == ENDED else 8, 4)]
        state = self._worker(numbers[0])
        if kind == REPORT:
            state.take(data[8:], self.sinks["log"].put)
        elif kind == ENDED:
            _, state.number, state.pid, code, status, state.phase = numbers
            host, _, memory = bytes(data[24:]).partition(b"\0")
            state.host, state.memory = host.decode("utf-8", "replace"), memory.decode()
            if code == CLD_EXITED:
                state.exit_status = status
            else:
                state.signal = status
        if state.has_failed and state.worker not in self.arrival:
            self.arrival.append(state.worker)

    def _worker(self, number):
        if number not in self.workers and self.is_elastic and number >= 0:
            self.workers[number] = RankState(number)
        return self.workers[number]

    # -- the end

    def wait(self, look=lambda: None):
        """Wait for the end of the job; return the launcher's exit status.  look() is called a few
        times a second and may raise an exception, which ends the job."""
        try:
            while True:
                try:
                    self.process.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    look()
        except BaseException:
            self.stop()
            raise
        finally:
            self._finish()
        return self.process.returncode

    def stop(self):
        """End the job: send the ranks SIGINT, then SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(INTERRUPT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # which closes its connections, so the daemons kill the ranks
            self.process.wait()

    def _hang_up(self):
        for sock, _ in self.connections.values():
            sock.close()
        self.connections = {}
        self.parent.close()

    def _finish(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for t in self.threads:
            t.join(10)
        self._hang_up()
        for sink in self.sinks.values():
            sink.finish()

    def check(self):
        """Raise JobFailed if the job has failed."""
        failed = not self.is_elastic and any(r.has_failed for r in self.workers.values())
        if self.process.returncode or failed:
            raise self.failure(self.spark) from self._cause

    def results(self):
        """Return the ranks' results by rank; if ranks may change, those of the ranks at the end.
        Raise JobFailed if the job has failed."""
        self.check()
        ranks = sorted(self.workers.values(), key=lambda r: r.number)
        if self.is_elastic:
            ranks = [r for r in ranks if r.result is not None and r.exit_status == 0]
        missing = [r for r in ranks if r.result is None]
        if missing:
            where = missing[0]
            raise failure.JobFailed(
                f"rank {where.number} on {where.host} ended without a result: its function did not "
                "return (did it call sys.exit() or os._exit()?)", rank=where.number,
                host=where.host, pid=where.pid, exit_status=where.exit_status)
        return [pickling.loads_result(r.result) for r in ranks]

    def failure(self, spark=None):
        """Return the text of JobFailed for this job.  spark is the exception with which Spark ended
        it."""
        for state in self.workers.values():
            state.order = self.arrival.index(state.worker) if state.worker in self.arrival else 0
        text, blamed, shown = failure.word(
            list(self.workers.values()), self.said, self.process.returncode,
            spark and str(getattr(spark, "java_exception", None) or spark), _hint)
        self._cause = shown.exception() if shown and shown.error else spark
        if shown and shown.error:
            text += "\n\n" + shown.error["traceback"].rstrip()
        elif self.last and not spark:
            text += "\n\nThe last lines of the ranks' output:\n" + "".join(self.last).rstrip()
        error = (blamed.error if blamed else None) or {}
        blamed_itself = blamed and not blamed.was_ended
        return failure.JobFailed(
            text, rank=blamed and blamed.number, host=blamed and blamed.host,
            pid=blamed and blamed.pid, exit_status=blamed.exit_status if blamed_itself else None,
            signal=blamed.signal if blamed_itself else None, type_name=error.get("type"),
            traceback=error.get("traceback"),
            others=[r.describe() for r in sorted(self.workers.values(), key=lambda r: r.order)
                    if r.has_failed and r is not blamed])


def _hint(error):
    """Return a hint about a module or a file that a rank could not find."""
    if error.get("module"):
        return f"{error['python']} has no module {error['module']}; " + \
            gather.about_module(error["module"])
    return gather.about_file(error["file"]) if error.get("file") else None
