/* patch.c - the difference of two texts, as patch(1) takes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/patch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

enum { CONTEXT = 3, TABLE_CAP = 4 << 20 };

/* One text, line by line. */
struct side {
	const char **line; /* n + 1 of them: the last is the end of the text */
	bool *kept;        /* is in the other text, too */
	int n;
};

static int count_lines(const char *s)
{
	int n = 0;

	for (; *s; n++) {
		s += strcspn(s, "\n");
		s += *s == '\n';
	}
	return n;
}

static bool side_init(struct side *d, const char *s)
{
	int i;

	d->n = count_lines(s);
	d->line = calloc((size_t)d->n + 1, sizeof(*d->line));
	d->kept = calloc((size_t)d->n + 1, sizeof(*d->kept));
	for (i = 0; d->line && i <= d->n; i++) {
		d->line[i] = s;
		s += strcspn(s, "\n");
		s += *s == '\n';
	}
	return d->line && d->kept;
}

static void side_free(struct side *d)
{
	free(d->line);
	free(d->kept);
}

static bool same(const struct side *a, int i, const struct side *b, int k)
{
	size_t len = (size_t)(a->line[i + 1] - a->line[i]);

	return len == (size_t)(b->line[k + 1] - b->line[k]) &&
	       !memcmp(a->line[i], b->line[k], len);
}

/* Keep the longest common subsequence of a[i, m) and b[k, n): the textbook's table.  Texts
 * for which that is too large count as different throughout. */
static int keep_middle(struct side *a, int i, int m, struct side *b, int k, int n,
		       struct err *e)
{
	size_t rows = (size_t)(m - i) + 1, width = (size_t)(n - k) + 1;
	int x, y, *t;

	if (rows * width > TABLE_CAP)
		return 0;
	t = calloc(rows * width, sizeof(*t));
	if (!t)
		return fail(e, RINGUP_ENOMEM, "no memory to compare files");
#define AT(x, y) t[(size_t)((x)-i) * width + (size_t)((y)-k)]
	for (x = m - 1; x >= i; x--)
		for (y = n - 1; y >= k; y--)
			if (same(a, x, b, y))
				AT(x, y) = AT(x + 1, y + 1) + 1;
			else
				AT(x, y) = AT(x + 1, y) > AT(x, y + 1) ? AT(x + 1, y)
								       : AT(x, y + 1);
	for (x = i, y = k; x < m && y < n;)
		if (same(a, x, b, y))
			a->kept[x++] = b->kept[y++] = true;
		else if (AT(x + 1, y) >= AT(x, y + 1))
			x++;
		else
			y++;
#undef AT
	free(t);
	return 0;
}

static int compare(struct side *a, struct side *b, struct err *e)
{
	int first = 0, m = a->n, n = b->n;

	while (first < m && first < n && same(a, first, b, first)) {
		a->kept[first] = b->kept[first] = true;
		first++;
	}
	while (m > first && n > first && same(a, m - 1, b, n - 1))
		a->kept[--m] = b->kept[--n] = true;
	return keep_middle(a, first, m, b, first, n, e);
}

static void print_line(FILE *f, char mark, const struct side *d, int i)
{
	size_t len = (size_t)(d->line[i + 1] - d->line[i]);
	bool ends = len && d->line[i][len - 1] == '\n';

	fprintf(f, "%c%.*s\n", mark, (int)(len - ends), d->line[i]);
	if (!ends)
		fputs("\\ No newline at end of file\n", f);
}

/* Lines of both texts from here: the same (then both), or of one. */
struct place {
	int a, b;
};

static bool is_common(const struct side *a, const struct side *b, struct place p)
{
	return p.a < a->n && p.b < b->n && a->kept[p.a] && b->kept[p.b];
}

static bool at_end(const struct side *a, const struct side *b, struct place p)
{
	return p.a >= a->n && p.b >= b->n;
}

static struct place step(const struct side *a, const struct side *b, struct place p)
{
	if (is_common(a, b, p))
		return (struct place){ p.a + 1, p.b + 1 };
	if (p.a < a->n && !a->kept[p.a])
		return (struct place){ p.a + 1, p.b };
	return (struct place){ p.a, p.b + 1 };
}

/* Where the hunk ends whose first change is at @p: differences with fewer than twice the
 * context between them share one. */
static struct place hunk_end(const struct side *a, const struct side *b, struct place p)
{
	struct place end = p;
	int common = 0;

	for (; !at_end(a, b, p) && common <= 2 * CONTEXT; p = step(a, b, p)) {
		common = is_common(a, b, p) ? common + 1 : 0;
		if (!common)
			end = step(a, b, p);
	}
	for (common = 0; common < CONTEXT && is_common(a, b, end); common++)
		end = step(a, b, end);
	return end;
}

static void print_hunk(FILE *f, const struct side *a, const struct side *b, struct place p,
		       struct place end)
{
	int old = end.a - p.a, new = end.b - p.b;

	fprintf(f, "@@ -%d,%d +%d,%d @@\n", old ? p.a + 1 : p.a, old, new ? p.b + 1 : p.b, new);
	for (; p.a < end.a || p.b < end.b; p = step(a, b, p))
		if (is_common(a, b, p))
			print_line(f, ' ', a, p.a);
		else if (p.a < a->n && !a->kept[p.a])
			print_line(f, '-', a, p.a);
		else
			print_line(f, '+', b, p.b);
}

static void print_hunks(FILE *f, const struct side *a, const struct side *b)
{
	struct place p = { 0, 0 }, end = { 0, 0 };
	int back;

	while (!at_end(a, b, p)) {
		if (is_common(a, b, p)) {
			p = step(a, b, p);
			continue;
		}
		back = p.a - end.a < CONTEXT ? p.a - end.a : CONTEXT;
		end = hunk_end(a, b, p);
		print_hunk(f, a, b, (struct place){ p.a - back, p.b - back }, end);
		p = end;
	}
}

int patch_make(char **textp, const char *path, const char *a, const char *b, struct err *e)
{
	struct side old = { 0 }, new = { 0 };
	size_t size;
	FILE *f;
	int rc = 0;

	*textp = NULL;
	if (a == b || (a && b && !strcmp(a, b)))
		return 0;
	if (!side_init(&old, a ? a : "") || !side_init(&new, b ? b : ""))
		rc = fail(e, RINGUP_ENOMEM, "no memory to compare files");
	if (!rc)
		rc = compare(&old, &new, e);
	f = rc ? NULL : open_memstream(textp, &size);
	if (f) {
		fprintf(f, "--- %s\n+++ %s\n", a ? path : "/dev/null", b ? path : "/dev/null");
		print_hunks(f, &old, &new);
	}
	if (!rc && (!f || fclose(f)))
		rc = fail(e, RINGUP_ENOMEM, "no memory to compare files");
	side_free(&old);
	side_free(&new);
	return rc;
}
