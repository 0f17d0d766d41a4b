/* flights.c - torch.distributed flight records: the operations that a rank did not start. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/flights.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "hang/look.h"
#include "hang/pickle.h"
#include "hang/ruling.h"
#include "ringup.h"
#include "wire/ranks.h"

enum { GROUPS = 256, MEMBERS = 8192 };

/* ---- reading ---- */

static int group_for(struct flights *f, const char *name, const char *desc)
{
	struct flight_group *g;

	for (int i = 0; i < f->groups; i++)
		if (!strcmp(f->group[i].name, name))
			return i;
	if (!f->group)
		f->group = calloc(GROUPS, sizeof(*f->group));
	if (!f->group || f->groups == GROUPS)
		return -1;
	g = &f->group[f->groups];
	snprintf(g->name, sizeof(g->name), "%s", name);
	snprintf(g->desc, sizeof(g->desc), "%.60s", desc);
	return f->groups++;
}

/* "[0, 1, 3]", or "0,1" of torchcomms. */
static void read_members(struct flight_group *g, const char *text)
{
	char *end;
	long rank;

	if (g->member || !(g->member = calloc(MEMBERS, sizeof(*g->member))))
		return;
	for (const char *at = text; *at && g->members < MEMBERS;) {
		if (!isdigit((unsigned char)*at)) {
			at++;
			continue;
		}
		rank = strtol(at, &end, 10);
		if (rank >= 0 && rank < ROWS_RANKS)
			g->member[g->members++] = (int)rank;
		at = end;
	}
}

static void read_config(struct flights *f, json_t *config)
{
	const char *key;
	json_t *x;
	int at;

	json_object_foreach(config, key, x) {
		const char *name = jsonio_string(x, "name");

		/* Gloo's own is empty, and says nothing. */
		at = *name ? group_for(f, name, jsonio_string(x, "desc")) : -1;
		if (at >= 0)
			read_members(&f->group[at], jsonio_string(x, "ranks"));
	}
}

static void text_of_sizes(const json_t *sizes, const json_t *types, char *out, size_t size)
{
	const char *type = json_string_value(json_array_get(types, 0));
	const json_t *one, *n;
	size_t at = 0, i, k;

	*out = 0;
	json_array_foreach(sizes, i, one) {
		at += (size_t)snprintf(out + at, size - at, "[");
		json_array_foreach(one, k, n) {
			if (at + 24 >= size || k > 8)
				break;
			at += (size_t)snprintf(out + at, size - at, "%s%lld", k ? ", " : "",
					       (long long)json_integer_value(n));
		}
		at += at + 2 < size ? (size_t)snprintf(out + at, size - at, "]") : 0;
		if (at + 32 >= size || i > 4)
			break;
	}
	if (type && at + 18 < size)
		snprintf(out + at, size - at, " %.16s", type);
}

static bool is_library(const char *file)
{
	return strstr(file, "site-packages/") || strstr(file, "dist-packages/") ||
	       strstr(file, "compat/python/") || strstr(file, "/lib/python") || *file == '<' ||
	       !*file;
}

static void text_of_frames(const json_t *frames, char *out, size_t size)
{
	const json_t *x;
	size_t i;

	*out = 0;
	json_array_foreach(frames, i, x) {
		const char *file = jsonio_string(x, "filename"), *base = strrchr(file, '/');

		if (i > 64)
			return;
		if (is_library(file))
			continue;
		snprintf(out, size, "%.70s:%lld", base ? base + 1 : file,
			 (long long)json_integer_value(json_object_get(x, "line")));
		return;
	}
}

static bool read_entry(struct flights *f, const json_t *x, bool retires, struct flight_entry *y)
{
	const json_t *group = json_object_get(x, "process_group");
	const char *name = json_string_value(json_array_get(group, 0));
	const char *desc = json_string_value(json_array_get(group, 1));
	const char *op = jsonio_string(x, "profiling_name"), *colon = strchr(op, ':');

	memset(y, 0, sizeof(*y));
	y->group = group_for(f, name ? name : "0", desc ? desc : "");
	y->number = json_integer_value(json_object_get(x, "collective_seq_id"));
	y->message = json_is_true(json_object_get(x, "is_p2p"));
	y->over = !strcmp(jsonio_string(x, "state"), "completed") ||
		  (retires && json_is_true(json_object_get(x, "retired")));
	snprintf(y->op, sizeof(y->op), "%.30s", colon ? colon + 1 : op);
	text_of_sizes(json_object_get(x, "input_sizes"), json_object_get(x, "input_dtypes"),
		      y->sizes, sizeof(y->sizes));
	text_of_frames(json_object_get(x, "frames"), y->where, sizeof(y->where));
	return y->group >= 0 && json_is_object(x);
}

/* Gloo never leaves "scheduled": that an operation is over, "retired" alone says.  Where states
 * are told, an operation that has failed is retired, too. */
static bool tells_by_retiring(const json_t *dump)
{
	const json_t *x;
	size_t i;

	json_array_foreach(json_object_get(dump, "entries"), i, x)
		if (strcmp(jsonio_string(x, "state"), "scheduled") != 0)
			return false;
	return strcmp(jsonio_string(dump, "comm_lib_version"), "ringup") != 0;
}

static int keep_dump(struct flights *f, int rank, const json_t *dump, struct err *e)
{
	const json_t *entries = json_object_get(dump, "entries");
	bool retires = tells_by_retiring(dump);
	size_t n = json_array_size(entries), i;
	struct flight_dump *d, *more;
	const json_t *x;

	if (f->dumps == f->room) {
		f->room = f->room ? 2 * f->room : 64;
		more = realloc(f->dump, (size_t)f->room * sizeof(*more));
		if (!more)
			return fail(e, RINGUP_ENOMEM, "no memory for %d dumps", f->dumps);
		f->dump = more;
	}
	n = n < FLIGHT_ENTRIES ? n : FLIGHT_ENTRIES;
	d = &f->dump[f->dumps];
	*d = (struct flight_dump){ .rank = rank };
	d->entry = calloc(n + 1, sizeof(*d->entry));
	if (!d->entry)
		return fail(e, RINGUP_ENOMEM, "no memory for a flight record");
	f->dumps++;
	json_array_foreach(entries, i, x)
		if (d->entries < (int)n && read_entry(f, x, retires, &d->entry[d->entries]))
			d->entries++;
	return 0;
}

int flights_add(struct flights *f, int rank, const void *data, size_t len, struct err *e)
{
	const unsigned char *bytes = data;
	json_t *j;
	int rc;

	if (rank < 0 || rank >= ROWS_RANKS || f->dumps == FLIGHT_DUMPS)
		return fail(e, RINGUP_EINVAL, "rank %d: too large, or too many dumps", rank);
	for (int i = 0; i < f->dumps; i++)
		if (f->dump[i].rank == rank)
			return fail(e, RINGUP_EINVAL, "two dumps of rank %d", rank);
	if (len && bytes[0] == 0x80) {
		j = pickle_load(data, len, e);
		if (!j)
			return e->code;
	} else {
		j = json_loadb(data, len, 0, NULL);
	}
	if (!json_is_object(j) || !json_is_string(json_object_get(j, "version")) ||
	    (!json_is_array(json_object_get(j, "entries")) &&
	     !json_object_get(j, "pg_status"))) {
		json_decref(j);
		return fail(e, RINGUP_EINVAL, "not a flight record");
	}
	read_config(f, json_object_get(j, "pg_config"));
	rc = keep_dump(f, rank, j, e);
	json_decref(j);
	return rc;
}

/* The number at the end of a file's name, before an extension: "nccl_trace_rank_12.json"; -1.
 */
static int rank_of_name(const char *path)
{
	const char *base = strrchr(path, '/'), *end, *at;

	base = base ? base + 1 : path;
	end = base + strlen(base);
	for (at = strrchr(base, '.'); at && !strpbrk(at + 1, "0123456789");
	     at = at == base ? NULL : memrchr(base, '.', (size_t)(at - base)))
		end = at;
	for (at = end; at > base && isdigit((unsigned char)at[-1]);)
		at--;
	return at < end && end - at < 8 ? atoi(at) : -1;
}

int flights_file(struct flights *f, const char *path, struct err *e)
{
	int rank = rank_of_name(path), rc;
	char *data = NULL;
	size_t len;

	if (rank < 0)
		return fail(e, RINGUP_EINVAL, "%.200s: the file name does not end in a rank",
			    path);
	rc = file_read("", path, FLIGHT_MOST, &data, &len, e);
	if (!rc)
		rc = flights_add(f, rank, data, len, e);
	free(data);
	return rc ? fail_in(e, "%.200s", path) : 0;
}

int flights_folder(struct flights *f, const char *path, struct err *e)
{
	DIR *dir = opendir(path);
	char file[PATH_MAX];
	struct dirent *d;
	struct err why = { 0 };

	if (!dir)
		return fail_os(e, "%.200s", path);
	while ((d = readdir(dir)))
		if (*d->d_name != '.' && rank_of_name(d->d_name) >= 0 &&
		    snprintf(file, sizeof(file), "%s/%s", path, d->d_name) < (int)sizeof(file))
			(void)flights_file(f, file, &why);
	closedir(dir);
	if (f->dumps)
		return 0;
	return why.code ? fail(e, why.code, "%s", why.text)
			: fail(e, RINGUP_EINVAL, "%.200s: no flight record in this folder",
			       path);
}

void flights_free(struct flights *f)
{
	for (int i = 0; i < f->dumps; i++)
		free(f->dump[i].entry);
	for (int i = 0; i < f->groups; i++)
		free(f->group[i].member);
	free(f->dump);
	free(f->group);
	memset(f, 0, sizeof(*f));
}

/* ---- judging ---- */

/* Of one group: each rank's entries there, in order. */
struct track {
	int rank;
	const struct flight_entry **at;
	int n;
};

struct tracks {
	struct track *of;
	int n;
};

static bool is_member(const struct flight_group *g, int rank)
{
	for (int i = 0; i < g->members; i++)
		if (g->member[i] == rank)
			return true;
	return !g->members;
}

static void tracks_free(struct tracks *t)
{
	for (int i = 0; t->of && i < t->n; i++)
		free(t->of[i].at);
	free(t->of);
}

/* Makes the tracks of group @g; false without memory. */
static bool tracks_make(struct tracks *t, const struct flights *f, int g)
{
	t->n = 0;
	t->of = calloc((size_t)f->dumps + 1, sizeof(*t->of));
	for (int i = 0; t->of && i < f->dumps; i++) {
		const struct flight_dump *d = &f->dump[i];
		struct track *x = &t->of[t->n];

		if (!is_member(&f->group[g], d->rank))
			continue;
		x->rank = d->rank;
		x->at = calloc((size_t)d->entries + 1, sizeof(struct flight_entry *));
		if (!x->at)
			return false;
		t->n++;
		for (int k = 0; k < d->entries; k++)
			if (d->entry[k].group == g && !d->entry[k].message)
				x->at[x->n++] = &d->entry[k];
	}
	return t->of != NULL;
}

/* The entry of number @number, which are in order; NULL: the rank has none. */
static const struct flight_entry *entry_of(const struct track *t, int64_t number)
{
	int low = 0, high = t->n;

	while (low < high) {
		int middle = (low + high) / 2;

		if (t->at[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->n && t->at[low]->number == number ? t->at[low] : NULL;
}

static bool alike(const struct flight_entry *a, const struct flight_entry *b)
{
	return !strcmp(a->op, b->op) && !strcmp(a->sizes, b->sizes);
}

static bool same_line(const struct flight_entry *a, const struct flight_entry *b)
{
	return alike(a, b) && !strcmp(a->where, b->where);
}

/* Of the entries of number @number the one that most ranks have; @votes: how many. */
static const struct flight_entry *majority(const struct tracks *t, int64_t number, int *votes)
{
	const struct flight_entry *best = NULL, *x, *y;
	int n;

	*votes = 0;
	for (int i = 0; i < t->n; i++) {
		x = entry_of(&t->of[i], number);
		if (!x || (best && alike(best, x)))
			continue;
		n = 0;
		for (int k = 0; k < t->n; k++) {
			y = entry_of(&t->of[k], number);
			n += y && alike(x, y);
		}
		if (n > *votes) {
			*votes = n;
			best = x;
		}
	}
	return best;
}

/* The first number that all dumps still have, and the last that any has. */
static void range(const struct tracks *t, int64_t *first, int64_t *last)
{
	*first = INT64_MIN;
	*last = INT64_MIN;
	for (int i = 0; i < t->n; i++) {
		if (!t->of[i].n)
			continue;
		if (t->of[i].at[0]->number > *first)
			*first = t->of[i].at[0]->number;
		if (t->of[i].at[t->of[i].n - 1]->number > *last)
			*last = t->of[i].at[t->of[i].n - 1]->number;
	}
}

/* By the program's lines: from which number on is rank @x one behind the others?  0: unknown.
 */
static int64_t find_skip(const struct tracks *t, const struct track *x, int64_t first)
{
	const struct flight_entry *mine, *theirs, *next;
	int votes;

	for (int i = 0; i < x->n; i++) {
		mine = x->at[i];
		if (mine->number < first)
			continue;
		theirs = majority(t, mine->number, &votes);
		next = majority(t, mine->number + 1, &votes);
		if (theirs && !same_line(mine, theirs) && next && same_line(mine, next))
			return mine->number;
	}
	return 0;
}

static void describe(struct ruling *r, const struct flight_entry *x, int64_t number,
		     int64_t last)
{
	snprintf(r->what, sizeof(r->what), "%.24s %.30s%s%.30s (number %d of %d)", x->op,
		 x->sizes, *x->where ? " at " : "", x->where, (int)number, (int)last);
}

static void set_group(struct ruling *r, const struct flight_group *g)
{
	snprintf(r->group, sizeof(r->group), "%.60s",
		 *g->desc && strcmp(g->desc, "undefined") != 0 ? g->desc : g->name);
}

static void flights_blame(struct ruling *r, int rank)
{
	r->culprits += !r->culprit[rank];
	r->culprit[rank] = true;
	r->waiting[rank] = false;
}

/* Ranks that lack number @number, which others have begun and not ended. */
static bool judge_late(const struct tracks *t, const struct flight_group *g, int64_t first,
		       int64_t number, int64_t last, struct ruling *r)
{
	const struct flight_entry *x, *begun = NULL;
	int lack = 0, have = 0;
	int64_t skipped;

	for (int i = 0; i < t->n; i++) {
		x = entry_of(&t->of[i], number);
		lack += !x;
		have += x && !x->over;
		begun = x && !x->over ? x : begun;
	}
	if (!lack || !have)
		return false;
	for (int i = 0; i < t->n; i++) {
		x = entry_of(&t->of[i], number);
		/* If most lack it, the few that have it called one too many. */
		if (lack <= have ? !x : x && !x->over)
			flights_blame(r, t->of[i].rank);
		else
			r->waiting[t->of[i].rank] = true;
	}
	set_group(r, g);
	r->kind = lack <= have ? RULING_LATE : RULING_ODD;
	r->status = 1;
	describe(r, begun, number, last);
	if (r->kind == RULING_ODD)
		snprintf(r->why, sizeof(r->why),
			 "it started one operation more than the others");
	for (int i = 0; i < t->n && r->culprits == 1 && r->kind == RULING_LATE; i++) {
		skipped = r->culprit[t->of[i].rank] ? find_skip(t, &t->of[i], first) : 0;
		x = skipped ? majority(t, skipped, &lack) : NULL;
		if (x) {
			describe(r, x, skipped, last);
			snprintf(r->why, sizeof(r->why),
				 "it skipped that one, and its numbers are one behind since");
		}
	}
	return true;
}

/* Ranks whose operation of number @number is another than the majority's. */
static bool judge_odd(const struct tracks *t, const struct flight_group *g, int64_t first,
		      int64_t number, int64_t last, struct ruling *r)
{
	int votes, odd = 0, all = 0;
	const struct flight_entry *most = majority(t, number, &votes), *x, *other = NULL;
	int64_t skipped = 0;

	for (int i = 0; i < t->n; i++) {
		x = entry_of(&t->of[i], number);
		all += x != NULL;
		if (x && !alike(x, most)) {
			odd++;
			other = x;
		}
	}
	if (!odd)
		return false;
	set_group(r, g);
	r->status = 1;
	r->kind = votes * 2 > all ? RULING_ODD : RULING_APART;
	for (int i = 0; i < t->n; i++) {
		x = entry_of(&t->of[i], number);
		if (!x || r->kind == RULING_APART)
			continue;
		if (alike(x, most)) {
			r->waiting[t->of[i].rank] = true;
			continue;
		}
		flights_blame(r, t->of[i].rank);
		skipped = find_skip(t, &t->of[i], first);
	}
	describe(r, most, number, last);
	snprintf(r->why, sizeof(r->why), "%s %.30s %.40s%s%.40s%s",
		 r->kind == RULING_ODD ? "it started" : "others started", other->op,
		 other->sizes, *other->where ? " at " : "", other->where,
		 skipped && odd == 1 ? ", so it seems to have skipped one" : "");
	return true;
}

/* Judges one group; true if something is wrong there. */
static bool judge_group(const struct flights *f, int g, struct ruling *r, bool *unended)
{
	struct tracks t;
	int64_t first, last;
	bool wrong = false, good = tracks_make(&t, f, g);

	range(&t, &first, &last);
	for (int64_t n = first; good && first != INT64_MIN && n <= last && !wrong; n++) {
		wrong = judge_odd(&t, &f->group[g], first, n, last, r) ||
			judge_late(&t, &f->group[g], first, n, last, r);
		if (n - first > FLIGHT_ENTRIES)
			break;
	}
	for (int i = 0; i < t.n && good && !wrong; i++)
		if (t.of[i].n && !t.of[i].at[t.of[i].n - 1]->over) {
			*unended = true;
			describe(r, t.of[i].at[t.of[i].n - 1], last, last);
			set_group(r, &f->group[g]);
		}
	tracks_free(&t);
	return wrong;
}

/* Which ranks should have a dump, and have none? */
static void find_absent(const struct flights *f, struct ruling *r, char *absent, size_t size)
{
	bool *lack = calloc(ROWS_RANKS, sizeof(*lack));
	char text[RANKS_TEXT];
	int top = -1;

	*absent = 0;
	for (int i = 0; i < f->dumps; i++)
		top = f->dump[i].rank > top ? f->dump[i].rank : top;
	for (int g = 0; g < f->groups; g++)
		for (int k = 0; k < f->group[g].members; k++)
			top = f->group[g].member[k] > top ? f->group[g].member[k] : top;
	r->size = top + 1;
	for (int i = 0; lack && i <= top; i++)
		lack[i] = true;
	for (int i = 0; lack && i < f->dumps; i++)
		lack[f->dump[i].rank] = false;
	if (lack && top >= 0)
		snprintf(absent, size, "%s", ranks_text(text, lack, top + 1));
	free(lack);
}

void flights_judge(const struct flights *f, struct ruling *r, char *absent, size_t size)
{
	bool unended = false;

	memset(r, 0, sizeof(*r));
	r->waited_ms = -1;
	find_absent(f, r, absent, size);
	for (int g = 0; g < f->groups; g++)
		if (judge_group(f, g, r, &unended))
			return;
	if (unended) {
		r->kind = RULING_UNENDING;
		r->status = 3;
		return;
	}
	r->kind = RULING_MOVES;
	snprintf(r->why, sizeof(r->why), "%d dump%s: no operation is missing or different",
		 f->dumps, f->dumps == 1 ? "" : "s");
}
