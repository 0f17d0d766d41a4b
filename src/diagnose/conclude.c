/* conclude.c - what follows from what was seen. */
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

/* A word that a shell takes as it is, and nobody for an option. */
static bool is_safe(const char *word)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._:-";

	return *word && *word != '-' && strspn(word, letters) == strlen(word);
}

/* The hosts of the message, or else the nodes that are compared with. */
static void put_hosts(char *out, size_t size, const struct finding *f,
		      const struct nodes *nodes)
{
	int i, n = 0;

	for (i = 0; i < f->hosts; i++)
		if (is_safe(f->host[i]) && ++n)
			append(out, size, " %s", f->host[i]);
	for (i = 0; !n && !nodes->live && i < nodes->n; i++)
		if (is_safe(nodes_name(nodes, i)))
			append(out, size, " %s", nodes_name(nodes, i));
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
	/* A check of nobody is no command. */
	if (!strcmp(out, "ringup net check"))
		append(out, size, " --hostfile HOSTS");
}

/* Whose are the addresses?  The worst of them decides, and is told. */
static void judge(struct conclusion *c, const struct nodes *nodes)
{
	const struct finding *f = c->finding;
	const struct signature *s = f->signature;
	enum nodes_owner owner = NODES_UNKNOWN;
	char said[256] = "", more[256];
	int i;

	for (i = 0; i < f->addresses && owner != NODES_SHARED; i++) {
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
	} else if (owner == NODES_SHARED && s->kind == SIGNATURE_ADDRESS) {
		append(c->cause, sizeof(c->cause), ": %s", said);
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
	judge(c, nodes);
}

/* By kind, now and as the table has it; then by time, if all are dated, else by place. */
static int compare(const void *a, const void *b, void *dated)
{
	const struct conclusion *x = a, *y = b;
	const struct finding *f = x->finding, *g = y->finding;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	/* Who says so by himself is believed before who needs the address for it. */
	if (f->signature->kind != g->signature->kind)
		return f->signature->kind < g->signature->kind ? -1 : 1;
	if (*(bool *)dated && f->time != g->time)
		return f->time < g->time ? -1 : 1;
	if (f->file != g->file)
		return f->file < g->file ? -1 : 1;
	return f->line < g->line ? -1 : f->line > g->line;
}

/* Did the library fail after all?  Then what it got over may be why. */
static bool has_failed(const struct evidence *v, const char *library)
{
	int i;

	for (i = 0; i < signature_count; i++)
		if (v->of[i].count && !v->of[i].well && signatures[i].kind != SIGNATURE_NOTE &&
		    !strcmp(signatures[i].library, library))
			return true;
	return false;
}

/* Is there one of its kind that says the same sooner? */
static bool is_late(const struct evidence *v, const struct signature *s)
{
	int i;

	for (i = 0; s->flags & SIGNATURE_LATER && i < signature_count; i++)
		if (v->of[i].count && &signatures[i] != s && signatures[i].kind == s->kind &&
		    !strcmp(signatures[i].library, s->library))
			return true;
	return false;
}

static bool is_real(const struct evidence *v, int i)
{
	const struct finding *f = &v->of[i];

	return f->count && !(f->well && !has_failed(v, signatures[i].library));
}

int conclude(struct conclusions *c, const struct evidence *v, const struct nodes *nodes,
	     struct err *e)
{
	bool has_cause = false, dated = true;
	int i;

	memset(c, 0, sizeof(*c));
	c->list = calloc((size_t)signature_count, sizeof(*c->list));
	c->echo = calloc((size_t)signature_count, sizeof(*c->echo));
	if (!c->list || !c->echo)
		return fail(e, RINGUP_ENOMEM, "no memory for the conclusions");
	for (i = 0; i < signature_count; i++)
		has_cause |= is_real(v, i) && signatures[i].kind < SIGNATURE_NOTE;
	for (i = 0; i < signature_count; i++) {
		if (!is_real(v, i))
			continue;
		if ((signatures[i].kind == SIGNATURE_ECHO && has_cause) ||
		    is_late(v, &signatures[i])) {
			c->echo[c->echoes++] = &v->of[i];
			continue;
		}
		dated &= v->of[i].time != 0;
		conclude_one(&c->list[c->n++], &v->of[i], nodes);
	}
	qsort_r(c->list, (size_t)c->n, sizeof(*c->list), compare, &dated);
	return 0;
}

void conclude_free(struct conclusions *c)
{
	free(c->list);
	free(c->echo);
	memset(c, 0, sizeof(*c));
}
