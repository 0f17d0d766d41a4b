# prose.py - mistakes in comments and documents that spelling checkers miss, one a line.
# SPDX-License-Identifier: Apache-2.0
"""prose.py RETIRED FILE... - print FILE:LINE: for
- "a info", "An progress": an article that stayed when a noun was renamed;
- "l->lock" in a comment: a variable that neither the C file nor its header has;
- retired words in C of the engine and below it, and in documents about the engine;
- coined names in C code, comments and strings excepted."""
import os
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'")
ARTICLE = re.compile(
    r"(?<![@$\w.])(?:[Aa] +(?!one\b|once\b|one-|eu|us[aei]|uni|(?:of|is|and|or|in|as|are)\b)[aeiou]"
    r"[a-z]+\b|[Aa]n +(?!hour|honest|heir|http|mpi|nft|ssh|srun|f16|f32|f64|fd\b|[lr]value|xla)"
    r"[bcdfghjklmnpqrstvwxyz][a-z]+\b)")
VARIABLE = re.compile(r"(?<![>.\w])([a-z]\w*)->")
ENGINE = re.compile(r"src/(wire|backend|engine|api)/\w+\.[ch]$")
ABOUT_ENGINE = re.compile(r"(docs/(DESIGN|WHY|RELIABILITY)|HACKING)\.md$")
# Of the retired words those that are no usual English: in all of the engine's C, and in documents.
UNUSUAL = ("card", "circle", "deed", "errand", "ghost", "lane", "lanes", "node_way", "parcel",
           "pulse", "seat", "tally")
IN_DOCUMENTS = [w for w in UNUSUAL if w not in ("card", "circle", "pulse")]
# Names that say nothing to a reader who knows MPI and NCCL.
COINED = {"beside": "bundled", "byhand": "manual", "lack": "missing", "said": "message",
          "tended": "attended", "told": "reported", "topic": "name_state",
          "topics": "names", "twins": "duplicates"}
NAMED = re.compile(r"src/(api|backend(?!/nccl)|base|bench|cli|coll|device|engine|frameworks|host|"
                   r"launch|nicpick|probe|report|settle|trace)/\w+\.[ch]$")
LITERAL = re.compile(COMMENT.pattern + r'|"(?:[^"\\\n]|\\.)*"', re.S)


def blank(m):
    """Spaces for all but the line breaks of a match."""
    return re.sub(r"[^\n]", " ", m.group(0))


def prose(path, text):
    """The comments of a program, or the paragraphs of a document; all else is blank."""
    if path.endswith((".c", ".h", ".def")):
        out, at = [], 0
        for m in COMMENT.finditer(text):
            out += [re.sub(r"[^\n]", " ", text[at:m.start()]), m.group(0)]
            at = m.end()
        return "".join(out)
    if path.endswith(".md"):
        return re.sub(r"^(?: {4}|```).*$", blank, text, flags=re.M)
    if path.endswith((".py", ".bash", ".bats")):
        return re.sub(r"^(?!\s*#).*$", blank, text, flags=re.M)
    return text


def read(path):
    """A file's text, or "" if it is missing."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def problems(path, text, retired):
    """(offset, what) of each mistake."""
    said = prose(path, text)
    # An article and its noun may be on two lines.
    line = QUOTED.sub(lambda m: re.sub(r"[^\n]", "Q", m.group(0)), said)
    line = re.sub(r"\n[ \t]*[*#]?[ \t]*", lambda m: " " * len(m.group(0)), line)
    for m in ARTICLE.finditer(line):
        yield m.start(), f"article: {m.group(0)}"
    if path.endswith((".c", ".h")):
        code = COMMENT.sub("", text + read(path[:-1] + ("h" if path.endswith("c") else "c")))
        for m in VARIABLE.finditer(said):
            if not re.search(rf"\b{m.group(1)}\b", code):
                yield m.start(), f"no such variable: {m.group(0)}"
    words = UNUSUAL if ENGINE.search(path) else IN_DOCUMENTS if ABOUT_ENGINE.search(path) else ()
    for m in re.finditer(r"\b[a-z_]+\b", text if words else ""):
        if m.group(0) in words:
            yield m.start(), f"say {retired[m.group(0)]}: {m.group(0)}"
    if NAMED.search(path):
        for m in re.finditer(r"\b[a-z_]+\b", LITERAL.sub(blank, text)):
            if m.group(0) in COINED:
                yield m.start(), f"say {COINED[m.group(0)]}: {m.group(0)}"


def main():
    retired = dict(line.split() for line in read(sys.argv[1]).splitlines()
                   if line and line[0] != "#")
    for path in sys.argv[2:]:
        text = read(path)
        for at, what in problems(path, text, retired):
            print(f"{path}:{text.count(chr(10), 0, at) + 1}: {what}")


if __name__ == "__main__":
    main()
