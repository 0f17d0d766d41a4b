# test_spark_failure.py - the sentence for a failed job on Spark, from what is known of it.
# SPDX-License-Identifier: Apache-2.0
#
# Pure functions, and texts as pyspark 3.5 and 4, YARN and Kubernetes word them.
#
# needs: cpu
# tests: compat/python/ringup/spark/failure.py

from types import SimpleNamespace

import pytest

from ringup.spark.failure import Ended, is_consequence, spark_error, spark_says, word

ABORTED = ("Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. "
           "Most recent failure reason: Stage failed because barrier task ResultTask(0, 0) "
           "finished unsuccessfully.\n")
LOST = ("org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from "
        "a failed barrier ResultStage. Most recent failure reason: Stage failed because barrier "
        "task ResultTask(1, 0) finished unsuccessfully.\nExecutorLostFailure (executor {} exited "
        "{} by one of the running tasks) Reason: {}\n\tat org.apache.spark.scheduler.DAGScheduler")


@pytest.mark.parametrize("text, words", [
    (ABORTED + 'java.io.IOException: Cannot run program "/no/such/python": error=2, No such file '
     "or directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)",
     ('"/no/such/python"', "No such file or directory", "PYSPARK_PYTHON")),
    ('java.io.IOException: Cannot run program "python3.9" (in directory "."): error=13, Permission '
     "denied", ('"python3.9"', "Permission denied")),
    (ABORTED + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
     '  File "worker.py", line 1100, in main\n'
     "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
     "worker has different version (3, 12) than that in driver 3.11, PySpark cannot run with "
     "different minor versions.", ("Python 3.12 on the workers, 3.11 on the driver",)),
    ("Exception: Python in worker has different version 3.6 than that in driver 3.7, PySpark "
     "cannot run with different minor versions.",
     ("Python 3.6 on the workers, 3.7 on the driver",)),
    ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: "
     "3.12, PySpark cannot run", ("Python 3.10 on the workers, 3.12 on the driver",)),
    ("PythonException: \nTypeError: code() argument 13 must be str, not int",
     ("versions differ", "argument 13", "PYSPARK_PYTHON")),
    (LOST.format(3, "caused", "Container killed by YARN for exceeding memory limits. 5.5 GB of 5.5 "
                 "GB physical memory used. Consider boosting spark.executor.memoryOverhead."),
     ("executor 3 lost: YARN killed it for exceeding its memory", "5.5 GB of 5.5 GB",
      "memoryOverhead")),
    (LOST.format(3, "caused", "Container killed by YARN for exceeding physical memory limits. 2.1 "
                 "GB of 2 GB physical memory used."),
     ("executor 3 lost: YARN killed it for exceeding its memory",)),
    (LOST.format(12, "unrelated", "Container container_1 on host: n7 was preempted."),
     ("executor 12 lost", "preempted", "n7")),
    (LOST.format(1, "caused", "Command exited with code 137"),
     ("executor 1 lost", "SIGKILL", "memory")),
    (LOST.format(4, "caused", "The executor with id 4 exited with exit code 137(SIGKILL, possible "
                 "container OOM)."), ("executor 4 lost", "possible container OOM")),
    (LOST.format(2, "caused", "Executor heartbeat timed out after 130012 ms"),
     ("executor 2 lost", "130012 ms", "spark.network.timeout")),
    (LOST.format(2, "caused", "Remote RPC client disassociated. Likely due to containers exceeding "
                 "thresholds, or network issues. Check driver logs for WARN messages."),
     ("executor 2 lost", "Remote RPC client disassociated")),
    (LOST.format(0, "unrelated", "Executor decommission."), ("executor 0 lost", "spot")),
    (ABORTED + "ModuleNotFoundError: No module named 'ringup'",
     ("no package ringup", "compat/install")),
    ("ModuleNotFoundError: No module named 'cloudpickle'", ("no module cloudpickle",)),
    ("org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group ringup.1.2",
     ("the Spark job was cancelled", "Job 7")),
    ("Job aborted: SparkContext was shut down", ("Spark session was stopped",)),
    (ABORTED + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
     "Caused by: java.io.EOFException", ("Python worker", "crashed", "memory")),
    ("Serialized task 0:0 was 139268 bytes, which exceeds max allowed: spark.rpc.message.maxSize "
     "(134217728 bytes)", ("too large", "spark.rpc.message.maxSize")),
    ("Total size of serialized results of 2 tasks (1100.0 MiB) is bigger than "
     "spark.driver.maxResultSize (1024.0 MiB)", ("spark.driver.maxResultSize",)),
    ("[SPARK-24942]: Barrier execution mode does not support dynamic resource allocation for now.",
     ("dynamicAllocation.enabled=false",)),
    ("java.lang.OutOfMemoryError: Java heap space", ("too little memory", "Java heap space")),
    (ABORTED + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
     '  File "task.py", line 3, in run\nConnectionRefusedError: [Errno 111] Connection refused\n'
     "\n\tat org.apache.spark.api.python.BasePythonRunner",
     ("ConnectionRefusedError: [Errno 111] Connection refused",)),
    (ABORTED + "something of a Spark to come\n\tat java.x", ("something of a Spark to come",)),
    (ABORTED + "org.apache.spark.SparkException: EOFException occurred while reading the port "
     "number from pyspark.daemon's stdout.\n\tat x",
     ("not name a working Python", "port number")),
    (ABORTED + "org.apache.spark.SparkException: another of a Spark to come", ("another of a",)),
    ("nothing but this", ("nothing but this",))])
def test_spark_s_exception_has_a_sentence(text, words):
    said = spark_says(text)
    assert all(w in said for w in words), said
    assert "finished unsuccessfully" not in said and "\n" not in said, said


def error(message, consequence=False, kind="builtins.ValueError"):
    return {"type": kind, "message": message, "traceback": "Traceback", "consequence": consequence}


def lost_one(rank, message, **how):
    return Ended(rank, "h", 10 + rank, error(message, True), 1, phase=0, **how)


def test_a_rank_that_did_not_come_is_named():
    ranks = [lost_one(0, "init: ringup_init: meeting point: rank 1 of 2 did not join within 60 s"),
             Ended(1, "other", 11, signal=15, phase=3, order=1)]
    text, blamed, shown = word(ranks, ["rank 0 (pid 10) on h exited with status 1"])
    assert text.startswith("rank 1 of 2 on other did not call hvd.init() within 60 s")
    assert blamed is ranks[1] and shown is ranks[0]


def test_several_that_did_not_come_are_named():
    text, blamed, _ = word([lost_one(0, "init: meeting point: ranks 1, 3-5 of 6 did not join "
                                        "within 5 s")])
    assert text.startswith("ranks 1, 3-5 of 6 did not call hvd.init() within 5 s")
    assert blamed.number == 1


@pytest.mark.parametrize("state, words", [
    ("it is stopped (state T)", "rank 1 on v (pid 7) is stopped (state T): it has not moved for"),
    ("it is dead (state Z)", "rank 1 on v (pid 7) is dead (state Z)"),
    ("it hangs in the kernel (state D)", "rank 1 on v (pid 7) has not moved for 5.0 s: it hangs in "
     "the kernel (state D)"),
    ("a debugger holds it (state t)", "rank 1 on v (pid 7) has not moved for 5.0 s: a debugger")])
def test_a_frozen_rank_is_named_with_its_state(state, words):
    ranks = [lost_one(0, f"allreduce: rank 1 (process 7 on v) has not moved for 5.0 s: {state}"),
             Ended(1, "v", 7, signal=15, phase=3)]
    text, blamed, _ = word(ranks, ["rank 0 (pid 1) on v exited with status 1: rank 1 (pid 7) on v "
                                   "had left the job before, and has not ended"])
    assert text.startswith(words) and blamed.number == 1


def test_a_group_of_torch_that_is_not_whole_names_who_is_missing():
    text, blamed, _ = word([lost_one(0, "rank 1 of the process group did not join within 30 s: "
                                        "check that they still run")])
    assert text.startswith("rank 1 did not call init_process_group() within 30 s")
    assert blamed.number == 1


@pytest.mark.parametrize("message, sentence", [
    ("allreduce 'allreduce.grad': allreduce allreduce.grad has stalled for 4.1 s: ranks 0, 2 of 3 "
     "wait for rank 1 (process 7 on v)", "rank 1 on v (pid 7) did not join allreduce "
     "allreduce.grad: ranks 0, 2 of 3 waited for it for 4.1 s"),
    ("allreduce 'allreduce.grad': rank 1 has left the job", "rank 1 on v has left the job while "
     "others wait for it in allreduce 'allreduce.grad'"),
    ("barrier: rank 1 has left the job [ringup ESHUTDOWN]\n\t[[node]]",
     "rank 1 on v has left the job while others wait for it in barrier")])
def test_a_rank_that_others_wait_for_is_named(message, sentence):
    ranks = [lost_one(0, message), Ended(1, "v", 7), lost_one(2, message)]
    text, blamed, shown = word(ranks, ["rank 0 (pid 10) on h exited with status 1: rank 1 (pid 7) "
                                       "on v had left the job before, with status 0"])
    assert text.startswith(sentence) and blamed is ranks[1] and shown is ranks[0]


def test_a_rank_that_torch_has_waited_for_is_named():
    ranks = [lost_one(0, "Timed out after 6 seconds waiting for clients. 2/3 clients joined."),
             Ended(1, "v", 7, signal=15, phase=3, order=2),
             lost_one(2, "wait timeout after 5000ms, keys: /default_pg/0//cpu//0/0", order=1)]
    text, blamed, shown = word(ranks, ["rank 0 (pid 10) on h exited with status 1",
                                       "ending the other rank"])
    assert text.startswith("rank 1 on v did not join, and still ran") and "2/3 clients" in text
    assert blamed is ranks[1] and shown is ranks[0]


def test_ranks_that_contradict_each_other_are_told_in_their_own_words():
    said = "allreduce 'g': rank 0 wants a reduce (sum) of 3 f32, rank 1 a reduce (sum) of 4 f32"
    ranks = [lost_one(0, f"rank 1 aborted the job: HorovodInternalError: {said}", order=0),
             lost_one(1, said, order=1)]
    text, blamed, shown = word(ranks, ["rank 1 (pid 11) on h exited with status 1",
                                       "ending the other rank"])
    assert text.endswith(said) and blamed is shown is ranks[1]


def test_an_exception_of_the_user_counts_before_all_others():
    ranks = [lost_one(0, "rank 2 (process 3 on h) died", order=0),
             Ended(1, "h", 11, error("bad"), 1, phase=1, order=2),
             Ended(2, "h", 12, signal=9, phase=1, order=1)]
    text, blamed, shown = word(ranks, hint=lambda e: f"about {e['message']}")
    assert text == "rank 1 on h raised builtins.ValueError: bad.\nabout bad"
    assert blamed is shown is ranks[1]


def test_a_killed_rank_counts_before_those_that_notice():
    ranks = [lost_one(0, "allreduce: rank 1 (process 11 on h) died"),
             Ended(1, "h", 11, signal=9, phase=1, memory=", for want of memory", order=1)]
    text, blamed, _ = word(ranks)
    assert text == "rank 1 on h was killed by signal 9 (SIGKILL), for want of memory"
    assert blamed is ranks[1]


def test_a_lost_executor_is_told_as_spark_tells_it():
    spark = LOST.format(3, "caused", "Container killed by YARN for exceeding memory limits. 5.5 GB "
                                     "of 5.5 GB physical memory used.")
    ranks = [lost_one(0, "allreduce: rank 1 (process 11 on b) died or was cut off"), Ended(1, "b")]
    text, blamed, _ = word(ranks, ["b: connection lost"], spark=spark)
    assert text.startswith("rank 1 on b died with its executor: executor 3 lost: YARN killed it")
    assert blamed.number == 1
    assert word([], ["b: connection lost"], spark=spark)[0].startswith("executor 3 lost: YARN")


def test_a_rank_that_its_executor_takes_with_it():
    """The daemon's guard ends a rank of a lost executor before the connection of the host ends."""
    spark = LOST.format(1, "caused", "Command exited with code 137")
    ranks = [Ended(0, "h", 10, signal=9, phase=1), Ended(1, "h", 11, signal=15, phase=3, order=1)]
    said = ["rank 0 (pid 10) on h was killed by signal 9 (Killed)", "ending the other rank"]
    text, blamed, _ = word(ranks, said, spark=spark)
    assert text.startswith("rank 0 on h died with its executor: executor 1 lost: it was killed by")
    assert blamed is ranks[0]
    for other in (None, "org.apache.spark.SparkException: Job 3 cancelled"):  # the executor lives
        assert word(ranks, said, spark=other)[0] == "rank 0 on h was killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize("said, waits", [
    ("b: connection lost", True), ("rank 0 (pid 10) on h was killed by signal 9 (Killed)", True),
    ("rank 0 (pid 10) on h exited with status 1", False)])
def test_spark_is_asked_why_a_host_or_a_killed_rank_has_gone(said, waits):
    class Stage:
        thread, error, joined = None, "why", False

        def join(self, _seconds):
            self.joined = True
    stage = Stage()
    stage.thread = stage
    launcher = SimpleNamespace(process=SimpleNamespace(returncode=1), said=[said])
    assert spark_error(stage, launcher) == ("why" if waits else None)
    assert stage.joined == waits


def test_what_the_launcher_says_is_the_last_resort():
    said = ["rank 0 (pid 3) on h exited with status 1", "b: connection lost: Broken pipe"]
    assert word([], said)[0] == "the job has failed: b: connection lost: Broken pipe"
    assert word([], [], 7)[0] == "the job has failed: ringup run ended with status 7"
    ranks = [Ended(0, "h", 3, signal=15, phase=3)]
    assert word(ranks, ["not finished after 5 s: ending the job"])[0].endswith("ending the job")
    assert word(ranks)[0] == "rank 0 on h was killed by signal 15 (SIGTERM)"


def test_what_blames_another_rank_is_a_consequence():
    assert is_consequence(["JaxRuntimeError"], "x: rank 1 of 2 did not join within 60 s")
    assert not is_consequence(["ValueError"], "rank 1 is no good")
