/* sift.c - read a log in one pass and turn known messages into evidence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sift.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/num.h"
#include "diagnose/bare.h"
#include "diagnose/complaint.h"
#include "diagnose/jobstate.h"
#include "diagnose/lead.h"
#include "diagnose/match.h"
#include "diagnose/missing.h"
#include "diagnose/read.h"
#include "diagnose/unknown.h"
#include "ringup.h"

enum {
	BEHIND = 1024, /* of a line, before a match in it */
	AHEAD = 4096,  /* of a message, after its beginning */
	BLOCK = 256 << 10,
	SHOWN = 80,  /* of a long line, before a match in it */
	FOLDED = 48, /* bytes of a line whose sentence may go on in the next */
	RANKS = 1 << 20,
	ALLOWANCE = 4,  /* bytes read again for each byte of the log, */
	SAVED = 1 << 20 /* and the allowance at the start */
};

/* The current place in a log. */
struct place {
	struct sieve *sieve;
	int file;
	size_t len;      /* bytes in the block */
	size_t counted;  /* of these, lines are counted up to here */
	uint64_t before; /* bytes of the log before the block */
	long line;
	int64_t allowed;
};

int sift_open(struct sieve *s, struct err *e)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = match_open(&s->matcher, e);
	if (!rc)
		rc = evidence_open(&s->evidence, e);
	if (!rc)
		rc = unknown_open(&s->unknown, e);
	s->block = rc ? NULL : malloc(BEHIND + BLOCK + AHEAD);
	if (!rc && !s->block)
		rc = fail(e, RINGUP_ENOMEM, "no memory to read logs");
	return rc;
}

void sift_close(struct sieve *s)
{
	match_close(s->matcher);
	evidence_close(&s->evidence);
	unknown_close(s->unknown);
	free(s->block);
	memset(s, 0, sizeof(*s));
}

static void count_to(struct place *at, size_t to)
{
	const char *block = at->sieve->block;

	if (to <= at->counted)
		return;
	at->line += read_lines(block + at->counted, block + to);
	at->counted = to;
}

/* Finds the line around @at, or the part of it within reach. */
static void find_line(const struct place *p, size_t at, const char **start, const char **stop)
{
	const char *block = p->sieve->block;
	size_t back = at < BEHIND ? at : BEHIND;
	const char *nl = memrchr(block + at - back, '\n', back);
	size_t room = p->len - at < EVIDENCE_PROOF ? p->len - at : EVIDENCE_PROOF;

	*start = nl ? nl + 1 : block + at - back;
	nl = memchr(block + at, '\n', room);
	*stop = nl ? nl : block + at + room;
}

/* The start of the displayed part: after the text that a terminal has overwritten, and in a
 * long line a little before the match. */
static const char *find_shown(const char *start, const char *at, const char *stop)
{
	const char *cr = memrchr(start, '\r', (size_t)(at - start));

	if (cr)
		start = cr + 1;
	return stop - start > EVIDENCE_PROOF && at - start > SHOWN ? at - SHOWN : start;
}

static const char *end_of_line(const char *at, const char *end)
{
	const char *nl = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

	return nl ? nl : at;
}

/* Open MPI folds its sentences: the end of the one whose line goes up to @stop. */
static const char *end_of_sentence(const char *start, const char *stop, const char *end)
{
	const char *line = start;

	while (stop < end && *stop == '\n' && stop - line >= FOLDED &&
	       stop - start < EVIDENCE_PROOF && !strchr(".:;,-=", stop[-1]) && stop + 1 < end &&
	       stop[1] > ' ' && stop[1] != '-') {
		line = stop + 1;
		stop = end_of_line(line, end);
	}
	return stop;
}

/* The first line of a finding is the one that is shown: @shown, of EVIDENCE_PROOF bytes, takes
 * what does not stand in the log so. */
static void show(struct sighting *seen, const struct signature *s, const char *at,
		 const char *stop, const char *end, char *shown)
{
	stop = !strcmp(s->library, "openmpi") ? end_of_sentence(seen->text, stop, end)
					      : end_of_line(stop, end);
	seen->len = (size_t)(stop - seen->text);
	/* The match itself stays to be seen. */
	if (at - seen->text <= EVIDENCE_PROOF / 2) {
		seen->len = fields_elide(shown, EVIDENCE_PROOF - 1, seen->text, stop);
		seen->text = shown;
	}
}

/* Adds the process that wrote the line from @start to @stop, and what it wrote before. */
static void see_line(struct place *p, struct sighting *seen, const struct signature *s,
		     const char *start, const char *stop)
{
	const struct evidence *v = &p->sieve->evidence;
	bool is_boxed = !strcmp(s->library, "openmpi") || !strcmp(s->library, "mpich") ||
			!strcmp(s->library, "horovod");
	long back;

	if (s->kind == SIGNATURE_FACT && !(s->flags & (SIGNATURE_DONE | SIGNATURE_AGAIN)))
		return;
	seen->process = procs_find(v->procs, p->file, start, stop);
	if (v->of[s - signatures].count ||
	    (s->kind > SIGNATURE_EXIT && seen->fields.status < 0 && !seen->fields.signal))
		return;
	seen->lead = lead_find(p->sieve->block, start, is_boxed, &seen->lead_end, &back);
	seen->lead_line = seen->line - back;
}

/* Is the place @at in the line from @start within a quoted text that the program works on:
 * 'prompt "why does CUDA run out of memory?"'? */
static bool is_data(const char *start, const char *at)
{
	static const char *const words[] = { "prompt",      "question", "query",
					     "instruction", "caption",  "completion" };
	const char *p, *quote = NULL;
	size_t n;

	for (p = start; p < at && (p = memchr(p, '"', (size_t)(at - p))); p++)
		if (p == start || p[-1] != '\\')
			quote = quote ? NULL : p;
	while (quote && quote > start && strchr(" :='\"", quote[-1]))
		quote--;
	for (size_t i = 0; quote && i < sizeof(words) / sizeof(words[0]); i++) {
		n = strlen(words[i]);
		if ((size_t)(quote - start) >= n && !strncasecmp(quote - n, words[i], n))
			return true;
	}
	return false;
}

/* Is the text at @at, in the line from @start to @stop, what the program says of itself? */
static bool is_meant(const struct place *p, const struct signature *s, const char *at,
		     const char *start, const char *stop)
{
	return !is_data(start, at) && !(s->flags & SIGNATURE_BARE &&
					complaint_is_detail(p->sieve->block, start, stop));
}

/* Reads the origin of the line from @start to @stop.  A task of srun that starts ranks is none.
 */
static void see_origin(const struct place *p, struct sighting *seen, const struct signature *s,
		       const char *start, const char *stop)
{
	const struct procs *procs = p->sieve->evidence.procs;
	enum complaint level;
	int task;

	origin_read(&seen->origin, start, (size_t)(stop - start));
	if (procs_has_tasks(procs) && fields_label(start, stop, &task))
		seen->task = task;
	if (procs_is_of_task(procs, start, stop))
		seen->origin.rank = -1;
	else if (seen->origin.rank < 0)
		seen->origin.rank = origin_above(p->sieve->block, start);
	if (procs_has_tasks(procs) && !strcmp(s->library, "slurm")) {
		seen->task = seen->fields.rank;
		seen->fields.rank = -1;
	}
	seen->is_warned = !strcmp(s->library, "torch") &&
			  complaint_has_level(start, stop, &level) &&
			  level == COMPLAINT_WARNING;
}

/* "Name:  worker-3", the first line of what kubectl describes, is the pod of a line below. */
static size_t see_described(const struct place *p, size_t at, struct fields *f)
{
	static const char mark[] = "\nName: ";
	const char *block = p->sieve->block, *name = NULL;
	size_t back = at < AHEAD ? at : AHEAD, n = 0;

	for (const char *q = block + at - back;
	     (q = memmem(q, (size_t)(block + at - q), mark, sizeof(mark) - 1)); q++)
		name = q + sizeof(mark) - 1;
	while (name && name < block + at && *name == ' ')
		name++;
	while (name && name + n < block + at && name[n] > ' ')
		n++;
	if (n)
		fields_host(f, name, n);
	return back;
}

/* The first process that a message of TensorFlow or JAX names, "/job:worker/replica:0/task:3",
 * is the rank that it is about. */
static void see_task_name(const struct signature *s, const char *at, const char *stop,
			  struct fields *f)
{
	static const char mark[] = "/task:", behind[] = "task names:";
	const char *p;

	if (f->rank >= 0 || s->kind > SIGNATURE_PATH ||
	    (strcmp(s->library, "jax") != 0 && strcmp(s->library, "tensorflow") != 0))
		return;
	/* The first task at a barrier is one that came. */
	p = memmem(at, (size_t)(stop - at), behind, sizeof(behind) - 1);
	at = p ? p : at;
	p = memmem(at, (size_t)(stop - at), mark, sizeof(mark) - 1);
	for (p = p ? p + sizeof(mark) - 1 : stop;
	     p < stop && num_is_digit(*p) && f->rank < RANKS; p++)
		f->rank = (f->rank < 0 ? 0 : 10 * f->rank) + (*p - '0');
}

/* Reads what a signature finds beyond its text; returns whether it fits. */
static bool see_more(const struct place *p, const struct signature *s, size_t at,
		     const char *end, struct sighting *seen, size_t *looked)
{
	const char *block = p->sieve->block;
	enum jobstate state;

	if (s->flags & SIGNATURE_BOX)
		fields_box(block + at, end, &seen->fields, looked);
	if (s->flags & SIGNATURE_MISSING)
		missing_read(block + at, end, &seen->fields, looked);
	if (!(s->flags & SIGNATURE_TABLE))
		return true;
	state = jobstate_read(block, block + at, end, looked);
	seen->is_script = state == JOBSTATE_SCRIPT;
	return state != JOBSTATE_NONE;
}

static int on_found(void *ctx, const struct signature *s, const char *rest, size_t at)
{
	struct place *p = ctx;
	const char *block = p->sieve->block, *end = block + p->len, *start, *stop;
	struct sighting seen = { .file = p->file, .at = p->before + at, .task = -1 };
	char shown[EVIDENCE_PROOF];
	size_t looked = 0;
	const char *behind;
	bool fits;

	if (p->allowed < 0) {
		p->sieve->unseen++;
		return 0;
	}
	if (end - (block + at) > AHEAD)
		end = block + at + AHEAD;
	behind = fields_literal(&rest, block + at, end, &looked);
	if (!behind) {
		p->allowed -= (int64_t)looked;
		return 0;
	}
	at = (size_t)(behind - block);
	seen.at = p->before + at;
	fields_init(&seen.fields);
	fits = fields_match(rest, block + at, end, &seen.fields, &looked);
	if (fits && s->flags & (SIGNATURE_BARE | SIGNATURE_SHELL)) {
		find_line(p, at, &start, &stop);
		looked += (size_t)(stop - start);
		fits = bare_fits(s, start, stop, *rest == '\n' ? block + at : NULL);
	}
	if (fits) {
		find_line(p, at, &start, &stop);
		fits = is_meant(p, s, block + at, start, stop);
	}
	if (fits)
		see_task_name(s, start, stop, &seen.fields);
	if (fits)
		fits = see_more(p, s, at, end, &seen, &looked);
	if (fits && !seen.fields.hosts && !strcmp(s->library, "kubernetes") &&
	    !memmem(start, (size_t)(stop - start), "pod/", 4))
		looked += see_described(p, at, &seen.fields);
	if (fits) {
		see_origin(p, &seen, s, start, stop);
		looked += (size_t)(stop - start);
		count_to(p, at);
		seen.line = p->line;
		see_line(p, &seen, s, start, stop);
		seen.text = start = find_shown(start, block + at, stop);
		seen.len = (size_t)(stop - start);
		if (!p->sieve->evidence.of[s - signatures].count)
			show(&seen, s, block + at, stop, end, shown);
		evidence_add(&p->sieve->evidence, s, &seen);
		unknown_cover(p->sieve->unknown, p->before + at - 1, s);
	}
	p->allowed -= (int64_t)looked;
	return fits;
}

/* Scans up to @to, then keeps the bytes that may still be read. */
static void advance(struct place *p, size_t *from, size_t to, bool is_last)
{
	size_t keep = to < BEHIND ? to : BEHIND;
	char *block = p->sieve->block;
	struct piece piece = { block, *from, to, p->len, p->before };

	if (is_last || !p->before)
		procs_look(p->sieve->evidence.procs, block + *from, block + to);
	p->allowed += ALLOWANCE * (int64_t)(to - *from);
	if (p->allowed > SAVED + ALLOWANCE * BLOCK)
		p->allowed = SAVED + ALLOWANCE * BLOCK;
	unknown_read(p->sieve->unknown, &piece);
	match_scan(p->sieve->matcher, block, *from, to, on_found, p);
	unknown_settle(p->sieve->unknown, is_last ? UINT64_MAX : p->before + to,
		       &p->sieve->evidence);
	count_to(p, to);
	procs_read(p->sieve->evidence.procs,
		   &(struct procs_piece){ block, *from, to, p->before, p->line, is_last });
	memmove(block, block + to - keep, p->len - (to - keep));
	p->before += to - keep;
	p->len -= to - keep;
	p->counted = *from = keep;
}

/* Ends the last line of a log that was cut off, so that it is read like any other; the block
 * has room. */
static void end_line(struct place *p)
{
	if (p->len && p->sieve->block[p->len - 1] != '\n')
		p->sieve->block[p->len++] = '\n';
}

int sift_log(struct sieve *s, struct reader *r, int file, struct err *e)
{
	struct place p = { .sieve = s, .file = file, .line = 1, .allowed = SAVED };
	size_t from = 0;
	ssize_t n;

	match_reset(s->matcher);
	unknown_begin(s->unknown, file);
	procs_begin(s->evidence.procs, file, r->path ? r->path : "");
	do {
		n = read_some(r, s->block + p.len, BEHIND + BLOCK + AHEAD - p.len, e);
		if (n < 0)
			return (int)n;
		p.len += (size_t)n;
		s->bytes += (uint64_t)n;
		if (!n)
			end_line(&p);
		if (!n)
			advance(&p, &from, p.len, true);
		else if (p.len == BEHIND + BLOCK + AHEAD)
			advance(&p, &from, p.len - AHEAD, false);
	} while (n);
	unknown_end(s->unknown, &s->evidence);
	s->lines += p.line - 1;
	return read_end(r, e);
}
