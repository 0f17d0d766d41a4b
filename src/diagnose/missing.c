/* missing.c - read which ranks Horovod's stall inspector misses, and what of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/missing.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { HEAD = 1024, TENSORS = 48 };

/* A rank, and the tensors that it has not submitted. */
struct missing {
	int rank;
	const char *at, *end;
};

/* Reads "3: [a, b ...]" and "3!: [a]", behind a launcher's mark. */
static bool read_rank(struct missing *m, const char *line, const char *end)
{
	int mark, rank = 0;
	const char *p = fields_unmark(line, end, &mark), *start;

	/* The mark of srun has the form of the list: "0: 3: [a]". */
	if (p < end && *p == '[' && p > line)
		p = line;
	while (p < end && *p == ' ')
		p++;
	for (start = p; p < end && num_is_digit(*p) && p - start < 7; p++)
		rank = 10 * rank + (*p - '0');
	if (p == start)
		return false;
	p += p < end && *p == '!';
	if (end - p < 3 || memcmp(p, ": [", 3) != 0)
		return false;
	while (end > p && (unsigned char)end[-1] <= ' ')
		end--;
	*m = (struct missing){ rank, p + 3, end - (end[-1] == ']') };
	return true;
}

static int read_ranks(struct missing *m, const char *at, const char *end)
{
	const char *eol;
	int n = 0;

	for (; at < end && n < MISSING_RANKS; at = eol + 1) {
		eol = memchr(at, '\n', (size_t)(end - at));
		if (!eol || !read_rank(&m[n], at, eol))
			break;
		n++;
	}
	return n;
}

static bool is_same(const struct missing *x, const struct missing *y)
{
	return x->end - x->at == y->end - y->at &&
	       !memcmp(x->at, y->at, (size_t)(x->end - x->at));
}

/* The only one that misses other tensors than the rest, which miss the same; or the first. */
static const struct missing *find_odd(const struct missing *m, int n)
{
	const struct missing *odd = NULL;
	int same;

	for (int i = 0; n > 2 && i < n; i++) {
		same = 0;
		for (int k = 0; k < n; k++)
			same += is_same(&m[i], &m[k]);
		if (same == 1 && odd)
			return m;
		if (same == 1)
			odd = &m[i];
		else if (same != n - 1)
			return m;
	}
	return odd ? odd : m;
}

static int shown(const struct missing *m)
{
	return m->end - m->at < TENSORS ? (int)(m->end - m->at) : TENSORS;
}

void missing_read(const char *at, const char *end, struct fields *f, size_t *looked)
{
	static const char head[] = "Missing ranks:";
	struct missing list[MISSING_RANKS];
	const struct missing *odd;
	const char *start = at, *stop = end - at < HEAD ? end : at + HEAD;
	size_t used;
	int n;

	*looked += (size_t)(stop - start);
	at = memmem(at, (size_t)(stop - at), head, sizeof(head) - 1);
	at = at ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	n = at ? read_ranks(list, at + 1, end) : 0;
	if (!n)
		return;
	*looked += (size_t)(list[n - 1].end - at);
	odd = find_odd(list, n);
	f->rank = odd->rank;
	if (n > 1 && odd == list && is_same(list, &list[1])) {
		used = (size_t)snprintf(f->value, sizeof(f->value), "ranks %d", list->rank);
		for (int i = 1; i < n && used < 40; i++)
			used += (size_t)snprintf(f->value + used, sizeof(f->value) - used,
						 ", %d", list[i].rank);
		snprintf(f->value + used, sizeof(f->value) - used, ": %.*s", shown(odd),
			 odd->at);
		return;
	}
	used = (size_t)snprintf(f->value, sizeof(f->value), "rank %d: %.*s", odd->rank,
				shown(odd), odd->at);
	if (n > 2 && odd != list)
		snprintf(f->value + used, sizeof(f->value) - used, "; the others: %.*s",
			 shown(list), list->at);
}
