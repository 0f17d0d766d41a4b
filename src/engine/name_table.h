/* name_table.h - names that this rank has used, by name and by id. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_NAME_TABLE_H
#define ENGINE_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/op_signature.h"

struct ringup_op;

/* The name under which ranks add and remove a group. */
#define NAME_GROUP "\x01group"

/* A name that this rank has used. */
struct name_entry {
	char *name;
	size_t len;
	uint64_t hash;
	uint32_t id, age;              /* of the agreement; id UINT32_MAX: none yet */
	struct op_signature signature; /* of its last operation                         */
	bool known;                    /* signature is set                                 */
	bool verified;                 /* all ranks agreed the last time          */
	bool kept;                     /* id is held between operations, too            */
	bool repeats;         /* the last was a sum of submit_eager(): see submit_repeat() */
	struct ringup_op *op; /* in flight, or NULL; atomic                   */
	uint32_t label,
		reported; /* for a timeline: label of the name; session with the shape */
};

enum {
	NAME_TABLE_RECENT = 64,
	NAME_TABLE_UNNAMED = 1024, /* operations without a name that may be in flight */
};

struct name_table {
	struct name_entry **table; /* open addressing by name */
	size_t table_size, count;
	struct name_entry **by_id;
	uint32_t ids;
	/* By the address of the name: a caller that repeats an operation mostly has the name
	 * at the same address. */
	struct name_entry *recent[NAME_TABLE_RECENT];
	/* By number, for operations without a name. */
	struct name_entry *unnamed[NAME_TABLE_UNNAMED];
};

/* name_table_recent - the place of an address in recent: neighbouring addresses are spread. */
static inline size_t name_table_recent(const char *name)
{
	return (uintptr_t)name * 0x9e3779b97f4a7c15u >> 32 & (NAME_TABLE_RECENT - 1);
}

/* name_table_get - the entry called @name; made, with id UINT32_MAX, if it is new.
 * NULL if there is no memory. */
struct name_entry *name_table_get(struct name_table *t, const char *name, size_t len);

/* name_table_unnamed - the same for the @number-th operation without a name. */
struct name_entry *name_table_unnamed(struct name_table *t, uint64_t number);

/* name_table_again - the same for a name that ends with a NUL, if it was looked up at this
 * address lately; else NULL. */
static inline struct name_entry *name_table_again(const struct name_table *t, const char *name)
{
	struct name_entry *x = t->recent[name_table_recent(name)];

	/* Names of unnamed operations begin with a NUL. */
	return x && *name && !strcmp(x->name, name) ? x : NULL;
}

/* name_table_number - make @x the entry with @id; an entry that had @id before is forgotten
 * altogether, as its name has no id any more. */
int name_table_number(struct name_table *t, struct name_entry *x, uint32_t id);

/* name_table_by_id - the entry with @id; NULL if there is none. */
struct name_entry *name_table_by_id(const struct name_table *t, uint32_t id);

void name_table_free(struct name_table *t);

#endif
