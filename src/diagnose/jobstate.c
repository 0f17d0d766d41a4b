/* jobstate.c - tell whether a record or table of a scheduler says that a job ended well. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/jobstate.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

/* BELOW: less than what may be read behind a match, so that a cut is seen. */
enum { ABOVE = 2048, BELOW = 3800, ROW = 256, COLUMNS = 8 };

/* A piece of text. */
struct span {
	const char *at, *end;
};

/* A row of a table: its id, and the word in the column of states. */
struct row {
	struct span id, state;
};

struct table {
	struct row row[JOBSTATE_ROWS];
	int n;
	bool is_cut; /* it has more rows */
};

static bool is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool jobstate_is_gap(char c)
{
	return c == ' ' || c == '\t' || c == '|' || c == '\r';
}

/* The next word from *@p on; false at the end. */
static bool next_word(const char **p, const char *end, struct span *w)
{
	while (*p < end && jobstate_is_gap(**p))
		++*p;
	for (w->at = *p; *p < end && !jobstate_is_gap(**p); ++*p)
		;
	w->end = *p;
	return w->at < w->end;
}

static bool span_is(struct span w, const char *text)
{
	return (size_t)(w.end - w.at) == strlen(text) && !memcmp(w.at, text, strlen(text));
}

static bool is_one_of(struct span w, const char *const *texts)
{
	for (; *texts; texts++)
		if (span_is(w, *texts))
			return true;
	return false;
}

static bool is_well(struct span w)
{
	static const char *const words[] = { "COMPLETED", "Completed", "Complete", "SUCCEEDED",
					     "Succeeded", "DONE",      NULL };

	return is_one_of(w, words);
}

/* A worker of MPI waits, and is removed, when the launcher has ended. */
static bool is_left_over(struct span w)
{
	static const char *const words[] = { "Running", "Terminating", "RUNNING", NULL };

	return is_one_of(w, words);
}

/* "3/3" of Kubernetes' jobs. */
static bool is_whole(struct span w)
{
	const char *slash = memchr(w.at, '/', (size_t)(w.end - w.at));

	return slash && slash > w.at && slash - w.at == w.end - slash - 1 &&
	       !memcmp(w.at, slash + 1, (size_t)(slash - w.at)) && num_is_digit(*w.at) &&
	       *w.at != '0';
}

/* "0:0", the exit code and signal of Slurm. */
static bool is_exit_code(struct span w)
{
	ptrdiff_t n = w.end - w.at;

	return n > 2 && n < 8 && num_is_digit(*w.at) && memchr(w.at, ':', (size_t)n) &&
	       num_is_digit(w.end[-1]);
}

/* ---- records ---- */

static bool says(struct span line, const char *text)
{
	for (const char *p = line.at; p + strlen(text) <= line.end; p++)
		if (!strncasecmp(p, text, strlen(text)))
			return true;
	return false;
}

/* Is the word the value of "state", "status" or "phase" of a job?  Of Slurm it is the state of
 * the batch script. */
static enum jobstate read_record(struct span line, const char *word)
{
	static const char *const keys[] = { "state", "status", "phase" };
	static const char *const wholes[] = { "final", "application", "runstatus", "job" };
	const char *p = word, *colon = NULL;
	size_t n;

	while (p > line.at && strchr(" =:\"'\t", p[-1]) && word - p < 24) {
		p--;
		if (*p == ':' || *p == '=')
			colon = p;
	}
	for (size_t i = 0; colon && i < sizeof(keys) / sizeof(keys[0]); i++) {
		n = strlen(keys[i]);
		if ((size_t)(p - line.at) < n || strncasecmp(p - n, keys[i], n) != 0)
			continue;
		if (says(line, "JobState=") || says(line, "(exit code 0)"))
			return JOBSTATE_SCRIPT;
		for (size_t k = 0; k < sizeof(wholes) / sizeof(wholes[0]); k++)
			if (says(line, wholes[k]))
				return JOBSTATE_JOB;
	}
	return JOBSTATE_NONE;
}

/* ---- tables ---- */

static struct span line_of(const char *start, const char *at, const char *end)
{
	struct span line;

	line.at = memrchr(start, '\n', (size_t)(at - start));
	line.at = line.at ? line.at + 1 : start;
	line.end = memchr(at, '\n', (size_t)(end - at));
	line.end = line.end ? line.end : end;
	return line;
}

static bool is_blank(struct span line)
{
	while (line.at < line.end && jobstate_is_gap(*line.at))
		line.at++;
	return line.at == line.end;
}

/* The place of a column: where it begins and ends in its line, and which it is. */
struct column {
	ptrdiff_t from, to;
	int number;
	bool counts; /* "3/3" */
};

/* Is the line the titles of a table with a column of states? */
static bool find_title(struct span line, struct column *c)
{
	static const char *const firsts[] = { "JobID", "JOBID", "NAME",      "JobName",
					      "Job",   "ID",    "NAMESPACE", NULL };
	static const char *const titles[] = {
		"State", "STATE", "Status", "STATUS", "STAT", NULL
	};
	const char *p = line.at;
	struct span w, counts = { NULL, NULL };
	int number = 0, at = 0;

	while (p < line.end && jobstate_is_gap(*p))
		p++;
	if (p == line.end || !memchr("JNI", *p, 3))
		return false;
	if (!next_word(&p, line.end, &w) || !is_one_of(w, firsts))
		return false;
	for (; next_word(&p, line.end, &w); number++) {
		if (is_one_of(w, titles)) {
			*c = (struct column){ w.at - line.at, w.end - line.at, number + 1,
					      false };
			return true;
		}
		if (span_is(w, "COMPLETIONS")) {
			counts = w;
			at = number + 1;
		}
	}
	if (counts.at)
		*c = (struct column){ counts.at - line.at, counts.end - line.at, at, true };
	return counts.at;
}

/* Is the word all that "kubectl get pytorchjob NAME -o jsonpath=..." prints, the command on the
 * line before? */
static bool is_asked_for(const char *start, struct span line, struct span word)
{
	struct span command;

	if (line.at == start || word.at != line.at || word.end < line.end)
		return false;
	command = line_of(start, line.at - 1, line.at);
	return says(command, "kubectl get ") && says(command, "jsonpath=") &&
	       !says(command, "get pod");
}

/* Reads a row: the word below the title; tables between bars are not aligned. */
static bool read_row(struct span line, const struct column *c, struct row *r)
{
	bool has_bars = memchr(line.at, '|', (size_t)(line.end - line.at));
	const char *p = line.at;
	struct span w;

	if (!next_word(&p, line.end, &r->id))
		return false;
	for (int number = 1; next_word(&p, line.end, &w); number++)
		if (has_bars ? number == c->number
			     : w.at - line.at <= c->to && w.end - line.at >= c->from) {
			r->state = w;
			return true;
		}
	return false;
}

/* Reads a row of Slurm without a title: a state before its exit code. */
static bool read_bare_row(struct span line, struct row *r)
{
	const char *p = line.at;
	struct span w, last = { NULL, NULL };

	/* "sacct: 4711 COMPLETED 0:0" */
	if (!next_word(&p, line.end, &r->id) ||
	    (r->id.end[-1] == ':' && !next_word(&p, line.end, &r->id)) ||
	    !num_is_digit(*r->id.at))
		return false;
	for (; next_word(&p, line.end, &w); last = w)
		if (last.at && is_exit_code(w) && *last.at >= 'A' && *last.at <= 'Z') {
			r->state = last;
			return true;
		}
	return false;
}

static bool is_rule(struct span line)
{
	while (line.at < line.end && (jobstate_is_gap(*line.at) || strchr("-=+", *line.at)))
		line.at++;
	return line.at == line.end;
}

/* Reads the rows below the titles, or without such the rows around the line. */
static void read_table(struct table *t, struct span line, const struct column *c,
		       const char *end)
{
	const char *stop = end - line.at < BELOW ? end : line.at + BELOW;

	*t = (struct table){ .n = 0 };
	for (; line.at < stop && !is_blank(line); line = line_of(line.at, line.end + 1, end)) {
		struct row r;

		if (!is_rule(line)) {
			if (c ? !read_row(line, c, &r) : !read_bare_row(line, &r))
				return;
			/* Other lines may follow without a gap. */
			if (c && !c->counts && t->n && (*r.state.at < 'A' || *r.state.at > 'Z'))
				return;
			if (t->n == JOBSTATE_ROWS)
				break;
			t->row[t->n++] = r;
		}
		if (line.end + 1 >= end)
			return;
	}
	t->is_cut = line.at >= stop || t->n == JOBSTATE_ROWS;
}

static bool have_one_id(const struct row *x, const struct row *y)
{
	return x->id.end - x->id.at == y->id.end - y->id.at &&
	       !memcmp(x->id.at, y->id.at, (size_t)(x->id.end - x->id.at));
}

/* Is the row the whole job, or the process that starts and ends it? */
static bool leads(const struct row *r)
{
	static const char *const names[] = { "launcher", "master", "chief", "driver", "head" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (says(r->id, names[i]))
			return true;
	return false;
}

/* Are they the titles of Slurm or LSF, which show how a script ended? */
static bool is_batch(struct span titles)
{
	return says(titles, "ExitCode") || says(titles, "EXEC_HOST") || says(titles, "JobID");
}

/* Slurm's step that holds the allocation ends well when the job fails, too. */
static bool is_holder(const struct row *r)
{
	return says(r->id, ".extern");
}

static enum jobstate judge_table(const struct table *t, bool counts, bool is_batch)
{
	bool is_led = false, is_good = false, is_left = false;

	for (int i = 0; i < t->n; i++) {
		const struct row *r = &t->row[i];
		bool is_over = counts ? is_whole(r->state) : is_well(r->state);

		is_good |= is_over && !is_holder(r);
		is_led |= is_over && leads(r);
		if (is_over)
			continue;
		for (int k = i + 1; k < t->n && !is_over; k++)
			is_over = have_one_id(&t->row[k], r) && is_well(t->row[k].state);
		if (!is_over && (counts || !is_left_over(r->state)))
			return JOBSTATE_NONE;
		is_left |= !is_over;
	}
	if (t->is_cut || !is_good || (is_left && !is_led))
		return JOBSTATE_NONE;
	return is_batch ? JOBSTATE_SCRIPT : JOBSTATE_JOB;
}

/* Finds the titles above @line, in the lines that have no gap between them. */
static bool find_titles(const char *start, struct span line, struct span *titles,
			struct column *c)
{
	const char *least = line.at - start < ABOVE ? start : line.at - ABOVE;

	for (int i = 0; i < JOBSTATE_ROWS; i++) {
		if (find_title(line, c)) {
			*titles = line;
			return true;
		}
		if (line.at <= least || is_blank(line))
			return false;
		line = line_of(start, line.at - 1, line.end);
	}
	return false;
}

/* The first of the rows without titles that the line belongs to. */
static struct span first_row(const char *start, struct span line)
{
	const char *least = line.at - start < ABOVE ? start : line.at - ABOVE;
	struct row r;

	while (line.at > least && read_bare_row(line_of(start, line.at - 1, line.end), &r))
		line = line_of(start, line.at - 1, line.end);
	return line;
}

/* Is the word one of a table: a title, or with blanks or bars that align it? */
static bool is_aligned(struct span line, struct span word)
{
	return !is_well(word) ||
	       (line.end > word.end + 1 && jobstate_is_gap(*word.end) &&
		(word.end[1] == ' ' || *word.end == '|')) ||
	       (word.at > line.at + 1 && jobstate_is_gap(word.at[-1]) &&
		(word.at[-2] == ' ' || word.at[-1] == '|'));
}

bool jobstate_is_zero(const char *line, const char *before)
{
	static const char *const words[] = { "rc",       "ret",       "status",      "code",
					     "retcode",  "exit",      "exited",      "returned",
					     "exitcode", "exit_code", "exit_status", NULL };
	size_t n = strlen(line);
	const char *p = line + n, *end;

	if (!strcmp(line, "0"))
		return strlen(before) >= 7 && !strcmp(before + strlen(before) - 7, "echo $?");
	if (n < 4 || p[-1] != '0' || !strchr(" =:", p[-2]) || strstr(line, "echo "))
		return false;
	for (p--; p > line && strchr(" =:", p[-1]); p--)
		;
	for (end = p; p > line && (is_letter(p[-1]) || p[-1] == '_'); p--)
		;
	return (p == line || strchr(" (,[", p[-1])) &&
	       is_one_of((struct span){ p, end }, words);
}

bool jobstate_runs(const char *line, const char *end)
{
	static const char *const words[] = { "R", "r", "RUN", "RUNNING", "Running", NULL };
	const char *p = line;
	static const char *const records[] = { "JobState=RUNNING", "state: RUNNING",
					       "Status: Running", "is still running" };
	struct span w;
	bool is_row = false;

	if (end - line > ROW)
		return false;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		if (memmem(line, (size_t)(end - line), records[i], strlen(records[i])))
			return true;
	/* The number of a job, or the name of a pod and its "1/1", come first. */
	for (int i = 0; i < COLUMNS && next_word(&p, end, &w); i++) {
		if (i == 0)
			is_row = num_is_digit(*w.at);
		else if (i == 1)
			is_row |= is_whole(w);
		if (is_row && i > 1 && is_one_of(w, words))
			return next_word(&p, end, &w);
	}
	return false;
}

enum jobstate jobstate_read(const char *start, const char *at, const char *end, size_t *looked)
{
	struct span line = line_of(start, at, end), titles, word = { at, at };
	enum jobstate found = JOBSTATE_NONE;
	struct column c;
	struct table t;
	struct row r;

	*looked += (size_t)(line.end - line.at);
	while (word.at > line.at && is_letter(word.at[-1]))
		word.at--;
	while (word.end < line.end && is_letter(*word.end))
		word.end++;
	if (is_well(word))
		found = read_record(line, word.at);
	if (found != JOBSTATE_NONE)
		return found;
	if (is_well(word) && is_asked_for(start, line, word))
		return JOBSTATE_JOB;
	if (is_aligned(line, word) && find_titles(start, line, &titles, &c)) {
		*looked += ABOVE / 2;
		if (titles.end + 1 >= end)
			return JOBSTATE_NONE;
		read_table(&t, line_of(start, titles.end + 1, end), &c, end);
		return judge_table(&t, c.counts, is_batch(titles));
	}
	if (!read_bare_row(line, &r))
		return JOBSTATE_NONE;
	read_table(&t, first_row(start, line), NULL, end);
	return judge_table(&t, false, true);
}
