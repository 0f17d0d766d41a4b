/* jobend.c - tell from the processes of a job whether it ended well, failed or fell silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/jobend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/stepline.h"

enum {
	OWN_STEPS = 2,     /* of the process that complained */
	ANY_STEPS = 3,     /* of others in its log */
	STILL = 120,       /* seconds without a step, while one rank is behind */
	LONG_STILL = 1200, /* and while only a monitor writes */
	LOOPS = 8,         /* equal lines at the end of a log that only waits */
	NEAR_END = 90,     /* percent of all steps */
	FEW = 4,           /* ranks that are named */
	ENDED = 2,         /* times that something ended before it did not */
	WORLD = 4096       /* ranks that are looked at */
};

const char *jobend_name(enum jobend o)
{
	static const char *const names[] = { "unknown", "well", "failed", "silent" };

	return names[o];
}

/* Did tests pass after @at, and none fail?  A suite may print failures on purpose. */
static bool has_passed(const struct proc *p, uint64_t at)
{
	if (p->passed <= at || p->failed > at)
		return false;
	for (int i = 0; i < p->suites; i++)
		if (p->suite[i].has_passed && p->suite[i].from <= at && p->suite[i].to > at)
			return true;
	return false;
}

static bool says_well(const struct evidence *v, int file, uint64_t at, bool of_job)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);

	for (int i = 0; i < n; i++)
		if (p[i].file == file &&
		    ((of_job ? p[i].job_well : p[i].ended_well) > at || has_passed(&p[i], at)))
			return true;
	return false;
}

/* The last place in the log at which the job, or a part of it, started again; 0 without one. */
static uint64_t last_start(const struct evidence *v, int file)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);
	uint64_t at = 0;

	for (int i = 0; i < n; i++)
		if (p[i].file == file && p[i].again > at)
			at = p[i].again;
	return at;
}

/* Did the whole job end well before @at, and start nothing since? */
static bool jobend_is_over(const struct evidence *v, int file, uint64_t at)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);
	uint64_t end = 0;

	for (int i = 0; i < n; i++)
		if (p[i].file == file && p[i].job_well > end)
			end = p[i].job_well;
	return end && end <= at && end > last_start(v, file) &&
	       !procs_went_on(v->procs, file, -1, end);
}

/* Is the step well before the last one? */
static bool is_short(long step, long total)
{
	return step <= total / 100 * NEAR_END + total % 100 * NEAR_END / 100;
}

/* Had all processes with steps, or the one that starts them, told of their end before @at, and
 * none gone on since? */
static bool have_ended(const struct evidence *v, int file, uint64_t at)
{
	int n, ended = 0;
	const struct proc *p = procs_list(v->procs, &n),
			  *driver = procs_unmarked(v->procs, file);
	uint64_t all = driver && driver->own_end <= at ? driver->own_end : 0, end;

	for (int i = 0; i < n; i++) {
		if (p[i].file != file || p[i].steps < 2)
			continue;
		end = p[i].own_end && p[i].own_end <= at ? p[i].own_end : all;
		if (!end || p[i].step_at[0] > (end > all ? end : all))
			return false;
		ended++;
	}
	return ended && last_start(v, file) < at;
}

/* Is it an event that `kubectl get events` lists with its age, "38m   Warning  Evicted"?  It is
 * older than its place in the log. */
static bool is_listed(const struct finding *f)
{
	const char *p = f->proof;

	while (num_is_digit(*p) || (p > f->proof && strchr("smhd", *p) && *p))
		p++;
	return p > f->proof && *p == ' ' &&
	       (!strncmp(p + strspn(p, " "), "Warning ", 8) ||
		!strncmp(p + strspn(p, " "), "Normal ", 7));
}

/* Had all processes with steps reached the last ones that they announced before @at? */
static bool have_arrived(const struct evidence *v, int file, uint64_t at)
{
	int n, arrived = 0;
	const struct proc *p = procs_list(v->procs, &n);
	const char *line;
	long total;

	for (int i = 0; i < n; i++) {
		if (p[i].file != file || p[i].steps < 2)
			continue;
		line = p[i].step_line.text;
		total = stepline_total(line, line + strlen(line));
		if (total < 1 || p[i].step_at[0] > at || is_short(p[i].step, total))
			return false;
		arrived++;
	}
	return arrived && last_start(v, file) < at;
}

/* Does a logger write that its process goes on to its end? */
static bool is_leaving(const struct finding *f)
{
	static const char *const words[] = { "exiting",      "will exit",         "hutdown ",
					     "hutting down", "connection closed", "inaliz" };

	for (size_t i = 0; f->is_caught && i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(f->proof, words[i]))
			return true;
	return false;
}

/* Can the message be about a connection that is closed at the end of a job, or a process that
 * ends?  Then it states no signal or status. */
static bool is_of_teardown(const struct finding *f)
{
	enum signature_kind kind = f->signature->kind;

	return ((kind == SIGNATURE_ERROR && is_leaving(f)) || kind == SIGNATURE_EXIT ||
		kind == SIGNATURE_PATH || kind == SIGNATURE_RESULT || kind == SIGNATURE_ECHO) &&
	       !(f->signature->flags & (SIGNATURE_BEHIND | SIGNATURE_STILL)) && !f->signal &&
	       f->status < 0 && !f->is_uncaught;
}

/* Did the job end before the message: an event that is listed later, or the end of a
 * connection? */
static bool is_after_end(const struct evidence *v, const struct finding *f)
{
	if (is_listed(f))
		return jobend_is_over(v, f->last_file, f->first_at);
	return is_of_teardown(f) && (have_ended(v, f->file, f->first_at) ||
				     (f->is_warned && have_arrived(v, f->file, f->first_at)));
}

/* Did steps follow, and then the words that all is done? */
static bool has_recovered(const struct evidence *v, const struct finding *f)
{
	return procs_went_on(v->procs, f->last_file, f->last_rank, f->last_at) &&
	       have_ended(v, f->last_file, UINT64_MAX);
}

/* Has the log one process only, as far as marks tell? */
static bool is_alone(const struct evidence *v, int file)
{
	int n, of_file = 0;
	const struct proc *p = procs_list(v->procs, &n);

	for (int i = 0; i < n; i++)
		of_file += p[i].file == file;
	return of_file == 1;
}

bool jobend_went_on(const struct evidence *v, const struct finding *f, enum signature_kind kind)
{
	bool is_end = kind == SIGNATURE_DEATH || (kind == SIGNATURE_EXIT && !f->is_warned) ||
		      f->is_uncaught;
	const struct proc *own =
		f->last_rank >= 0 ? procs_of_rank(v->procs, f->last_file, f->last_rank) : NULL;
	int steps = procs_went_on(v->procs, f->last_file, f->last_rank, f->last_at);
	int asked =
		(own && own->steps > 1) || is_alone(v, f->last_file) ? OWN_STEPS : ANY_STEPS;
	uint64_t again = last_start(v, f->last_file);

	/* A batch system puts its report before the output of the job. */
	if (f->signature->flags & SIGNATURE_FINAL)
		return says_well(v, f->last_file, f->last_at, true);
	if (steps >= (is_end ? PROCS_STEPS : asked))
		return true;
	if (again > f->last_at &&
	    (procs_went_on(v->procs, f->last_file, -1, again) >= OWN_STEPS ||
	     says_well(v, f->last_file, again, false)))
		return true;
	if (says_well(v, f->last_file, f->last_at, true) || is_after_end(v, f) ||
	    has_recovered(v, f))
		return true;
	return !is_end && (jobend_is_over(v, f->last_file, f->last_at) ||
			   says_well(v, f->last_file, f->last_at, false) ||
			   procs_all_went_on(v->procs, f->last_file, f->last_at) >= OWN_STEPS);
}

bool jobend_is_routine(const struct evidence *v, const struct finding *f,
		       enum signature_kind kind)
{
	return kind == SIGNATURE_ERROR && !f->is_uncaught &&
	       procs_is_routine(v->procs, f->last_file, f->last_rank, f->last_at, f->is_caught);
}

bool jobend_ends_calmly(const struct evidence *v, const struct finding *f)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);
	const struct proc_line *l = NULL;

	for (int i = 0; i < n; i++)
		if (p[i].file == f->last_file && p[i].last[0].line &&
		    (!l || p[i].last[0].at > l->at))
			l = &p[i].last[0];
	return l && l->at > f->last_at &&
	       !stepline_is_about_failure(l->text, l->text + strlen(l->text));
}

/* Does the process say that it is done, and make no step since? */
static bool is_done(const struct proc *p)
{
	return p->own_end && (!p->steps || p->step_at[0] < p->own_end) && p->again < p->own_end;
}

bool jobend_is_good(const struct evidence *v, bool at_end)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);

	for (int i = 0; i < n; i++)
		if (p[i].ended_well || is_done(&p[i]) || (p[i].passed && !p[i].failed) ||
		    (!at_end && p[i].steps))
			return true;
	return false;
}

/* ---- ends that no message tells ---- */

const struct proc *jobend_odd(const struct evidence *v, char *out, size_t size)
{
	int n, well = 0, others = 0;
	const struct proc *p = procs_list(v->procs, &n), *odd = NULL;

	for (int i = 0; i < n; i++) {
		if (p[i].job_well)
			return NULL;
		if (p[i].rank < 0)
			continue;
		well += p[i].ended_well > 0;
		others += !p[i].ended_well;
		odd = p[i].ended_well ? odd : &p[i];
	}
	if (well < 2 || others != 1 || !odd->steps || odd->last[0].at <= odd->step_at[0])
		return NULL;
	snprintf(out, size, "rank %d did not end, unlike the %d other ranks", odd->rank, well);
	return odd;
}

static bool has_end(const struct proc *p, const struct proc_line *l)
{
	return p->ended_well > l->at && p->ended_well <= l->at + strlen(l->text) + 1;
}

/* Is the line neither a step nor an end of @p, which several ranks may have written? */
static bool is_word(const struct proc *p, const struct proc_line *l)
{
	for (int k = 0; k < PROCS_LINES && p->last[k].line; k++)
		if (has_end(p, &p->last[k]) && p->last[k].shape == l->shape)
			return false;
	return !has_end(p, l) && stepline_read(l->text, l->text + strlen(l->text)) < 0;
}

const struct proc_line *jobend_last_words(const struct evidence *v, const struct proc **process)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n);
	const struct proc_line *best = NULL;
	bool is_best = false, is;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < PROCS_LINES && p[i].last[k].line; k++) {
			is = is_word(&p[i], &p[i].last[k]);
			if (best &&
			    (is_best > is || (is_best == is && (p[i].file < (*process)->file ||
								p[i].last[k].at <= best->at))))
				continue;
			best = &p[i].last[k];
			*process = &p[i];
			is_best = is;
		}
	return best;
}

/* ---- standstill ---- */

/* Seconds of MMDDhhmmss and six places; months have 31 days here. */
static int64_t seconds(int64_t time)
{
	int64_t t = time / 1000000, s = t % 100, m = t / 100 % 100, h = t / 10000 % 100;
	int64_t day = t / 1000000 % 100, month = t / 100000000 % 100;

	return s + 60 * (m + 60 * (h + 24 * (day + 31 * month)));
}

static int64_t last_time(const struct proc *p, int n)
{
	int64_t t = 0;

	for (int i = 0; i < n; i++)
		if (p[i].last[0].time > t)
			t = p[i].last[0].time;
	return t;
}

/* Does the last line of some process say that it waits? */
static bool is_waiting(const struct proc *p, int n)
{
	for (int i = 0; i < n; i++)
		if (p[i].steps && p[i].last[0].at > p[i].step_at[0] &&
		    stepline_waits(p[i].last[0].text,
				   p[i].last[0].text + strlen(p[i].last[0].text)))
			return true;
	return false;
}

/* Have all that was written since the last step the same words, as lines of a monitor have? */
static bool is_monitored(const struct evidence *v, const struct proc *p, int n)
{
	const struct proc *latest = NULL;
	uint64_t step = 0;

	for (int i = 0; i < n; i++) {
		if (p[i].steps && p[i].step_at[0] > step)
			step = p[i].step_at[0];
		if (p[i].last[0].line && (!latest || p[i].last[0].at > latest->last[0].at))
			latest = &p[i];
	}
	for (int k = 0; k < PROCS_LINES; k++)
		if (!latest || !latest->last[k].shape || latest->last[k].at <= step ||
		    latest->last[k].shape != latest->last[0].shape)
			return false;
	for (int i = 0; i < n; i++)
		if (p[i].file != latest->file ||
		    (&p[i] != latest && p[i].last[0].line && p[i].last[0].at > step))
			return false;
	return procs_repeats(v->procs, latest) >= PROCS_LINES;
}

/* Is it one of the processes that go step by step together?  Actors of Ray need not. */
static bool is_in_step(const struct proc *p)
{
	return p->step >= 0 && (p->rank >= 0 || (*p->host && strncmp(p->host, "pid=", 4) != 0));
}

/* "rank 3", or the host, pod or container. */
static const char *jobend_who(const struct proc *p, char out[PROCS_MARK])
{
	if (p->rank >= 0)
		snprintf(out, PROCS_MARK, "rank %d", p->rank);
	else
		snprintf(out, PROCS_MARK, "%s", p->host);
	return out;
}

/* How the ranks that write steps stand to each other. */
struct front {
	int ranks, behind;
	long most;
	const struct proc *first, *slow; /* at the front, and the furthest behind it */
};

/* The words that most processes write their steps in. */
static uint64_t common_shape(const struct proc *p, int n)
{
	uint64_t shape, common = 0;
	int most = 0, same;

	for (int i = 0; i < n; i++) {
		if (!is_in_step(&p[i]))
			continue;
		shape = p[i].step_line.shape;
		same = 0;
		for (int k = 0; k < n && shape != common; k++)
			same += is_in_step(&p[k]) && p[k].step_line.shape == shape;
		if (same > most) {
			most = same;
			common = shape;
		}
	}
	return common;
}

/* Is one of the last lines of @p in these words? */
static bool has_words(const struct proc *p, uint64_t words)
{
	for (int k = 0; k < PROCS_LINES; k++)
		if (p->last[k].line && procs_words(&p->last[k]) == words)
			return true;
	return false;
}

/* Can the step of @x be compared with those in the words @shape?  Its words are the same, or
 * most processes with that shape wrote its words a little before. */
static bool is_comparable(const struct proc *x, uint64_t shape, const struct proc *p, int n)
{
	int same = 0, all = 0;

	if (x->step_line.shape == shape)
		return true;
	for (int i = 0; i < n; i++) {
		if (!is_in_step(&p[i]) || p[i].step_line.shape != shape)
			continue;
		all++;
		same += has_words(&p[i], x->step_line.shape);
	}
	return all > 1 && 2 * same > all;
}

static void find_front(struct front *f, const struct proc *p, int n)
{
	uint64_t shape = common_shape(p, n);

	*f = (struct front){ .most = -1 };
	for (int i = 0; i < n; i++) {
		if (!is_in_step(&p[i]) || !is_comparable(&p[i], shape, p, n))
			continue;
		f->ranks++;
		if (p[i].step > f->most) {
			f->most = p[i].step;
			f->first = &p[i];
		}
	}
	for (int i = 0; i < n; i++) {
		if (!is_in_step(&p[i]) || p[i].step == f->most ||
		    !is_comparable(&p[i], shape, p, n))
			continue;
		f->behind++;
		if (!f->slow || p[i].step < f->slow->step)
			f->slow = &p[i];
	}
}

static void put_still(char *out, size_t size, int64_t still)
{
	size_t at = strlen(out);

	if (still >= 120 && at < size)
		snprintf(out + at, size - at, "; no step for %" PRId64 " min after that",
			 still / 60);
}

/* A process that writes the same few lines again and again and waits, as one that looks for a
 * name or a port. */
static const struct proc *find_loop(const struct evidence *v, const struct proc *p, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; !p[i].steps && k < PROCS_LINES && p[i].last[k].line; k++)
			if (stepline_waits(p[i].last[k].text,
					   p[i].last[k].text + strlen(p[i].last[k].text)) &&
			    procs_repeats(v->procs, &p[i]) >= LOOPS)
				return &p[i];
	return NULL;
}

const struct proc *jobend_hang(const struct evidence *v, char *out, size_t size)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n), *still_at = NULL;
	int64_t end = last_time(p, n), still = 0;
	bool waits = is_waiting(p, n);
	char who[PROCS_MARK];
	struct front f;

	find_front(&f, p, n);
	for (int i = 0; i < n; i++) {
		if (p[i].ended_well &&
		    procs_went_on(v->procs, p[i].file, -1, p[i].ended_well) < OWN_STEPS)
			return NULL;
		if (p[i].steps && (!still_at || p[i].step_line.time > still_at->step_line.time))
			still_at = &p[i];
	}
	if (end && still_at && still_at->step_line.time)
		still = seconds(end) - seconds(still_at->step_line.time);
	if (f.ranks > 1 && f.behind && f.behind <= f.ranks / 2 &&
	    (waits || still >= STILL || f.most - f.slow->step > 1)) {
		snprintf(out, size, "%s stopped after step %ld; %s%d other%s reached step %ld",
			 jobend_who(f.slow, who), f.slow->step, f.behind == 1 ? "the " : "",
			 f.ranks - f.behind, f.ranks - f.behind > 1 ? "s" : "", f.most);
		put_still(out, size, still);
		return f.slow;
	}
	if (!still_at && (f.first = find_loop(v, p, n))) {
		snprintf(out, size,
			 "the job is waiting: its log ends with the same lines, %ld times",
			 procs_repeats(v->procs, f.first));
		return f.first;
	}
	if (still < (waits ? STILL : LONG_STILL) || (!waits && !is_monitored(v, p, n)))
		return NULL;
	snprintf(out, size, "the job stopped after step %ld", still_at->step);
	put_still(out, size, still);
	return still_at;
}

/* ---- logs that stop ---- */

/* The number of steps that the job of @x has to make, by its line or by an earlier one; or 0.
 */
static long total_of(const struct proc *x, const struct proc *p, int n)
{
	const char *line = x->step_line.text, *end = line + strlen(line);
	long total = stepline_total(line, end);

	for (int i = 0; i < n && !total && stepline_counts(line, end); i++)
		total = p[i].file == x->file ? p[i].plan : 0;
	return total;
}

/* Is the last step of @x among its last lines, and no failure told since? */
static bool ends_with_step(const struct proc *x)
{
	for (int k = 0; k < PROCS_LINES && x->last[k].line; k++) {
		if (x->last[k].at == x->step_line.at)
			return true;
		if (stepline_is_about_failure(x->last[k].text,
					      x->last[k].text + strlen(x->last[k].text)))
			return false;
	}
	return false;
}

/* The process whose step is the very last line of its log.  What is copied from a terminal
 * while the job runs may end with a bar, or with what was typed: only after many lines with
 * steps these count, too. */
static const struct proc *find_stop(const struct evidence *v, const struct proc *p, int n,
				    int file)
{
	const struct proc *last = NULL;
	const char *line;

	for (int i = 0; i < n; i++)
		if (p[i].file == file && p[i].last[0].line &&
		    (!last || p[i].last[0].at > last->last[0].at))
			last = &p[i];
	if (!last || last->steps < 2 || !ends_with_step(last))
		return NULL;
	line = last->step_line.text;
	if (stepline_begins(last->last[0].text,
			    last->last[0].text + strlen(last->last[0].text)))
		return last;
	if (last->step_line.at == last->last[0].at &&
	    !stepline_is_drawn(line, line + strlen(line)))
		return last;
	return procs_began(v->procs, last) ? last : NULL;
}

static int percent_of(const struct proc *x)
{
	const char *line = x->step_line.text;

	return stepline_percent(line, line + strlen(line));
}

const struct proc *jobend_short(const struct evidence *v, char *out, size_t size)
{
	int n, file = -1;
	const struct proc *p = procs_list(v->procs, &n), *x = NULL;
	long total = 0;
	int percent = -1;
	char at[64] = "";

	for (int i = 0; i < n; i++) {
		if (p[i].ended_well || is_done(&p[i]) || p[i].runs)
			return NULL;
		if (p[i].file == file)
			continue;
		file = p[i].file;
		x = find_stop(v, p, n, file);
		total = x ? total_of(x, p, n) : 0;
		percent = x && total < 1 ? percent_of(x) : -1;
		if (total > 0      ? is_short(x->step, total)
		    : percent >= 0 ? percent < NEAR_END
				   : x && x->epochs && is_short(x->epoch, x->epochs))
			continue;
		return NULL;
	}
	if (x && total > 0)
		snprintf(at, sizeof(at), " of %ld", total);
	else if (x && percent >= 0)
		snprintf(at, sizeof(at), ", %d%%", percent);
	else if (x)
		snprintf(at, sizeof(at), " in epoch %ld of %ld", x->epoch, x->epochs);
	if (x)
		snprintf(out, size,
			 "the log stops at step %ld%s: the job still runs, hangs, or was "
			 "killed without a message",
			 x->step, at);
	return x;
}

/* The process that wrote the last line of the last log. */
static const struct proc *last_writer(const struct proc *p, int n)
{
	const struct proc *last = NULL;

	for (int i = 0; i < n; i++)
		if (p[i].last[0].line &&
		    (!last || p[i].file > last->file ||
		     (p[i].file == last->file && p[i].last[0].at > last->last[0].at)))
			last = &p[i];
	return last;
}

/* The process whose last line says that it waits, after many steps; or NULL. */
static const struct proc *find_waiting(const struct evidence *v, const struct proc *p, int n)
{
	const struct proc *last = last_writer(p, n);
	const char *line = last ? last->last[0].text : "";

	for (int i = 0; i < n; i++)
		if (p[i].ended_well || is_done(&p[i]) || p[i].runs)
			return NULL;
	return last && last->step_line.at < last->last[0].at && procs_began(v->procs, last) &&
			       stepline_sets_up(line, line + strlen(line))
		       ? last
		       : NULL;
}

const struct proc *jobend_waits(const struct evidence *v, char *out, size_t size)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n), *x = find_waiting(v, p, n);

	if (x)
		snprintf(out, size,
			 "the log stops after step %ld, while its process waits: the job still "
			 "runs, hangs, or was killed without a message",
			 x->step);
	return x;
}

/* Has the job made the steps or epochs that it announced? */
static bool has_arrived(const struct proc *p, int n)
{
	long total;

	for (int i = 0; i < n; i++) {
		total = p[i].steps ? total_of(&p[i], p, n) : 0;
		if (total > 0 ? !is_short(p[i].step, total)
			      : p[i].epochs && !is_short(p[i].epoch, p[i].epochs))
			return true;
	}
	return false;
}

const struct proc *jobend_begun(const struct evidence *v, char *out, size_t size)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n), *last = last_writer(p, n);
	const char *line = last ? last->last[0].text : "";
	long before = 0;

	if (!last || !stepline_begins(line, line + strlen(line)) || has_arrived(p, n))
		return NULL;
	for (int i = 0; i < n; i++)
		if (p[i].ended_well || is_done(&p[i]) || p[i].runs)
			return NULL;
	before = procs_ended(v->procs, last);
	if (before < ENDED)
		return NULL;
	snprintf(out, size,
		 "the log stops with the beginning of something that ended %ld times before: "
		 "the "
		 "job still runs, hangs, or was killed without a message",
		 before);
	return last;
}

/* How many ranks began to set up a communicator of NCCL and did not complete it. */
static long count_unset(const struct proc *p, int n)
{
	long unset = 0;

	for (int i = 0; i < n; i++)
		unset += p[i].unset;
	return unset;
}

/* Has no process made a step or told of an end? */
static bool is_unset(const struct proc *p, int n)
{
	for (int i = 0; i < n; i++)
		if (p[i].steps || p[i].ended_well || p[i].own_end || p[i].passed || p[i].runs)
			return false;
	return true;
}

/* Names the few ranks that did not begin to set up the communicator that others began. */
static void put_absent(char *out, size_t size, const struct procs_start *s)
{
	size_t at = strlen(out);
	int n = 0;
	bool is_first = true;

	for (long r = 0; r < s->world; r++)
		n += !(s->begun[r / 64] >> r % 64 & 1);
	if (!n || n > FEW || 2 * n > s->world)
		return;
	for (long r = 0; r < s->world; r++)
		if (!(s->begun[r / 64] >> r % 64 & 1) && at < size) {
			snprintf(out + at, size - at, "%s %ld", is_first ? "; rank" : ",", r);
			is_first = false;
			at = strlen(out);
		}
	if (at < size)
		snprintf(out + at, size - at, " did not begin");
}

const struct proc *jobend_unset(const struct evidence *v, char *out, size_t size)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n), *last = last_writer(p, n);
	static const char then[] = "before its first step: the job still starts, hangs, or was "
				   "killed without a message";
	const char *line = last ? last->last[0].text : "";
	long unset = count_unset(p, n);

	if (!last || !is_unset(p, n))
		return NULL;
	if (strstr(line, "NCCL INFO")) {
		snprintf(out, size,
			 "the log stops while %ld ranks set up NCCL's communicator, %s", unset,
			 then);
		put_absent(out, size, procs_start(v->procs));
		return unset > 1 ? last : NULL;
	}
	snprintf(out, size, "the log stops while the job sets up its processes, %s", then);
	return stepline_sets_up(line, line + strlen(line)) ? last : NULL;
}

const struct proc *jobend_suite(const struct evidence *v)
{
	int n;
	const struct proc *p = procs_list(v->procs, &n), *first = NULL;

	for (int i = 0; i < n; i++)
		if (p[i].failed && (!first || (p[i].file == first->file &&
					       p[i].failure.at < first->failure.at)))
			first = &p[i];
	return first;
}

/* ---- ranks that others waited for ---- */

static bool jobend_complains(const struct finding *f, int rank)
{
	for (int i = 0; i < f->ranks; i++)
		if (f->rank[i] == rank)
			return true;
	return false;
}

/* The one rank from 0 up to the highest known that is not among those of @f; -1 if there is
 * none, or more than one. */
static int find_absent(const struct finding *f, const struct proc *p, int n)
{
	int most = 0, absent = -1, count = 0;

	for (int i = 0; i < n; i++)
		most = p[i].rank > most && p[i].rank < WORLD ? p[i].rank : most;
	for (int i = 0; i < f->ranks; i++)
		most = f->rank[i] > most && f->rank[i] < WORLD ? f->rank[i] : most;
	for (int r = 0; r <= most; r++)
		if (!jobend_complains(f, r) && ++count)
			absent = r;
	return count == 1 && f->ranks < EVIDENCE_RANKS ? absent : -1;
}

static void put_duration(char *out, size_t size, const char *proof)
{
	const char *at = strstr(proof, "ran for ");
	long ms = at ? strtol(at + 8, NULL, 10) : 0;

	if (ms >= 1000)
		snprintf(out, size, "%ld s", ms / 1000);
	else
		snprintf(out, size, "in vain");
}

/* Did the one rank that does not complain stop steps before all others did? */
static bool is_left_behind(const struct proc *p, int n, int absent)
{
	long own = -1, least = -1;

	for (int i = 0; i < n; i++) {
		if (p[i].rank < 0 || p[i].step < 0)
			continue;
		if (p[i].rank == absent)
			own = p[i].step;
		else if (least < 0 || p[i].step < least)
			least = p[i].step;
	}
	return own >= 0 && least - own > 1;
}

bool jobend_behind(const struct evidence *v, const struct finding *f, char *out, size_t size,
		   const struct proc **process)
{
	int n, absent;
	const struct proc *p = procs_list(v->procs, &n), *low = NULL, *high = NULL;
	char waited[32];

	for (int i = 0; i < n; i++) {
		if (p[i].sequence < 0 || p[i].rank < 0)
			continue;
		low = !low || p[i].sequence < low->sequence ? &p[i] : low;
		high = !high || p[i].sequence > high->sequence ? &p[i] : high;
	}
	*process = low;
	absent = find_absent(f, p, n);
	if (low && low->sequence < high->sequence &&
	    (absent < 0 || !is_left_behind(p, n, absent))) {
		snprintf(out, size,
			 "rank %d is behind: it started %ld collectives, rank %d %ld",
			 low->rank, low->sequence, high->rank, high->sequence);
		return true;
	}
	if (absent < 0 || !f->ranks)
		return false;
	put_duration(waited, sizeof(waited), f->proof);
	snprintf(out, size,
		 "the other ranks waited %s for rank %d, which did not join the collective: it "
		 "did other work, or was frozen",
		 waited, absent);
	*process = procs_of_rank(v->procs, f->file, absent);
	if (!*process || !(*process)->last[0].line)
		*process = procs_unmarked(v->procs, f->file);
	return true;
}

bool jobend_unheard(const struct evidence *v, const struct finding *f, char *out, size_t size)
{
	bool heard[WORLD] = { false };
	char *rest;
	long come = strtol(f->value, &rest, 10), world = 0;
	int n, ranks = 0;
	size_t at;
	const struct proc *p = procs_list(v->procs, &n);

	if (rest > f->value && *rest == '/')
		world = strtol(rest + 1, &rest, 10);
	if (come < 2 || world <= come || world > WORLD || strncmp(rest, " clients", 8) != 0)
		return false;
	for (int i = 0; i < n; i++)
		if (p[i].rank >= 0 && p[i].rank < world && !heard[p[i].rank]) {
			heard[p[i].rank] = true;
			ranks++;
		}
	if (ranks != come)
		return false;
	snprintf(out, size, "rank");
	for (int r = 0; r < world; r++) {
		at = strlen(out);
		if (!heard[r] && at < size)
			snprintf(out + at, size - at, "%s %d", at > 4 ? "," : "", r);
	}
	at = strlen(out);
	if (at < size)
		snprintf(out + at, size - at, " wrote nothing");
	return true;
}
