/* provider.c - the back ends of a communicator: open, choose for each plan, close. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* Opens @b: 0; 1 if it cannot serve @c, with the reason in *@why; or RINGUP_ENOMEM. */
static int provider_open(struct comm *c, const struct backend *b, struct err *why,
			 struct err *e)
{
	struct provider *v = &c->providers[c->provider_count];
	int rc;

	v->self = calloc(1, b->size);
	if (!v->self)
		return fail(e, RINGUP_ENOMEM, "no memory for the back end");
	rc = b->open(v->self, &c->topo, why);
	if (!rc) {
		v->backend = b;
		c->by_host |= b->by_host && !(c->memory & MEMORY_HOST);
		c->memory |= b->memory;
		c->provider_count++;
		return 0;
	}
	b->close(v->self);
	free(v->self);
	v->self = NULL;
	if (rc != RINGUP_ENOMEM)
		return 1;
	*e = *why;
	return rc;
}

static int no_such_provider(const char *name, struct err *e)
{
	char list[128] = "";
	size_t n;

	for (int i = 0; backends[i]; i++) {
		n = strlen(list);
		snprintf(list + n, sizeof(list) - n, "%s%s",
			 !i                ? ""
			 : backends[i + 1] ? ", "
					   : " and ",
			 backends[i]->name);
	}
	return fail(e, RINGUP_EINVAL, "RINGUP_BACKEND=%.15s: no such back end; available: %s",
		    name, list);
}

/* The kinds of memory that back ends of the list take. */
static unsigned int named_memory(const char *list)
{
	unsigned int memory = 0;

	for (int i = 0; backends[i]; i++)
		if (backend_is_named(list, backends[i]->name))
			memory |= backends[i]->memory;
	return memory;
}

int providers_check(const char *list, struct err *e)
{
	char name[16];

	for (const char *at = list; *at; at = *at ? at + 1 : at) {
		size_t n = strcspn(at, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, at);
		if (!backend_find(name))
			return no_such_provider(name, e);
		at += n;
	}
	return 0;
}

int providers_open(struct comm *c, const char *list, struct err *e)
{
	struct err why = { 0 };
	unsigned int taken = named_memory(list);
	int rc = providers_check(list, e);

	for (int i = 0; backends[i] && c->provider_count < COMM_BACKENDS && !rc; i++) {
		const struct backend *b = backends[i];
		bool named = backend_is_named(list, b->name);

		if ((!named && (b->named_only || b->memory & taken)) ||
		    !(b->memory & ~c->memory))
			continue;
		rc = provider_open(c, b, &why, e);
		/* A user names it for its memory, which no other back end takes. */
		if (rc > 0 && b->named_only)
			return fail(e, why.code, "RINGUP_BACKEND=%.15s: %.200s", b->name,
				    why.text);
		rc = rc < 0 ? rc : 0;
	}
	if (rc || c->memory & MEMORY_HOST)
		return rc;
	return fail(e, RINGUP_ENOBACKEND, "no back end can serve this job: %.200s", why.text);
}

struct provider *provider_for(struct comm *c, const struct plan *p)
{
	for (int i = 0; i < c->provider_count; i++) {
		struct provider *v = &c->providers[i];

		if (v->backend->memory >> p->memory & 1 && v->backend->can(v->self, p))
			return v;
	}
	return NULL;
}

const char *provider_name(const struct comm *c)
{
	for (int i = 0; i < c->provider_count; i++)
		if (c->providers[i].backend->memory & MEMORY_HOST)
			return c->providers[i].backend->name;
	return "none";
}

struct provider *provider_of_device(const struct comm *c)
{
	for (int i = 0; i < c->provider_count; i++)
		if (c->providers[i].backend->device)
			return (struct provider *)&c->providers[i];
	return NULL;
}

const struct backend_device *provider_device(const struct comm *c, void **self)
{
	const struct provider *v = provider_of_device(c);

	*self = v ? v->self : NULL;
	return v ? v->backend->device : NULL;
}

void providers_abort(struct comm *c, bool devices)
{
	for (int i = 0; i < c->provider_count; i++)
		if (!devices || c->providers[i].backend->device)
			c->providers[i].backend->abort(c->providers[i].self);
}

void providers_close(struct provider *v, int count)
{
	while (count-- > 0) {
		v[count].backend->close(v[count].self);
		free(v[count].self);
	}
}
