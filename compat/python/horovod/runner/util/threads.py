# threads.py - run functions in threads.
# SPDX-License-Identifier: Apache-2.0

import queue
import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Call target in a thread, and return the thread.  With silent, its exceptions are dropped."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use "
                         "(arg,)")

    def quiet(*a):
        try:
            target(*a)
        except BaseException:
            pass

    thread = threading.Thread(target=quiet if silent else target, args=args, name=name,
                              daemon=daemon)
    thread.start()
    return thread


def on_event(event, func, args=(), stop=None, check_stop_interval_s=1.0, daemon=True,
             silent=False):
    """Call func in a thread when event is set, unless stop is set first."""
    if event is None:
        raise ValueError("Event must not be None")
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use "
                         "(arg,)")
    if stop is None and not daemon:
        raise ValueError("Stop event must be given for non-daemon event thread")

    def wait():
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)


def execute_function_multithreaded(fn, args_list, block_until_all_done=True,
                                   max_concurrent_executions=1000):
    """Call fn(*args) for each args of args_list, concurrently.

    Return {index: result}, or None immediately if the call must not wait."""
    work, results = queue.Queue(), {}
    for item in enumerate(args_list):
        work.put(item)

    def loop():
        while True:
            try:
                i, args = work.get_nowait()
            except queue.Empty:
                return
            results[i] = fn(*args)

    threads = [in_thread(loop, daemon=not block_until_all_done)
               for _ in range(min(max_concurrent_executions, len(args_list)))]
    if not block_until_all_done:
        return None
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)  # so that Ctrl-C is seen
    if len(results) != len(args_list):
        raise RuntimeError(f"Some threads for func {fn.__name__} did not complete successfully.")
    return results
