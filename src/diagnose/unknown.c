/* unknown.c - find the first complaint of each process that matches no signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/unknown.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/complaint.h"
#include "diagnose/read.h"
#include "diagnose/wrap.h"
#include "ringup.h"

enum {
	PROCESSES = 4096, /* remembered processes; a power of two */
	PENDING = 1024,   /* complaints of one piece, */
	OF_ONE = 32,      /* of which so many may be of one process */
	BOX = 2048,       /* bytes of a message between lines of dashes */
	CHAIN = 4000,     /* bytes of a traceback and its consequences */
	OVERLAP = 8       /* complaints before one that may reach into it */
};

/* A process that has complained. */
struct process {
	uint64_t key; /* 0: free */
	int pending;
	bool has_cause, has_error, has_warning;
};

/* A complaint that a signature may yet match. */
struct pending {
	struct process *process;
	enum complaint level;
	uint64_t start, stop; /* of the log: where a signature would match */
	uint64_t form;        /* equal for lines that differ in numbers only */
	bool is_known, has_cause;
	struct sighting seen;
	char text[EVIDENCE_PROOF];
};

struct unknown {
	struct process process[PROCESSES];
	int processes;
	struct pending pending[PENDING];
	int n;
	int file;
	long line;
	bool at_start;     /* of a line */
	uint64_t box_ends; /* start of the line of dashes after the last message */
};

int unknown_open(struct unknown **up, struct err *e)
{
	*up = calloc(1, sizeof(**up));
	return *up ? 0 : fail(e, RINGUP_ENOMEM, "no memory to read logs");
}

void unknown_close(struct unknown *u)
{
	free(u);
}

void unknown_begin(struct unknown *u, int file)
{
	memset(u->process, 0, sizeof(u->process));
	u->processes = 0;
	u->n = 0;
	u->file = file;
	u->line = 1;
	u->at_start = true;
	u->box_ends = UINT64_MAX;
}

/* ---- processes ---- */

static uint64_t hash(uint64_t h, const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
	return h;
}

/* The entry of the process; NULL if there are too many. */
static struct process *find_process(struct unknown *u, const struct origin *o)
{
	uint64_t key = 0xcbf29ce484222325u;
	struct process *p;

	key = hash(key, (const char *)&u->file, sizeof(u->file));
	key = hash(key, (const char *)&o->rank, sizeof(o->rank));
	key = hash(key, o->host, strlen(o->host)) | 1;
	for (uint64_t i = key >> 32;; i++) {
		p = &u->process[i & (PROCESSES - 1)];
		if (p->key == key)
			return p;
		if (!p->key)
			break;
	}
	if (u->processes >= PROCESSES / 2)
		return NULL;
	u->processes++;
	p->key = key;
	return p;
}

/* Does a complaint of this level add to what the process has said? */
static bool matters(const struct process *p, enum complaint level)
{
	if (level == COMPLAINT_WARNING)
		return !p->has_cause && !p->has_error && !p->has_warning;
	return !p->has_cause && !p->has_error;
}

/* ---- lines ---- */

/* Hashes the letters alone: numbers, addresses and dates differ between ranks. */
static uint64_t form_of(const char *p, const char *end)
{
	uint64_t h = 0xcbf29ce484222325u;

	if (end - p > EVIDENCE_PROOF)
		end = p + EVIDENCE_PROOF;
	for (; p < end; p++)
		if ((*p | 0x20) > 'f' && (*p | 0x20) <= 'z')
			h = hash(h, p, 1);
	return h;
}

/* Records a complaint, if it may be the first of its process. */
static struct pending *take_down(struct unknown *u, const struct piece *piece,
				 enum complaint level, const char *line, const char *end,
				 const char *said)
{
	struct pending *p = &u->pending[u->n];
	struct origin origin;
	struct process *process;
	size_t len = (size_t)(end - line);

	if (u->n == PENDING)
		return NULL;
	origin_read(&origin, line, len < EVIDENCE_PROOF ? len : EVIDENCE_PROOF);
	process = find_process(u, &origin);
	if (!process || process->pending == OF_ONE || !matters(process, level))
		return NULL;
	process->pending++;
	memset(&p->seen, 0, sizeof(p->seen));
	fields_init(&p->seen.fields);
	p->process = process;
	p->level = level;
	p->start = piece->before + (uint64_t)(line - piece->block);
	p->stop = piece->before + (uint64_t)(end - piece->block);
	p->form = form_of(said, end);
	p->is_known = p->has_cause = false;
	p->seen.file = u->file;
	p->seen.line = u->line;
	p->seen.origin = origin;
	p->seen.len = len < sizeof(p->text) ? len : sizeof(p->text);
	memcpy(p->text, line, p->seen.len);
	u->n++;
	return p;
}

/* The line of dashes that ends the message whose first line is at @at. */
static const char *find_rule(const char *at, const char *end)
{
	const char *said, *eol;

	if (end - at > BOX)
		end = at + BOX;
	for (; at < end; at = eol + 1) {
		eol = memchr(at, '\n', (size_t)(end - at));
		if (!eol)
			break;
		if (complaint_judge(at, eol, &said) == COMPLAINT_RULE)
			return at;
	}
	return NULL;
}

/* Reads a message between lines of dashes: its first line complains, and a signature may match
 * any part of it. */
static void read_box(struct unknown *u, const struct piece *piece, const char *rule_end)
{
	const char *end = piece->block + piece->len, *line = rule_end + 1, *eol, *stop;
	enum complaint level;
	struct pending *p;

	stop = line < end ? find_rule(line, end) : NULL;
	if (!stop || stop == line)
		return;
	u->box_ends = piece->before + (uint64_t)(stop - piece->block);
	eol = memchr(line, '\n', (size_t)(stop - line));
	level = eol ? complaint_box(line, eol) : COMPLAINT_NONE;
	if (level == COMPLAINT_NONE)
		return;
	u->line++;
	p = take_down(u, piece, level, line, eol, line);
	u->line--;
	if (p)
		p->stop = u->box_ends;
}

static bool is_within(const struct unknown *u, uint64_t at)
{
	return u->box_ends != UINT64_MAX && at < u->box_ends;
}

static bool has(const char *line, const char *end, const char *text)
{
	if (end - line > COMPLAINT_HEAD)
		end = line + COMPLAINT_HEAD;
	return memmem(line, (size_t)(end - line), text, strlen(text)) != NULL;
}

static bool unknown_is_blank(const char *line, const char *end)
{
	while (line < end && (unsigned char)*line <= ' ')
		line++;
	return line == end;
}

/* True for a name such as zlib.error: an exception need not be called Error. */
static bool unknown_is_name(const char *p, const char *end)
{
	const char *start = p;

	while (p < end && ((*p | 0x20) >= 'a' ? (*p | 0x20) <= 'z' : *p == '.' || *p == '_'))
		p++;
	return p - start > 3 && (p == end || *p == '\r' || *p == '\\' || *p == 0x1b ||
				 (*p == ':' && (p + 1 == end || p[1] == ' ')));
}

/* Is the line an exception, perhaps after the level that some loggers write before each line?
 * In a traceback whose first line has @column bytes before it, any name there is one. */
static bool is_exception(const char *line, const char *end, ptrdiff_t column)
{
	const char *said;
	enum complaint level = complaint_judge(line, end, &said);

	if (level == COMPLAINT_ERROR)
		level = complaint_judge(said, end, &said);
	return level == COMPLAINT_EXCEPTION ||
	       (level == COMPLAINT_NONE && column >= 0 && column < end - line &&
		unknown_is_name(line + column, end));
}

/* The number of bytes before the word Traceback, or -1. */
static ptrdiff_t find_traceback(const char *line, const char *end)
{
	static const char text[] = "Traceback (most recent call last)";
	const char *at;

	if (end - line > COMPLAINT_HEAD)
		end = line + COMPLAINT_HEAD;
	at = memmem(line, (size_t)(end - line), text, sizeof(text) - 1);
	return at ? at - line : -1;
}

/* A message and its consequences: see find_chain(). */
struct chain {
	const char *stop;
	const char *exception; /* the line that ends the first traceback, or NULL */
	bool in_traceback, is_first;
	ptrdiff_t column;
};

/* Does the line up to @eol belong to the chain? */
static bool is_of_chain(struct chain *c, const char *at, const char *eol)
{
	ptrdiff_t column = find_traceback(at, eol);

	if (column >= 0 || has(at, eol, "During handling of the above") ||
	    has(at, eol, "The above exception was the")) {
		c->in_traceback = true;
		c->column = column;
		return true;
	}
	if (c->in_traceback || c->is_first) {
		if (!is_exception(at, eol, c->in_traceback ? c->column : -1))
			return c->in_traceback;
		if (c->in_traceback && !c->exception)
			c->exception = at;
		c->in_traceback = false;
		return true;
	}
	return unknown_is_blank(at, eol) || has(at, eol, "\tat ") || has(at, eol, "    at ") ||
	       has(at, eol, "Caused by: ") || has(at, eol, "\t... ");
}

/*
 * Finds the end of the chain that starts with the complaint at @line, whose next line is at
 * @at: the exception after it, its stack in Java's form, and the exceptions that Python and
 * Java report for the same failure.
 */
static void find_chain(struct chain *c, const char *line, const char *at, const char *end)
{
	const char *eol;

	*c = (struct chain){ .stop = at, .is_first = true };
	c->column = find_traceback(line, at);
	c->in_traceback = c->column >= 0;
	if (end - at > CHAIN)
		end = at + CHAIN;
	for (; at < end; at = eol + 1) {
		eol = memchr(at, '\n', (size_t)(end - at));
		if (!eol || !is_of_chain(c, at, eol))
			break;
		c->is_first = false;
		if (!c->in_traceback && !unknown_is_blank(at, eol))
			c->stop = eol;
	}
}

/* The exception of the traceback after a complaint says more than the complaint. */
static void show_exception(struct pending *p, const char *line, const char *exception,
			   const char *end)
{
	const char *eol = memchr(exception, '\n', (size_t)(end - exception)), *said;
	size_t len;

	if (!eol)
		return;
	len = (size_t)(eol - exception);
	p->seen.line += read_lines(line, exception);
	p->seen.len = len < sizeof(p->text) ? len : sizeof(p->text);
	memcpy(p->text, exception, p->seen.len);
	if (complaint_judge(exception, eol, &said) == COMPLAINT_ERROR)
		complaint_judge(said, eol, &said);
	p->form = form_of(said, eol);
}

/* Extends the complaint, the line up to @eol, by its chain. */
static void unknown_follow(struct pending *p, const struct piece *piece, const char *line,
			   const char *eol)
{
	const char *block_end = piece->block + piece->len;
	struct chain chain;

	find_chain(&chain, line, eol + 1, block_end);
	if (chain.exception && (p->level == COMPLAINT_ERROR || p->level == COMPLAINT_TRACEBACK))
		show_exception(p, line, chain.exception, block_end);
	if (piece->before + (uint64_t)(chain.stop - piece->block) > p->stop)
		p->stop = piece->before + (uint64_t)(chain.stop - piece->block);
}

/* Reads a line, or a part of it that a terminal overwrites: see unknown_read_line(). */
static void read_part(struct unknown *u, const struct piece *piece, const char *part,
		      const char *part_end, const char *eol, bool is_error)
{
	uint64_t at = piece->before + (uint64_t)(part - piece->block);
	const char *said;
	enum complaint level = complaint_judge(part, part_end, &said);
	struct pending *p;

	if (level == COMPLAINT_NONE && is_error)
		level = COMPLAINT_ERROR;
	if (level == COMPLAINT_RULE && at != u->box_ends)
		read_box(u, piece, eol);
	/* Within a message between lines of dashes the first line has complained. */
	if (level == COMPLAINT_NONE || level == COMPLAINT_RULE || is_within(u, at))
		return;
	p = take_down(u, piece, level, part, part_end, said);
	if (p && level != COMPLAINT_DEATH && eol < piece->block + piece->len)
		unknown_follow(p, piece, part, eol);
}

/* Progress bars write one part over the other, all on one line. */
static void unknown_read_line(struct unknown *u, const struct piece *piece, const char *line,
			      const char *eol)
{
	const char *end = eol, *cr;
	bool is_error = wrap_open(&line, &end);

	for (; line < end; line = cr + 1) {
		cr = memchr(line, '\r', (size_t)(end - line));
		read_part(u, piece, line, cr ? cr : end, eol, is_error);
		if (!cr)
			break;
	}
}

/* Skips lines that cannot complain, up to one that begins before @to. */
static const char *skip_lines(struct unknown *u, const char *line, const char *to,
			      const char *end)
{
	const char *maybe = complaint_look(line, end), *last;

	last = memrchr(line, '\n', (size_t)((maybe < to ? maybe : to) - line));
	if (!last)
		return line;
	u->line += read_lines(line, last + 1);
	return last + 1;
}

void unknown_read(struct unknown *u, const struct piece *piece)
{
	const char *line = piece->block + piece->from, *to = piece->block + piece->to;
	const char *end = piece->block + piece->len, *eol;

	while (line < to) {
		if (u->at_start)
			line = skip_lines(u, line, to, end);
		if (line == to)
			break;
		eol = memchr(line, '\n', (size_t)(end - line));
		if (u->at_start && eol != line)
			unknown_read_line(u, piece, line, eol ? eol : end);
		u->at_start = eol && eol < to;
		if (!u->at_start)
			break;
		u->line++;
		line = eol + 1;
	}
}

/* ---- signatures that match complaints ---- */

/* The first complaint that begins after @at. */
static int find_behind(const struct unknown *u, uint64_t at)
{
	int low = 0, high = u->n, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (u->pending[middle].start > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void unknown_cover(struct unknown *u, uint64_t at, enum signature_kind kind)
{
	int i = find_behind(u, at), least = i > OVERLAP ? i - OVERLAP : 0;

	while (--i >= least) {
		if (at > u->pending[i].stop)
			continue;
		u->pending[i].is_known = true;
		u->pending[i].has_cause |= kind < SIGNATURE_RESULT;
	}
}

static void unknown_settle_pending(struct pending *p, struct evidence *v)
{
	p->process->pending--;
	if (p->has_cause) {
		p->process->has_cause = true;
		return;
	}
	if (p->is_known || !matters(p->process, p->level))
		return;
	p->seen.text = p->text;
	if (p->level == COMPLAINT_WARNING)
		p->process->has_warning = true;
	else
		p->process->has_error = true;
	evidence_add_unknown(v,
			     p->level == COMPLAINT_WARNING ? EVIDENCE_WARNING
			     : p->level == COMPLAINT_DEATH ? EVIDENCE_KILLED
							   : EVIDENCE_ERROR,
			     p->form, &p->seen);
}

void unknown_settle(struct unknown *u, uint64_t end, struct evidence *v)
{
	int left = 0;

	for (int i = 0; i < u->n; i++)
		if (u->pending[i].stop < end)
			unknown_settle_pending(&u->pending[i], v);
		else
			u->pending[left++] = u->pending[i];
	u->n = left;
}
