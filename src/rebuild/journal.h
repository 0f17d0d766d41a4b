/* journal.h - an engine put in another's place by renames, each of which can be taken back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_JOURNAL_H
#define REBUILD_JOURNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct err;

/*
 * In site-packages, below .ringup-rebuild, which no import finds: new/ (what comes), old/ (what
 * went), and journal.json, which says what was to be renamed and is there before the first
 * rename.  A thing is known by its inode, not by its name (and what is new by its birth, too:
 * whoever removes it frees its number), so a run that was killed between
 * any two system calls is understood by the next, which brings the old engine back; the
 * journal's "done" is what makes a switch one that stays.
 */
struct journal {
	char site[PATH_MAX]; /* site-packages                      */
	char dir[PATH_MAX];  /* site/.ringup-rebuild               */
	int lock;            /* of dir: one at a time              */
	bool was_unfinished; /* a run that was killed is undone    */
};

/* journal_open - take the lock, undo what a killed run has left; RINGUP_EBUSY: somebody else
 * is at it. */
int journal_open(struct journal *j, const char *site, struct err *e);

/* journal_stage - an empty new/, whose path is in @out. */
int journal_stage(struct journal *j, char out[PATH_MAX], struct err *e);

/*
 * journal_switch - put each path of @moves in place: [{to, new}], new null for what only goes.
 *
 * All are absolute and on one file system; what is at `to` goes to old/, if anything is.  All
 * of it or, after a failure, none.
 */
int journal_switch(struct journal *j, const json_t *moves, struct err *e);

/* journal_undo - what was there before the last switch; 1: there is nothing to undo. */
int journal_undo(struct journal *j, struct err *e);

/* journal_close - give the lock back, and remove what is not needed for undo. */
void journal_close(struct journal *j);

/*
 * journal_entries - the paths, absolute, that the distribution @name owns in @site: its
 * folders and files there, its metadata and its programs, as its RECORD says; an array, empty
 * if it is not there.  Paths that lead out of @prefix are refused.
 */
int journal_entries(const char *site, const char *prefix, const char *name, json_t **out,
		    struct err *e);

#endif
