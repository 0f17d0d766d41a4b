#!/usr/bin/env python3
# cluster.py - summarize the status files of all nodes as a table, or as JSON.
# SPDX-License-Identifier: Apache-2.0
"""Usage: cluster.py DIR [--json], for every status.json below DIR. Exit status: 0 if all nodes are
ok, 1 if not.

The files come from other machines, so nothing in them is trusted: only small files in the form that
ringup-init writes are accepted, and the output contains no control characters."""
import json
import os
import stat
import sys

LARGEST, MOST = 1 << 20, 10000
BAD = ("failed", "interrupted", "timed_out", "unreadable")


def text(value, most=200):
    """Return value as one line without control characters."""
    shown = value if isinstance(value, str) else "" if value is None else str(value)
    return "".join(c if c.isprintable() else "?" for c in shown)[:most]


def parts_of(status, key, kind):
    """Return the items of the list with this name that have this type."""
    found = status.get(key)
    return [one for one in found if isinstance(one, kind)] if isinstance(found, list) else []


def facts_of(status, step):
    """Return the facts that the step found."""
    for one in parts_of(status, "steps", dict):
        if str(one.get("name", "")).endswith(step):
            found = one.get("facts")
            return found if isinstance(found, dict) else {}
    return {}


def seconds_of(status):
    """Return how many seconds all steps took, as far as this is known."""
    took = [s.get("seconds") for s in parts_of(status, "steps", dict)]
    return round(sum(t for t in took if isinstance(t, (int, float)) and 0 <= t < 1e9), 1)


def whence(status):
    """Return where the engine comes from: built, cache, or nothing yet."""
    said = text(facts_of(status, "toolchain").get("cache")) + text(facts_of(status, "build").get("cache"))
    if said.startswith("taken"):
        return "cache"
    return "built" if facts_of(status, "build").get("release") else ""


def read(path):
    """Return the contents of a file, without waiting for a pipe that somebody put there."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("not a file")
        return file.read(LARGEST + 1)


def row_of(path):
    """Return the row of one node."""
    row = {"host": os.path.basename(path)[:-5], "result": "unreadable", "file": path}
    try:
        raw = read(path)
        status = json.loads(raw) if len(raw) <= LARGEST else None
        if not isinstance(status, dict):
            raise ValueError("not the status of a node")
    except (OSError, ValueError, RecursionError) as why:
        row["cause"] = text(str(why))
        return row
    detect, network = facts_of(status, "detect"), facts_of(status, "network")
    row.update(
        host=text(status.get("host")) or row["host"], cluster=text(status.get("cluster")),
        role=text(detect.get("role")), platform=text(detect.get("platform")),
        result=text(status.get("result")) or "unreadable",
        code=status.get("code") if type(status.get("code")) is int else None,
        engine=text(facts_of(status, "install").get("release")), engine_from=whence(status),
        interface=text(network.get("interface")), address=text(network.get("address")),
        training=text(facts_of(status, "verify").get("training")), seconds=seconds_of(status),
        cause=text(status.get("cause")), hint=text(status.get("hint")), written=text(status.get("written")),
        warnings=[text(w) for w in parts_of(status, "warnings", str)][:100],
    )
    return row


def find(folder):
    """Return every status file below folder, in order."""
    found = []
    for here, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(here, f) for f in sorted(files) if f.endswith(".json") and not f.startswith(".")]
        if len(found) > MOST:
            break
    return found[:MOST]


def table(rows):
    """Return a table with aligned columns, no wider than necessary."""
    heads = ["HOST", "ROLE", "RESULT", "ENGINE", "FROM", "NETWORK", "SECONDS", "CAUSE"]
    keys = ["host", "role", "result", "engine", "engine_from", "interface", "seconds", "cause"]
    cells = [heads] + [[text(r.get(k), 200 if k == "cause" else 60) or "-" for k in keys] for r in rows]
    width = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, width)).rstrip() for line in cells)


def summary(rows):
    """Return a summary in one line, and whether all nodes are ok."""
    good = sum(r["result"] == "ok" for r in rows)
    engines = {r["engine"] for r in rows if r.get("engine")}
    words = ["%d of %d nodes ok" % (good, len(rows))]
    for name, what in (("built", "built here"), ("cache", "from the cache")):
        n = sum(r.get("engine_from") == name for r in rows)
        if n:
            words.append("%d %s" % (n, what))
    if len(engines) > 1:
        words.append("%d different engines: %s" % (len(engines), ", ".join(sorted(engines))))
    return ", ".join(words), good == len(rows) and len(engines) <= 1


def main(argv):
    """Print the results of the nodes below DIR; return the exit status."""
    as_json = "--json" in argv
    folders = [a for a in argv if a != "--json"]
    if len(folders) != 1 or not os.path.isdir(folders[0]):
        print("ringup-init report: name the folder that has the nodes' status files", file=sys.stderr)
        return 2
    rows = [row_of(path) for path in find(folders[0])]
    if not rows:
        print("ringup-init report: no status file below " + text(folders[0]), file=sys.stderr)
        return 1
    line, good = summary(rows)
    if as_json:
        print(json.dumps({"schema": "ringup.init.report/1", "ok": good, "summary": line, "nodes": rows}, indent=2))
        return 0 if good else 1
    print(table(rows))
    for row in rows:
        for warning in row.get("warnings", []):
            print("%s: %s" % (row["host"], warning))
    print(line)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
