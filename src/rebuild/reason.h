/* reason.h - why a rebuild failed, in one word, for programs that go on from there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_REASON_H
#define REBUILD_REASON_H

struct err;

/* Constant, the word, and what to do next where nobody knows better; ringup-rebuild(1) says
 * what each is about.  Programs compare the words: they stay. */
#define REASONS(X)                                                                         \
	X(ADVISORY, "advisory", "name it by --accept, or build --engine ringup")           \
	X(IMPOSSIBLE, "impossible", "`ringup plan` tells what is in the way")              \
	X(TOOLS, "tools", "install what is missing, then try again")                       \
	X(NETWORK, "network", "give the node its package index, or the files by --source") \
	X(SOURCE, "source", "take the release that the recipe is for, as it is")           \
	X(COMPILE, "compile", "the first error in the log tells why")                      \
	X(PROVE, "prove", "the log tells what the ranks said; do not train with it")       \
	X(SPACE, "space", "free disk or memory, or set TMPDIR")                            \
	X(RIGHTS, "rights", "be its owner or root, or name another --python")              \
	X(BUSY, "busy", "wait for the other rebuild, then try again")                      \
	X(TIMEOUT, "timeout", "raise --timeout, or look in the log for what is slow")      \
	X(CONFLICT, "conflict", "take out what is in the way, then try again")             \
	X(CACHE, "cache", "set the keys of the cache, or build without --cache")           \
	X(SYSTEM, "system", "look at what is named")

enum reason {
	REASON_NONE,
#define X(name, word, hint) REASON_##name,
	REASONS(X)
#undef X
};

/* reason_word, reason_hint - "advisory", and what to do next; both "" for REASON_NONE. */
const char *reason_word(enum reason r);
const char *reason_hint(enum reason r);

/*
 * reason_of - what @e alone tells: a full disk, rights that are missing, a limit of time,
 * somebody else at work; otherwise @other.  REASON_NONE if nothing has failed.
 */
enum reason reason_of(const struct err *e, enum reason other);

#endif
