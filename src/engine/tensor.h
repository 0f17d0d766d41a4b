/* tensor.h - the names that this rank has used, by name and by number. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TENSOR_H
#define ENGINE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/op_signature.h"

struct ringup_op;

/* A name that this rank has used. */
struct tensor {
	char *name;
	size_t len;
	uint64_t hash;
	uint32_t id, age;              /* as the agreement calls it; UINT32_MAX: not yet */
	struct op_signature signature; /* of its last operation                         */
	bool known;                    /* signature is set                                 */
	bool verified;                 /* all ranks had the same the last time */
	bool kept;                     /* id is held between operations, too            */
	bool repeats;         /* that was a sum of submit_eager(): so submit_repeat() may */
	struct ringup_op *op; /* in flight, or NULL; atomic                   */
	uint32_t label, told; /* for a timeline: its name there, and which one has its shape */
};

enum {
	TENSORS_RECENT = 64,
	TENSORS_UNNAMED = 1024, /* without a name: as many may be in flight at once */
};

struct tensors {
	struct tensor **table; /* open addressing by name */
	size_t table_size, count;
	struct tensor **by_id;
	uint32_t ids;
	/* Who calls again mostly has the name at the same place: so it is found by that. */
	struct tensor *recent[TENSORS_RECENT];
	/* The same of one without a name: by its turn. */
	struct tensor *unnamed[TENSORS_UNNAMED];
};

/* tensors_recent - where to look for it: neighbouring addresses lie apart. */
static inline size_t tensors_recent(const char *name)
{
	return (uintptr_t)name * 0x9e3779b97f4a7c15u >> 32 & (TENSORS_RECENT - 1);
}

/* tensors_get - the tensor called @name; made, with id UINT32_MAX, if it is new.
 * NULL if there is no memory. */
struct tensor *tensors_get(struct tensors *t, const char *name, size_t len);

/* tensors_unnamed - the same for the @turn-th without a name. */
struct tensor *tensors_unnamed(struct tensors *t, uint64_t turn);

/* tensors_again - the same for a name that ends with a NUL, if it has been asked for at
 * this address lately; else NULL. */
static inline struct tensor *tensors_again(const struct tensors *t, const char *name)
{
	struct tensor *x = t->recent[tensors_recent(name)];

	/* Other names begin with a NUL. */
	return x && *name && !strcmp(x->name, name) ? x : NULL;
}

/* tensors_number - let @x, and no longer what had this number before, be found by
 * @id.  The latter is forgotten altogether: its name has no number any more. */
int tensors_number(struct tensors *t, struct tensor *x, uint32_t id);

/* tensors_by_id - NULL if there is none. */
struct tensor *tensors_by_id(const struct tensors *t, uint32_t id);

void tensors_free(struct tensors *t);

#endif
