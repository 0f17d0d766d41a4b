/* reason.h - the reason why a rebuild failed, as one word that programs can test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_REASON_H
#define REBUILD_REASON_H

struct err;

/* Constant, word, and the next step where no better one is known; ringup-rebuild(1) explains
 * each.  Programs compare the words, so these never change. */
#define REASONS(X)                                                                         \
	X(ADVISORY, "advisory", "name it by --accept, or build --engine ringup")           \
	X(IMPOSSIBLE, "impossible", "`ringup plan` tells what is in the way")              \
	X(TOOLS, "tools", "install what is missing, then try again")                       \
	X(NETWORK, "network", "give the node its package index, or the files by --source") \
	X(SOURCE, "source", "use the unchanged release that the recipe is for")            \
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

/* reason_word, reason_hint - "advisory", and the next step; both "" for REASON_NONE. */
const char *reason_word(enum reason r);
const char *reason_hint(enum reason r);

/* reason_of - the reason that @e alone shows: a full disk, missing rights, a time limit,
 * another process at work; otherwise @other.  REASON_NONE if nothing has failed. */
enum reason reason_of(const struct err *e, enum reason other);

#endif
