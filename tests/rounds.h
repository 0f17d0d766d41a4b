/* rounds.h - how often a test repeats itself, and whether a sanitizer watches it. */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>

/* gcc says it by macros, clang by features. */
#if defined(__has_feature)
#define ROUNDS_FEATURE(x) __has_feature(x)
#else
#define ROUNDS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || ROUNDS_FEATURE(thread_sanitizer)
#define ROUNDS_TSAN 1
#else
#define ROUNDS_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || ROUNDS_FEATURE(address_sanitizer)
#define ROUNDS_ASAN 1
#else
#define ROUNDS_ASAN 0
#endif
#define ROUNDS_SANITIZED (ROUNDS_TSAN || ROUNDS_ASAN)

/*
 * Instrumented code takes up to twenty times as long, and what a sanitizer finds, it finds in a
 * few rounds: so many fewer are made for it.  RINGUP_TEST_LONG=1 makes all, everywhere.
 */
enum { ROUNDS_LESS = ROUNDS_SANITIZED ? 8 : 1 };

static inline bool rounds_are_long(void)
{
	const char *v = getenv("RINGUP_TEST_LONG");

	return v && *v;
}

/* rounds_of - how many of @all rounds are made; one at least. */
static inline int rounds_of(int all)
{
	return rounds_are_long() || all <= 1 ? all : (all + ROUNDS_LESS - 1) / ROUNDS_LESS;
}

/* rounds_few - the same, if @few are enough wherever not all are asked for. */
static inline int rounds_few(int all, int few)
{
	return rounds_are_long() ? all : rounds_of(few);
}

#endif
