/* test_xla_site.c - calls of a program that have one name are numbered, as XLA makes them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/xla_site.h"

#include <string.h>

#include "tap.h"

/* A stand-in for XLA: a context is a place for a state. */
struct xla_context {
	void *state;
};

static struct xla_error *refusal; /* of state_set() */
static int registered, destroyed;

static struct xla_error *type_register(struct xla_type_args *a)
{
	registered++;
	a->type->number = 7;
	return NULL;
}

static struct xla_error *state_set(struct xla_state_args *a)
{
	if (!refusal && a->type->number == 7 && a->stage == XLA_INSTANTIATE)
		a->context->state = a->state;
	return refusal;
}

static struct xla_error *state_get(struct xla_state_args *a)
{
	a->state = a->context->state;
	return a->state ? NULL : (struct xla_error *)&refusal;
}

static void error_destroy(struct xla_destroy_args *a)
{
	destroyed += a->error == (struct xla_error *)&refusal;
}

static const struct xla_api api = {
	.size = sizeof(api),
	.version = { .minor = 3 },
	.error_destroy = error_destroy,
	.type_register = type_register,
	.state_set = state_set,
	.state_get = state_get,
};

/* XLA makes a call of a program; returns the number that the call finds when it runs. */
static int call(const struct xla_api *of, int64_t program, const char *name)
{
	struct xla_context context = { NULL };
	struct xla_frame f = { .api = of, .context = &context };

	if (xla_site_instantiate(&f, program, name))
		return -1;
	return xla_site_number(&f);
}

int main(void)
{
	struct xla_api old = api;
	int i, wrong = 0;
	char name[32];

	ok(call(&api, 1, "allreduce.step.0") == 0, "the first call of a name is 0");
	ok(call(&api, 1, "allreduce.step.0") == 1 && call(&api, 1, "allreduce.step.0") == 2,
	   "the others are counted");
	ok(call(&api, 1, "allreduce.step.1") == 0, "each name by itself");
	ok(call(&api, 2, "allreduce.step.0") == 0, "and each program");
	ok(call(&api, 1, "allreduce.step.0") == 3,
	   "also if they are compiled at the same time");
	xla_site_end();
	ok(call(&api, 1, "allreduce.step.0") == 0,
	   "a program that is compiled again begins at 0");
	for (i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "allreduce.gradients.%d", i);
		wrong += call(&api, 3, name) != 0;
	}
	ok(!wrong && call(&api, 3, "allreduce.gradients.999") == 1, "a thousand names");
	ok(registered == 1, "the type is registered once");

	refusal = (struct xla_error *)&refusal;
	ok(call(&api, 4, "a") == -1, "XLA's error is passed on");
	refusal = NULL;
	ok(xla_site_number(&(struct xla_frame){
		   .api = &api, .context = &(struct xla_context){ NULL } }) == 0 &&
		   destroyed == 1,
	   "a call without a state is 0, and the error is given back");
	old.size = offsetof(struct xla_api, state_set);
	ok(call(&old, 5, "a") == 0 && call(&old, 5, "a") == 0,
	   "an XLA without states numbers none");
	return tap_done();
}
