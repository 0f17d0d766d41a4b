/* flights.h - torch.distributed flight records: the operations that a rank did not start. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_FLIGHTS_H
#define HANG_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct ruling;

enum { FLIGHT_DUMPS = 4096, FLIGHT_MOST = 128 << 20, FLIGHT_ENTRIES = 65536, FLIGHT_TEXT = 96 };

/* An operation of a rank. */
struct flight_entry {
	int group;               /* index in flights.group                             */
	int64_t number;          /* collective_seq_id                                  */
	char op[32];             /* "all_reduce", without the back end                 */
	char sizes[FLIGHT_TEXT]; /* "[1024]" of the inputs, with the type          */
	char where[FLIGHT_TEXT]; /* "train.py:88", the program's innermost line    */
	bool over, message;
};

struct flight_dump {
	int rank;
	struct flight_entry *entry;
	int entries;
};

struct flight_group {
	char name[64], desc[64];
	int *member; /* ranks that the dumps name as members; members 0: not told */
	int members;
};

struct flights {
	struct flight_dump *dump;
	int dumps, room;
	struct flight_group *group;
	int groups;
};

/*
 * flights_add - add the dump of @rank: a pickle, which is read without running anything, or
 * JSON. flights_file - the same from a file; its rank is the number at the end of its name,
 * before an extension.  flights_folder - all dumps of a folder; other files are passed over.
 * flights_free - safe on a zeroed struct.
 */
int flights_add(struct flights *f, int rank, const void *data, size_t len, struct err *e);
int flights_file(struct flights *f, const char *path, struct err *e);
int flights_folder(struct flights *f, const char *path, struct err *e);
void flights_free(struct flights *f);

/*
 * flights_judge - which rank did not start an operation that others wait in, or started
 * another.
 *
 * The majority is right, whatever the order of files.  Ranks without a dump are named in
 * @absent, and not blamed.  An operation counts as missed only if those that started it have
 * not ended it. Where numbers alone cannot tell, the program's lines tell which operation a
 * rank skipped.
 */
void flights_judge(const struct flights *f, struct ruling *r, char *absent, size_t size);

#endif
