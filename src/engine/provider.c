/* provider.c - the back ends of a communicator: open, choose for each plan, close. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/provider.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* Opens @b: 0; 1 if it cannot serve @l, with the reason in *@why; or RINGUP_ENOMEM. */
static int provider_open(struct comm *l, const struct backend *b, struct err *why,
			 struct err *e)
{
	struct provider *v = &l->providers[l->provider_count];

	v->self = calloc(1, b->size);
	if (!v->self)
		return fail(e, RINGUP_ENOMEM, "no memory for the back end");
	if (!b->open(v->self, &l->topo, why)) {
		v->is = b;
		l->by_host |= b->by_host && !(l->memory & MEMORY_HOST);
		l->memory |= b->memory;
		l->provider_count++;
		return 0;
	}
	b->close(v->self);
	free(v->self);
	v->self = NULL;
	return 1;
}

int providers_open(struct comm *l, const char *only, struct err *e)
{
	struct err why = { 0 };
	int rc;

	for (int i = 0; backends[i] && l->provider_count < COMM_BACKENDS; i++) {
		if ((*only && strcmp(only, backends[i]->name)) ||
		    !(backends[i]->memory & ~l->memory))
			continue;
		rc = provider_open(l, backends[i], &why, e);
		if (rc < 0)
			return rc;
	}
	if (l->memory & MEMORY_HOST)
		return 0;
	if (l->provider_count)
		return fail(e, RINGUP_ENOBACKEND,
			    "RINGUP_BACKEND=%.15s: it takes no data in the host's memory",
			    only);
	if (!why.code)
		return fail(
			e, RINGUP_EINVAL,
			"RINGUP_BACKEND=%.15s: no such back end; self, node, mpi and tcp are",
			only);
	return fail(e, RINGUP_ENOBACKEND, "no back end can serve this job: %.200s", why.text);
}

struct provider *provider_for(struct comm *l, const struct plan *p)
{
	for (int i = 0; i < l->provider_count; i++) {
		struct provider *v = &l->providers[i];

		if (v->is->memory >> p->memory & 1 && v->is->can(v->self, p))
			return v;
	}
	return NULL;
}

const char *provider_name(const struct comm *l)
{
	for (int i = 0; i < l->provider_count; i++)
		if (l->providers[i].is->memory & MEMORY_HOST)
			return l->providers[i].is->name;
	return "none";
}

void providers_abort(struct comm *l)
{
	for (int i = 0; i < l->provider_count; i++)
		l->providers[i].is->abort(l->providers[i].self);
}

void providers_close(struct provider *v, int count)
{
	while (count-- > 0) {
		v[count].is->close(v[count].self);
		free(v[count].self);
	}
}
