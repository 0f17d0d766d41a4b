/* pidstat.h - read the files, parent, state and start time of a process from /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PIDSTAT_H
#define BASE_PIDSTAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process number alone says nothing about a process that was seen earlier,
 * since numbers are used again; together with the start time it does.
 */
struct pidstat {
	pid_t pid, parent, session;
	char state;     /* as in ps(1): R, S, D, Z ...      */
	uint64_t start; /* clock ticks since boot           */
	char name[16];  /* of the program, cut to 15 bytes  */
};

/* pidstat_file - the first @cap - 1 bytes of /proc/@pid/@name into @out, with a NUL behind
 * them, which is all of @out if it cannot be read; returns how many, or -1. */
ssize_t pidstat_file(pid_t pid, const char *name, char *out, size_t cap);

/* pidstat_variable - the value of @name in @len bytes of an environment, or NULL. */
const char *pidstat_variable(const char *env, size_t len, const char *name);

/* pidstat_read - about @pid, from /proc; 0, or -1 if there is no such process. */
int pidstat_read(pid_t pid, struct pidstat *p);

/* pidstat_parse - the same from the text of a stat file; -1 if it is none. */
int pidstat_parse(const char *text, struct pidstat *p);

/* pidstat_is_alive - is @pid, which started at @start, still running?  A
 * zombie is dead. */
bool pidstat_is_alive(pid_t pid, uint64_t start);

#endif
