/* xla_site.c - number the calls of a compiled program that have the same name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/xla_site.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Structs of states have had a stage since this version of the interface. */
enum { STAGED_MINOR = 3 };

/* Calls with one name in a program that is being compiled. */
struct site {
	int64_t program;
	uint64_t name; /* its hash; equal hashes are equal on all ranks */
	int calls;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct site *sites;
static size_t count, room;
static struct xla_type type;

static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037u;

	while (*text)
		h = (h ^ (unsigned char)*text++) * 1099511628211u;
	return h;
}

/* The entry of the name in the program, or NULL: no memory.  The caller has the lock. */
static struct site *site_find(int64_t program, uint64_t name)
{
	struct site *more;
	size_t i;

	for (i = 0; i < count; i++)
		if (sites[i].name == name && sites[i].program == program)
			return &sites[i];
	if (count == room) {
		more = realloc(sites, (2 * room + 64) * sizeof(*sites));
		if (!more)
			return NULL;
		sites = more;
		room = 2 * room + 64;
	}
	sites[count] = (struct site){ .program = program, .name = name };
	return &sites[count++];
}

void xla_site_end(void)
{
	pthread_mutex_lock(&lock);
	count = 0;
	pthread_mutex_unlock(&lock);
}

/* A state is a number, and has no memory to free. */
static void state_delete(void *state)
{
	(void)state;
}

static bool has_states(const struct xla_api *api)
{
	return api->size >= offsetof(struct xla_api, state_get) + sizeof(api->state_get) &&
	       api->version.minor >= STAGED_MINOR && api->type_register && api->state_set &&
	       api->state_get;
}

/* Registers the type of our states with XLA, once.  The caller has the lock. */
static struct xla_error *type_make(const struct xla_api *api)
{
	static const char name[] = "ringup_site";
	static const struct xla_type_info info = { .size = sizeof(info),
						   .deleter = state_delete };
	struct xla_type_args a = { .size = sizeof(a),
				   .name = { name, sizeof(name) - 1 },
				   .type = &type,
				   .info = &info };

	return type.number ? NULL : api->type_register(&a);
}

struct xla_error *xla_site_instantiate(const struct xla_frame *f, int64_t program,
				       const char *name)
{
	struct xla_state_args a = { .size = sizeof(a), .context = f->context };
	struct xla_error *e;
	struct site *s;
	intptr_t number;

	if (!has_states(f->api))
		return NULL;
	pthread_mutex_lock(&lock);
	e = type_make(f->api);
	s = e ? NULL : site_find(program, hash(name));
	number = s ? s->calls++ : 0;
	pthread_mutex_unlock(&lock);
	if (e)
		return e;
	a.type = &type;
	a.state = (void *)(number + 1); /* NULL would be no state */
	return f->api->state_set(&a);
}

int xla_site_number(const struct xla_frame *f)
{
	struct xla_state_args a = { .size = sizeof(a), .context = f->context, .type = &type };
	struct xla_error *e;

	if (!has_states(f->api) || !type.number)
		return 0;
	e = f->api->state_get(&a);
	if (e) {
		f->api->error_destroy(&(struct xla_destroy_args){
			.size = sizeof(struct xla_destroy_args), .error = e });
		return 0;
	}
	return a.state ? (int)((intptr_t)a.state - 1) : 0;
}
