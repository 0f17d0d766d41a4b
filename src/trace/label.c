/* label.c - numbers for the names of tensors and for sets of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/label.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"

struct label {
	uint64_t hash, group;
	size_t len;
	char *text;  /* as JSON */
	char name[]; /* as it was entered */
};

static struct label *label_at(const struct labels *l, uint32_t number)
{
	return l->step[(number - 1) / LABEL_STEP][(number - 1) % LABEL_STEP];
}

/* Write @name as JSON; @to has six bytes of room for each of @len.  Returns the length. */
static size_t name_escape(char *to, const char *name, size_t len)
{
	const unsigned char *p = (const unsigned char *)name;
	char *at = to;
	uint32_t c;
	size_t n;

	for (; len; p += n, len -= n) {
		n = utf8_decode((const char *)p, len, &c);
		if (*p == '"' || *p == '\\') {
			*at++ = '\\';
			*at++ = (char)*p;
		} else if ((*p && *p < 0x20) || *p == 0x7f) {
			at += snprintf(at, 7, "\\u%04x", *p);
		} else if (n && *p) {
			memcpy(at, p, n);
			at += n;
		} else {
			*at++ = '?';
			n = 1;
		}
	}
	return (size_t)(at - to);
}

static struct label *label_make(uint64_t group, const char *name, size_t len, uint64_t hash)
{
	enum { GROUP_TEXT = 40 };
	struct label *x = malloc(sizeof(*x) + len);
	size_t n;

	if (!x)
		return NULL;
	*x = (struct label){ .hash = hash, .group = group, .len = len };
	memcpy(x->name, name, len);
	x->text = malloc(6 * len + GROUP_TEXT);
	if (!x->text) {
		free(x);
		return NULL;
	}
	n = name_escape(x->text, name, len);
	if (group)
		snprintf(x->text + n, GROUP_TEXT, " (process set %llu)",
			 (unsigned long long)group);
	else
		x->text[n] = 0;
	return x;
}

static bool is_label(const struct label *x, uint64_t group, const char *name, size_t len,
		     uint64_t hash)
{
	return x->hash == hash && x->group == group && x->len == len &&
	       !memcmp(x->name, name, len);
}

static int labels_grow(struct labels *l)
{
	uint32_t size = l->table_size ? l->table_size * 2 : LABEL_STEP, i, at;
	uint32_t *table = calloc(size, sizeof(*table));

	if (!table)
		return -1;
	for (i = 1; i <= l->count; i++) {
		for (at = (uint32_t)label_at(l, i)->hash % size; table[at];
		     at = (at + 1) % size)
			;
		table[at] = i;
	}
	free(l->table);
	l->table = table;
	l->table_size = size;
	return 0;
}

/* Put @x at @place of the table, which is free; takes over @x.  Its number, or 0. */
static uint32_t labels_add(struct labels *l, uint32_t place, struct label *x)
{
	uint32_t number = l->count;
	struct label ***step = &l->step[number / LABEL_STEP];

	if (x && !*step)
		*step = calloc(LABEL_STEP, sizeof(**step));
	if (!x || !*step) {
		free(x ? x->text : NULL);
		free(x);
		return 0;
	}
	(*step)[number % LABEL_STEP] = x;
	l->table[place] = ++l->count;
	return l->count;
}

uint32_t label_enter(struct labels *l, uint64_t group, const char *name, size_t len)
{
	uint32_t at, number = 0;
	uint64_t hash;

	len = len < LABEL_BYTES ? len : LABEL_BYTES;
	hash = hash_bytes(name, len) ^ group * 0x9e3779b97f4a7c15u;
	lock_take(&l->lock);
	if (l->count * 2 >= l->table_size && labels_grow(l))
		goto out;
	for (at = (uint32_t)hash % l->table_size; (number = l->table[at]);
	     at = (at + 1) % l->table_size)
		if (is_label(label_at(l, number), group, name, len, hash))
			goto out;
	if (l->count < LABEL_STEP * LABEL_STEPS)
		number = labels_add(l, at, label_make(group, name, len, hash));
out:
	lock_give(&l->lock);
	return number;
}

const char *label_text(const struct labels *l, uint32_t label)
{
	if (!label || label > LABEL_STEP * LABEL_STEPS || !l->step[(label - 1) / LABEL_STEP] ||
	    !label_at(l, label))
		return "?";
	return label_at(l, label)->text;
}

int label_set(struct labels *l, const int *ranks, int count)
{
	size_t bytes = (size_t)count * sizeof(int);
	struct label_set *s;
	int found = -1;

	lock_take(&l->lock);
	for (int i = 0; i < LABEL_SETS && found < 0; i++) {
		s = l->set[i];
		if (s && (s->count != count || memcmp(s->ranks, ranks, bytes) != 0))
			continue;
		if (!s && (s = malloc(sizeof(*s) + bytes))) {
			s->count = count;
			memcpy(s->ranks, ranks, bytes);
			__atomic_store_n(&l->set[i], s, __ATOMIC_RELEASE);
		}
		if (!s)
			break;
		found = i;
	}
	lock_give(&l->lock);
	return found;
}

const struct label_set *label_ranks(const struct labels *l, int set)
{
	return set >= 0 && set < LABEL_SETS ? __atomic_load_n(&l->set[set], __ATOMIC_ACQUIRE)
					    : NULL;
}

void labels_free(struct labels *l)
{
	for (uint32_t i = 1; i <= l->count; i++) {
		free(label_at(l, i)->text);
		free(label_at(l, i));
	}
	for (uint32_t i = 0; i < LABEL_STEPS; i++)
		free(l->step[i]);
	for (uint32_t i = 0; i < LABEL_SETS; i++)
		free(l->set[i]);
	free(l->table);
	memset(l, 0, sizeof(*l));
}
