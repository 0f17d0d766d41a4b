# merge.py - merge the timelines of several ranks into one, with clocks aligned.
# SPDX-License-Identifier: Apache-2.0
"""The program that `ringup timeline merge` runs; it needs only the standard library.

In the merged file, each tensor is a process and each rank a thread of it, so viewers show the
ranks' events of a tensor one below the other.

Ranks on one host share a clock.  Between hosts, the clock offset is computed from the operations: a
rank learns that all ranks are ready only after every rank has submitted.  Each round of a tensor
bounds the offset from both sides.  The offset is the midpoint between the tightest bounds; its
error is at most the time of one message.  If the files have no rounds, or the rounds contradict
each other, the offset is computed from the wall clocks."""

import argparse
import json
import math
import os
import stat
import sys

READ, EVENT, PROCESSES, ROUNDS, FILES = 1 << 20, 1 << 16, 1 << 22, 1 << 17, 8192


class Failed(Exception):
    """A file is not a timeline, or cannot be written."""


def refuse(constant):
    raise ValueError(f"{constant} is not a number")


class Events:
    """Iterates over the events of a Chrome trace, which may be larger than memory.

    If the writer was killed, the file may end early, even within an event.  cut is then True."""

    decode = json.JSONDecoder(parse_constant=refuse).raw_decode

    def __init__(self, path):
        self.path, self.text, self.at, self.count, self.cut = path, "", 0, 0, False
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.file = os.fdopen(fd, encoding="utf-8", errors="replace", newline="")
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            self.file.close()
            raise Failed(f"{path}: not a regular file")

    def more(self):
        read = self.file.read(READ)
        self.text, self.at = self.text[self.at:] + read, 0
        return bool(read)

    def look(self):
        """Return the next non-blank character; "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text) or not self.more():
                return self.text[self.at:self.at + 1]

    def bad(self, why):
        return Failed(f"{self.path}: event {self.count + 1}: {why}")

    def ends(self):
        """Return whether the object at this position is complete, even if malformed."""
        depth, quoted, escaped = 0, False, False
        for c in self.text[self.at:self.at + EVENT]:
            if quoted:
                quoted = c != '"' or escaped
                escaped = c == "\\" and not escaped
            elif c == '"':
                quoted = True
            else:
                depth += (c in "{[") - (c in "}]")
                if not depth:
                    return True
        return False

    def take(self):
        """Return the object at this position; None if the file ends within it."""
        while True:
            try:
                event, end = Events.decode(self.text, self.at)
            except (ValueError, RecursionError) as why:
                if self.ends():
                    raise self.bad(why) from None
                if len(self.text) - self.at >= EVENT:
                    raise self.bad("longer than any event") from None
                if not self.more():
                    return None
                continue
            if end - self.at > EVENT:
                raise self.bad("longer than any event")
            self.at = end
            self.count += 1
            return event

    def __iter__(self):
        with self.file:
            c = self.look()
            if c and c != "[":
                raise Failed(f"{self.path}: not a timeline: it does not begin with [")
            self.at += len(c)
            while True:
                c = self.look()
                if self.count and c == ",":
                    self.at += 1
                    c = self.look()
                if c == "]":
                    return
                if c and c != "{":
                    raise self.bad("not an object")
                event = self.take() if c else None
                if event is None:
                    self.cut = True
                    return
                self.check(event)
                yield event

    def check(self, event):
        phase, pid = event.get("ph"), event.get("pid")
        if not isinstance(phase, str) or len(phase) != 1:
            wrong = "phase"
        elif phase != "M" and not is_number(event.get("ts")):
            wrong = "time"
        elif "pid" in event and not (type(pid) is int and 0 <= pid < PROCESSES):
            wrong = "valid process"
        else:
            return
        raise Failed(f"{self.path}: event {self.count}: no {wrong}")


def is_number(x):
    try:
        return type(x) in (int, float) and math.isfinite(x)
    except OverflowError:
        return False


def arguments_of(event):
    args = event.get("args")
    return args if isinstance(args, dict) else {}


class File:
    """A rank's timeline, and its clock."""

    def __init__(self, path, place, numbers):
        self.path, self.rank, self.host, self.clock = path, place, "", ""
        self.how, self.ahead_us, self.doubt_us = "same", 0.0, 0.0
        self.tensors, self.rounds = {}, {}
        events, rounds = Events(path), {}
        for event in events:
            if events.count == 1:
                self.take_origin(event)
            elif event.get("pid"):
                self.take(event, rounds, numbers)
        if not events.count:
            raise Failed(f"{path}: not a timeline: it is empty")
        self.events, self.cut = events.count, events.cut

    def take_origin(self, event):
        """Read the rank, host and clock from the first event."""
        args = arguments_of(event)
        epoch, start = args.get("start_time_since_epoch_in_micros"), args.get("start_ns")
        rank = args.get("rank", self.rank)
        if event["ph"] != "M" or not is_number(epoch):
            raise Failed(f"{self.path}: not a timeline: it has no start time")
        if type(rank) is not int or not 0 <= rank < 1 << 31:
            raise Failed(f"{self.path}: event 1: invalid rank")
        self.rank = rank
        self.epoch_us, self.start_us = epoch, start / 1000 if is_number(start) else 0
        self.host, self.clock = (x if isinstance(x, str) else ""
                                 for x in (args.get("host"), args.get("clock")))

    def take(self, event, rounds, numbers):
        """Record the names of tensors.  For each round, also record when this rank submitted it and
        when all ranks had submitted it."""
        phase, name, pid = event["ph"], event.get("name"), event["pid"]
        if phase == "M" and name == "process_name":
            text = arguments_of(event).get("name")
            text = text if isinstance(text, str) else "?"
            self.tensors[pid] = numbers.setdefault(text, len(numbers) + 1)
        elif phase == "B" and isinstance(name, str) and name.startswith("NEGOTIATE_"):
            number = arguments_of(event).get("round")
            rounds[pid] = [number, None] if type(number) is int else None
        elif rounds.get(pid) and phase == "X" and name == str(self.rank):
            rounds[pid][1] = event["ts"]
        elif rounds.get(pid) and phase == "E":
            number, submitted = rounds.pop(pid)
            if submitted is not None and len(self.rounds) < ROUNDS:
                self.rounds[self.tensors.get(pid, 0), number] = (self.start_us + submitted,
                                                                 self.start_us + event["ts"])

    def begins(self):
        """Return the start time on the clock of the first file."""
        return self.start_us - self.ahead_us

    def has_clock_of(self, other):
        return self is other or (self.clock and self.clock == other.clock)


def rounds_of(files):
    """Return, for ranks that share a clock, when the last rank submitted each round and when the
    first one knew that all had submitted it."""
    rounds = {}
    for file in files:
        for key, (submitted, ready) in file.rounds.items():
            last, first = rounds.get(key, (submitted, ready))
            rounds[key] = max(last, submitted), min(first, ready)
    return rounds


def settle_clocks(files):
    first, settled = files[0], []
    ours = rounds_of(f for f in files if f.has_clock_of(first))
    for file in files:
        same = next((f for f in settled if file.has_clock_of(f)), None)
        settled.append(file)
        if same:
            file.how, file.ahead_us, file.doubt_us = same.how, same.ahead_us, same.doubt_us
            continue
        if file is first:
            continue
        theirs = rounds_of(f for f in files if f.has_clock_of(file))
        both = ours.keys() & theirs.keys()
        least = max((theirs[key][0] - ours[key][1] for key in both), default=math.inf)
        most = min((theirs[key][1] - ours[key][0] for key in both), default=-math.inf)
        if least <= most:
            file.how, file.ahead_us = "operations", (least + most) / 2
            file.doubt_us = (most - least) / 2
        else:
            file.how = "wall"
            file.ahead_us = first.epoch_us - first.start_us - (file.epoch_us - file.start_us)


def read(paths):
    """Return the files in rank order, and the numbers of the tensors by name, from 1."""
    if not 0 < len(paths) <= FILES:
        raise Failed(f"{len(paths)} timelines: give from 1 to {FILES}")
    numbers = {}
    files = sorted((File(path, i, numbers) for i, path in enumerate(paths)), key=lambda f: f.rank)
    for one, other in zip(files, files[1:]):
        if one.rank == other.rank:
            raise Failed(f"{one.path} and {other.path} both belong to rank {one.rank}")
    settle_clocks(files)
    return files, numbers


class Writer:
    """Write the merged file; time 0 is the earliest start."""

    def __init__(self, to, files, numbers):
        self.to, self.events, self.introduced = to, 0, set()
        self.names = {number: name for name, number in numbers.items()}
        self.first_us = min(f.begins() for f in files)
        wall = files[0].epoch_us - files[0].start_us + self.first_us
        self.metadata("process_name", 0, None, name="ranks",
                      start_time_since_epoch_in_micros=int(wall) if abs(wall) < 9e18 else 0)
        for file in files:
            self.add(file)
        to.write("\n]\n")

    def put(self, event):
        self.to.write(",\n" if self.events else "[\n")
        self.to.write(json.dumps(event, allow_nan=False))
        self.events += 1

    def metadata(self, what, pid, tid, **args):
        event = {"name": what, "ph": "M", "pid": pid}
        if tid is not None:
            event["tid"] = tid
        self.put({**event, "args": args})

    def introduce(self, rank, tensor):
        """Name a tensor, and this rank in it, before their first events."""
        if tensor and tensor not in self.introduced:
            self.introduced.add(tensor)
            self.metadata("process_name", tensor, None, name=self.names[tensor])
            self.metadata("process_sort_index", tensor, None, sort_index=tensor)
        if (tensor, rank) not in self.introduced:
            self.introduced.add((tensor, rank))
            self.metadata("thread_name", tensor, rank, name=f"rank {rank}")
            self.metadata("thread_sort_index", tensor, rank, sort_index=rank)

    def add(self, file):
        events = Events(file.path)
        for event in events:
            if event["ph"] != "M":
                tensor = file.tensors.get(event.get("pid"), 0)
                self.introduce(file.rank, tensor)
                # Round to nanoseconds.
                event.update(ts=round(event["ts"] + file.begins() - self.first_us, 3), pid=tensor,
                             tid=file.rank)
                if event["ph"] == "i":
                    event["s"] = "t"
                try:
                    self.put(event)
                except (ValueError, RecursionError) as why:
                    raise Failed(f"{file.path}: event {events.count}: {why}") from None
            # The file may have grown since its clock offset was computed.
            if events.count == file.events:
                break


def write(path, files, numbers):
    """Write the file, or leave no file after an error; return the number of events."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="ascii") as to:
            events = Writer(to, files, numbers).events
        os.rename(part, path)
    except BaseException as why:
        if os.path.exists(part):
            os.unlink(part)
        if isinstance(why, OSError):
            raise Failed(f"{path}: {why.strerror}") from None
        raise
    return events


def show(files, events, as_json):
    if as_json:
        keys = ("path", "rank", "host", "events", "cut", "ahead_us", "doubt_us")
        print(json.dumps({"events": events, "files": [
            {**{key: getattr(f, key) for key in keys}, "host": f.host or None, "clock": f.how}
            for f in files]}, indent=2))
        return
    rows = [("RANK", "HOST", "EVENTS", "CLOCK", "AHEAD", "DOUBT")]
    rows += [(str(f.rank), clean(f.host) or "-", str(f.events), f.how,
              "-" if f.how == "same" else f"{f.ahead_us:.1f} us",
              f"{f.doubt_us:.1f} us" if f.how == "operations" else "-") for f in files]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def clean(text):
    """Return untrusted text as one line without control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def note(text):
    print(f"ringup timeline merge: {clean(text)}", file=sys.stderr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("output")
    p.add_argument("files", nargs="+")
    args = p.parse_args()
    try:
        files, numbers = read(args.files)
        events = write(args.output, files, numbers)
    except (Failed, OSError) as why:
        note(why if isinstance(why, Failed) else f"{why.filename}: {why.strerror}")
        return 3
    for f in files:
        if f.cut:
            note(f"{f.path}: truncated; using the events before the end")
        if f.how == "wall":
            note(f"{f.path}: placed by the wall clock of {f.host or 'its host'}, because no "
                 "operations match; record with RINGUP_TIMELINE_ALL=1")
    try:
        show(files, events, args.json)
        sys.stdout.flush()
    except OSError as why:
        note(f"stdout: {why.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
