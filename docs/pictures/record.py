#!/usr/bin/env python3
# record.py - run commands on a terminal, and draw what they print as an SVG.
# SPDX-License-Identifier: Apache-2.0
"""Nothing is made up: each command runs in bash on a pseudo-terminal, and its output is drawn with
its colours.  ringup.sh makes the picture of README.md with it.

    record.py OUT.svg 'COMMAND' 'COMMAND'...

What is longer than LINES rows ends in "...".
"""

import fcntl
import itertools
import os
import pty
import re
import struct
import sys
import termios
from xml.sax.saxutils import escape

COLUMNS, LINES = 98, 14
WIDE, HIGH, MARGIN = 8.43, 18, 16  # pixels: a character, a line, around all
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff",
           36: "#76e3ea", 90: "#8b949e"}


def output_of(command):
    """What a command writes to a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
        os.execvp("bash", ["bash", "-c", f"sleep 0.1; {command}"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    data = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError:  # the command has closed the terminal
            break
        if not more:
            break
        data += more
    os.waitpid(pid, 0)
    os.close(fd)
    return data.decode(errors="replace").replace("\r\n", "\n")


def cells_of(line):
    """(character, colour or None, is it bold?) of each place of a line."""
    colour, bold = None, False
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", line):
        if not part.startswith("\x1b"):
            yield from ((c, colour, bold) for c in part)
            continue
        found = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        for code in (int(c or 0) for c in found[1].split(";")) if found else ():
            if code in (0, 39):
                colour = None
            bold = (bold or code == 1) and code not in (0, 22)
            colour = COLOURS.get(code, COLOURS.get(code - 60, colour))


def rows_of(text):
    """The rows of a terminal that show a text, each a list of cells: a carriage return begins a
    line anew, and long lines go on in the next row."""
    rows = []
    for line in text.rstrip("\n").split("\n"):
        cells = list(cells_of(line.rpartition("\r")[2]))
        rows += [cells[i:i + COLUMNS] for i in range(0, max(len(cells), 1), COLUMNS)]
    return rows[:LINES] + [list(cells_of("..."))] * (len(rows) > LINES)


def drawn(rows):
    """The SVG of rows."""
    width, height = COLUMNS * WIDE + 2 * MARGIN, len(rows) * HIGH + 2 * MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
           f'width="{width:.0f}" height="{height}" font-family="ui-monospace, Menlo, Consolas, '
           f'monospace" font-size="14">')
    yield '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
    for i, row in enumerate(rows):
        y, at = MARGIN + (i + 0.75) * HIGH, 0
        for (colour, bold), cells in itertools.groupby(row, key=lambda cell: cell[1:]):
            text = "".join(c for c, _colour, _bold in cells)
            weight = ' font-weight="bold"' if bold else ""
            if text.strip():
                yield (f'<text x="{MARGIN + at * WIDE:.1f}" y="{y:.1f}" '
                       f'fill="{colour or "#e6edf3"}"{weight} xml:space="preserve" '
                       f'textLength="{len(text) * WIDE:.1f}">{escape(text)}</text>')
            at += len(text)
    yield "</svg>"


def main():
    out, *commands = sys.argv[1:]
    if not commands:
        sys.exit("usage: record.py OUT.svg COMMAND...")
    rows = []
    for command in commands:
        rows += rows_of(f"\x1b[90m$\x1b[0m \x1b[1m{command}\x1b[0m") + rows_of(output_of(command))
        rows.append([])
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(drawn(rows[:-1])) + "\n")


main()
