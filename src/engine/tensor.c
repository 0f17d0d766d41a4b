/* tensor.c - the names that this rank has used, by name and by number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Its size is a power of two. */
static int grow(struct tensors *t)
{
	size_t size = t->table_size ? t->table_size * 2 : 1024, i, at;
	struct tensor **table = calloc(size, sizeof(struct tensor *));

	if (!table)
		return -1;
	for (i = 0; i < t->table_size; i++) {
		if (!t->table[i])
			continue;
		for (at = t->table[i]->hash % size; table[at]; at = (at + 1) % size)
			;
		table[at] = t->table[i];
	}
	free(t->table);
	t->table = table;
	t->table_size = size;
	return 0;
}

static struct tensor *make(const char *name, size_t len, uint64_t hash)
{
	struct tensor *x = calloc(1, sizeof(*x));

	if (x)
		x->name = malloc(len + 1);
	if (!x || !x->name) {
		free(x);
		return NULL;
	}
	memcpy(x->name, name, len);
	x->name[len] = 0;
	x->len = len;
	x->hash = hash;
	x->id = UINT32_MAX;
	return x;
}

struct tensor *tensors_get(struct tensors *t, const char *name, size_t len)
{
	uint64_t hash = hash_bytes(name, len);
	size_t at;

	if (t->count * 2 >= t->table_size && grow(t))
		return NULL;
	for (at = hash & (t->table_size - 1); t->table[at]; at = (at + 1) & (t->table_size - 1))
		if (t->table[at]->hash == hash && t->table[at]->len == len &&
		    !memcmp(t->table[at]->name, name, len))
			break;
	if (!t->table[at]) {
		t->table[at] = make(name, len, hash);
		t->count += t->table[at] != NULL;
	}
	t->recent[tensors_recent(name)] = t->table[at];
	return t->table[at];
}

struct tensor *tensors_unnamed(struct tensors *t, uint64_t turn)
{
	unsigned int number = (unsigned int)(turn % TENSORS_UNNAMED);
	struct tensor **known = &t->unnamed[number];
	char name[16] = ""; /* no caller's begins with a NUL */

	if (!*known) {
		snprintf(name + 1, sizeof(name) - 1, "#%u", number);
		*known = tensors_get(t, name, strlen(name + 1) + 1);
	}
	return *known;
}

/* Linear probing: what follows in the same run may have to move up. */
static void forget(struct tensors *t, struct tensor *x)
{
	size_t at = x->hash & (t->table_size - 1), home;
	struct tensor *y;

	while (t->table[at] != x)
		at = (at + 1) & (t->table_size - 1);
	t->table[at] = NULL;
	t->count--;
	for (at = (at + 1) & (t->table_size - 1); (y = t->table[at]);
	     at = (at + 1) & (t->table_size - 1)) {
		t->table[at] = NULL;
		for (home = y->hash & (t->table_size - 1); t->table[home];
		     home = (home + 1) & (t->table_size - 1))
			;
		t->table[home] = y;
	}
	for (at = 0; at < TENSORS_RECENT; at++)
		if (t->recent[at] == x)
			t->recent[at] = NULL;
	for (at = 0; at < TENSORS_UNNAMED && !*x->name; at++)
		if (t->unnamed[at] == x)
			t->unnamed[at] = NULL;
	free(x->name);
	free(x);
}

int tensors_number(struct tensors *t, struct tensor *x, uint32_t id)
{
	uint32_t size = t->ids ? t->ids : 1024;
	struct tensor **more;

	while (size <= id)
		size *= 2;
	if (size != t->ids) {
		more = realloc(t->by_id, size * sizeof(struct tensor *));
		if (!more)
			return -1;
		memset(more + t->ids, 0, (size - t->ids) * sizeof(struct tensor *));
		t->by_id = more;
		t->ids = size;
	}
	if (x->id < t->ids && t->by_id[x->id] == x)
		t->by_id[x->id] = NULL;
	if (t->by_id[id] && t->by_id[id] != x)
		forget(t, t->by_id[id]);
	t->by_id[id] = x;
	x->id = id;
	return 0;
}

struct tensor *tensors_by_id(const struct tensors *t, uint32_t id)
{
	return id < t->ids ? t->by_id[id] : NULL;
}

void tensors_free(struct tensors *t)
{
	size_t i;

	for (i = 0; i < t->table_size; i++)
		if (t->table[i]) {
			free(t->table[i]->name);
			free(t->table[i]);
		}
	free(t->table);
	free(t->by_id);
	memset(t, 0, sizeof(*t));
}
