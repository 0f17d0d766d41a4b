/* conclude.c - turn evidence into conclusions: causes first, echoes left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/conclude.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
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
			 "the address is not the peer's alone, so the connection goes astray: "
			 "%s",
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
		{ 4, "SIGILL: the processor does not know an instruction" },
		{ 6, "SIGABRT: the process gave up itself, its last lines say why" },
		{ 7, "SIGBUS: often a /dev/shm that is full" },
		{ 8, "SIGFPE: an arithmetic error" },
		{ 9, "SIGKILL: often memory that ran out" },
		{ 11, "SIGSEGV: a fault of the program or of a library" },
		{ 15, "SIGTERM: somebody asked it to end, such as a batch system" },
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

/*
 * A rank that ended by itself has mostly said why: that message is the cause, and comes before
 * the other ranks' errors, with the end as its result.  The same holds for an unexplained end
 * after a failed path that the same library reported.
 */
static bool is_led_to(const struct finding *end, const struct conclusion *other)
{
	const struct finding *f = other->finding;

	if (is_own_end(end))
		return other->kind >= SIGNATURE_PATH && other->kind <= SIGNATURE_RESULT &&
		       (have_rank_in_common(end, f) || !end->ranks || !f->ranks);
	return !end->signal && other->kind == SIGNATURE_PATH && is_before(f, end) &&
	       !strcmp(f->signature->library, end->signature->library);
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

/* A shell says "Killed" of a job that ran out of memory, and of a hanging job that the user
 * killed. In the second case an earlier message that explains the hang is the cause. */
static void order_kills(struct conclusions *c)
{
	for (int i = 0; i < c->n; i++) {
		struct conclusion *end = &c->list[i];
		const struct finding *f = end->finding;

		if (end->kind != SIGNATURE_DEATH || strcmp(f->signature->library, "shell") ||
		    !strstr(f->proof, " Killed"))
			continue;
		for (int k = 0; k < c->n; k++)
			if (c->list[k].kind >= SIGNATURE_SETTING &&
			    c->list[k].kind <= SIGNATURE_PATH &&
			    is_before(c->list[k].finding, f))
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

static bool is_end(const struct signature *s)
{
	return s->kind == SIGNATURE_DEATH || s->kind == SIGNATURE_EXIT;
}

/* Does an earlier finding of the same kind make this one redundant? */
static bool is_late(const struct evidence *v, const struct signature *s)
{
	for (int i = 0; s->flags & SIGNATURE_LATER && i < signature_count; i++)
		if (v->of[i].count && &signatures[i] != s &&
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

	return f->count && !(f->well && !has_failed(v, signatures[i].library));
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
		if (v->unknown[i].what != EVIDENCE_WARNING)
			return true;
	for (int i = 0; i < signature_count; i++)
		if (is_real(v, i) && signatures[i].kind < SIGNATURE_NOTE)
			return true;
	return false;
}

int conclude(struct conclusions *c, const struct evidence *v, const struct nodes *nodes,
	     struct err *e)
{
	bool known, dated = true;

	memset(c, 0, sizeof(*c));
	c->list = calloc((size_t)signature_count + EVIDENCE_UNKNOWN, sizeof(*c->list));
	c->echo = calloc((size_t)signature_count, sizeof(*c->echo));
	if (!c->list || !c->echo)
		return fail(e, RINGUP_ENOMEM, "no memory for the conclusions");
	known = has_cause(v);
	for (int i = 0; i < signature_count; i++) {
		if (!is_real(v, i))
			continue;
		if ((signatures[i].kind == SIGNATURE_ECHO && known) ||
		    is_late(v, &signatures[i]) || is_empty(v, i)) {
			c->echo[c->echoes++] = &v->of[i];
			continue;
		}
		dated &= v->of[i].time != 0;
		conclude_one(&c->list[c->n++], &v->of[i], nodes);
	}
	conclude_unknown(c, v, nodes, &dated);
	order_exits(c);
	order_kills(c);
	for (int i = 0; i < c->n; i++)
		put_reason(&c->list[i], c);
	qsort_r(c->list, (size_t)c->n, sizeof(*c->list), conclude_compare, &dated);
	return 0;
}

void conclude_free(struct conclusions *c)
{
	free(c->list);
	free(c->echo);
	memset(c, 0, sizeof(*c));
}
