# apply.py - apply the edits of a recipe to unpacked sources, exactly or not at all.
# SPDX-License-Identifier: Apache-2.0
"""apply.py RECIPE SOURCES [NAME...]: the edits and the files to add that have these names."""
import ast
import json
import os
import re
import shutil
import sys

STRANGE = "these are not the sources that the recipe knows"


def edit(d, top):
    """Replace the first match in each line; as many lines have to match as the recipe says."""
    try:
        with open(os.path.join(top, d["file"]), encoding="utf-8") as f:
            lines = f.read().split("\n")
    except (OSError, UnicodeDecodeError) as e:
        sys.exit("Error: edit {}: {}: {}".format(d["name"], STRANGE, e))
    times = 0
    for i, line in enumerate(lines):
        m = re.search(d["match"], line)
        if m:
            lines[i] = line[:m.start()] + m.expand(d["with"]) + line[m.end():]
            times += 1
    if times != d["times"]:
        sys.exit("Error: edit {}: {} lines of {} match, not {}: {}".format(
            d["name"], times, d["file"], d["times"], STRANGE))
    text = "\n".join(lines)
    with open(os.path.join(top, d["file"]), "w", encoding="utf-8") as f:
        f.write(text)


def main(path, top, *names):
    with open(path, encoding="utf-8") as f:
        recipe = json.load(f)
    chosen = [d for d in recipe["edits"] if d["name"] in names]
    for d in chosen:
        edit(d, top)
    for d in recipe["adds"]:
        if d["to"] in names:
            shutil.copyfile(os.path.join(os.path.dirname(path), d["from"]),
                            os.path.join(top, d["to"]))
    # An edit that breaks Python shows now, not after the build.
    for name in {d["file"] for d in chosen if d["file"].endswith(".py")}:
        with open(os.path.join(top, name), encoding="utf-8") as f:
            ast.parse(f.read(), name)


main(*sys.argv[1:])
