/* evidence.c - the evidence from all logs, one finding for each signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "ringup.h"

/* Bytes between matches that count as one message. */
enum { SAME_MESSAGE = 512 };

int evidence_open(struct evidence *v, struct err *e)
{
	memset(v, 0, sizeof(*v));
	v->status = -1;
	v->of = calloc((size_t)signature_count, sizeof(*v->of));
	v->unknown = calloc(EVIDENCE_UNKNOWN, sizeof(*v->unknown));
	if (!v->of || !v->unknown)
		return fail(e, RINGUP_ENOMEM, "no memory for the findings");
	return procs_open(&v->procs, e);
}

void evidence_reset(struct evidence *v)
{
	memset(v->of, 0, sizeof(*v->of) * (size_t)signature_count);
	v->unknowns = 0;
	v->unkept = 0;
	v->last = NULL;
	v->tasks = 0;
	v->status = -1;
	procs_reset(v->procs);
}

void evidence_close(struct evidence *v)
{
	free(v->of);
	free(v->unknown);
	procs_close(v->procs);
	v->procs = NULL;
	v->of = NULL;
	v->unknown = NULL;
}

static void add_text(char *list, int *n, int most, size_t size, const char *text)
{
	if (!*text)
		return;
	for (int i = 0; i < *n; i++)
		if (!strcmp(list + (size_t)i * size, text))
			return;
	if (*n < most)
		fields_show(list + (size_t)(*n)++ * size, size, text, strlen(text));
}

static void add_rank(struct finding *f, int rank)
{
	for (int i = 0; i < f->ranks; i++)
		if (f->rank[i] == rank)
			return;
	if (rank >= 0 && f->ranks < EVIDENCE_RANKS)
		f->rank[f->ranks++] = rank;
}

/* What is shown of a finding. */
static void evidence_show(struct finding *f, const struct sighting *at)
{
	f->file = at->file;
	f->line = at->line;
	f->first_at = at->at;
	f->time = at->origin.time;
	f->task = at->task;
	f->status = -1;
	fields_show(f->proof, sizeof(f->proof), at->text, at->len);
	if (at->lead)
		procs_line(&f->lead, at->at, at->lead_line, at->lead, at->lead_end);
}

static void evidence_begin(struct finding *f, const struct signature *s,
			   const struct sighting *at)
{
	memset(f, 0, sizeof(*f));
	f->signature = s;
	f->last_file = -1;
	f->port = -1;
	f->is_warned = true;
	evidence_show(f, at);
}

/* Has the process ended by itself, in a crash? */
static bool is_crash(int signal)
{
	return signal == 4 || signal == 5 || signal == 7 || signal == 8 || signal == 11;
}

/*
 * Is @at the end that began the failure, and what @f shows an end by the launcher?  Launchers
 * end what is left by SIGTERM or SIGKILL, and report all of these processes in the order of
 * ranks.
 */
static bool is_culprit(const struct finding *f, const struct signature *s,
		       const struct sighting *at)
{
	if (s->kind > SIGNATURE_EXIT || at->fields.rank < 0 || f->file != at->file ||
	    (f->signal != 9 && f->signal != 15))
		return false;
	return is_crash(at->fields.signal) ||
	       (!at->fields.signal && at->fields.status > 0 &&
		(f->signal == 15 || !strcmp(s->library, "mpich")));
}

/* Shows this end in place of an earlier one, and its rank and host first. */
static void evidence_replace(struct finding *f, const struct sighting *at)
{
	evidence_show(f, at);
	f->signal = 0;
	memmove(f->rank + 1, f->rank, (EVIDENCE_RANKS - 1) * sizeof(f->rank[0]));
	f->rank[0] = at->fields.rank;
	f->ranks += f->ranks < EVIDENCE_RANKS;
	if (at->fields.hosts) {
		f->hosts = 0;
		add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]),
			 at->fields.host[0]);
	}
}

/* Marks failures that a library has overcome. */
static void mark_well(struct evidence *v, const struct signature *s, int file)
{
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].count && v->of[i].last_file == file &&
		    signatures[i].flags & SIGNATURE_UNLESS_WELL &&
		    !strcmp(signatures[i].library, s->library))
			v->of[i].well = true;
}

/* Of one message's matches only the strongest counts, once, with the hosts that a weaker one
 * of its library names, and its result.  Is there a stronger one than @s? */
static bool evidence_is_told(struct evidence *v, const struct signature *s, struct sighting *at)
{
	const struct sighting *last = &v->last_at;
	struct finding *f;
	uint64_t far = at->at > last->at ? at->at - last->at : last->at - at->at;

	if (!v->last || last->file != at->file || last->line != at->line || far > SAME_MESSAGE)
		return false;
	/* ringup's own sentences quote other programs. */
	if (!strcmp(v->last->library, "ringup") && strcmp(v->last->library, s->library) != 0)
		return true;
	if (v->last == s || (v->last->kind <= s->kind && s->kind != SIGNATURE_RESULT))
		return true;
	if (v->last->kind <= s->kind || v->last->kind == SIGNATURE_RESULT)
		return false;
	f = &v->of[v->last - signatures];
	f->count -= f->count > 0;
	if (!at->fields.hosts && last->fields.hosts &&
	    strcmp(v->last->library, s->library) == 0) {
		at->fields.hosts = last->fields.hosts;
		memcpy(at->fields.host, last->fields.host, sizeof(at->fields.host));
	}
	return false;
}

/* The rank that the message is about; of those that others wait for the coordinator writes. */
static int rank_of(const struct signature *s, const struct sighting *at)
{
	return at->fields.rank >= 0 || s->flags & SIGNATURE_MISSING ? at->fields.rank
								    : at->origin.rank;
}

/* Adds the values that the message holds. */
static void see_fields(struct finding *f, const struct sighting *at)
{
	if (f->port < 0)
		f->port = at->fields.port;
	if (f->status < 0 && !f->signal) {
		f->signal = at->fields.signal;
		f->status = at->fields.status;
	}
	if (!*f->value)
		fields_show(f->value, sizeof(f->value), at->fields.value,
			    strlen(at->fields.value));
	if (!*f->interface)
		fields_show(f->interface, sizeof(f->interface), at->fields.interface,
			    strlen(at->fields.interface));
	add_text(f->address[0], &f->addresses, EVIDENCE_ADDRESSES, sizeof(f->address[0]),
		 at->fields.address);
	add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]), at->origin.host);
	for (int i = 0; i < at->fields.hosts; i++)
		add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]),
			 at->fields.host[i]);
	add_rank(f, rank_of(f->signature, at));
}

/* The number after one of the words by which torch's watchdog tells how far a rank came. */
static long sequence_in(const char *text, size_t len)
{
	static const char *const words[] = { "nqueued work: ", "nqueued NCCL work: ",
					     "SeqNum=" };
	const char *at, *end = text + len;
	long v = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		at = memmem(text, len, words[i], strlen(words[i]));
		at = at ? at + strlen(words[i]) : end;
		if (at == end || !num_is_digit(*at))
			continue;
		for (; at < end && num_is_digit(*at) && v < 1000000000000; at++)
			v = 10 * v + (*at - '0');
		return v;
	}
	return -1;
}

/* Writes what the message says of its process, and of one that ended, into their table. */
static void see_process(struct evidence *v, const struct signature *s,
			const struct sighting *at)
{
	struct proc *p = at->process;
	long sequence = s->kind < SIGNATURE_NOTE || s->kind == SIGNATURE_ECHO
				? sequence_in(at->text, at->len)
				: -1;

	if (at->origin.rank >= 0 && sequence >= 0)
		p = procs_add_rank(v->procs, at->file, at->origin.rank);
	if (p && sequence > p->sequence)
		p->sequence = sequence;
	p = at->process;
	if (p && !p->first.line && s->kind < SIGNATURE_NOTE)
		procs_line(&p->first, at->at, at->line, at->text, at->text + at->len);
	if (s->kind > SIGNATURE_EXIT || at->fields.rank < 0)
		return;
	p = procs_add_rank(v->procs, at->file, at->fields.rank);
	if (p && p->status < 0 && !p->signal) {
		p->signal = at->fields.signal;
		p->status = at->fields.signal ? -1 : at->fields.status;
	}
}

static void see(struct evidence *v, struct finding *f, const struct signature *s,
		const struct sighting *at)
{
	if (!f->count)
		evidence_begin(f, s, at);
	else if (is_culprit(f, s, at))
		evidence_replace(f, at);
	f->count++;
	f->well = false;
	f->is_uncaught |= at->is_uncaught;
	f->is_caught = at->is_caught;
	f->is_warned &= at->is_warned;
	f->last_at = at->at;
	f->last_rank = rank_of(s, at);
	see_process(v, s, at);
	f->files += f->last_file != at->file;
	f->last_file = at->file;
	see_fields(f, at);
}

/* Adds what Slurm says of a task that starts ranks. */
static void see_task(struct evidence *v, const struct signature *s, const struct sighting *at)
{
	struct task_host *t = &v->task[v->tasks];

	if (strcmp(s->library, "slurm") != 0 || at->task < 0 || at->fields.hosts != 1 ||
	    v->tasks == EVIDENCE_TASKS)
		return;
	*t = (struct task_host){ .file = at->file, .task = at->task };
	memcpy(t->host, at->fields.host[0], sizeof(t->host));
	v->tasks++;
}

void evidence_add(struct evidence *v, const struct signature *s, struct sighting *at)
{
	if (s->flags & SIGNATURE_WELL)
		mark_well(v, s, at->file);
	if (s->flags & SIGNATURE_DONE && at->process)
		at->process->ended_well = at->process->own_end = at->at + 1;
	if (s->flags & SIGNATURE_DONE && s->flags & SIGNATURE_WELL && at->process &&
	    !at->is_script)
		at->process->job_well = at->at + 1;
	if (s->flags & SIGNATURE_AGAIN && at->process)
		at->process->again = at->at + 1;
	if (s->kind == SIGNATURE_FACT)
		return;
	see_task(v, s, at);
	if (evidence_is_told(v, s, at)) {
		/* A longer match of the same signature has more values. */
		if (v->last == s)
			see_fields(&v->of[s - signatures], at);
		return;
	}
	v->last = s;
	v->last_at = *at;
	see(v, &v->of[s - signatures], s, at);
}

void evidence_add_unknown(struct evidence *v, enum evidence_unknown what, uint64_t form,
			  const struct sighting *at)
{
	static const struct signature unknown[] = {
		[EVIDENCE_KILLED] = { "X1", "any", SIGNATURE_DEATH, 0, "",
				      "a signal killed a process; the line does not say which "
				      "process",
				      "check the kernel log of that host for out-of-memory "
				      "kills, and the last lines of the process",
				      "" },
		[EVIDENCE_ERROR] = { "X2", "any", SIGNATURE_ERROR, 0, "",
				     "unrecognized error (first one logged by this process)",
				     "read it and the lines around it; later errors of the "
				     "process "
				     "follow from it",
				     "" },
		[EVIDENCE_WARNING] = { "X3", "any", SIGNATURE_NOTE, 0, "",
				       "unrecognized warning about something that failed",
				       "if the job failed, read it and the lines around it",
				       "" },
	};
	struct unknown_finding *u;

	for (int i = 0; i < v->unknowns; i++) {
		u = &v->unknown[i];
		if (u->form == form && u->what == what) {
			see(v, &u->finding, &unknown[what], at);
			return;
		}
	}
	if (v->unknowns == EVIDENCE_UNKNOWN) {
		v->unkept++;
		return;
	}
	u = &v->unknown[v->unknowns++];
	memset(u, 0, sizeof(*u));
	u->what = what;
	u->form = form;
	see(v, &u->finding, &unknown[what], at);
}
