# test_spark_arguments.py - what is wrong with a call is told before a rank starts.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/ringup/spark compat/python/sparkdl compat/python/horovod

import asyncio
import functools
import os
import sys
import threading
import types

import pytest

import horovod
import horovod.spark
from ringup.spark import CannotPickle, TorchDistributor, gather, job, stage
from ringup.spark import run as spark_run
from sparkdl import HorovodRunner


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch):
    """A rank that starts is a failure, and no session is found."""
    def never(*args, **kwargs):
        raise RuntimeError("it has begun")
    monkeypatch.setattr(job.task, "serve", never)
    monkeypatch.setattr(stage, "context", never)
    monkeypatch.setattr(gather, "by_value", lambda: [sys.modules[__name__]])


def main(a, b=2):
    return a, b


def generates():
    yield 1


async def waits():
    await asyncio.sleep(0)


class Trainer:
    def fit(self):
        return 1


class Waits:
    async def __call__(self):
        return 1


RUNNERS = {
    "HorovodRunner(-1)": lambda f, **k: HorovodRunner(np=-1).run(f, **k),
    "HorovodRunner(-2)": lambda f, **k: HorovodRunner(np=-2).run(f, **k),
    "HorovodRunner(2)": lambda f, **k: HorovodRunner(np=2).run(f, **k),
    "horovod.spark.run": lambda f, **k: horovod.spark.run(f, kwargs=k, num_proc=2),
    "horovod.spark.run_elastic": lambda f, **k: horovod.spark.run_elastic(f, kwargs=k, num_proc=2),
    "ringup.spark.run": lambda f, **k: spark_run(f, (), k, 2),
    "TorchDistributor": lambda f, **k: TorchDistributor(2, True, False).run(f, **k),
    "horovod.run": lambda f, **k: horovod.run(f, kwargs=k, num_proc=2)}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("given, words", [
    (lambda: None, ("None", "not a function", "Did you call it")),
    (lambda: (1, 2), ("tuple", "not a function")),
    (lambda: 0.5, ("float", "not a function")),
    (lambda: generates(), ("generator, not a function", "Did you call it")),
    (lambda: waits(), ("coroutine, not a function", "Did you call it")),
    (lambda: generates, ("generator function", "yield")),
    (lambda: waits, ("coroutine function", "asyncio.run(waits())")),
    (lambda: functools.partial(functools.partial(waits)), ("coroutine function",)),
    (lambda: Waits(), ("coroutine function",)),
    (lambda: Trainer, ("the class Trainer", "Trainer(...).METHOD"))],
    ids=["None", "tuple", "number", "generator", "coroutine", "generator function",
         "coroutine function", "partial of one", "object of one", "class"])
def test_what_is_no_function_is_told(runner, given, words):
    with pytest.raises(TypeError) as e:
        RUNNERS[runner](given())
    assert all(w in str(e.value) for w in words), e.value
    assert str(e.value).startswith(("main is", "fn is", "train_object is", "func is"))


@pytest.mark.parametrize("runner", [r for r in RUNNERS if r != "TorchDistributor"])
def test_a_path_is_no_function(runner):
    with pytest.raises(TypeError, match="is 'train.py', of type str, not a function.*file"):
        RUNNERS[runner]("train.py")


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("kwargs, words", [
    ({"a": 1, "lr": 1}, "unexpected keyword argument 'lr'"),
    ({}, "missing a required argument: 'a'")])
def test_arguments_that_the_function_does_not_take_are_told(runner, kwargs, words):
    with pytest.raises(TypeError) as e:
        RUNNERS[runner](main, **kwargs)
    assert words in str(e.value) and "main(a, b=2)" in str(e.value)


def test_too_many_arguments_are_told():
    for run in (lambda a: horovod.spark.run(main, a, num_proc=2),
                lambda a: spark_run(main, a, None, 2),
                lambda a: TorchDistributor(2, True, False).run(main, *a),
                lambda a: horovod.run(main, a, num_proc=2)):
        with pytest.raises(TypeError, match="too many positional arguments"):
            run((1, 2, 3))


@pytest.mark.parametrize("args, kwargs, words", [
    (5, None, r"args=\(5,\)"), ("ab", None, r"args=\('ab',\)"),
    ({"a": 1}, None, "args must be a tuple"),
    ((), [1], "kwargs must be a dict"), ((), {1: 2}, "kwargs must be a dict")])
def test_arguments_in_another_form_are_told(args, kwargs, words):
    for run in (horovod.spark.run, horovod.spark.run_elastic, spark_run, horovod.run):
        with pytest.raises(TypeError, match=words):
            run(main, args, kwargs, num_proc=2)


@pytest.mark.parametrize("count, words", [
    ("2", "=2, without quotes"), (None, "of type NoneType"), (-2.0, "=-2"), (2.5, "whole number"),
    (True, "of type bool"), ([2], "of type list")])
def test_a_number_of_ranks_is_a_whole_number(count, words):
    calls = [(lambda: HorovodRunner(np=count), "np="),
             (lambda: TorchDistributor(count, True, False), "num_processes=")]
    if count is not None:
        calls += [(lambda: spark_run(main, (1,), num_proc=count), "num_proc="),
                  (lambda: horovod.spark.run(main, (1,), num_proc=count), "num_proc="),
                  (lambda: horovod.run(main, (1,), num_proc=count), "num_proc=")]
    for call, name in calls:
        with pytest.raises(TypeError) as e:
            call()
        assert str(e.value).startswith(name) and words in str(e.value)


def test_numpy_s_whole_numbers_are_numbers():
    import numpy
    assert HorovodRunner(np=numpy.int64(-1)).run(main, a=1) == (1, 2)


def test_what_can_be_called_is_called():
    class Callable:
        def __call__(self, x):
            return x

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(5, *args, **kwargs)
        return wrapper

    for fn, kwargs, value in (
            (lambda: 3, {}, 3), (functools.partial(main, 1), {"b": 4}, (1, 4)),
            (Callable(), {"x": 6}, 6), (Trainer().fit, {}, 1), (decorator(main), {}, (5, 2)),
            (lambda **k: k, {"any": 1}, {"any": 1}), (dict, {"x": 1}, {"x": 1})):
        assert HorovodRunner(np=-1).run(fn, **kwargs) == value


# -- what cannot be sent ---------------------------------------------------------------------------

LOCK = threading.Lock()


class Logs:
    """A trainer that keeps things it should not."""

    def __init__(self, **members):
        vars(self).update(members)

    def train(self):
        return vars(self)


def helper():
    return LOCK


def of_a_library():
    """A logging.Handler has a lock: its user has made a handler."""
    import logging
    return logging.StreamHandler()


def pyspark_s(name):
    """An object of that class, as pyspark's are: no attribute of it can be looked at."""
    def refuses(self, *args):
        raise RuntimeError("It appears that you are attempting to reference SparkContext")
    kind = type(name, (), {"__reduce_ex__": refuses, "__getattr__": refuses})
    kind.__module__ = "pyspark.sql.dataframe"
    return kind()


def closure(value):
    def train():
        return value
    return train


def nested(value):
    inner = closure(value)

    def train():
        return inner()
    return train


@pytest.mark.parametrize("make, words", [
    (lambda: Logs(log=LOCK).train, ("refers to self.log, a thread lock", "train -> self.log")),
    (lambda: Logs(parts={"f": [1, Logs(deep=LOCK)]}).train,
     ("self.parts['f'][1].deep", "a thread lock")),
    (lambda: lambda: helper(), ("refers to LOCK", "<lambda> -> helper -> LOCK")),
    (lambda: nested(LOCK), ("train -> inner -> value",)),
    (lambda: functools.partial(closure(1), LOCK) and functools.partial(main, LOCK),
     ("argument 0, a thread lock",)),
    (lambda: closure(open(os.devnull, "w", encoding="utf-8")),
     ("an open file ('/dev/null'", "Open it")),
    (lambda: closure(generates()), ("value, a generator", "make a list of it")),
    (lambda: closure({"h": of_a_library()}), ("value['h'], of type logging.StreamHandler",)),
    (lambda: Logs(ns=types.SimpleNamespace(log=LOCK)).train, ("self.ns.log, a thread lock",)),
    (lambda: closure(pyspark_s("DataFrame")), ("a DataFrame of Spark", "df.write.parquet(PATH)",
                                               "df.toPandas()")),
    (lambda: closure(pyspark_s("SparkSession")), ("the driver's SparkSession", "Only the driver")),
    (lambda: closure(pyspark_s("RDD")), ("an RDD of Spark", "rdd.collect()")),
    (lambda: Logs(data={"df": pyspark_s("DataFrame")}).train, ("self.data['df'], a DataFrame",))],
    ids=["an attribute", "deep in attributes", "a helper's variable", "a closure's closure",
         "a partial's argument", "a file", "a generator", "a library's object",
         "a namespace", "a DataFrame", "a session", "an RDD",
         "a DataFrame in a dict"])
def test_what_cannot_be_sent_is_named_by_its_path(make, words):
    with pytest.raises(CannotPickle) as e:
        HorovodRunner(np=-2).run(make())
    assert all(w in str(e.value) for w in words), e.value


def test_an_argument_that_cannot_be_sent_is_named():
    with pytest.raises(CannotPickle, match=r"refers to argument a\['k'\], a thread lock"):
        HorovodRunner(np=-2).run(main, a={"k": LOCK})
