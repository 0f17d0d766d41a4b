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
		v->is = b;
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
	return fail(e, RINGUP_EINVAL, "RINGUP_BACKEND=%.15s: no such back end; %s are", name,
		    list);
}

int providers_open(struct comm *c, const char *only, struct err *e)
{
	struct err why = { 0 };
	int rc;

	for (int i = 0; backends[i] && c->provider_count < COMM_BACKENDS; i++) {
		if ((*only && strcmp(only, backends[i]->name)) ||
		    !(backends[i]->memory & ~c->memory))
			continue;
		rc = provider_open(c, backends[i], &why, e);
		if (rc < 0)
			return rc;
	}
	if (c->memory & MEMORY_HOST)
		return 0;
	if (c->provider_count)
		return fail(e, RINGUP_ENOBACKEND,
			    "RINGUP_BACKEND=%.15s: it takes no data in the host's memory",
			    only);
	if (!why.code)
		return no_such_provider(only, e);
	return fail(e, RINGUP_ENOBACKEND, "no back end can serve this job: %.200s", why.text);
}

struct provider *provider_for(struct comm *c, const struct plan *p)
{
	for (int i = 0; i < c->provider_count; i++) {
		struct provider *v = &c->providers[i];

		if (v->is->memory >> p->memory & 1 && v->is->can(v->self, p))
			return v;
	}
	return NULL;
}

const char *provider_name(const struct comm *c)
{
	for (int i = 0; i < c->provider_count; i++)
		if (c->providers[i].is->memory & MEMORY_HOST)
			return c->providers[i].is->name;
	return "none";
}

void providers_abort(struct comm *c)
{
	for (int i = 0; i < c->provider_count; i++)
		c->providers[i].is->abort(c->providers[i].self);
}

void providers_close(struct provider *v, int count)
{
	while (count-- > 0) {
		v[count].is->close(v[count].self);
		free(v[count].self);
	}
}
