/* jax_ops.c - XLA custom calls for JAX: each collective on XLA arrays. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A function starts its collective and returns; XLA goes on with independent operations, and
 * keeps arguments and results alive until the future is set.  With a jaxlib without futures
 * the function blocks.  Ranks match collectives by name; each device of a process has its own.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/kinds.h"
#include "frameworks/bridge.h"
#include "frameworks/collective.h"
#include "frameworks/handles.h"
#include "frameworks/later.h"
#include "frameworks/xla_api.h"
#include "frameworks/xla_site.h"

/* The version of the interface that is declared in xla_api.h. */
enum { VERSION_MAJOR = 0, VERSION_MINOR = 1 };

/* A collective that XLA waits for. */
struct promise {
	struct later later;
	struct collective_run *run;
	const struct xla_api *api;
	struct xla_future *future;
};

/* Does this XLA have a function, which is @end bytes into its table? */
static bool api_reaches(const struct xla_api *api, size_t end)
{
	return api->size >= end;
}

#define API_HAS(api, function)                                                             \
	(api_reaches(api, offsetof(struct xla_api, function) + sizeof((api)->function)) && \
	 (api)->function)

/* An error for XLA.  Python parses the status at the end of its text. */
static struct xla_error *failure(const struct xla_api *api, int status, const char *text)
{
	static const char *const names[] = {
#define X(name, code, text) [-(code)] = #name,
		RINGUP_STATUSES(X)
#undef X
	};
	char line[COLLECTIVE_TEXT + 32];
	struct xla_error_args e = { .size = sizeof(e),
				    .message = line,
				    .code = xla_api_code(status) };

	snprintf(line, sizeof(line), "%s [ringup %s]", text, names[-status]);
	return api->error_create(&e);
}

/* The attribute of that name and type, or NULL. */
static const void *attribute(const struct xla_frame *f, const char *name, int type)
{
	const struct xla_attributes *a = &f->attributes;

	for (int64_t i = 0; i < a->count; i++)
		if (a->types[i] == type && a->names[i]->length == strlen(name) &&
		    !memcmp(a->names[i]->at, name, a->names[i]->length))
			return a->values[i];
	return NULL;
}

static int64_t attribute_number(const struct xla_frame *f, const char *name)
{
	const struct xla_scalar *s = attribute(f, name, XLA_SCALAR);

	return s && s->dtype == XLA_S64 ? *(int64_t *)s->value : 0;
}

static double attribute_factor(const struct xla_frame *f, const char *name)
{
	const struct xla_scalar *s = attribute(f, name, XLA_SCALAR);

	return s && s->dtype == XLA_F64 ? *(double *)s->value : 1;
}

/* The number of the calling device.  With jax.distributed each process counts its devices from
 * a number of its own, which is an attribute of the call. */
static int device_of(const struct xla_frame *f)
{
	struct xla_ordinal_args a = { .size = sizeof(a), .context = f->context };

	if (!API_HAS(f->api, device_ordinal) || f->api->device_ordinal(&a))
		return 0;
	return a.ordinal - (int)attribute_number(f, "first_device");
}

/* The name without what tells several calls apart: "allreduce.step.0". */
static void name_read(const struct xla_frame *f, enum collective_kind kind,
		      char name[COLLECTIVE_NAME])
{
	const struct xla_text *given = attribute(f, "name", XLA_STRING);

	snprintf(name, COLLECTIVE_NAME, "%s.%.*s", collective_word(kind),
		 given ? (int)(given->length < 400 ? given->length : 400) : 0,
		 given ? given->at : "");
}

/* The number that a call outside of compiled code brings, or -1.  A call in compiled code may
 * bring the result of the one that it comes after, which is not read. */
static int64_t number_of(const struct xla_frame *f)
{
	const struct xla_buffer *b;

	if (f->arguments.count != 2 || attribute_number(f, "after"))
		return -1;
	b = f->arguments.buffers[1];
	return b->dtype == XLA_U32 && !b->rank ? (int64_t) * (uint32_t *)b->data : -1;
}

__attribute__((format(printf, 2, 3))) static void name_add(struct collective_plan *p,
							   const char *format, ...)
{
	size_t length = strlen(p->name);
	va_list ap;

	va_start(ap, format);
	vsnprintf(p->name + length, sizeof(p->name) - length, format, ap);
	va_end(ap);
}

/* Copies the call's attributes to @p, since the frame of a call does not outlive it.  A rank
 * has one GPU, whatever its number; what a call brings is there, too, and is not read. */
static void plan_read(const struct xla_frame *f, enum collective_kind kind, bool on_gpu,
		      struct collective_plan *p)
{
	int64_t number = on_gpu ? -1 : number_of(f);
	int device = on_gpu ? 0 : device_of(f), site = xla_site_number(f);

	memset(p, 0, sizeof(*p));
	p->kind = kind;
	p->group = (int)attribute_number(f, "process_set_id");
	p->redop = (enum ringup_redop)attribute_number(f, "reduction");
	p->root = (int)attribute_number(f, "root_rank");
	p->pre = attribute_factor(f, "prescale_factor");
	p->post = attribute_factor(f, "postscale_factor");
	name_read(f, kind, p->name);
	if (number >= 0)
		name_add(p, ".%lld", (long long)number);
	if (site)
		name_add(p, "#%d", site);
	if (device)
		name_add(p, "@%d", device);
}

/* Bytes of an array. */
static uint64_t bytes_of(const struct collective_tensor *t, const struct xla_buffer *b)
{
	static const unsigned char sizes[DTYPE_COUNT] = {
#define X(name, bytes) [RINGUP_##name] = bytes,
		RINGUP_DTYPES(X)
#undef X
	};
	uint64_t n = (uint64_t)sizes[t->dtype] * t->each;

	for (int64_t i = 0; i < b->rank; i++)
		n *= (uint64_t)b->dims[i];
	return n;
}

/* Set the run's tensor from the first argument and the first result. */
static int tensor_read(const struct xla_frame *f, struct collective_run *run)
{
	struct collective_tensor *t = run->tensors;
	const struct xla_buffer *in, *out;
	int dtype;

	if (f->arguments.count < 1 || f->arguments.count > 2 || f->results.count != 1)
		return collective_fail(run, RINGUP_EINVAL,
				       "only one array can be reduced or sent at a time");
	in = f->arguments.buffers[0];
	out = f->results.buffers[0];
	dtype = xla_api_dtype(in->dtype, &t->each);
	if (dtype < 0 || out->dtype != in->dtype)
		return collective_fail(run, RINGUP_EINVAL,
				       "arrays of XLA's type %d cannot be sent", in->dtype);
	if (in->rank > COLLECTIVE_DIMS)
		return collective_fail(run, RINGUP_EINVAL,
				       "an array of %d dimensions; at most %d are supported",
				       (int)in->rank, COLLECTIVE_DIMS);
	t->dtype = (enum ringup_dtype)dtype;
	t->dims = (int)in->rank;
	for (int64_t i = 0; i < in->rank; i++)
		t->shape[i] = (uint64_t)in->dims[i];
	t->in = in->data;
	t->out = out->data;
	if (collective_is(run->plan.kind, COLLECTIVE_GROWS))
		t->out_bytes = bytes_of(t, out);
	if (run->plan.kind == COLLECTIVE_REDUCESCATTER && t->dims &&
	    collective_own_rows(run, t->shape[0]) != (uint64_t)(out->rank ? out->dims[0] : 0))
		return collective_fail(run, RINGUP_EINVAL,
				       "reducescatter: %d ranks cannot split %d rows evenly",
				       ringup_size(run->group), (int)t->shape[0]);
	return 0;
}

/* The arrays are on a GPU. */
static int stream_read(const struct xla_frame *f, struct collective_run *run)
{
	struct xla_stream_args a = { .size = sizeof(a), .context = f->context };
	struct collective_tensor *t = run->tensors;

	if (!API_HAS(f->api, stream_get) || f->api->stream_get(&a) || !a.stream)
		return collective_fail(run, RINGUP_EINVAL,
				       "this jaxlib does not provide its CUDA stream");
	t->memory = RINGUP_CUDA;
	t->stream = a.stream;
	return 0;
}

/* Fails unless the received rows are in XLA's result: their number is compiled in. */
static int result_check(struct collective_run *run)
{
	struct collective_tensor *t = run->tensors;

	if (run->status || !t->out_bytes || t->result == t->out) {
		t->result = NULL;
		return run->status;
	}
	ringup_free(t->result);
	t->result = NULL;
	return collective_fail(run, RINGUP_EINVAL,
			       "%s: ranks passed different numbers of rows, which compiled "
			       "code does not support",
			       run->plan.name);
}

/* The name may belong to the same operation's last call, which is about to end. */
static int run_start(struct collective_run *run)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	int rc;

	while ((rc = collective_start(run)) == RINGUP_EBUSY && !bridge_is_closing()) {
		run->status = 0;
		nanosleep(&pause, NULL);
	}
	return rc;
}

/* Wait for the collective, and leave the bridge.  XLA frees the arrays afterwards, so a
 * collective that is cut short is waited for until the job is closed. */
static void run_finish(struct collective_run *run)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint64_t job = bridge_number();

	collective_finish(run);
	bridge_leave();
	while (run->op && !bridge_is_closed(job))
		nanosleep(&ms, NULL);
	run->op = NULL;
}

/* Called by a thread of later.c.  XLA goes on in this thread, up to the next collective between
 * the devices of this process, where it waits for the other devices. */
static void promise_done(struct later *l)
{
	struct promise *p = (struct promise *)l;
	struct xla_future_args a = { .size = sizeof(a), .future = p->future };

	if (result_check(p->run) < 0) {
		a.error = failure(p->api, p->run->status, p->run->text);
		p->api->future_error(&a);
	} else {
		a.size = offsetof(struct xla_future_args, error);
		p->api->future_available(&a);
	}
	handles_return(p->run);
	free(p);
}

/* Lets a thread of later.c wait; false if this XLA has no futures, or without memory. */
static bool promise_make(struct xla_frame *f, struct collective_run *run)
{
	struct xla_future_args a = { .size = offsetof(struct xla_future_args, future) };
	struct promise *p;

	if (!API_HAS(f->api, future_create) || !API_HAS(f->api, future_error))
		return false;
	p = calloc(1, sizeof(*p));
	if (!p)
		return false;
	p->run = run;
	p->api = f->api;
	p->later = (struct later){
		.runs = &p->run,
		.count = 1,
		.done = promise_done,
		.apart = device_of(f) != 0,
		.frees = true,
	};
	a.size = sizeof(a) - sizeof(a.error);
	if (f->api->future_create(&a)) {
		free(p);
		return false;
	}
	p->future = a.future;
	f->future = a.future;
	if (!later_add(&p->later))
		return true;
	run_finish(run);
	promise_done(&p->later);
	return true;
}

/* Answers XLA if it asks for the version of the interface that a function was written for. */
static bool is_question(struct xla_frame *f)
{
	struct xla_metadata *m;

	if (!f->extension || f->extension->type != XLA_METADATA)
		return false;
	m = ((struct xla_metadata_extension *)f->extension)->metadata;
	m->version.major = f->api ? f->api->version.major : VERSION_MAJOR;
	m->version.minor = f->api ? f->api->version.minor : VERSION_MINOR;
	m->traits = 0;
	return true;
}

/* On a GPU the function returns when the collective is queued: XLA queues what follows on the
 * same stream.  XLA makes no command buffer of it, since it says nothing of them. */
static struct xla_error *carry_out(struct xla_frame *f, enum collective_kind kind, bool on_gpu)
{
	struct collective_run *run = NULL;
	struct collective_plan plan;
	struct xla_error *e = NULL;
	struct ringup *job;
	int rc;

	if (is_question(f) || f->stage != XLA_EXECUTE)
		return NULL;
	job = bridge_enter();
	if (!job)
		return failure(f->api, RINGUP_ESHUTDOWN,
			       "this process is not in a job: call init() first");
	run = handles_borrow();
	if (!run) {
		bridge_leave();
		return failure(f->api, RINGUP_ENOMEM, "no memory for a collective");
	}
	plan_read(f, kind, on_gpu, &plan);
	rc = collective_prepare(run, &plan, 1);
	if (!rc)
		rc = collective_group(run, job);
	if (!rc)
		rc = tensor_read(f, run);
	if (!rc && on_gpu)
		rc = stream_read(f, run);
	if (!rc)
		rc = run_start(run);
	if (!rc && !on_gpu && promise_make(f, run))
		return NULL;
	if (rc < 0)
		bridge_leave();
	else
		run_finish(run);
	if (result_check(run) < 0)
		e = failure(f->api, run->status, run->text);
	handles_return(run);
	return e;
}

/* A call gets its number among those of its program that have its name. */
static struct xla_error *instantiate(struct xla_frame *f, enum collective_kind kind)
{
	char name[COLLECTIVE_NAME];

	if (is_question(f) || f->stage != XLA_INSTANTIATE)
		return NULL;
	name_read(f, kind, name);
	return xla_site_instantiate(f, attribute_number(f, "program"), name);
}

/* The functions that Python registers with JAX, by their addresses: for two stages. */

#define X(kind, word, activity, traits)                                                       \
	RINGUP_EXPORT struct xla_error *ringup_jax_##word(struct xla_frame *f);               \
	struct xla_error *ringup_jax_##word(struct xla_frame *f)                              \
	{                                                                                     \
		return carry_out(f, COLLECTIVE_##kind, false);                                \
	}                                                                                     \
	RINGUP_EXPORT struct xla_error *ringup_jax_cuda_##word(struct xla_frame *f);          \
	struct xla_error *ringup_jax_cuda_##word(struct xla_frame *f)                         \
	{                                                                                     \
		return carry_out(f, COLLECTIVE_##kind, true);                                 \
	}                                                                                     \
	RINGUP_EXPORT struct xla_error *ringup_jax_##word##_instantiate(struct xla_frame *f); \
	struct xla_error *ringup_jax_##word##_instantiate(struct xla_frame *f)                \
	{                                                                                     \
		return instantiate(f, COLLECTIVE_##kind);                                     \
	}
COLLECTIVES_MOVE(X)
#undef X

/*
 * ringup_jax_attach - collectives belong to @r from now on; NULL: to no job.
 *
 * Threads:    one at a time, while others run compiled code.
 * Blocking:   until no thread uses the job before; its collectives end with a failure.
 */
RINGUP_EXPORT void ringup_jax_attach(struct ringup *r);

void ringup_jax_attach(struct ringup *r)
{
	bridge_attach(r);
}

/* ringup_jax_closed - the job before is closed: XLA may free what its collectives have used. */
RINGUP_EXPORT void ringup_jax_closed(void);

void ringup_jax_closed(void)
{
	bridge_closed();
}

/* ringup_jax_compiled - JAX has compiled a program in this thread, or loaded one. */
RINGUP_EXPORT void ringup_jax_compiled(void);

void ringup_jax_compiled(void)
{
	xla_site_end();
}
