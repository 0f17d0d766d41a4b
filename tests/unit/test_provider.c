/* test_provider.c - which back ends serve a communicator, and which of them a plan. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/provider.h"
#include "tap.h"

/* Back ends of which nothing is wanted but to be opened, asked and closed. */
struct fake {
	int opened;
};

static int opened, closed, aborted;
static bool lacks_memory;

static int fake_open(void *self, const struct topo *t, struct err *e)
{
	((struct fake *)self)->opened = 1;
	opened++;
	return t->size > 1 ? 0 : fail(e, RINGUP_ENOBACKEND, "too few");
}

static int never_open(void *self, const struct topo *t, struct err *e)
{
	(void)self;
	(void)t;
	return lacks_memory ? fail(e, RINGUP_ENOMEM, "no memory for gone")
			    : fail(e, RINGUP_ENOBACKEND, "this machine has none");
}

static bool any(const void *self, const struct plan *p)
{
	(void)self;
	(void)p;
	return true;
}

static bool sums(const void *self, const struct plan *p)
{
	(void)self;
	return p->kind == PLAN_ALLREDUCE;
}

static void fake_abort(void *self)
{
	(void)self;
	aborted++;
}

static void fake_close(void *self)
{
	(void)self;
	closed++;
}

#define FAKE(kinds, is, asked)                                                   \
	.name = #is, .size = sizeof(struct fake), .memory = (kinds), .slots = 1, \
	.can = (asked), .abort = fake_abort, .close = fake_close

static const struct backend gone = { FAKE(MEMORY_OF_HOST | MEMORY_CUDA, gone, any),
				     .open = never_open };
static const struct backend sum = { FAKE(MEMORY_CUDA, sum, sums), .open = fake_open };
static const struct backend more = { FAKE(MEMORY_CUDA, more, any), .open = fake_open };
static const struct backend host = { FAKE(MEMORY_OF_HOST, host, any), .by_host = true,
				     .open = fake_open };
static const struct backend last = { FAKE(MEMORY_OF_HOST, last, any), .open = fake_open };
static const struct backend all = { FAKE(MEMORY_OF_HOST | MEMORY_CUDA, all, any),
				    .open = fake_open };

static const struct backend shy = { FAKE(MEMORY_CUDA, shy, any), .named_only = true,
				    .open = fake_open };

/* Instead of backends.c's list. */
const struct backend *const backends[] = { &shy, &gone, &sum, &more, &host, &last, &all, NULL };

static const char *name_for(struct comm *c, enum plan_kind kind, enum ringup_memory memory)
{
	struct plan p = { .kind = kind, .memory = memory };
	const struct provider *v = provider_for(c, &p);

	return v ? v->backend->name : "none";
}

static void close_comm(struct comm *c)
{
	providers_close(c->providers, c->provider_count);
	memset(c, 0, sizeof(*c));
}

int main(void)
{
	static struct comm l;
	struct err e = { 0 };

	l.topo.size = 2;
	ok(!providers_open(&l, "", &e) && l.provider_count == 2 &&
		   l.memory == (MEMORY_OF_HOST | MEMORY_CUDA),
	   "the first for each kind of memory");
	ok(l.by_host && !strcmp(provider_name(&l), "host"), "the host's is known");
	ok(!strcmp(name_for(&l, PLAN_ALLREDUCE, RINGUP_CUDA), "sum") &&
		   !strcmp(name_for(&l, PLAN_ALLREDUCE, RINGUP_HOST), "host") &&
		   !strcmp(name_for(&l, PLAN_BARRIER, RINGUP_PINNED), "host"),
	   "each kind goes to its own");
	ok(!strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "none"),
	   "what it cannot do, nobody does");
	providers_abort(&l, false);
	ok(aborted == 2, "all are told of an end");
	close_comm(&l);
	ok(closed == opened + 1 && opened == 2, "each that was tried is closed");

	l.topo.size = 2;
	ok(!providers_open(&l, "all", &e) && l.provider_count == 1 && !l.by_host &&
		   !strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "all"),
	   "the one that was asked for");
	close_comm(&l);

	l.topo.size = 2;
	ok(providers_open(&l, "nobody", &e) == RINGUP_EINVAL &&
		   strstr(e.text, "=nobody: no such back end; available: shy, gone, sum, more, "
				  "host, last and all"),
	   "a name that there is not: %s", e.text);
	e.code = 0;
	ok(providers_open(&l, "gone", &e) == RINGUP_ENOBACKEND &&
		   strstr(e.text, "this machine has none"),
	   "one that cannot serve says why: %s", e.text);
	e.code = 0;
	close_comm(&l);
	e.code = 0;
	l.topo.size = 2;
	ok(!providers_open(&l, "more", &e) && l.provider_count == 2 &&
		   !strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "more") &&
		   !strcmp(name_for(&l, PLAN_BARRIER, RINGUP_HOST), "host"),
	   "one for another memory: the host's has the default: %s", e.text);
	close_comm(&l);
	l.topo.size = 2;
	ok(!providers_open(&l, "more,last", &e) && l.provider_count == 2 &&
		   !strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "more") &&
		   !strcmp(name_for(&l, PLAN_BARRIER, RINGUP_HOST), "last"),
	   "one for each kind: %s", e.text);
	close_comm(&l);
	l.topo.size = 2;
	ok(providers_open(&l, "more,lost", &e) == RINGUP_EINVAL &&
		   strstr(e.text, "=lost: no such"),
	   "each name of a list is looked at: %s", e.text);
	close_comm(&l);
	e.code = 0;
	l.topo.size = 2;
	ok(!providers_open(&l, "", &e) &&
		   !strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "none"),
	   "one that has to be named does not come by itself");
	close_comm(&l);
	l.topo.size = 2;
	ok(!providers_open(&l, "shy", &e) &&
		   !strcmp(name_for(&l, PLAN_BROADCAST, RINGUP_CUDA), "shy"),
	   "but by its name");
	close_comm(&l);
	ok(!strcmp(provider_name(&l), "none"), "none has no name");

	/* Other ranks may have had memory for it. */
	l.topo.size = 2;
	lacks_memory = true;
	opened = closed = 0;
	e.code = 0;
	ok(providers_open(&l, "", &e) == RINGUP_ENOMEM && strstr(e.text, "no memory for gone"),
	   "a rank that lacks memory does not go on to the next: %s", e.text);
	ok(!opened && closed == 1, "which is not opened");
	close_comm(&l);
	return tap_done();
}
