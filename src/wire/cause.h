/* cause.h - root cause of a failure: ranks tell the launcher which rank they blame, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_CAUSE_H
#define WIRE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/alarm.h"

struct err;

/*
 * When a rank fails, the others fail because of it, and may end before it has. A launcher that
 * sees only how processes end cannot tell one from the other; the ranks can. Each writes a note
 * into a pipe, before an operation returns an error: the rank because of which it fails, and
 * the sentence that says why. The launcher, or the daemon of the host, creates the pipe, and
 * ranks inherit its end for writing. A note is smaller than PIPE_BUF, so notes of several ranks
 * never mix.
 */
enum cause_kind {
	CAUSE_JOIN = 1, /* the rank is in a job, and nothing has failed        */
	CAUSE_BLAME,    /* it fails; @rank is to blame, or -1: no single rank  */
	CAUSE_LEAVE,    /* it takes its leave of the others: ringup_fini()     */
};

enum { CAUSE_TEXT = 256 }; /* as in struct err */

struct cause_note {
	uint32_t number; /* of the rank that writes, as the launcher counts                */
	uint32_t pid;    /* of the rank that writes, as it sees itself                     */
	uint32_t kind;   /* enum cause_kind                                                */
	uint32_t has_met_here; /* JOIN: 1: the ranks met at the launcher, 0: elsewhere     */
	int32_t rank;          /* BLAME: as the launcher counts                            */
	uint32_t stillness;    /* BLAME: enum alarm_stillness                              */
	int32_t code;          /* BLAME: of ringup.h                                       */
	uint32_t len;          /* of the sentence, below CAUSE_TEXT                        */
};

/* -- the rank's side */

struct cause {
	int fd; /* 0: there is no launcher that reads notes   */
	uint32_t number;
	bool has_met_here;
	bool joined, blamed, left; /* blamed: atomic                             */
};

/* cause_open - rank @number writes to descriptor @fd, which stays open. */
int cause_open(struct cause *c, int fd, int number, struct err *e);

/*
 * A rank's notes. @c may be all zero. Any thread.
 *
 * cause_join - it is in a job, and nothing has failed.
 * cause_blame - it fails because of rank @rank; -1: because of no single rank. The first note
 * counts; before cause_join() and after cause_leave() none does. A rank never blames itself.
 * cause_leave - it takes its leave of the others.
 */
void cause_join(struct cause *c);
void cause_blame(struct cause *c, int rank, enum alarm_stillness stillness,
		 const struct err *why);
void cause_leave(struct cause *c);

/* -- the launcher's side */

struct cause_pipe {
	int in, out;           /* 0: there is no pipe                         */
	unsigned char *buffer; /* notes that have been read and not taken */
	size_t len, used;
	char why[CAUSE_TEXT]; /* of the latest note */
};

/* cause_create - ranks inherit @p->out; cause_close - @p may be all zero. */
int cause_create(struct cause_pipe *p, struct err *e);
void cause_close(struct cause_pipe *p);

/* cause_next - the next note, and its sentence in *@whyp, valid until the next call; false if
 * there is none.  It does not block. */
bool cause_next(struct cause_pipe *p, struct cause_note *note, const char **whyp);

/* The notes of a rank so far. */
struct cause_seen {
	bool joined;        /* it has been in a job                                */
	bool left;          /* and has taken its leave: ringup_fini()              */
	bool has_met_here;  /* at the launcher                                     */
	uint32_t pid, open; /* open: jobs that this process is in                  */
	int rank;           /* the rank that made it fail; -1: no single rank did  */
	enum alarm_stillness stillness; /* of that rank                            */
	int code;  /* of its error; 0: it has blamed no rank                       */
	char *why; /* the sentence, or NULL; freed by cause_forget()               */
};

/* cause_begin - nothing is noted.  cause_take - add a note.  cause_forget - free the sentence.
 */
void cause_begin(struct cause_seen *s);
void cause_take(struct cause_seen *s, const struct cause_note *note, const char *why);
void cause_forget(struct cause_seen *s);

#endif
