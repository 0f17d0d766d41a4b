/* journal.h - replace one engine with another by journaled moves that can be undone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_JOURNAL_H
#define REBUILD_JOURNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct err;

/*
 * In site-packages, below .ringup-rebuild, which no import finds: new/ (to be installed), old/
 * (the replaced files), and journal.json, which lists the renames and is there before the first
 * one.  A file is identified by its inode, not its name (new ones by their birth time as well,
 * since a removed file frees its number), so the next run understands a run that was killed
 * between any two system calls, and brings the old engine back.  The journal's "done" makes a
 * switch permanent.
 *
 * A move is a rename.  An overlay renames no folder of a lower layer, which an image brought,
 * so such a folder is copied to old/, the journal names the copy, and only then is it removed.
 */
struct journal {
	char site[PATH_MAX]; /* site-packages                      */
	char dir[PATH_MAX];  /* site/.ringup-rebuild               */
	int lock;            /* of dir: one at a time              */
	bool was_unfinished; /* a killed run has been undone       */
};

/* journal_open - take the lock, undo a killed run; RINGUP_EBUSY: another process works here. */
int journal_open(struct journal *j, const char *site, struct err *e);

/* journal_stage - make an empty new/ and write its path to @out. */
int journal_stage(struct journal *j, char out[PATH_MAX], struct err *e);

/*
 * journal_switch - put each path of @moves in place: [{to, new}], new null for a mere removal.
 *
 * All are absolute and on one file system; an existing `to` goes to old/.  All moves are made
 * or, after a failure, none.
 */
int journal_switch(struct journal *j, const json_t *moves, struct err *e);

/* journal_moves - add a move from the folder @from to @to for each of its entries but bytecode;
 * false with errno if @from cannot be read. */
bool journal_moves(json_t *moves, const char *from, const char *to);

/* journal_undo - restore the state before the last switch; 1: nothing to undo. */
int journal_undo(struct journal *j, struct err *e);

/* journal_close - release the lock, and remove all that undo does not need. */
void journal_close(struct journal *j);

/*
 * journal_entries - the absolute paths that the distribution @name owns in @site: its folders
 * and files there, its metadata and its programs, as its RECORD says; an array, empty if it is
 * not installed.  Paths that lead out of @prefix are refused.
 */
int journal_entries(const char *site, const char *prefix, const char *name, json_t **out,
		    struct err *e);

#endif
