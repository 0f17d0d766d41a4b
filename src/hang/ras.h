/* ras.h - NCCL RAS: ask a running job for its communicators, and read the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_RAS_H
#define HANG_RAS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct look;

/*
 * Every process of an NCCL job (2.24 and later) listens at one address, by default
 * localhost:28028, and the kernel gives a connection to any of them, also to one that is
 * stopped: so a client that hears nothing connects again.  The answer is a report of all
 * processes.
 */
enum { RAS_MOST = 64 << 20, RAS_VERSION = 32 };

/*
 * ras_parse - add an answer, in JSON or as text, of which every byte may be wrong, to @l.
 *
 * Ranks are numbered as in the largest communicator.  Text names only the ranks that differ;
 * the others count as level.  Writes NCCL's version to @version, of RAS_VERSION bytes.
 * RINGUP_EINVAL: it is no answer of RAS.
 */
int ras_parse(struct look *l, const char *text, size_t len, char *version, struct err *e);

/* ras_is_answer - do these bytes begin like an answer of RAS? */
bool ras_is_answer(const char *text, size_t len);

/* ras_ask - ask @where ("localhost:28028"), and add the answer to @l.  ras_fetch - the answer
 * itself, by @until_ns; *@out is the caller's to free(). */
int ras_ask(struct look *l, const char *where, char *version, struct err *e);
int ras_fetch(const char *where, int64_t until_ns, char **out, size_t *len, struct err *e);

/* ras_hazard - why a job of @size ranks (0: unknown) with NCCL @version may crash when it is
 * asked; NULL: it does not. */
const char *ras_hazard(const char *version, int size);

/* ras_of - does process @pid use NCCL?  Then writes NCCL's version ("" if it cannot be found)
 * and the address of RAS, of 128 bytes; "": RAS is off. */
bool ras_of(pid_t pid, char *version, char *where);

#endif
