/* conclude.c - turn evidence into conclusions: causes first, echoes left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/conclude.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/links.h"
#include "ringup.h"

static void append(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void append(char *out, size_t size, const char *fmt, ...)
{
	size_t at = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	if (at < size)
		vsnprintf(out + at, size - at, fmt, ap);
	va_end(ap);
}

/* True for a word that needs no quotes in a shell and is no option. */
static bool is_safe(const char *word)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._:-";

	return *word && *word != '-' && strspn(word, letters) == strlen(word);
}

/* Appends the hosts of the message, or else the nodes that are compared with. */
static void put_hosts(char *out, size_t size, const struct finding *f,
		      const struct nodes *nodes)
{
	int n = 0;

	for (int i = 0; i < f->hosts; i++)
		if (is_safe(f->host[i]) && ++n)
			append(out, size, " %s", f->host[i]);
	for (int i = 0; !n && !nodes->live && i < nodes->n; i++)
		if (is_safe(nodes_name(nodes, i)))
			append(out, size, " %s", nodes_name(nodes, i));
}

/* How many hosts the logs name, each of which a shell takes as it is; 0 if not all are known.
 */
static int count_hosts(const struct finding *f)
{
	int n = 0;

	for (int i = 0; i < f->hosts; i++)
		n += is_safe(f->host[i]);
	return f->hosts < EVIDENCE_HOSTS && n == f->hosts ? n : 0;
}

/* Of several hosts all are settled together. */
static void put_nodes(char *out, size_t size, const struct finding *f,
		      const struct nodes *nodes)
{
	if (strcmp(out, "ringup net fix") != 0 || count_hosts(f) < 2)
		return;
	append(out, size, " --nodes");
	put_hosts(out, size, f, nodes);
}

static void put_command(char *out, size_t size, const struct finding *f,
			const struct nodes *nodes)
{
	const char *p = f->signature->command, *brace;

	*out = 0;
	for (; (brace = strchr(p, '{')); p = strchr(brace, '}') + 1) {
		append(out, size, "%.*s", (int)(brace - p), p);
		if (!strncmp(brace, "{hosts}", 7))
			put_hosts(out, size, f, nodes);
		else if (f->port >= 0)
			append(out, size, "%d", f->port);
	}
	append(out, size, "%s", p);
	/* A check needs hosts. */
	if (!strcmp(out, "ringup net check"))
		append(out, size, " --hostfile HOSTS");
	put_nodes(out, size, f, nodes);
}

/* Finds the addresses' owners.  The worst result decides, and is reported. */
static void conclude_judge(struct conclusion *c, const struct nodes *nodes)
{
	const struct finding *f = c->finding;
	const struct signature *s = f->signature;
	enum nodes_owner owner = NODES_UNKNOWN;
	char said[256] = "", more[256];

	for (int i = 0; i < f->addresses && owner != NODES_SHARED; i++) {
		enum nodes_owner is = nodes_own(nodes, f->address[i], more, sizeof(more));

		if (is == NODES_SHARED || (!*said && *more)) {
			owner = is;
			memcpy(said, more, sizeof(said));
		}
	}
	if (!*said && s->flags & SIGNATURE_SHARED)
		owner = nodes_shared(nodes, said, sizeof(said));
	if (*said)
		append(c->proof, sizeof(c->proof), "; %s", said);
	if (s->kind == SIGNATURE_PATH && owner == NODES_SHARED) {
		c->kind = SIGNATURE_ADDRESS;
		snprintf(c->cause, sizeof(c->cause),
			 "several nodes have this address, so the connection never reaches the "
			 "peer: %s",
			 said);
		*c->command = 0;
		append(c->command, sizeof(c->command), "ringup net fix");
		put_nodes(c->command, sizeof(c->command), f, nodes);
	} else if (owner == NODES_SHARED && s->kind == SIGNATURE_ADDRESS) {
		append(c->cause, sizeof(c->cause), ": %s", said);
	}
}

/* Appends the end of a process in words. */
static void put_end(struct conclusion *c)
{
	static const struct {
		int signal;
		const char *what;
	} signals[] = {
		{ 2, "SIGINT: Ctrl-C, or an interrupted launcher" },
		{ 4, "SIGILL: the processor does not support an instruction" },
		{ 6, "SIGABRT: the process aborted; see its last lines for the reason" },
		{ 7, "SIGBUS: often a full /dev/shm" },
		{ 8, "SIGFPE: an arithmetic error" },
		{ 9, "SIGKILL: often out of memory" },
		{ 11, "SIGSEGV: a bug in the program or in a library" },
		{ 15, "SIGTERM: a user or a batch system ended it" },
	};
	const struct finding *f = c->finding;

	if (f->signal > 0) {
		append(c->cause, sizeof(c->cause), " (signal %d", f->signal);
		for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
			if (signals[i].signal == f->signal)
				append(c->cause, sizeof(c->cause), ", %s", signals[i].what);
		append(c->cause, sizeof(c->cause), ")");
		/* A rank that was asked to end did not begin the failure, and one that aborted
		 * has said why. */
		if (c->kind == SIGNATURE_EXIT && f->signal != 15 && f->signal != 6)
			c->kind = SIGNATURE_DEATH;
	} else if (f->status >= 0) {
		append(c->cause, sizeof(c->cause), " (exit status %d)", f->status);
	}
}

static bool is_end(const struct signature *s)
{
	return s->kind == SIGNATURE_DEATH || s->kind == SIGNATURE_EXIT;
}

/* Adds the last lines of a process, the oldest first, but for the message itself. */
static void put_last(struct conclusion *c, const struct proc *p)
{
	const struct finding *f = c->finding;

	for (int i = PROCS_LINES - 1; p && i >= 0 && !c->lasts; i--)
		if (p->last[i].line && (p->file != f->file || p->last[i].at < f->last_at))
			for (; i >= 0; i--)
				if (p->last[i].line &&
				    (p->file != f->file || (p->last[i].line != f->line &&
							    p->last[i].at < f->last_at)))
					c->last[c->lasts++] = &p->last[i];
}

/* What the program wrote before the launcher told of the end, in this message or an earlier
 * one. */
static const struct proc_line *find_lead(const struct evidence *v, const struct finding *f)
{
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].lead.line && v->of[i].file == f->file && v->of[i].line < f->line &&
		    !strcmp(signatures[i].library, f->signature->library))
			return &v->of[i].lead;
	return f->lead.line ? &f->lead : NULL;
}

/* Quotes what the process that ended, or that others waited for, wrote last. */
static void conclude_quote(struct conclusion *c, const struct evidence *v)
{
	const struct finding *f = c->finding;
	const struct proc *p = NULL;
	char more[256];

	if (f->signature->flags & SIGNATURE_BEHIND) {
		if (!jobend_unheard(v, f, more, sizeof(more)) &&
		    !jobend_behind(v, f, more, sizeof(more), &p))
			return;
		append(c->cause, sizeof(c->cause), "; %s", more);
		if (p && p->rank < 0 && p->step_line.line)
			c->last[c->lasts++] = &p->step_line;
		else
			put_last(c, p);
		return;
	}
	if (!is_end(f->signature) && f->status < 0 && !f->signal)
		return;
	if (f->ranks)
		put_last(c, procs_of_rank(v->procs, f->file, f->rank[0]));
	if (!c->lasts && find_lead(v, f))
		c->last[c->lasts++] = find_lead(v, f);
	if (c->lasts && (f->signature->kind != SIGNATURE_DEATH || f->signal == 6))
		append(c->cause, sizeof(c->cause), "; the line before: %s",
		       c->last[c->lasts - 1]->text);
}

static void conclude_one(struct conclusion *c, const struct finding *f,
			 const struct nodes *nodes)
{
	memset(c, 0, sizeof(*c));
	c->finding = f;
	c->kind = f->signature->kind;
	snprintf(c->cause, sizeof(c->cause), "%s", f->signature->cause);
	snprintf(c->proof, sizeof(c->proof), "%s", f->proof);
	put_command(c->command, sizeof(c->command), f, nodes);
	if (*f->value)
		append(c->cause, sizeof(c->cause), " (%s)", f->value);
	else if (*f->interface)
		append(c->cause, sizeof(c->cause), " (%s)", f->interface);
	put_end(c);
	conclude_judge(c, nodes);
}

static bool have_rank_in_common(const struct finding *f, const struct finding *g)
{
	for (int i = 0; i < f->ranks; i++)
		for (int k = 0; k < g->ranks; k++)
			if (f->rank[i] == g->rank[k])
				return true;
	return false;
}

static bool is_before(const struct finding *f, const struct finding *g)
{
	return f->file == g->file && f->line < g->line;
}

/* Did the process end by itself: with a status, or by abort(3)? */
static bool is_own_end(const struct finding *f)
{
	return f->signal == 6 || (!f->signal && f->status >= 0) ||
	       (!f->signal && strstr(f->proof, "Aborted"));
}

/* JAX and TensorFlow end all tasks when one is lost. */
static bool ends_all(const struct finding *f)
{
	return f->signature->kind == SIGNATURE_EXIT &&
	       (!strcmp(f->signature->library, "jax") ||
		!strcmp(f->signature->library, "tensorflow"));
}

/*
 * A rank that ended by itself has mostly said why: that message is the cause, and comes before
 * the other ranks' errors, with the end as its result.  The same holds for an unexplained end
 * after an error, or after a failed path that the same library reported.
 */
static bool is_led_to(const struct finding *end, const struct conclusion *other)
{
	const struct finding *f = other->finding;

	if (is_own_end(end))
		return other->kind >= SIGNATURE_PATH && other->kind <= SIGNATURE_RESULT &&
		       f->signature->kind != SIGNATURE_DEATH &&
		       (have_rank_in_common(end, f) || !end->ranks || !f->ranks || ends_all(f));
	if (end->signal || !is_before(f, end))
		return false;
	return other->kind == SIGNATURE_ERROR ||
	       (other->kind == SIGNATURE_PATH &&
		(!end->ranks || !strcmp(f->signature->library, end->signature->library)));
}

static void order_exits(struct conclusions *c)
{
	for (int i = 0; i < c->n; i++) {
		struct conclusion *end = &c->list[i];
		bool is_said = false;

		if (end->kind != SIGNATURE_EXIT)
			continue;
		for (int k = 0; k < c->n; k++) {
			struct conclusion *other = &c->list[k];

			is_said |= end->finding->is_warned && !other->finding->is_warned &&
				   other->kind < SIGNATURE_RESULT;
			if (!is_led_to(end->finding, other))
				continue;
			is_said = true;
			if (other->kind == SIGNATURE_ERROR && is_own_end(end->finding) &&
			    have_rank_in_common(end->finding, other->finding))
				other->kind = SIGNATURE_EXIT;
		}
		if (is_said)
			end->kind = SIGNATURE_RESULT;
	}
}

/* Did a signal end the process that mostly follows from something else: from abort(3), or from
 * a launcher that ends the other ranks? */
static bool is_late_signal(const struct finding *f)
{
	return f->signal == 6 || f->signal == 15 || strstr(f->proof, "Aborted") ||
	       strstr(f->proof, "Terminated");
}

/* A shell says "Killed" of a job that ran out of memory, and of a hanging job that the user
 * killed. In the second case an earlier message that explains the hang is the cause. */
static bool is_shell_kill(const struct finding *f)
{
	return !strcmp(f->signature->library, "shell") && strstr(f->proof, " Killed");
}

/* MPICH's launcher, and Intel's, kill what is left when a process has ended. */
static bool is_reaped(const struct finding *f)
{
	return f->signal == 9 && !strcmp(f->signature->library, "mpich");
}

/* Does a message tell that its process cannot go on? */
static bool is_fatal(const struct finding *f)
{
	return f->is_uncaught || strstr(f->proof, "forrtl: severe") ||
	       strstr(f->proof, "panicked at");
}

/* Has an MPI call failed before, so that the library told why? */
static bool has_mpi_failed(const struct conclusions *c, const struct finding *end)
{
	for (int i = 0; i < c->n; i++)
		if (c->list[i].finding->signature->kind == SIGNATURE_RESULT &&
		    !strcmp(c->list[i].finding->signature->library, "mpich") &&
		    is_before(c->list[i].finding, end))
			return true;
	return false;
}

/* Is @other the cause of an end by a signal that has come late? */
static bool leads_to_signal(const struct conclusions *c, const struct conclusion *other,
			    const struct finding *end, bool is_late)
{
	const struct finding *f = other->finding;

	if (f == end || other->is_overcome || !is_before(f, end) ||
	    (f->is_warned && other->kind == SIGNATURE_EXIT))
		return false;
	if (is_reaped(end))
		return (other->kind == SIGNATURE_ERROR && is_fatal(f)) ||
		       (other->kind == SIGNATURE_SETTING && has_mpi_failed(c, end));
	if (!is_late)
		return other->kind >= SIGNATURE_SETTING && other->kind <= SIGNATURE_PATH;
	return (other->kind <= SIGNATURE_ERROR || (!f->signal && f->status > 0)) &&
	       !is_late_signal(f);
}

/* Of other ranks' ends that are told earlier, one with a status leads to an abort. */
static void order_aborts(struct conclusions *c)
{
	for (int i = 0; i < c->n; i++) {
		struct conclusion *end = &c->list[i];

		if (end->kind != SIGNATURE_EXIT || end->finding->signal == 15 ||
		    !is_late_signal(end->finding))
			continue;
		for (int k = 0; k < c->n; k++) {
			const struct finding *f = c->list[k].finding;

			if (is_end(f->signature) && !c->list[k].is_overcome && !f->signal &&
			    f->status > 0 && is_before(f, end->finding))
				end->kind = SIGNATURE_RESULT;
		}
	}
}

static void order_kills(struct conclusions *c)
{
	for (int i = 0; i < c->n; i++) {
		struct conclusion *end = &c->list[i];
		bool is_late = is_late_signal(end->finding);

		if (end->kind != SIGNATURE_DEATH &&
		    (end->kind != SIGNATURE_EXIT || end->finding->signal != 15))
			continue;
		if (!is_late && !is_shell_kill(end->finding) && !is_reaped(end->finding))
			continue;
		for (int k = 0; k < c->n; k++)
			if (leads_to_signal(c, &c->list[k], end->finding, is_late))
				end->kind = SIGNATURE_RESULT;
	}
}

/* Sets the reason: the last cause before @c in its log. */
static void put_reason(struct conclusion *c, const struct conclusions *all)
{
	const struct finding *f = c->finding, *g, *best = NULL;

	if (c->kind != SIGNATURE_RESULT || !(f->signature->flags & SIGNATURE_REASON))
		return;
	for (int i = 0; i < all->n; i++) {
		g = all->list[i].finding;
		if (all->list[i].kind < SIGNATURE_RESULT && is_before(g, f) &&
		    (!best || g->line > best->line))
			best = g;
	}
	if (best)
		snprintf(c->reason, sizeof(c->reason), "line %ld: %s", best->line, best->proof);
}

/* Is its kind still the table's? */
static bool is_native(const struct conclusion *c)
{
	return c->kind == c->finding->signature->kind;
}

/* By kind, adjusted and then the table's; then by time, if all are dated, else by place. */
static int conclude_compare(const void *a, const void *b, void *dated)
{
	const struct conclusion *x = a, *y = b;
	const struct finding *f = x->finding, *g = y->finding;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	/* A message that states its kind itself comes before one that needs the address. */
	if (is_native(x) != is_native(y))
		return is_native(x) ? -1 : 1;
	if (f->signature->kind != g->signature->kind)
		return f->signature->kind < g->signature->kind ? -1 : 1;
	if (*(bool *)dated && f->time != g->time)
		return f->time < g->time ? -1 : 1;
	if (f->file != g->file)
		return f->file < g->file ? -1 : 1;
	return f->line < g->line ? -1 : f->line > g->line;
}

/* Did the library fail after all?  Then a failure that it overcame may be the reason. */
static bool has_failed(const struct evidence *v, const char *library)
{
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].count && !v->of[i].well && signatures[i].kind != SIGNATURE_NOTE &&
		    !strcmp(signatures[i].library, library))
			return true;
	return false;
}

/* Does an earlier finding of the same kind make this one redundant? */
static bool is_late(const struct evidence *v, const struct signature *s)
{
	for (int i = 0; s->flags & SIGNATURE_LATER && i < signature_count; i++)
		if (v->of[i].count && &signatures[i] != s &&
		    (!(signatures[i].flags & SIGNATURE_LATER) || &signatures[i] < s) &&
		    (signatures[i].kind == s->kind || is_end(&signatures[i])) &&
		    !strcmp(signatures[i].library, s->library))
			return true;
	return false;
}

/* Is it vague, and another finding less so, or an earlier vague one? */
static bool is_empty(const struct evidence *v, int which)
{
	const struct finding *f = &v->of[which], *g;

	if (!(signatures[which].flags & SIGNATURE_VAGUE) || *f->value)
		return false;
	for (int i = 0; i < signature_count; i++) {
		g = &v->of[i];
		if (i == which || !g->count || g->well)
			continue;
		if (!(signatures[i].flags & SIGNATURE_VAGUE) || *g->value ||
		    g->file < f->file || (g->file == f->file && g->line < f->line))
			return true;
	}
	return false;
}

static bool is_real(const struct evidence *v, int i)
{
	const struct finding *f = &v->of[i];

	return f->count && !(f->well && (signatures[i].flags & SIGNATURE_WAITS ||
					 !has_failed(v, signatures[i].library)));
}

/* Concludes from unknown complaints; a warning counts only if there is nothing worse. */
static void conclude_unknown(struct conclusions *c, const struct evidence *v,
			     const struct nodes *nodes, bool *dated)
{
	bool is_calm = !c->n;

	for (int i = 0; i < v->unknowns; i++)
		is_calm &= v->unknown[i].what == EVIDENCE_WARNING;
	for (int i = 0; i < v->unknowns; i++) {
		const struct finding *f = &v->unknown[i].finding;

		if (v->unknown[i].what == EVIDENCE_WARNING && !is_calm)
			continue;
		*dated &= f->time != 0;
		conclude_one(&c->list[c->n++], f, nodes);
	}
}

static bool has_cause(const struct evidence *v)
{
	for (int i = 0; i < v->unknowns; i++)
		if (v->unknown[i].what != EVIDENCE_WARNING &&
		    !jobend_went_on(v, &v->unknown[i].finding, SIGNATURE_ERROR) &&
		    !jobend_is_routine(v, &v->unknown[i].finding, SIGNATURE_ERROR))
			return true;
	for (int i = 0; i < signature_count; i++)
		if (is_real(v, i) && signatures[i].kind < SIGNATURE_NOTE &&
		    !jobend_went_on(v, &v->of[i], signatures[i].kind) &&
		    !jobend_is_routine(v, &v->of[i], signatures[i].kind))
			return true;
	return false;
}

/* ---- the outcome ---- */

/* Makes a note of what the job overcame: of all if nothing else is left, else of what another
 * message explains better. */
static void order_overcome(struct conclusions *c, const struct evidence *v)
{
	bool stands = false, has_own = false, has_end = false;

	for (int i = 0; i < c->n; i++) {
		struct conclusion *x = &c->list[i];

		x->is_overcome =
			x->kind != SIGNATURE_NOTE && jobend_went_on(v, x->finding, x->kind);
		has_end |= !x->is_overcome && is_end(x->finding->signature) &&
			   !x->finding->is_warned;
	}
	for (int i = 0; i < c->n; i++) {
		struct conclusion *x = &c->list[i];

		if (x->kind == SIGNATURE_NOTE)
			continue;
		x->is_overcome |= !has_end && jobend_is_routine(v, x->finding, x->kind);
		stands |= !x->is_overcome;
		has_own |= !x->is_overcome && x->kind <= SIGNATURE_RESULT &&
			   x->kind != SIGNATURE_EXIT && x->kind != SIGNATURE_DEATH;
	}
	for (int i = 0; i < c->n; i++)
		if (c->list[i].is_overcome &&
		    (!stands || has_own || c->list[i].kind == SIGNATURE_PATH))
			c->list[i].kind = SIGNATURE_NOTE;
}

/* Did a signal end the process, other than the launcher's? */
static bool is_killed(const struct conclusion *c)
{
	return c->finding->signal && c->finding->signal != 15;
}

/* Does @cause explain @result, by the table or as the sender of its signal? */
static bool is_explained(const struct conclusion *cause, const struct conclusion *result)
{
	const struct signature *s = cause->finding->signature;
	const struct finding *f = result->finding;

	return signature_explains(s, f->signature) ||
	       (s->flags & SIGNATURE_KILLS && f->signal == 9 && is_end(f->signature));
}

/* Adds the whole name that another message has of the pod that @cause is about. */
static void put_full_name(struct conclusion *cause, const struct finding *result)
{
	const struct finding *f = cause->finding;
	size_t n = f->hosts ? strlen(f->host[0]) : 0;

	for (int i = 0; n && i < result->hosts; i++)
		if (!strncmp(result->host[i], f->host[0], n) && result->host[i][n] == '.' &&
		    !strstr(cause->cause, result->host[i]))
			append(cause->cause, sizeof(cause->cause), "; %s", result->host[i]);
}

/* Adds the one rank that others waited for in vain to the cause for which it did not come. */
static void put_awaited(struct conclusion *cause, const struct finding *result)
{
	if (!strcmp(cause->finding->signature->library, "ssh") && result->ranks == 1 &&
	    !strstr(cause->cause, "; rank "))
		append(cause->cause, sizeof(cause->cause), "; rank %d did not come",
		       result->rank[0]);
}

/* Makes a result of what an earlier or later message explains, and a cause of what explains. */
static void order_explained(struct conclusions *c)
{
	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < c->n; k++) {
			struct conclusion *cause = &c->list[i], *result = &c->list[k];

			if (result->kind >= SIGNATURE_NOTE || cause->is_overcome ||
			    (cause->kind == SIGNATURE_RESULT && is_killed(result)) ||
			    !is_explained(cause, result))
				continue;
			if (cause->kind == SIGNATURE_NOTE)
				cause->kind = SIGNATURE_SETTING;
			result->kind = SIGNATURE_RESULT;
			put_full_name(cause, result->finding);
			put_awaited(cause, result->finding);
			snprintf(result->reason, sizeof(result->reason), "line %ld: %s",
				 cause->finding->line, cause->finding->proof);
		}
}

static bool is_about_network(const struct conclusion *c)
{
	return c->kind == SIGNATURE_ADDRESS || c->kind == SIGNATURE_PATH ||
	       !strncmp(c->command, "ringup net", 10);
}

/* Offers a check of the network only where the first finding is about the network: after a
 * wrong Python or a killed process it would be a detour. */
static void limit_checks(struct conclusions *c)
{
	static const char check[] = "ringup net check";

	if (!c->n || is_about_network(&c->list[0]))
		return;
	for (int i = 1; i < c->n; i++)
		if (!strncmp(c->list[i].command, check, sizeof(check) - 1))
			*c->list[i].command = 0;
}

/* Was a process seen to stand still, with no step since? */
static bool stands_still(const struct conclusions *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->list[i].finding->signature->flags &
			    (SIGNATURE_STILL | SIGNATURE_MISSING) &&
		    c->list[i].kind < SIGNATURE_NOTE && !c->list[i].is_overcome)
			return true;
	return false;
}

/* Does a message tell why the job ended, or stood still? */
static bool has_reason(const struct conclusions *c)
{
	return c->n && c->list[0].kind < SIGNATURE_NOTE &&
	       !(c->list[0].finding->signature->flags & SIGNATURE_STILL);
}

static enum jobend judge(const struct conclusions *c, const struct evidence *v)
{
	bool stands = false, is_good = jobend_is_good(v, !c->n);

	for (int i = 0; i < c->n; i++) {
		const struct conclusion *x = &c->list[i];

		if (x->kind == SIGNATURE_NOTE) {
			is_good |= x->is_overcome || jobend_ends_calmly(v, x->finding);
			continue;
		}
		if (x->kind == SIGNATURE_DEATH ||
		    (x->kind == SIGNATURE_EXIT && !x->finding->is_warned) ||
		    x->kind == SIGNATURE_ERROR ||
		    (!x->finding->is_warned &&
		     (is_end(x->finding->signature) ||
		      (x->kind == SIGNATURE_ECHO &&
		       x->finding->signature->flags & SIGNATURE_VAGUE))))
			return JOBEND_FAILED;
		stands = true;
	}
	return !stands && is_good ? JOBEND_WELL : JOBEND_UNKNOWN;
}

/* Puts a finding that no message tells before the others. */
static void add_untold(struct conclusions *c, const struct signature *s, const struct proc *p,
		       const struct proc_line *shown, const char *said)
{
	struct finding *f = &c->untold;
	struct conclusion *x = c->list;

	*f = (struct finding){ .signature = s,
			       .count = 1,
			       .file = p->file,
			       .line = shown->line,
			       .last_at = UINT64_MAX,
			       .time = shown->time,
			       .files = 1,
			       .status = -1,
			       .port = -1 };
	snprintf(f->proof, sizeof(f->proof), "%s", shown->text);
	if (p->rank >= 0)
		f->rank[f->ranks++] = p->rank;
	if (*p->host)
		snprintf(f->host[f->hosts++], sizeof(f->host[0]), "%s", p->host);
	memmove(x + 1, x, (size_t)c->n++ * sizeof(*x));
	memset(x, 0, sizeof(*x));
	x->finding = f;
	x->kind = SIGNATURE_EXIT;
	snprintf(x->cause, sizeof(x->cause), "%s", said);
	snprintf(x->proof, sizeof(x->proof), "%s", f->proof);
	put_last(x, p);
}

/* Adds a process that stands still, which no message tells. */
static bool add_hang(struct conclusions *c, const struct evidence *v)
{
	static const struct signature silent = { "X4",
						 "any",
						 SIGNATURE_EXIT,
						 0,
						 "",
						 "",
						 "look at that process on its host: its stack "
						 "(py-spy dump --pid PID, or gdb), its GPU "
						 "and its file systems; the others wait for it",
						 "" };
	static const struct signature loop = {
		"X5",
		"any",
		SIGNATURE_EXIT,
		0,
		"",
		"",
		"the lines name what the job waits for: check that it "
		"runs, that its name resolves and that its port answers",
		""
	};
	const struct proc *p;
	char said[256];

	p = jobend_hang(v, said, sizeof(said));
	if (!p)
		return false;
	c->outcome = JOBEND_SILENT;
	add_untold(c, p->step_line.line ? &silent : &loop, p,
		   p->step_line.line ? &p->step_line : &p->last[0], said);
	return true;
}

static bool is_since(const struct finding *f, int file, uint64_t at)
{
	return f->count && (f->last_file != file || f->last_at >= at);
}

/* Is there a complaint, even one that the job overcame, since the process @p began to make
 * steps? */
static bool has_complaint_since(const struct evidence *v, const struct proc *p)
{
	uint64_t at = procs_began(v->procs, p);

	for (int i = 0; i < signature_count; i++)
		if (signatures[i].kind != SIGNATURE_NOTE && is_since(&v->of[i], p->file, at))
			return true;
	for (int i = 0; i < v->unknowns; i++)
		if (v->unknown[i].what != EVIDENCE_WARNING &&
		    is_since(&v->unknown[i].finding, p->file, at))
			return true;
	return false;
}

/* Adds a log that stops well before the last step of its job.  One that went on after a
 * complaint is mostly of a job that runs. */
static void add_short(struct conclusions *c, const struct evidence *v)
{
	static const struct signature cut = {
		"X8",
		"any",
		SIGNATURE_EXIT,
		0,
		"",
		"",
		"if it runs, `ringup hang` shows whether and where it "
		"waits; else look at the scheduler's record (sacct, "
		"kubectl describe) and the kernel log (dmesg)",
		""
	};
	char said[256];
	const struct proc *p = jobend_short(v, said, sizeof(said));
	bool is_set_up = true;

	if (!p)
		p = jobend_waits(v, said, sizeof(said));
	if (!p)
		p = jobend_begun(v, said, sizeof(said));
	if (!p) {
		p = jobend_unset(v, said, sizeof(said));
		is_set_up = false;
	}
	if (!p || (is_set_up && has_complaint_since(v, p)))
		return;
	c->outcome = JOBEND_SILENT;
	add_untold(c, &cut, p, &p->last[0], said);
}

/* How well does the message tell of a test that failed: 2 if it names the test, 1 if it is the
 * exception that pytest shows, 0 if it may be of any test. */
static int of_suite(const struct finding *f, const struct proc *suite)
{
	return f->line == suite->failure.line ? 2 : strstr(f->proof, "E   ") ? 1 : 0;
}

/* Makes results of all that was told before the summary of tests that failed, but for the first
 * message on such a test: other tests may have printed it on purpose.  Returns whether there is
 * such a message. */
static bool order_suite(struct conclusions *c, const struct proc *suite)
{
	struct conclusion *first = NULL;
	int best = 0;

	for (int i = 0; i < c->n; i++) {
		struct conclusion *x = &c->list[i];

		if (x->kind >= SIGNATURE_NOTE || x->finding->last_file != suite->file ||
		    x->finding->last_at >= suite->failed)
			continue;
		x->kind = SIGNATURE_RESULT;
		if (of_suite(x->finding, suite) > best) {
			best = of_suite(x->finding, suite);
			first = x;
		}
	}
	if (first)
		first->kind = SIGNATURE_EXIT;
	return first;
}

/* Adds the tests that failed. */
static void add_suite(struct conclusions *c, const struct proc *suite)
{
	static const struct signature failed = {
		"X9",
		"any",
		SIGNATURE_EXIT,
		0,
		"",
		"",
		"read the output of that test; what other tests print may be on purpose",
		""
	};

	c->outcome = JOBEND_FAILED;
	add_untold(c, &failed, suite, &suite->failure, "a test failed");
	if (c->n > 1 && c->list[1].kind < c->list->kind)
		c->list->kind = c->list[1].kind;
}

/* Adds an end that no message tells: one rank ended in another way than all others, or the
 * user knows that the job failed. */
static void add_end(struct conclusions *c, const struct evidence *v)
{
	static const struct signature odd = {
		"X6",
		"any",
		SIGNATURE_EXIT,
		0,
		"",
		"",
		"read its last lines: some launchers, such as MPICH's, do not report a rank "
		"that exits with a nonzero status",
		""
	};
	static const struct signature told = { "X7",
					       "any",
					       SIGNATURE_EXIT,
					       0,
					       "",
					       "",
					       "read the last lines; run the job with a "
					       "launcher's marks of ranks (mpiexec -l, mpirun "
					       "--tag-output, srun -l), so that each line has "
					       "its rank",
					       "" };
	char said[256];
	const struct proc *p = jobend_odd(v, said, sizeof(said));
	const struct proc_line *l;

	if (p) {
		c->outcome = JOBEND_FAILED;
		add_untold(c, &odd, p, &p->last[0], said);
		return;
	}
	if (v->status < 0)
		add_short(c, v);
	if (v->status <= 0)
		return;
	c->outcome = JOBEND_FAILED;
	l = jobend_last_words(v, &p);
	if (v->status > 128 && v->status < 128 + 65)
		snprintf(said, sizeof(said),
			 "signal %d ended the job; the log does not show why", v->status - 128);
	else
		snprintf(said, sizeof(said),
			 "the job ended with status %d; the log does not show why", v->status);
	if (l)
		add_untold(c, &told, p, l, said);
}

/* Is it of JAX's barrier at shutdown?  The first task there ended first. */
static bool is_shutdown(const struct finding *f)
{
	return !strcmp(f->signature->library, "jax") && strstr(f->proof, "Id: Shutdown:");
}

/* Of the ends that are told of one rank alone, the first in the log; or NULL. */
static const struct finding *first_end(const struct conclusions *c, int file)
{
	const struct finding *first = NULL, *f;

	for (int i = 1; i < c->n; i++) {
		f = c->list[i].finding;
		if (is_end(f->signature) && f->file == file && f->ranks == 1 && !f->well &&
		    !c->list[i].is_overcome && f->signal != 15 &&
		    (f->signal || f->status >= 0 || is_shutdown(f)) &&
		    (!first || f->line < first->line))
			first = f;
	}
	return first;
}

/* The end that MPICH's launcher tells of one host without a rank, after @f; or NULL. */
static const struct finding *first_box(const struct conclusions *c, const struct finding *f)
{
	const struct finding *g;

	for (int i = 1; i < c->n; i++) {
		g = c->list[i].finding;
		if (is_end(g->signature) && !strcmp(g->signature->library, "mpich") &&
		    is_before(f, g) && !g->ranks && g->hosts == 1)
			return g;
	}
	return NULL;
}

/* Adds the rank that a launcher saw end first to a cause without a rank, and its host to one
 * without a host. */
static void put_first_end(struct conclusions *c)
{
	const struct finding *f = c->n ? c->list[0].finding : NULL, *end;

	if (f && !f->hosts && (c->list[0].kind == SIGNATURE_ERROR || is_end(f->signature)) &&
	    (end = first_box(c, f)))
		append(c->list[0].cause, sizeof(c->list[0].cause),
		       "; a process on %s ended first", end->host[0]);
	if (!f || f->ranks > 1 || (f->ranks && f->hosts) || f->signal || f->status >= 0 ||
	    c->list[0].kind >= SIGNATURE_NOTE || f->signature->flags & SIGNATURE_BEHIND)
		return;
	end = first_end(c, f->file);
	/* The kernel's lines are mostly put behind the job's. */
	if (!end || (end->line < f->line && strcmp(f->signature->library, "kernel") != 0) ||
	    (f->ranks && (end->rank[0] != f->rank[0] || !end->hosts)))
		return;
	append(c->list[0].cause, sizeof(c->list[0].cause), "; rank %d", end->rank[0]);
	if (end->hosts)
		append(c->list[0].cause, sizeof(c->list[0].cause), " on %s", end->host[0]);
	append(c->list[0].cause, sizeof(c->list[0].cause), " ended first");
}

static int conclude_known(struct conclusions *c, const struct evidence *v,
			  const struct nodes *nodes, bool *dated)
{
	bool known = has_cause(v);

	for (int i = 0; i < signature_count; i++) {
		if (!is_real(v, i))
			continue;
		if ((signatures[i].kind == SIGNATURE_ECHO && known) ||
		    is_late(v, &signatures[i]) || is_empty(v, i)) {
			c->echo[c->echoes++] = &v->of[i];
			continue;
		}
		*dated &= v->of[i].time != 0;
		conclude_one(&c->list[c->n++], &v->of[i], nodes);
	}
	return c->n;
}

/* The rank that mpirun saw end; NULL without one. */
static const struct finding *find_mpirun_end(const struct evidence *v)
{
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].count && v->of[i].ranks && v->of[i].hosts &&
		    is_end(&signatures[i]) && !strcmp(signatures[i].library, "openmpi"))
			return &v->of[i];
	return NULL;
}

static bool has_host(const struct finding *f, const char *host)
{
	for (int i = 0; i < f->hosts; i++)
		if (!strcmp(f->host[i], host))
			return true;
	return false;
}

/* A task of srun that starts a daemon of mpirun's is no rank: mpirun tells the rank. */
static void finish_slurm(struct evidence *v)
{
	const struct finding *end = find_mpirun_end(v);

	for (int i = 0; end && i < signature_count; i++) {
		struct finding *f = &v->of[i];

		if (!f->count || !f->ranks || strcmp(signatures[i].library, "slurm") != 0)
			continue;
		f->ranks = has_host(f, end->host[0]);
		f->rank[0] = end->rank[0];
	}
}

/* A task of srun that starts torchrun is no rank: torchrun's report tells the rank on its host.
 */
static void finish_report(const struct evidence *v, struct finding *f)
{
	const struct links *l = procs_links(v->procs);
	const struct link *x;

	if (!f->count || !f->ranks || strcmp(f->signature->library, "slurm") != 0 ||
	    !links_reported(l, f->file, NULL))
		return;
	x = f->hosts == 1 ? links_reported(l, f->file, f->host[0]) : NULL;
	f->ranks = x && f->ranks == 1;
	if (f->ranks)
		f->rank[0] = x->rank;
}

/* Adds the rank or the host of the first finding that other lines link to what it names: a
 * process, or a rank. */
static void put_links(struct conclusions *c, const struct evidence *v)
{
	const struct links *l = procs_links(v->procs);
	struct finding *f = c->n ? (struct finding *)c->list[0].finding : NULL;
	char host[LINKS_HOST] = "";
	const struct link *x;
	long pid;

	if (!f || c->list[0].kind >= SIGNATURE_NOTE || (f->ranks && f->hosts) || f->ranks > 1)
		return;
	pid = links_pid(f->proof, host);
	x = pid ? links_of_pid(l, f->file, f->hosts == 1 ? f->host[0] : host, pid) : NULL;
	if (!x && f->ranks)
		x = links_of_rank(l, f->file, f->rank[0]);
	if (x && !f->hosts)
		memcpy(host, x->host, sizeof(host));
	if (x && x->rank >= 0 && !f->ranks)
		f->rank[f->ranks++] = x->rank;
	if (!f->hosts && *host)
		fields_show(f->host[f->hosts++], sizeof(f->host[0]), host, strlen(host));
}

/* Adds the host of the task of srun that started the rank. */
static void finish_host(const struct evidence *v, struct finding *f)
{
	for (int i = 0; i < v->tasks && f->count && !f->hosts && f->task >= 0; i++)
		if (v->task[i].task == f->task && v->task[i].file == f->file)
			fields_show(f->host[f->hosts++], sizeof(f->host[0]), v->task[i].host,
				    strlen(v->task[i].host));
}

static void finish(struct evidence *v)
{
	procs_finish(v->procs);
	finish_slurm(v);
	for (int i = 0; i < signature_count; i++) {
		finish_report(v, &v->of[i]);
		finish_host(v, &v->of[i]);
	}
	for (int i = 0; i < v->unknowns; i++)
		finish_host(v, &v->unknown[i].finding);
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].lead.line)
			fields_show(v->of[i].lead.text, sizeof(v->of[i].lead.text),
				    v->of[i].lead.text, strlen(v->of[i].lead.text));
}

int conclude(struct conclusions *c, struct evidence *v, const struct nodes *nodes,
	     struct err *e)
{
	const struct proc *suite;
	bool dated = true;

	memset(c, 0, sizeof(*c));
	c->list = calloc((size_t)signature_count + EVIDENCE_UNKNOWN + 1, sizeof(*c->list));
	c->echo = calloc((size_t)signature_count, sizeof(*c->echo));
	if (!c->list || !c->echo)
		return fail(e, RINGUP_ENOMEM, "no memory for the conclusions");
	finish(v);
	conclude_known(c, v, nodes, &dated);
	conclude_unknown(c, v, nodes, &dated);
	order_overcome(c, v);
	order_kills(c);
	order_aborts(c);
	order_exits(c);
	order_explained(c);
	suite = v->status ? jobend_suite(v) : NULL;
	if (suite && order_suite(c, suite))
		suite = NULL;
	for (int i = 0; i < c->n; i++) {
		put_reason(&c->list[i], c);
		conclude_quote(&c->list[i], v);
	}
	qsort_r(c->list, (size_t)c->n, sizeof(*c->list), conclude_compare, &dated);
	limit_checks(c);
	put_first_end(c);
	put_links(c, v);
	c->outcome = v->status ? judge(c, v) : JOBEND_WELL;
	if (suite)
		add_suite(c, suite);
	if (c->outcome == JOBEND_FAILED || !v->status)
		return 0;
	if (c->n && c->list[0].kind < SIGNATURE_NOTE && stands_still(c) && v->status < 0)
		c->outcome = JOBEND_SILENT;
	if (has_reason(c))
		c->outcome = v->status > 0 ? JOBEND_FAILED : c->outcome;
	else if (!add_hang(c, v))
		add_end(c, v);
	return 0;
}

void conclude_free(struct conclusions *c)
{
	free(c->list);
	free(c->echo);
	memset(c, 0, sizeof(*c));
}
