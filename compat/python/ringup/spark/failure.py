# failure.py - the error of a failed job: one sentence that combines all reports.
# SPDX-License-Identifier: Apache-2.0
"""Finds the cause of a failed job.  Ranks report exceptions, the launcher reports how processes
ended and which hosts were lost, and Spark reports why it ended tasks.  Most of these reports are
consequences of one cause.  word() finds that cause, and spark_says() reads Spark's reports.  Both
are pure functions; tests/py/test_spark_failure.py has a table of inputs and sentences."""

import re
import signal


class JobFailed(RuntimeError):
    """A job on Spark, or on the driver alone, has failed.

    rank, host and pid identify the rank to blame, and are None without one.  exit_status or signal
    says how its process ended; the other one is None, and both are None if this is unknown.
    type_name and traceback are those of the exception that its function raised, as text.  __cause__
    is the exception itself, if it could be pickled.  others contains the failures of other ranks,
    which came later or are probably consequences of this one."""

    def __init__(self, message, rank=None, host=None, pid=None, exit_status=None, signal=None,
                 type_name=None, traceback=None, others=()):
        super().__init__(message)
        self.rank, self.host, self.pid = rank, host, pid
        self.exit_status, self.signal = exit_status, signal
        self.type_name, self.traceback, self.others = type_name, traceback, list(others)


# Exceptions that a rank raises because another one is gone, by the names of their types.
CONSEQUENCES = frozenset({"PeerLost", "Aborted", "NotRunning", "HorovodInternalError",
                          "DistBackendError", "DistNetworkError", "DistStoreError"})
# An operation in a graph ends with an exception of the framework's, and the library's status stands
# in its text.
_IN_A_GRAPH = re.compile(r"\[ringup (EPEER|ESHUTDOWN|EABORTED)\]")
_GLOO = ("Connection closed by peer", "Connection reset by peer", "Connection refused",
         "Read error", "Timed out waiting")
MOURNING = 1      # enum ending_phase: until then a rank has ended by itself


def is_consequence(type_names, message):
    """Return whether an exception of this type (and its bases, by name) reports another rank's
    failure."""
    if CONSEQUENCES.intersection(type_names) or _IN_A_GRAPH.search(message) or \
            _blames(message, None):
        return True
    return "RuntimeError" in type_names and any(text in message for text in _GLOO)


def ending_of(exit_status, number, memory=""):
    """Describe how a process ended, as part of a sentence."""
    if number is not None:
        try:
            name = f" ({signal.Signals(number).name})"
        except ValueError:
            name = ""
        return f"was killed by signal {number}{name}{memory}"
    return f"exited with status {exit_status}"


# -- what a rank says of another one ---------------------------------------------------------------

# (text of the library, what it means).  {r}: the rank; {of}: " of SIZE"; {at}: where it is.
_BLAMES = [
    (re.compile(r"\brank (?P<r>\d+)(?P<of> of \d+)? did not join within (?P<t>[\d.]+ \w+)"),
     "rank {r}{of}{at} did not call hvd.init() within {t}.  Check what it does before that, such "
     "as loading data; HOROVOD_START_TIMEOUT=SECONDS makes the others wait longer"),
    (re.compile(r"\branks (?P<r>\d+)(?P<more>[\d, and-]*\d)(?P<of> of \d+)? did not join within "
                r"(?P<t>[\d.]+ \w+)"),
     "ranks {r}{more}{of} did not call hvd.init() within {t}.  Check what they do before that, "
     "such as loading data; HOROVOD_START_TIMEOUT=SECONDS makes the others wait longer"),
    (re.compile(r"\branks? (?P<r>\d+)(?P<more>[\d, and-]*) of the process group did not join "
                r"within (?P<t>[\d.]+ \w+)"),
     "rank {r}{more}{at} did not call init_process_group() within {t}.  Check what it does before "
     "that, and whether all ranks create the same groups in the same order"),
    (re.compile(r"\brank (?P<r>\d+) \(process (?P<p>\d+) on (?P<h>[^)]*)\) has not moved for "
                r"(?P<t>[\d.]+ s)(?P<seen>[^:\n]*): it (?P<how>is stopped|is dead) "
                r"\((?P<s>state .)\)"),
     "rank {r} on {h} (pid {p}) {how} ({s}): it has not moved for {t}"),
    (re.compile(r"\brank (?P<r>\d+) \(process (?P<p>\d+) on (?P<h>[^)]*)\) "
                r"(?P<how>has not moved|has been silent|is silent) for (?P<t>[\d.]+ s)"
                r"(?P<why>[^\n]*)"),
     "rank {r} on {h} (pid {p}) {how} for {t}{why}"),
    (re.compile(r"(?P<op>\w+ \S+) has stalled for (?P<t>[\d.]+ s): (?P<who>ranks? [^\n]*?) waits? "
                r"for rank (?P<r>\d+) \(process (?P<p>\d+) on (?P<h>[^)]*)\)"),
     "rank {r} on {h} (pid {p}) did not join {op}: {who} waited for it for {t}"),
    (re.compile(r"(?P<op>\w+ (?:'[^']*'|#\d+)|\w+): rank (?P<r>\d+) has left the job"),
     "rank {r}{at} has left the job while others wait for it in {op}: its function has returned, "
     "or called hvd.shutdown(), before that of the other ranks.  All ranks need equally many "
     "steps, or hvd.join()"),
    (re.compile(r"\brank (?P<r>\d+) \(process (?P<p>\d+)(?: on (?P<h>[^)]*))?\) "
                r"(?P<how>died[^\n]*)"),
     "rank {r}{at} (pid {p}) {how}"),
]


def _blames(message, at):
    """Return pairs (rank, sentence) for an error whose text names the other rank that caused it."""
    for pattern, meaning in _BLAMES:
        found = pattern.search(message)
        if found:
            words = {k: v or "" for k, v in found.groupdict().items()}
            number = int(words["r"])
            where = f" on {words['h']}" if words.get("h") else at(number) if at else ""
            sentence = meaning.format(**{"of": "", **words, "at": where})
            return number, re.sub(r" \[ringup E\w+\].*", "", sentence)
    return None


# -- what Spark says -------------------------------------------------------------------------------

_VERSIONS = ("Python {0} on the workers, {1} on the driver: functions travel between equal "
             "versions only.  Set PYSPARK_PYTHON, and PYSPARK_DRIVER_PYTHON, to the same version "
             "before the session starts")
_MEMORY = "raise spark.executor.memoryOverhead, or reduce the ranks' memory use"
_LOST = (r"ExecutorLostFailure \(executor (?P<e>\S+?)(?: \(host: [^)]*\))? (?:exited|lost)"
         r"[^\n]*?Reason: (?P<why>[^\n]*)")
_USED = re.compile(r"[\d.]+ [KMGT]?i?B of [\d.]+ [KMGT]?i?B (?:physical|virtual) memory used")


def _version(text):
    return ".".join(re.findall(r"\d+", text)[:2])


def _of_versions(m):
    return _VERSIONS.format(_version(m.group(1)), _version(m.group(2)))


def _of_lost(m):
    why = m.group("why").strip().rstrip(".")
    text = f"executor {m.group('e')} lost: "
    used = _USED.search(why)
    if re.search(r"YARN for exceeding|exceeding (?:physical |virtual )?memory limits", why):
        return f"{text}YARN killed it for exceeding its memory" + \
            (f" ({used.group(0)})" if used else "") + f"; {_MEMORY}"
    if re.search(r"OOMKilled|possible container OOM|exit code 137|code 137|Exit status: 137", why):
        return (f"{text}it was killed by SIGKILL ({why}), most likely for lack of memory; "
                f"{_MEMORY}")
    if "preempted" in why.lower():
        return f"{text}the cluster preempted it ({why})"
    if re.search("decommission", why, re.I):
        return f"{text}its node was decommissioned ({why}), as spot instances are"
    if "heartbeat timed out" in why.lower():
        return (f"{text}{why}.  Its host is overloaded or cut off; spark.network.timeout sets the "
                "limit")
    return f"{text}{why}"


def _of_missing(m):
    if m.group(1).split(".")[0] == "ringup":
        return ("the Python of the executors has no package ringup: install it there on each node "
                "(`compat/install --python PYTHON`), or set PYSPARK_PYTHON to one that has it")
    return (f"the Python of the executors has no module {m.group(1)}: install it on each node, or "
            "set PYSPARK_PYTHON to a Python that has it")


# In this order; the first that is found counts.  (pattern, sentence or function of the match).
_SPARK = [(re.compile(p, re.S if "(?s)" in p else 0), s) for p, s in [
    (r"No module named '((?:ringup|cloudpickle|pyspark)[^']*)'", _of_missing),
    (r"Python in worker has different version:? ?\(?([\d., ]+?)\)? than that in driver:? "
     r"?\(?([\d., ]*\d)", _of_versions),
    (r"Cannot run program \"([^\"]+)\"(?: \(in directory [^)]*\))?: (?:error=\d+, )?([^\n]*)",
     lambda m: f"the executors cannot run program \"{m.group(1)}\" ({m.group(2).strip()}): it is "
               "the Python that PYSPARK_PYTHON, or spark.pyspark.python, names.  Each node needs "
               "it at that path"),
    (_LOST, _of_lost),
    (r"(?:unsupported pickle protocol|bad marshal data|code\(\) (?:takes|argument)|"
     r"unknown opcode|struct\.error: unpack)[^\n]*",
     lambda m: f"the workers' Python cannot read data from the driver's Python ({m.group(0)}): "
               "most likely their versions differ.  Set PYSPARK_PYTHON, and PYSPARK_DRIVER_PYTHON, "
               "to the same version before the session starts"),
    (r"No space left on device", "a disk of the cluster is full (No space left on device): see "
     "spark.local.dir, and TMPDIR of the executors"),
    (r"SPARK-24819|does not allow run a barrier stage that requires more slots",
     "the executors have fewer task slots than ranks: ask for fewer ranks, or give the cluster "
     "more executors or cores"),
    (r"SPARK-24942|does not support dynamic resource allocation",
     "barrier stages do not work with dynamic allocation (SPARK-24942): set "
     "spark.dynamicAllocation.enabled=false in the cluster's configuration"),
    (r"spark\.rpc\.message\.maxSize", "the function, with what it refers to, is too large for "
     "Spark's messages: raise spark.rpc.message.maxSize, or let ranks read the data themselves"),
    (r"bigger than spark\.driver\.maxResultSize[^\n]*", "the results are larger than "
     "spark.driver.maxResultSize: raise it, or let the function write them to storage that all "
     "hosts share"),
    (r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|"
     r"SparkContext has been shutdown", "the Spark session was stopped while the job ran"),
    (r"Job (\d+) cancelled[^\n]*", lambda m: f"the Spark job was cancelled ({m.group(0).strip()})"),
    (r"(?:EOFException occurred while reading the port number|Bad data in pyspark\.daemon's "
     r"standard output)[^\n]*",
     lambda m: "the executors' Python did not start a worker of Spark: PYSPARK_PYTHON does not "
               f"name a working Python there ({m.group(0).rstrip('.')})"),
    (r"Python worker failed to connect back|Accept timed out",
     "a Python worker of Spark did not start in time: its host is overloaded, or its Python hangs "
     "when it starts"),
    (r"Python worker exited unexpectedly \(crashed\)",
     "a Python worker of Spark was killed or crashed, most often for lack of memory: " + _MEMORY),
    (r"java\.lang\.OutOfMemoryError[^\n]*",
     lambda m: f"Spark's JVM has too little memory ({m.group(0).strip()}): raise "
               "spark.driver.memory or spark.executor.memory"),
    (r'details = "(.*)"', lambda m: f"Spark Connect: {m.group(1)}"[:1000]),
]]
_NOTHING_SAID = re.compile(r"finished unsuccessfully|Could not recover from a failed barrier|"
                           r"^\s*at |^Driver stacktrace|^\s*$|^Traceback|Py4JJavaError|An error "
                           r"occurred while calling|Lost task \d")


def spark_says(text):
    """Return Spark's exception as a sentence.  The argument is its text with everything that it
    quotes."""
    for pattern, sentence in _SPARK:
        found = pattern.search(text)
        if found:
            return sentence if isinstance(sentence, str) else sentence(found)
    errors = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception)): ([^\n]+)$", text, re.M)
    errors = [f"{kind}: {said}" for kind, said in errors
              if not _NOTHING_SAID.search(said) and kind != "SparkException"]
    if errors:  # the last line of a Python traceback is the worker's own
        return errors[0][:1000]
    reason = re.search(r"Most recent failure reason:\s*(.*)", text, re.S)
    lines = [line.strip() for line in (reason.group(1) if reason else text).splitlines()
             if not _NOTHING_SAID.search(line)]
    said = lines[0] if lines else text.strip().partition("\n")[0]
    return re.sub(r"^(?:[a-z]\w*\.)+SparkException: ", "", said)[:1000]


# -- the whole -------------------------------------------------------------------------------------

class Ended:
    """The facts about one rank.

    number is its rank; host and pid say where it ran, if it started.  error is its report, a dict
    with type, message, traceback and consequence, or None.  exit_status or signal, and memory, say
    how its process ended.  phase is the phase of the job's end at that time; above MOURNING, the
    launcher ended the process.  order is its position among all failures."""

    def __init__(self, number, host=None, pid=None, error=None, exit_status=None, signal=None,
                 phase=None, memory="", order=0):
        self.number, self.host, self.pid, self.error = number, host, pid, error
        self.exit_status, self.signal, self.phase = exit_status, signal, phase
        self.memory, self.order = memory, order

    @property
    def has_failed(self):
        """Return whether it has failed, by its exception or its exit."""
        return bool(self.error or self.exit_status or self.signal is not None)

    @property
    def was_ended(self):
        """Return whether the launcher ended it because of another failure."""
        return self.phase is not None and self.phase > MOURNING and not self.error

    @property
    def only_quotes(self):
        """Return whether this rank raised the same error as a rank that ended earlier."""
        return bool(self.error) and "aborted the job" in self.error["message"]

    @property
    def where(self):
        """Return where the rank ran, for a sentence."""
        return f" on {self.host}" if self.host else ""

    def describe(self):
        """Describe the failure in a sentence."""
        text = f"rank {self.number}{self.where} "
        if self.error:
            said = self.error["message"]
            return f"{text}raised {self.error['type']}" + (f": {said}" if said else "")
        return text + ending_of(self.exit_status, self.signal, self.memory)

    def kind(self):
        """Return the importance of the failure: first exceptions of the user's function, then ranks
        that were killed, ranks that just ended, ranks that noticed another failure, and ranks that
        were ended."""
        if self.was_ended:
            return 4
        if self.error:
            return 3 if self.error["consequence"] else 0
        return 1 if self.signal is not None else 2


LOST_S = 15  # for Spark to notice that an executor is gone
_LOST_HOST = re.compile(r"connection lost|connection to .* lost|lost its rank daemon")
# A rank dies so by itself, or because its daemon's guard ended it when the executor was killed.
_LOST_OR_KILLED = re.compile(_LOST_HOST.pattern + r"|killed by signal 9\b")
_JUST_AN_END = re.compile(r"^rank \d+ \(pid \d+\) on \S+ exited with status|^ending the other "
                          r"rank")
_TIMED_OUT = re.compile(r"[Tt]imed? ?out|timeout")


def word(ranks, said=(), status=1, spark=None, hint=None):
    """Return the cause of a failed job as (sentence, the Ended to blame or None, the Ended whose
    traceback is shown or None).

    ranks is a list of Ended for all ranks.  said contains sentences of the launcher, and status is
    its exit status.  spark is the text of the exception with which Spark ended the tasks, or None.
    hint is a function of a rank's error dict that returns what to do about it."""
    failed = sorted((r for r in ranks if r.has_failed),
                    key=lambda r: (r.kind(), r.only_quotes, r.order))
    by_number = {r.number: r for r in ranks}
    first = failed[0] if failed else None
    with_executor = bool(first and first.signal == signal.SIGKILL and not first.error and
                         spark and re.search(_LOST, spark))
    if first and first.kind() < 3 and not with_executor:
        text = first.describe()
        more = hint(first.error) if hint and first.error else None
        return (f"{text}.\n{more}" if more else text), first, first
    at = lambda number: by_number[number].where if number in by_number else ""  # noqa: E731
    blames = [(_blames(r.error["message"], at), r) for r in failed if r.error]
    blamed, witness = next((b for b in blames if b[0]), (None, None))
    if spark:
        text = spark_says(spark)
        if not blamed and not with_executor:
            return text, None, None
        number = first.number if with_executor else blamed[0]
        return f"rank {number}{at(number)} died with its executor: {text}", \
            by_number.get(number, Ended(number)), None
    if blamed:
        number, sentence = blamed
        return sentence, by_number.get(number, Ended(number)), witness
    causes = [s for s in said if not _JUST_AN_END.search(s)]
    lost = [s for s in causes if _LOST_HOST.search(s)]
    late = [r for r in failed if r.was_ended]
    if first and first.error and not lost:
        text = first.describe()
        if late and _TIMED_OUT.search(first.error["message"]):  # torch does not say for whom
            text = (f"rank {late[0].number}{late[0].where} did not join, and still ran when the "
                    f"others timed out.  {text}")
            return text, late[0], first
        return text, first, first
    if lost or causes or said:
        return f"the job has failed: {(lost or causes or list(said))[0]}", None, None
    if first:
        return first.describe(), first, first
    return f"the job has failed: ringup run ended with status {status}", None, None


def spark_error(stage, launcher):
    """Return the exception with which Spark has ended a stage whose job has lost a host, or a rank
    by SIGKILL; otherwise None.  Spark knows why an executor is gone, and reports it some seconds
    later."""
    if launcher.process.returncode and any(_LOST_OR_KILLED.search(s) for s in launcher.said):
        stage.thread.join(LOST_S)
        return stage.error
    return None
