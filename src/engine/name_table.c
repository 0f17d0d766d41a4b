/* name_table.c - names that this rank has used, by name and by id. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/name_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Doubles the table; its size is a power of two. */
static int grow(struct name_table *t)
{
	size_t size = t->table_size ? t->table_size * 2 : 1024, i, at;
	struct name_entry **table = calloc(size, sizeof(struct name_entry *));

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

static struct name_entry *make(const char *name, size_t len, uint64_t hash)
{
	struct name_entry *x = calloc(1, sizeof(*x));

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

struct name_entry *name_table_get(struct name_table *t, const char *name, size_t len)
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
	t->recent[name_table_recent(name)] = t->table[at];
	return t->table[at];
}

struct name_entry *name_table_unnamed(struct name_table *t, uint64_t unnamed)
{
	unsigned int number = (unsigned int)(unnamed % NAME_TABLE_UNNAMED);
	struct name_entry **known = &t->unnamed[number];
	char name[16] = ""; /* unlike a caller's name, it begins with a NUL */

	if (!*known) {
		snprintf(name + 1, sizeof(name) - 1, "#%u", number);
		*known = name_table_get(t, name, strlen(name + 1) + 1);
	}
	return *known;
}

/* Removes an entry.  With linear probing, later entries of the same run may have to move up. */
static void forget(struct name_table *t, struct name_entry *x)
{
	size_t at = x->hash & (t->table_size - 1), home;
	struct name_entry *y;

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
	for (at = 0; at < NAME_TABLE_RECENT; at++)
		if (t->recent[at] == x)
			t->recent[at] = NULL;
	for (at = 0; at < NAME_TABLE_UNNAMED && !*x->name; at++)
		if (t->unnamed[at] == x)
			t->unnamed[at] = NULL;
	free(x->name);
	free(x);
}

int name_table_number(struct name_table *t, struct name_entry *x, uint32_t id)
{
	uint32_t size = t->ids ? t->ids : 1024;
	struct name_entry **more;

	while (size <= id)
		size *= 2;
	if (size != t->ids) {
		more = realloc(t->by_id, size * sizeof(struct name_entry *));
		if (!more)
			return -1;
		memset(more + t->ids, 0, (size - t->ids) * sizeof(struct name_entry *));
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

struct name_entry *name_table_by_id(const struct name_table *t, uint32_t id)
{
	return id < t->ids ? t->by_id[id] : NULL;
}

void name_table_free(struct name_table *t)
{
	for (size_t i = 0; i < t->table_size; i++)
		if (t->table[i]) {
			free(t->table[i]->name);
			free(t->table[i]);
		}
	free(t->table);
	free(t->by_id);
	memset(t, 0, sizeof(*t));
}
