/* procs.c - the processes of a job: what each wrote last, how far it got, how it ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/procs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "diagnose/fields.h"
#include "diagnose/jobstate.h"
#include "diagnose/links.h"
#include "diagnose/origin.h"
#include "diagnose/routine.h"
#include "diagnose/stepline.h"
#include "diagnose/suite.h"
#include "ringup.h"

enum {
	SLOTS = 4 * PROCS, /* of the hash table; a power of two */
	MARKS = 48,        /* bytes of a line, of a mark behind another */
	AWAITED = 4,       /* passes in which a silent process is looked for */
	MANY = 12,         /* lines of equal words that a process writes while it works */
	LOOKED_AT = 24     /* lines of a process that are searched for a step in a pass */
};

/* What the current pass knows of a process; apart from struct proc to stay in the cache. */
struct seen {
	unsigned pass;        /* the last one that has seen it */
	unsigned short lines; /* looked at in that pass */
	unsigned char kept, steps;
	bool is_done, has_epoch;
	unsigned char suite; /* 1 + the place of the one whose beginning comes next, or 0 */
	bool is_ok;          /* the line below is unittest's "OK" */
	long step, within;   /* the last one taken */
};

struct procs {
	struct proc list[PROCS];
	struct seen seen[PROCS];
	unsigned short slot[SLOTS]; /* 1 + the place in the list; 0: free */
	int n;
	unsigned pass;
	int file, file_rank;
	bool is_first, is_whole; /* the piece: of the log, and read as a whole */
	bool has_tasks;          /* see procs_look() */
	struct procs_start start;
	struct links links;
	uint64_t behind; /* the place behind the line that is looked at */
	struct routine routine;
};

int procs_open(struct procs **pp, struct err *e)
{
	*pp = calloc(1, sizeof(**pp));
	if (!*pp)
		return fail(e, RINGUP_ENOMEM, "no memory for the table of processes");
	procs_reset(*pp);
	return 0;
}

void procs_close(struct procs *p)
{
	free(p);
}

void procs_reset(struct procs *p)
{
	memset(p->slot, 0, sizeof(p->slot));
	p->n = 0;
	p->file_rank = -1;
	p->is_first = true;
	p->has_tasks = false;
	links_reset(&p->links);
	memset(&p->start, 0, sizeof(p->start));
	routine_reset(&p->routine);
}

/* ---- the table ---- */

static uint64_t procs_hash(int file, int rank, const char *host, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u ^ ((uint64_t)(unsigned)file << 32 | (unsigned)rank);

	h *= 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)host[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* A number for the process, which mixes well with routine_shape(). */
static uint64_t procs_key(const struct proc *x)
{
	return procs_hash(x->file, x->rank, x->host, strlen(x->host));
}

static struct proc *procs_entry(struct procs *p, int file, int rank, const char *host,
				size_t len)
{
	uint64_t i = procs_hash(file, rank, host, len);
	struct proc *x;

	len = len < PROCS_MARK ? len : PROCS_MARK - 1;
	for (; p->slot[i & (SLOTS - 1)]; i++) {
		x = &p->list[p->slot[i & (SLOTS - 1)] - 1];
		if (x->file == file && x->rank == rank && !memcmp(x->host, host, len) &&
		    !x->host[len])
			return x;
	}
	if (p->n == PROCS)
		return NULL;
	memset(&p->seen[p->n], 0, sizeof(p->seen[0]));
	x = &p->list[p->n++];
	p->slot[i & (SLOTS - 1)] = (unsigned short)p->n;
	memset(x, 0, sizeof(*x));
	x->file = file;
	x->rank = rank;
	memcpy(x->host, host, len);
	x->step = x->sequence = x->status = -1;
	return x;
}

void procs_look(struct procs *p, const char *block, const char *end)
{
	static const char mark[] = "[rank";
	const char *at = block, *line, *label;
	int task, rank;

	for (; !p->has_tasks && at < end &&
	       (at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1));
	     at++) {
		line = at - block < MARKS ? block : at - MARKS;
		label = memrchr(line, '\n', (size_t)(at - line));
		line = label ? label + 1 : line;
		label = fields_label(line, end, &task);
		p->has_tasks = label && fields_unmark(line, end, &rank) > label && rank != task;
	}
}

bool procs_has_tasks(const struct procs *p)
{
	return p->has_tasks;
}

bool procs_is_of_task(const struct procs *p, const char *line, const char *end)
{
	int task, rank;
	const char *label = p->has_tasks ? fields_label(line, end, &task) : NULL;

	return label && fields_unmark(line, end, &rank) == label;
}

struct proc *procs_find(struct procs *p, int file, const char *line, const char *end)
{
	struct origin_mark m;

	origin_mark(&m, line, end);
	if (m.rank >= 0 && procs_is_of_task(p, line, end))
		m.rank = -1;
	if (m.rank < 0 && !m.len && file == p->file)
		m.rank = p->file_rank;
	return procs_entry(p, file, m.rank, m.host ? m.host : "", m.len);
}

struct proc *procs_of_rank(const struct procs *p, int file, int rank)
{
	const struct proc *other = NULL;

	for (int i = 0; i < p->n; i++)
		if (p->list[i].rank == rank) {
			if (p->list[i].file == file)
				return (struct proc *)&p->list[i];
			other = other ? other : &p->list[i];
		}
	return (struct proc *)other;
}

struct proc *procs_add_rank(struct procs *p, int file, int rank)
{
	struct proc *x = procs_of_rank(p, file, rank);

	return x ? x : procs_entry(p, file, rank, "", 0);
}

struct proc *procs_unmarked(const struct procs *p, int file)
{
	for (int i = 0; i < p->n; i++)
		if (p->list[i].file == file && p->list[i].rank < 0 && !*p->list[i].host)
			return (struct proc *)&p->list[i];
	return NULL;
}

static int procs_compare(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->host, y->host);
}

struct proc *procs_list(struct procs *p, int *n)
{
	*n = p->n;
	return p->list;
}

/* ---- lines ---- */

/* The number behind the last of these words in the path of a log: "rank-3.log", "worker-3",
 * and the folder in ".../3/stderr.log" of torchrun; -1 without one. */
static int rank_in_path(const char *path)
{
	static const char *const words[] = { "rank", "worker", "task", "proc" };
	const char *at, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int rank = -1;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && rank < 0; i++) {
		at = strstr(name, words[i]);
		at = at ? at + strlen(words[i]) : NULL;
		at = at && strchr("-_.", *at) && *at ? at + 1 : at;
		if (at && num_is_digit(*at) && strspn(at, "0123456789") < 7 &&
		    strchr(".", at[strspn(at, "0123456789")]))
			rank = atoi(at);
	}
	if (rank < 0 && slash && (!strcmp(name, "stderr.log") || !strcmp(name, "stdout.log"))) {
		for (at = slash; at > path && num_is_digit(at[-1]); at--)
			;
		if (at < slash && slash - at < 7 && (at == path || at[-1] == '/'))
			rank = atoi(at);
	}
	return rank;
}

void procs_begin(struct procs *p, int file, const char *path)
{
	p->file = file;
	p->file_rank = rank_in_path(path);
	p->is_first = true;
	p->has_tasks = false;
}

void procs_line(struct proc_line *l, uint64_t at, long number, const char *line,
		const char *end)
{
	size_t len =
		(size_t)(end - line) < PROCS_TEXT - 1 ? (size_t)(end - line) : PROCS_TEXT - 1;

	l->at = at;
	l->line = number;
	l->time = 0;
	l->shape = 0;
	memcpy(l->text, line, len);
	memset(l->text + len, 0, sizeof(l->text) - len);
}

/* Progress bars write one part over the other; only the last is to be seen. */
static const char *last_part(const char *line, const char **end)
{
	const char *cr;

	while (*end > line && (unsigned char)(*end)[-1] <= ' ')
		(*end)--;
	cr = *end > line ? memrchr(line, '\r', (size_t)(*end - line)) : NULL;
	return cr ? cr + 1 : line;
}

static bool is_frame(const char *line, const char *end)
{
	while (line < end && strchr("-=* ", *line) && *line)
		line++;
	return line == end;
}

static void take_step(struct proc *x, struct seen *s, uint64_t at, long number,
		      const char *line, const char *end)
{
	long step = stepline_read(line, end);
	long within = step < 0 ? 0 : stepline_within(line, end);
	int k = s->steps;

	if (step < 0 || (k && step == s->step && within == s->within) || k == PROCS_STEPS)
		return;
	if (!k) {
		x->step = step;
		procs_line(&x->step_line, at, number, line, end);
	}
	memmove(x->step_at + k + 1, x->step_at + k,
		(size_t)(PROCS_STEPS - 1 - k) * sizeof(x->step_at[0]));
	x->step_at[k] = at;
	s->step = step;
	s->within = within;
	x->steps += x->steps < PROCS_STEPS;
	s->steps++;
}

/* Keeps the suite, the last one for all beyond the room. */
static void add_suite(struct proc *x, const struct proc_suite *s)
{
	if (x->suites < PROCS_SUITES)
		x->suites++;
	x->suite[x->suites - 1] = *s;
}

/* Takes what a test runner says, going backwards. */
static void take_suite(const struct procs *p, struct proc *x, struct seen *s, uint64_t at,
		       long number, const char *line, const char *end)
{
	enum suite is = suite_read(line, end);
	uint64_t behind = p->behind;
	bool has_passed = is == SUITE_PASSED || (is == SUITE_RAN && s->is_ok);

	if (has_passed)
		x->passed = behind > x->passed ? behind : x->passed;
	if (is == SUITE_BEGINS && s->suite)
		x->suite[s->suite - 1].from = at;
	if (is == SUITE_BEGINS)
		s->suite = 0;
	if (has_passed || is == SUITE_FAILED) {
		add_suite(x, &(struct proc_suite){ 0, behind, has_passed,
						   suite_tests(line, end) });
		s->suite = (unsigned char)x->suites;
	}
	if (is == SUITE_FAILED && behind > x->failed) {
		x->failed = behind;
		procs_line(&x->failure, at, number, line, end);
	}
	if (is == SUITE_CASE && x->failed > at)
		procs_line(&x->failure, at, number, line, end);
	s->is_ok = is == SUITE_OK;
}

static bool has(const char *line, const char *end, const char *text)
{
	return memmem(line, (size_t)(end - line), text, strlen(text));
}

/* Takes "Epoch 3/10", going backwards. */
static void take_epoch(struct proc *x, struct seen *s, const char *line, const char *end)
{
	long epochs = s->has_epoch || !has(line, end, "poch") || stepline_counts(line, end)
			      ? 0
			      : stepline_total(line, end);

	if (epochs < 1)
		return;
	s->has_epoch = true;
	x->epoch = stepline_read(line, end);
	x->epochs = epochs;
}

/* The number behind the words in a line, or -1. */
static long number_behind(const char *line, const char *end, const char *words)
{
	const char *p = memmem(line, (size_t)(end - line), words, strlen(words));
	long v = 0;

	if (!p || (p += strlen(words)) == end || !num_is_digit(*p))
		return -1;
	for (int i = 0; p < end && num_is_digit(*p) && i < 9; p++, i++)
		v = 10 * v + (*p - '0');
	return v;
}

/* Takes the rank that begins to set up a communicator of NCCL. */
static void take_start(struct procs_start *s, const char *line, const char *end)
{
	static const char mark[] = "commId ";
	const char *p = memmem(line, (size_t)(end - line), mark, sizeof(mark) - 1);
	long rank = number_behind(line, end, " rank "),
	     world = number_behind(line, end, " nranks ");
	uint64_t id = 1;

	for (; p && p < end && *p != '-'; p++)
		id = (id ^ (unsigned char)*p) * 0x100000001b3u;
	if (rank < 0 || world <= rank || world > PROCS_WORLD)
		return;
	if (id != s->id || world != s->world) {
		memset(s, 0, sizeof(*s));
		s->id = id;
		s->world = world;
	}
	s->begun[rank / 64] |= UINT64_C(1) << rank % 64;
}

/* Takes what is said of the end, or the running, of the whole job. */
static void take_end(struct procs *p, struct proc *x, uint64_t at, const char *line,
		     const char *end)
{
	if (at + 1 > x->own_end && stepline_is_done(line, end))
		x->own_end = at + 1;
	if (has(line, end, " - Init "))
		x->unset += has(line, end, "Init START") - has(line, end, "Init COMPLETE");
	if (has(line, end, "Init START"))
		take_start(&p->start, line, end);
	links_read(&p->links, x->file, line, end);
	if (at + 1 > x->runs && jobstate_runs(line, end))
		x->runs = at + 1;
}

/* Looks at a line of @x, going backwards.  Returns whether enough of it is known. */
static bool take_line(struct procs *p, struct proc *x, struct seen *s, uint64_t at, long number,
		      const char *line, const char *end)
{
	bool is_whole = p->is_whole;
	int most = is_whole || x->rank < 0 ? PROCS_STEPS : 1;
	uint64_t key, shape = 0;

	if (is_whole) {
		key = procs_key(x);
		shape = routine_shape(key, line, end);
		routine_add(&p->routine, key, shape, at, stepline_is_calm(line, end));
		if (p->is_first && !x->plan)
			x->plan = stepline_plan(line, end);
		take_suite(p, x, s, at, number, line, end);
		take_epoch(x, s, line, end);
		take_end(p, x, at, line, end);
	}

	if (s->lines++ < (is_whole ? 10 * LOOKED_AT : LOOKED_AT) && s->steps < most)
		take_step(x, s, at, number, line, end);
	if (s->kept < PROCS_LINES && !is_frame(line, end)) {
		memmove(x->last + s->kept + 1, x->last + s->kept,
			(size_t)(PROCS_LINES - 1 - s->kept) * sizeof(x->last[0]));
		procs_line(&x->last[s->kept], at, number, line, end);
		x->last[s->kept++].shape = shape;
	}
	return s->kept == PROCS_LINES &&
	       (s->steps == most || s->lines >= (x->steps ? LOOKED_AT : PROCS_LINES));
}

/* How many processes of this log have written lately. */
static int count_awaited(const struct procs *p)
{
	int n = 0;

	for (int i = 0; i < p->n; i++)
		n += p->seen[i].pass && p->list[i].file == p->file &&
		     p->pass - p->seen[i].pass <= AWAITED;
	return n;
}

static void procs_visit(struct procs *p, const struct procs_piece *piece, const char *start,
			const char *end, long number, int *awaited)
{
	const char *line = last_part(start, &end);
	struct proc *x = line < end ? procs_find(p, p->file, line, end) : NULL;
	struct seen *s;
	bool is_done;

	if (!x)
		return;
	s = &p->seen[x - p->list];
	if (s->pass != p->pass)
		*s = (struct seen){ .pass = p->pass };
	if (s->is_done && !p->is_whole)
		return;
	p->behind = piece->before + (uint64_t)(end - piece->block) + 1;
	is_done = take_line(p, x, s, piece->before + (uint64_t)(start - piece->block), number,
			    line, end);
	*awaited -= is_done && !s->is_done;
	s->is_done = is_done;
}

void procs_read(struct procs *p, const struct procs_piece *piece)
{
	const char *block = piece->block, *from = block + piece->from, *end = block + piece->to;
	const char *nl;
	long number = piece->line;
	int awaited;

	p->is_whole = p->is_first || piece->is_last;

	p->pass++;
	awaited = count_awaited(p);
	if (!piece->is_last || (end > from && end[-1] == '\n')) {
		end = memrchr(from, '\n', (size_t)(end - from));
		number--;
	}
	while (end && end >= from && (p->is_whole || awaited > 0)) {
		nl = end > block ? memrchr(block, '\n', (size_t)(end - block)) : NULL;
		procs_visit(p, piece, nl ? nl + 1 : block, end, number--, &awaited);
		end = nl;
	}
	p->is_first = false;
}

/* ---- the end ---- */

static void finish_line(struct proc_line *l)
{
	char raw[PROCS_TEXT];
	struct origin origin;
	size_t len = strnlen(l->text, sizeof(raw) - 1);

	memcpy(raw, l->text, len);
	origin_read(&origin, raw, len);
	l->time = origin.time;
	fields_show(l->text, sizeof(l->text), raw, len);
}

uint64_t procs_words(const struct proc_line *l)
{
	const char *line = l->text, *end = line + strlen(line);
	struct origin_mark m;

	origin_mark(&m, line, end);
	return l->line ? routine_shape(0, m.host ? m.host + m.len : line, end) : 0;
}

/* A suite that failed is over if a later one of as many tests passed. */
static void finish_suites(struct proc *x)
{
	struct proc_suite *s;

	for (int i = 0; i < x->suites; i++)
		for (int k = 0; k < x->suites && !x->suite[i].has_passed; k++) {
			s = &x->suite[k];
			if (!s->has_passed || s->tests < 1 || s->tests != x->suite[i].tests ||
			    s->to < x->suite[i].to)
				continue;
			x->suite[i].has_passed = true;
			if (x->failed == x->suite[i].to)
				x->failed = 0;
		}
}

/* Adds the end of the script that started the job: the status 0 of its command. */
static void finish_script(struct proc *x)
{
	const struct proc_line *l = x->last;

	for (int k = 0; k < PROCS_LINES && x->rank < 0 && !*x->host; k++)
		if (l[k].line &&
		    jobstate_is_zero(l[k].text, k + 1 < PROCS_LINES ? l[k + 1].text : ""))
			x->ended_well =
				l[k].at + 1 > x->ended_well ? l[k].at + 1 : x->ended_well;
}

void procs_finish(struct procs *p)
{
	for (int i = 0; i < p->n; i++) {
		struct proc *x = &p->list[i];

		for (int k = 0; k < PROCS_LINES; k++)
			finish_line(&x->last[k]);
		finish_line(&x->first);
		finish_line(&x->failure);
		finish_line(&x->step_line);
		x->step_line.shape = procs_words(&x->step_line);
		finish_script(x);
		finish_suites(x);
		fields_show(x->host, sizeof(x->host), x->host, strlen(x->host));
	}
	qsort(p->list, (size_t)p->n, sizeof(p->list[0]), procs_compare);
	memset(p->slot, 0, sizeof(p->slot)); /* it names other places now */
}

static int steps_after(const struct proc *x, uint64_t at)
{
	int n = 0;

	while (n < x->steps && x->step_at[n] > at)
		n++;
	return n;
}

int procs_went_on(const struct procs *p, int file, int rank, uint64_t at)
{
	const struct proc *own = rank >= 0 ? procs_of_rank(p, file, rank) : NULL;
	int n, most = 0;

	/* One line with a number is none of many steps. */
	if (own && own->file == file && own->steps > 1)
		return steps_after(own, at);
	for (int i = 0; i < p->n; i++) {
		n = p->list[i].file == file ? steps_after(&p->list[i], at) : 0;
		most = n > most ? n : most;
	}
	return most;
}

int procs_all_went_on(const struct procs *p, int file, uint64_t at)
{
	int n, least = -1;

	for (int i = 0; i < p->n; i++) {
		if (p->list[i].file != file || !p->list[i].steps)
			continue;
		n = steps_after(&p->list[i], at);
		least = least < 0 || n < least ? n : least;
	}
	return least < 0 ? 0 : least;
}

/* The process whose lines count for @rank, as in procs_went_on(); NULL: all of the log. */
static const struct proc *find_own(const struct procs *p, int file, int rank)
{
	const struct proc *own = rank >= 0 ? procs_of_rank(p, file, rank) : NULL;

	return own && own->file == file ? own : NULL;
}

static bool is_routine(const struct procs *p, const struct proc *x, uint64_t at, bool is_caught)
{
	const struct routine_line *l =
		x->last[0].shape ? routine_find(&p->routine, x->last[0].shape) : NULL;

	return l && l->is_calm && l->last > at && (l->count > 1 || is_caught) &&
	       ((is_caught && l->count > 1 && l->first > at) ||
		routine_resumed(&p->routine, l->process, at));
}

bool procs_is_routine(const struct procs *p, int file, int rank, uint64_t at, bool is_caught)
{
	const struct proc *own = find_own(p, file, rank), *latest = own;

	for (int i = 0; !own && i < p->n; i++)
		if (p->list[i].file == file && p->list[i].last[0].line &&
		    (!latest || p->list[i].last[0].at > latest->last[0].at))
			latest = &p->list[i];
	return latest && is_routine(p, latest, at, is_caught);
}

const struct procs_start *procs_start(const struct procs *p)
{
	return &p->start;
}

const struct links *procs_links(const struct procs *p)
{
	return &p->links;
}

uint64_t procs_began(const struct procs *p, const struct proc *x)
{
	const struct routine_line *l = NULL;

	for (int k = 0; k < PROCS_LINES && x->last[k].line; k++)
		if (x->last[k].at == x->step_line.at && x->last[k].shape)
			l = routine_find(&p->routine, x->last[k].shape);
	return l && l->count >= MANY ? l->first + 1 : 0;
}

long procs_ended(const struct procs *p, const struct proc *x)
{
	const struct routine_line *l =
		x->last[0].shape ? routine_find(&p->routine, x->last[0].shape) : NULL;

	return l && routine_has_pair(&p->routine, l) ? l->count - 1 : 0;
}

long procs_repeats(const struct procs *p, const struct proc *x)
{
	const struct routine_line *l;
	long least = -1;

	for (int k = 0; k < PROCS_LINES && x->last[k].shape; k++) {
		l = routine_find(&p->routine, x->last[k].shape);
		if (!l)
			return 0;
		least = least < 0 || l->count < least ? l->count : least;
	}
	return least < 0 ? 0 : least;
}
