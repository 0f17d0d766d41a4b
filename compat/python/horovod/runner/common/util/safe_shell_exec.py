# safe_shell_exec.py - run a command that never outlives this process.
# SPDX-License-Identifier: Apache-2.0
"""A shell in its own session runs the command.  A second shell in the session, the guard, reads
from a pipe to which nothing is written.  When this process closes the pipe or dies, the guard ends
the session."""

import codecs
import os
import re
import subprocess
import sys
import threading
import time

from horovod.runner.util.threads import in_thread, on_event

GRACEFUL_TERMINATION_TIME_S = 5

# $1: the command; 0: the pipe.  A shell gives commands in the background /dev/null to read.
_GUARDED = f"""
exec 3<&0 </dev/null
/bin/sh -c "$1" 3<&- &
command=$!
{{
  trap '' TERM
  read -r _ <&3
  kill -TERM 0
  i=0
  while [ $i -lt {GRACEFUL_TERMINATION_TIME_S * 10} ] && kill -0 $command 2>/dev/null; do
    sleep 0.1
    i=$((i + 1))
  done
  kill -KILL 0
}} >/dev/null 2>&1 &
guard=$!
wait $command
status=$?
kill -KILL $guard
exit $status
"""


def prefix_connection(src_connection, dst_stream, prefix, index, prefix_output_with_timestamp):
    """Copy lines from a pipe to a text stream, with "[index]<prefix>:" and, if requested, the time
    before each; then close the pipe.  A carriage return also ends a line, so that progress is
    visible."""
    decoder = codecs.getincrementaldecoder("utf8")(errors="replace")
    tagged = index is not None and prefix is not None
    line, more = "", True

    def write(text):
        if tagged:
            now = time.asctime(time.localtime(time.time())) if prefix_output_with_timestamp else ""
            text = f"{now}[{index}]<{prefix}>:{text}"
        dst_stream.write(text)
        dst_stream.flush()

    while more:
        data = os.read(src_connection.fileno(), 65536)
        more = bool(data)
        pieces = re.split("([\r\n])", line + decoder.decode(data, final=not more))
        for text, end in zip(pieces[::2], pieces[1::2]):
            write(text + end)
        line = pieces[-1]
    if line:
        write(line)
    src_connection.close()


def _create_event(ctx):
    """Create an event.  Tests replace this function of upstream's; it is not called here."""
    return threading.Event()


def execute(command, env=None, stdout=None, stderr=None, index=None, events=None,
            prefix_output_with_timestamp=False):
    """Run a shell command.  Its output goes to text streams, by default to sys.stdout and
    sys.stderr, which a notebook shows.  When one of events is set, or at Ctrl-C, the command is
    ended.

    Returns the exit status, or 128 + signal if a signal killed the command."""
    hold, stop = [], threading.Event()
    read_end, write_end = os.pipe()
    hold.append(write_end)

    def end():
        if hold:
            os.close(hold.pop())

    with subprocess.Popen(["/bin/sh", "-c", _GUARDED, "sh", command], env=env, stdin=read_end,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                          start_new_session=True) as p:
        os.close(read_end)
        copies = [in_thread(prefix_connection, (pipe, to, name, index,
                                                prefix_output_with_timestamp))
                  for pipe, to, name in ((p.stdout, stdout or sys.stdout, "stdout"),
                                         (p.stderr, stderr or sys.stderr, "stderr"))]
        for event in events or ():
            on_event(event, end, stop=stop, check_stop_interval_s=0.1, silent=True)
        try:
            p.wait()
        except BaseException:
            end()
            p.wait()
            raise
        finally:
            stop.set()
            end()
        for copy in copies:
            copy.join()
    return p.returncode if p.returncode >= 0 else 128 - p.returncode
