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
	bool has_cause, has_error, has_warning, has_later;
	uint64_t first_at; /* of its first cause or error */
};

/* The last error of a process that has had one before. */
struct later {
	struct sighting seen;
	enum complaint level;
	uint64_t form;
	char text[EVIDENCE_PROOF];
};

/* A complaint that a signature may yet match. */
struct pending {
	struct process *process;
	enum complaint level;
	uint64_t start, stop;               /* of the log: where a signature would match */
	uint64_t form;                      /* equal for lines that differ in numbers only */
	uint64_t exception, exception_stop; /* of the log: the one that is shown, or 0 */
	bool is_known, has_cause;
	struct sighting seen;
	char text[EVIDENCE_PROOF];
};

struct unknown {
	struct process process[PROCESSES];
	struct later later[PROCESSES]; /* of process[] of the same number */
	int processes;
	struct pending pending[PENDING];
	int n;
	int file;
	long line;
	bool at_start;     /* of a line */
	uint64_t box_ends; /* start of the line of dashes after the last message */
	uint64_t ignored;  /* end of the last traceback that Python says it ignores */
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
	u->ignored = 0;
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
	return !p->has_cause && !p->has_error &&
	       (level != COMPLAINT_WARNING || !p->has_warning);
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
	if (!process || process->pending == OF_ONE)
		return NULL;
	if ((level == COMPLAINT_ERROR || level == COMPLAINT_EXCEPTION) &&
	    complaint_tries_again(said, end))
		level = COMPLAINT_WARNING;
	if (level == COMPLAINT_WARNING && !matters(process, level))
		return NULL;
	process->pending++;
	memset(&p->seen, 0, sizeof(p->seen));
	fields_init(&p->seen.fields);
	p->seen.task = -1;
	p->process = process;
	p->level = level;
	p->start = piece->before + (uint64_t)(line - piece->block);
	p->stop = piece->before + (uint64_t)(end - piece->block);
	p->form = form_of(said, end);
	p->exception = 0;
	p->is_known = p->has_cause = false;
	p->seen.file = u->file;
	p->seen.line = u->line;
	p->seen.at = p->start;
	p->seen.origin = origin;
	p->seen.len = fields_elide(p->text, sizeof(p->text) - 1, line, end);
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
	       (level == COMPLAINT_NONE && column >= 0 &&
		(unknown_is_name(line, end) ||
		 (column < end - line && unknown_is_name(line + column, end))));
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
	const char *wrapper;   /* the same of one that wraps what another process raised */
	bool in_traceback, is_first, is_uncaught;
	ptrdiff_t column;
	struct origin_mark whose; /* lines of other processes may stand between */
};

/* MPICH's launcher writes its mark anew before each piece that a program writes: "[1]
 * KeyError[1] : 'labels'".  Copies the line with the first mark alone; returns 0 if it has no
 * other. */
static size_t unknown_mend(char out[EVIDENCE_PROOF], const char *line, const char *end)
{
	const char *close = end - line > 8 && *line == '[' ? memchr(line, ']', 7) : NULL;
	const char *at, *next;
	size_t mark = close ? (size_t)(close + 2 - line) : 0, n = 0, len;

	if (mark < 4 || close[1] != ' ' ||
	    !memmem(line + 1, (size_t)(end - line - 1), line, mark))
		return 0;
	for (at = line; at < end && n < EVIDENCE_PROOF; at = next + mark) {
		next = memmem(at + (at == line), (size_t)(end - at - (at == line)), line, mark);
		len = (size_t)((next ? next : end) - at);
		len = len < EVIDENCE_PROOF - n ? len : EVIDENCE_PROOF - n;
		memcpy(out + n, at, len);
		n += len;
		if (!next)
			break;
	}
	return n;
}

/* Is the line an exception, perhaps with marks in it? */
static bool is_torn_exception(const char *line, const char *end, ptrdiff_t column)
{
	char whole[EVIDENCE_PROOF];
	size_t n = unknown_mend(whole, line, end);

	return n ? is_exception(whole, whole + n, column) : is_exception(line, end, column);
}

/* Looks for the exception that the last one wraps. */
static void unknown_unwrap(struct chain *c, ptrdiff_t column)
{
	c->wrapper = c->wrapper ? c->wrapper : c->exception;
	c->exception = NULL;
	c->in_traceback = true;
	c->column = column;
}

/* Does the line up to @eol belong to the chain? */
static bool is_of_chain(struct chain *c, const char *at, const char *eol)
{
	ptrdiff_t column = find_traceback(at, eol);

	/* What was raised in another process or thread follows the exception that wraps it. */
	if (has(at, eol, "Original Traceback (most") ||
	    has(at, eol, "terminated with the following error:")) {
		column -= column >= 9 ? 9 : 0;
		unknown_unwrap(c, column);
		return true;
	}
	if (column >= 0 || has(at, eol, "During handling of the above") ||
	    has(at, eol, "The above exception was the")) {
		c->in_traceback = true;
		c->column = column;
		return true;
	}
	if (c->in_traceback || c->is_first) {
		if (!is_torn_exception(at, eol, c->in_traceback ? c->column : -1))
			return c->in_traceback;
		if (c->in_traceback && !c->exception)
			c->exception = at;
		c->in_traceback = false;
		/* Ray's has no line "Traceback" before the stack of the task. */
		if (has(at, eol, "RayTaskError("))
			unknown_unwrap(c, c->column);
		return true;
	}
	return unknown_is_blank(at, eol) || has(at, eol, "\tat ") || has(at, eol, "    at ") ||
	       has(at, eol, "Caused by: ") || has(at, eol, "\t... ");
}

/* Has the line another mark than @own, which is one? */
static bool is_of_other(const struct origin_mark *own, const char *line, const char *end)
{
	struct origin_mark mark;

	if (own->rank < 0 && !own->host)
		return false;
	origin_mark(&mark, line, end);
	return (mark.rank >= 0 || mark.host) &&
	       (mark.rank != own->rank || mark.len != own->len ||
		(mark.len && memcmp(mark.host, own->host, mark.len) != 0));
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
	origin_mark(&c->whose, line, at);
	if (end - at > CHAIN)
		end = at + CHAIN;
	for (; at < end; at = eol + 1) {
		eol = memchr(at, '\n', (size_t)(end - at));
		if (eol && is_of_other(&c->whose, at, eol))
			continue;
		if (!eol || !is_of_chain(c, at, eol))
			break;
		/* What a program catches and prints begins where it is caught. */
		c->is_uncaught |= c->in_traceback && c->is_first &&
				  (has(at, eol, ", in <module>") ||
				   has(at, eol, ", in _run_module_as_main"));
		c->is_first = false;
		if (!c->in_traceback && !unknown_is_blank(at, eol))
			c->stop = eol;
	}
	c->exception = c->exception ? c->exception : c->wrapper;
}

/* Does the line go on with the message before it, but for a frame of Java's stack? */
static bool is_more(const char *line, const char *end)
{
	return end - line > 4 && line[0] == ' ' && (line[1] | 0x20) >= 'a' &&
	       (line[1] | 0x20) <= 'z' && memcmp(line + 1, "at ", 3) != 0;
}

/* A message that ends with a colon goes on in the next line, which says what it is about; so
 * does one whose next line begins with a blank. */
static void show_more(struct pending *p, const char *eol, const char *end)
{
	const char *next = eol + 1, *stop;
	size_t room, len;
	int rank;

	while (p->seen.len && (unsigned char)p->text[p->seen.len - 1] <= ' ')
		p->seen.len--;
	room = sizeof(p->text) - p->seen.len;
	if (!p->seen.len || next >= end || room < 2 ||
	    (p->text[p->seen.len - 1] != ':' && !is_more(next, end)))
		return;
	stop = memchr(next, '\n', (size_t)(end - next));
	stop = stop ? stop : end;
	next = fields_unmark(next, stop, &rank);
	while (next < stop && (unsigned char)*next <= ' ')
		next++;
	len = (size_t)(stop - next) < room - 1 ? (size_t)(stop - next) : room - 1;
	p->text[p->seen.len++] = ' ';
	memcpy(p->text + p->seen.len, next, len);
	p->seen.len += len;
}

/* The exception of the traceback after a complaint says more than the complaint.  Returns its
 * length. */
static size_t show_exception(struct pending *p, const char *line, const char *exception,
			     const char *end)
{
	const char *eol = memchr(exception, '\n', (size_t)(end - exception)), *said;

	if (!eol)
		return 0;
	p->seen.line += read_lines(line, exception);
	p->seen.len = unknown_mend(p->text, exception, eol);
	if (!p->seen.len)
		p->seen.len = fields_elide(p->text, sizeof(p->text) - 1, exception, eol);
	if (complaint_judge(exception, eol, &said) == COMPLAINT_ERROR)
		complaint_judge(said, eol, &said);
	p->form = form_of(said, eol);
	show_more(p, eol, end);
	return (size_t)(eol - exception);
}

/* Extends the complaint, the line up to @eol, by its chain. */
static void unknown_follow(struct pending *p, const struct piece *piece, const char *line,
			   const char *eol)
{
	const char *block_end = piece->block + piece->len;
	struct chain chain;

	find_chain(&chain, line, eol + 1, block_end);
	p->seen.is_uncaught = chain.is_uncaught;
	p->seen.is_caught = p->level == COMPLAINT_ERROR ||
			    (p->level == COMPLAINT_TRACEBACK && !chain.is_uncaught);
	if (chain.exception &&
	    (p->level == COMPLAINT_ERROR || p->level == COMPLAINT_TRACEBACK)) {
		p->exception = piece->before + (uint64_t)(chain.exception - piece->block);
		p->exception_stop =
			p->exception + show_exception(p, line, chain.exception, block_end);
	}
	if (piece->before + (uint64_t)(chain.stop - piece->block) > p->stop)
		p->stop = piece->before + (uint64_t)(chain.stop - piece->block);
}

/* Reads a line, or a part of it that a terminal overwrites: see unknown_read_line(). */
/* A frame of a Python stack, which some loggers give a level like any line. */
static bool is_frame(const char *line, const char *end)
{
	const char *at = memmem(line, (size_t)(end - line), "  File \"", 8);

	return at && memmem(at, (size_t)(end - at), "\", line ", 8);
}

/* A line of code, or one that goes on, behind a level that a logger gives to all lines. */
static bool is_indented(const char *said, const char *end)
{
	const char *at = said, *bracket;

	/* "ERROR 11-24 08:50:34 [core.py:842]     raise ValueError(" */
	bracket = memchr(at, ']', (size_t)(end - at < 48 ? end - at : 48));
	at = bracket ? bracket + 1 : at;
	return end - at > 4 && !memcmp(at, "    ", 4);
}

/* Is the line after "Exception ignored in: ...", by which Python passes over what a destructor
 * raises?  Then its traceback is none of the job's. */
static bool skip_ignored(struct unknown *u, const struct piece *piece, const char *line,
			 const char *eol)
{
	const char *last = line > piece->block + 1 ? memrchr(piece->block, '\n',
							     (size_t)(line - 1 - piece->block))
						   : NULL;
	struct chain chain;

	if (line <= piece->block + 1 || eol >= piece->block + piece->len)
		return false;
	last = last ? last + 1 : piece->block;
	if (!has(last, line, "Exception ignored "))
		return false;
	find_chain(&chain, line, eol + 1, piece->block + piece->len);
	u->ignored = piece->before + (uint64_t)(chain.stop - piece->block);
	return true;
}

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
	if (level == COMPLAINT_NONE || level == COMPLAINT_RULE || is_within(u, at) ||
	    at < u->ignored ||
	    (level == COMPLAINT_EXCEPTION &&
	     complaint_is_detail(piece->block, part, part_end)) ||
	    (level == COMPLAINT_TRACEBACK && skip_ignored(u, piece, part, eol)))
		return;
	if (level == COMPLAINT_ERROR &&
	    (is_frame(part, part_end) || is_indented(said, part_end)))
		return;
	p = take_down(u, piece, level, part, part_end, said);
	if (p && (level == COMPLAINT_ERROR || level == COMPLAINT_EXCEPTION) && eol == part_end)
		show_more(p, eol, piece->block + piece->len);
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

void unknown_cover(struct unknown *u, uint64_t at, const struct signature *s)
{
	int i = find_behind(u, at), least = i > OVERLAP ? i - OVERLAP : 0;

	while (--i >= least) {
		struct pending *p = &u->pending[i];

		if (at > p->stop || (s->kind == SIGNATURE_FACT && p->seen.is_uncaught) ||
		    (s->flags & SIGNATURE_VAGUE && p->exception &&
		     (at < p->exception || at > p->exception_stop)))
			continue;
		p->is_known = true;
		p->has_cause |= s->kind < SIGNATURE_RESULT && !(s->flags & SIGNATURE_WAITS);
	}
}

/* The signal that a shell's message is about. */
static int signal_of(const char *text, size_t len)
{
	static const struct {
		const char *said;
		int signal;
	} known[] = { { "Killed", 9 },    { "Terminated", 15 },
		      { "Aborted", 6 },   { "Segmentation fault", 11 },
		      { "Bus error", 7 }, { "Floating point exception", 8 },
		      { "Illegal ", 4 } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (memmem(text, len, known[i].said, strlen(known[i].said)))
			return known[i].signal;
	return 0;
}

static void put_unknown(struct evidence *v, enum complaint level, uint64_t form,
			struct sighting *seen, const char *text)
{
	int task;

	seen->text = text;
	if (level == COMPLAINT_DEATH)
		seen->fields.signal = signal_of(text, seen->len);
	seen->process = procs_find(v->procs, seen->file, text, text + seen->len);
	if (procs_is_of_task(v->procs, text, text + seen->len))
		seen->origin.rank = -1;
	if (procs_has_tasks(v->procs) && fields_label(text, text + seen->len, &task))
		seen->task = task;
	evidence_add_unknown(v,
			     level == COMPLAINT_WARNING ? EVIDENCE_WARNING
			     : level == COMPLAINT_DEATH ? EVIDENCE_KILLED
							: EVIDENCE_ERROR,
			     form, seen);
}

static void unknown_settle_pending(struct unknown *u, struct pending *p, struct evidence *v)
{
	struct process *x = p->process;
	struct later *l = &u->later[x - u->process];

	x->pending--;
	if (!x->has_cause && !x->has_error)
		x->first_at = p->start;
	if (p->has_cause) {
		x->has_cause = true;
		return;
	}
	if (p->is_known)
		return;
	if (matters(x, p->level)) {
		x->has_warning |= p->level == COMPLAINT_WARNING;
		x->has_error |= p->level != COMPLAINT_WARNING;
		put_unknown(v, p->level, p->form, &p->seen, p->text);
	} else if (p->level != COMPLAINT_WARNING) {
		x->has_later = true;
		l->seen = p->seen;
		l->level = p->level;
		l->form = p->form;
		memcpy(l->text, p->text, sizeof(l->text));
	}
}

void unknown_settle(struct unknown *u, uint64_t end, struct evidence *v)
{
	int left = 0;

	for (int i = 0; i < u->n; i++)
		if (u->pending[i].stop < end)
			unknown_settle_pending(u, &u->pending[i], v);
		else
			u->pending[left++] = u->pending[i];
	u->n = left;
}

void unknown_end(struct unknown *u, struct evidence *v)
{
	for (int i = 0; i < PROCESSES; i++) {
		struct process *p = &u->process[i];
		struct later *l = &u->later[i];

		if (p->has_later &&
		    procs_went_on(v->procs, u->file, l->seen.origin.rank, p->first_at))
			put_unknown(v, l->level, l->form, &l->seen, l->text);
		p->has_later = false;
	}
}
