/* tensorflow_ops.c - TensorFlow operations: each collective, blocking or as start and wait. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A collective is one operation that blocks, or a Start operation that does not and
 * RingupWaitAll, which waits for any number of them.  A graph that reduces many gradients has
 * the latter: all of them are under way before any operation waits, in any order.
 * Operations are stateful, or TensorFlow would fold, merge and prune them.
 *
 * A Start operation has its result as output already, but it is not filled before
 * RingupWaitAll has passed it on.  Where the number of rows is known only at the end, the
 * output is empty, and RingupWaitAll makes another tensor.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "frameworks/bridge.h"
#include "frameworks/collective.h"
#include "frameworks/handles.h"
#include "frameworks/later.h"
#include "frameworks/tensorflow_api.h"

#define REDUCIBLE \
	"uint8, int8, uint16, int16, int32, int64, half, bfloat16, float, double, bool"
#define MOVABLE REDUCIBLE ", uint32, uint64, complex64, complex128"

/* The attributes that an operation has. */
enum {
	ATTR_NAME = 1,      /* tensor_name                                   */
	ATTR_SET = 2,       /* process_set_id                                */
	ATTR_GROUPED = 4,   /* grouped: all tensors complete together        */
	ATTR_REDUCTION = 8, /* reduction, prescale_factor, postscale_factor  */
	ATTR_ROOT = 16,     /* root_rank                                     */
	ATTR_QUERY = 32,    /* what                                          */
};

/* The queries of RingupQuery. */
enum { QUERY_RANK, QUERY_SIZE, QUERY_LOCAL_RANK, QUERY_LOCAL_SIZE, QUERY_INCLUDED };

/* The description of an operation. */
struct tensorflow_op {
	const char *name;
	enum collective_kind kind;
	bool starts;
	int attrs;
	const char *types; /* of its tensors, as an attribute; NULL: it has none */
	void (*shapes)(struct tf_inference *, struct tf_status *);
	void *(*create)(struct tf_construction *);
	void (*compute)(void *, struct tf_context *);
};

/* An operation in a graph. */
struct kernel {
	struct collective_plan plan;
	bool starts; /* and leaves the waiting to RingupWaitAll */
};

/* The tensors that a run uses, which stay alive until it has ended: two of each of the
 * collective's, for input and output, and one more. */
struct kept {
	int count, room;
	struct tf_tensor **tensors;
};

/* Failures */

/* Reports an error to TensorFlow.  Python parses the status at the end of its text. */
static void report(struct tf_context *ctx, struct tf_status *s, int status, const char *text)
{
	static const char *const names[] = {
#define X(name, code, text) [-(code)] = #name,
		RINGUP_STATUSES(X)
#undef X
	};
	char line[COLLECTIVE_TEXT + 32];

	snprintf(line, sizeof(line), "%s [ringup %s]", text, names[-status]);
	tf.SetStatus(s, tensorflow_api_code(status), line);
	tf.OpKernelContext_Failure(ctx, s);
}

/* Fails with TensorFlow's own message. */
static int framework_failed(struct collective_run *run, const struct tf_status *s)
{
	return collective_fail(run, RINGUP_ENOMEM, "%s", tf.Message(s));
}

/* Memory of a run */

static int kept_prepare(struct collective_run *run, int count)
{
	struct kept *kept = run->of_framework;
	struct tf_tensor **more;

	if (!kept)
		kept = run->of_framework = calloc(1, sizeof(*kept));
	if (!kept)
		return collective_fail(run, RINGUP_ENOMEM, "no memory");
	if (count > kept->room) {
		more = realloc(kept->tensors, (size_t)count * sizeof(*more));
		if (!more)
			return collective_fail(run, RINGUP_ENOMEM, "no memory");
		kept->tensors = more;
		kept->room = count;
	}
	memset(kept->tensors, 0, (size_t)count * sizeof(*kept->tensors));
	kept->count = count;
	return 0;
}

/* The run has ended, or was never started: let go of its tensors and results. */
static void run_clear(struct collective_run *run)
{
	struct kept *kept = run->of_framework;

	for (int i = 0; kept && i < kept->count; i++)
		if (kept->tensors[i])
			tf.DeleteTensor(kept->tensors[i]);
	if (kept)
		kept->count = 0;
	for (int i = 0; i < run->count; i++)
		ringup_free(run->tensors[i].result);
	run->count = 0;
}

static struct tf_tensor **kept_input(struct collective_run *run, int i)
{
	return &((struct kept *)run->of_framework)->tensors[2 * i];
}

static struct tf_tensor **kept_output(struct collective_run *run, int i)
{
	return &((struct kept *)run->of_framework)->tensors[2 * i + 1];
}

/* Inputs and outputs */

/* Set dtype and shape of @t from TensorFlow's tensor. */
static int tensor_describe(struct collective_run *run, struct collective_tensor *t,
			   const struct tf_tensor *from)
{
	int i, dtype = tensorflow_api_dtype(tf.TensorType(from), &t->each);

	if (dtype < 0)
		return collective_fail(run, RINGUP_EINVAL,
				       "tensors of TensorFlow's type %d cannot be sent",
				       tf.TensorType(from));
	t->dtype = (enum ringup_dtype)dtype;
	t->dims = tf.NumDims(from);
	if (t->dims > COLLECTIVE_DIMS)
		return collective_fail(run, RINGUP_EINVAL,
				       "a tensor of %d dimensions; at most %d are supported",
				       t->dims, COLLECTIVE_DIMS);
	for (i = 0; i < t->dims; i++)
		t->shape[i] = (uint64_t)tf.Dim(from, i);
	return 0;
}

/* Room for the i-th output: @rows rows of the kind of @t, or all of its shape if @rows is NULL.
 */
static struct tf_tensor *output_allocate(struct tf_context *ctx, int i,
					 const struct collective_tensor *t,
					 const struct tf_tensor *like, const uint64_t *rows,
					 struct tf_status *s)
{
	size_t bytes = tf.TensorByteSize(like);
	int64_t dims[COLLECTIVE_DIMS];

	for (int d = 0; d < t->dims; d++)
		dims[d] = (int64_t)t->shape[d];
	if (rows) {
		bytes = t->shape[0] ? bytes / t->shape[0] * *rows : 0;
		dims[0] = (int64_t)*rows;
	}
	return tf.AllocateOutput(ctx, i, tf.TensorType(like), dims, t->dims, bytes, s);
}

/* Let the i-th output be in the memory of the i-th input, if that has no other user. */
static int output_forward(struct tf_context *ctx, struct collective_run *run, int i,
			  struct tf_status *s)
{
	struct collective_tensor *t = &run->tensors[i];
	struct tf_tensor **in = kept_input(run, i), **out = kept_output(run, i);
	int64_t dims[COLLECTIVE_DIMS];
	int forwarded = -1;

	for (int d = 0; d < t->dims; d++)
		dims[d] = (int64_t)t->shape[d];
	tf.DeleteTensor(*in);
	*in = NULL;
	*out = tf.ForwardInputOrAllocateOutput(ctx, &i, 1, i, dims, t->dims, &forwarded, s);
	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	t->out = tf.TensorData(*out);
	t->in = t->out;
	if (forwarded >= 0)
		return 0;
	tf.GetInput(ctx, i, in, s);
	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	t->in = tf.TensorData(*in);
	return 0;
}

/* Take the i-th input, and make room for its result if the size is known. */
static int tensor_take(struct tf_context *ctx, struct collective_run *run, bool starts, int i,
		       struct tf_status *s)
{
	struct collective_tensor *t = &run->tensors[i];
	struct tf_tensor **in = kept_input(run, i), **out = kept_output(run, i);
	uint64_t rows = 0;
	int rc;

	tf.GetInput(ctx, i, in, s);
	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	t->in = tf.TensorData(*in);
	rc = tensor_describe(run, t, *in);
	if (rc < 0)
		return rc;
	switch (run->plan.kind) {
	case COLLECTIVE_ALLREDUCE:
	case COLLECTIVE_BROADCAST:
		return output_forward(ctx, run, i, s);
	case COLLECTIVE_REDUCESCATTER:
		rows = t->dims ? collective_own_rows(run, t->shape[0]) : 0;
		break;
	case COLLECTIVE_ALLGATHER:
	case COLLECTIVE_ALLTOALL:
	case COLLECTIVE_BARRIER:
	case COLLECTIVE_JOIN:
		if (!starts)
			return 0; /* the result will be a tensor of its own */
	}
	*out = output_allocate(ctx, i, t, *in, t->dims ? &rows : NULL, s);
	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	t->out = tf.TensorData(*out);
	return 0;
}

/* The splits of an alltoall are its last input. */
static int splits_take(struct tf_context *ctx, struct collective_run *run, struct tf_status *s)
{
	struct tf_tensor **splits = kept_input(run, run->count);

	tf.GetInput(ctx, run->count, splits, s);
	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	if (tf.NumDims(*splits) != 1)
		return collective_fail(run, RINGUP_EINVAL,
				       "alltoall: splits have %d dimensions, not 1",
				       tf.NumDims(*splits));
	if (!tf.Dim(*splits, 0))
		return 0; /* as many to each rank */
	run->splits = tf.TensorData(*splits);
	run->splits_count = (int)tf.Dim(*splits, 0);
	return 0;
}

/* Called by TensorFlow when the last user of a result is gone. */
static void result_free(void *data, size_t length, void *unused)
{
	(void)length;
	(void)unused;
	ringup_free(data);
}

/* Make a tensor of the received rows, and set the i-th output to it. */
static int result_set(struct tf_context *ctx, struct collective_run *run, int j, int i,
		      struct tf_status *s)
{
	struct collective_tensor *t = &run->tensors[j];
	struct tf_tensor *like = *kept_input(run, j), *tensor;
	size_t row = t->shape[0] ? tf.TensorByteSize(like) / t->shape[0] : 0;
	int64_t dims[COLLECTIVE_DIMS];

	dims[0] = (int64_t)t->rows;
	for (int d = 1; d < t->dims; d++)
		dims[d] = (int64_t)t->shape[d];
	if (!t->shape[0] && t->rows) {
		/* This rank has no row to measure. */
		static const unsigned char sizes[DTYPE_COUNT] = {
#define X(name, bytes) [RINGUP_##name] = bytes,
			RINGUP_DTYPES(X)
#undef X
		};
		row = (size_t)t->each * sizes[t->dtype];
		for (int d = 1; d < t->dims; d++)
			row *= (size_t)t->shape[d];
	}
	if (t->rows * row == 0) {
		tensor = tf.AllocateOutput(ctx, i, tf.TensorType(like), dims, t->dims, 0, s);
	} else {
		tensor = tf.NewTensor(tf.TensorType(like), dims, t->dims, t->result,
				      t->rows * row, result_free, NULL);
		t->result = NULL; /* the tensor's from now on */
		if (!tensor)
			return collective_fail(run, RINGUP_ENOMEM, "no memory for a result");
		tf.SetOutput(ctx, i, tensor, s);
	}
	if (tensor)
		tf.DeleteTensor(tensor);
	return tf.GetCode(s) == TF_OK ? 0 : framework_failed(run, s);
}

/* A vector of int32: the number of rows received from each rank. */
static int received_set(struct tf_context *ctx, struct collective_run *run, int i,
			struct tf_status *s)
{
	int64_t n = ringup_size(run->group);
	struct tf_tensor *tensor =
		tf.AllocateOutput(ctx, i, TF_INT32, &n, 1, (size_t)n * sizeof(int32_t), s);
	int32_t *to;

	if (tf.GetCode(s) != TF_OK)
		return framework_failed(run, s);
	to = tf.TensorData(tensor);
	for (int64_t r = 0; r < n; r++)
		to[r] = (int32_t)run->tensors[0].counts[r];
	tf.DeleteTensor(tensor);
	return 0;
}

/* One number as the i-th output. */
static int scalar_set(struct tf_context *ctx, int i, int dtype, int64_t value,
		      struct tf_status *s)
{
	size_t bytes = dtype == TF_INT64 ? sizeof(int64_t) : sizeof(int32_t);
	struct tf_tensor *tensor = tf.AllocateOutput(ctx, i, dtype, NULL, 0, bytes, s);

	if (tf.GetCode(s) != TF_OK)
		return -1;
	if (dtype == TF_INT64)
		*(int64_t *)tf.TensorData(tensor) = value;
	else
		*(int32_t *)tf.TensorData(tensor) = (int32_t)value;
	tf.DeleteTensor(tensor);
	return 0;
}

/* Does the number of rows in a result depend on all ranks? */
static bool gathers(enum collective_kind kind)
{
	return collective_is(kind, COLLECTIVE_GROWS);
}

/* Collectives */

/* Set everything in @run from the inputs of an operation. */
static int run_fill(struct tf_context *ctx, const struct kernel *k, struct ringup *job,
		    struct collective_run *run, struct tf_status *s)
{
	int i, n = tf.NumInputs(ctx) - (k->plan.kind == COLLECTIVE_ALLTOALL), rc;

	rc = collective_prepare(run, &k->plan, n);
	if (!rc)
		rc = kept_prepare(run, 2 * n + 1);
	if (!rc)
		rc = collective_group(run, job);
	for (i = 0; !rc && i < n; i++)
		rc = tensor_take(ctx, run, k->starts, i, s);
	if (!rc && k->plan.kind == COLLECTIVE_ALLTOALL)
		rc = splits_take(ctx, run, s);
	return rc;
}

/* Sets the outputs that only exist after a collective has completed. */
static int run_deliver(struct tf_context *ctx, struct collective_run *run, struct tf_status *s)
{
	int rc = 0;

	if (run->plan.kind == COLLECTIVE_JOIN && scalar_set(ctx, 0, TF_INT32, run->last, s) < 0)
		return framework_failed(run, s);
	for (int i = 0; !rc && gathers(run->plan.kind) && i < run->count; i++)
		rc = result_set(ctx, run, i, i, s);
	if (!rc && run->plan.kind == COLLECTIVE_ALLTOALL)
		rc = received_set(ctx, run, 1, s);
	return rc;
}

/* Start @run and let its handle be the last output.  The run belongs to the handle then. */
static int run_start(struct tf_context *ctx, struct collective_run *run, struct tf_status *s)
{
	int rc = collective_start(run), n = run->count;
	int64_t handle;

	if (rc < 0)
		return rc;
	handle = handles_put(run);
	if (!handle) {
		collective_finish(run);
		return collective_fail(run, RINGUP_ENOMEM, "no memory for a handle");
	}
	if (scalar_set(ctx, n, TF_INT64, handle, s) < 0)
		tf.OpKernelContext_Failure(ctx,
					   s); /* without a wait handles_drop() will end it */
	return 0;
}

/* A run whose collective may still be under way is kept until the job has ended. */
static void run_end(struct collective_run *run)
{
	if (run->op && run->status == RINGUP_ESHUTDOWN && handles_put(run))
		return;
	run_clear(run);
	handles_return(run);
}

static void collective_compute(void *kernel, struct tf_context *ctx)
{
	static const char no_job[] = "this process is not in a job: call hvd.init() first";
	const struct kernel *k = kernel;
	struct ringup *job = bridge_enter();
	struct tf_status *s = tf.NewStatus();
	struct collective_run *run = job ? handles_borrow() : NULL;
	int rc;

	if (!job) {
		report(ctx, s, RINGUP_ESHUTDOWN, no_job);
	} else if (!run) {
		report(ctx, s, RINGUP_ENOMEM, "no memory for an operation");
	} else {
		rc = run_fill(ctx, k, job, run, s);
		if (!rc && k->starts)
			rc = run_start(ctx, run, s);
		else if (!rc)
			rc = collective_carry_out(run);
		if (!rc && !k->starts)
			rc = run_deliver(ctx, run, s);
		if (rc < 0)
			report(ctx, s, run->status, run->text);
		if (rc < 0 || !k->starts)
			run_end(run);
	}
	if (job)
		bridge_leave();
	tf.DeleteStatus(s);
}

/* RingupWaitAll */

/* Pass the outputs of @run on, from the i-th output of RingupWaitAll on; returns how many. */
static int wait_deliver(struct tf_context *ctx, struct collective_run *run, int i,
			struct tf_status *s)
{
	for (int j = 0; j < run->count; j++) {
		if (gathers(run->plan.kind)) {
			if (result_set(ctx, run, j, i + j, s) < 0)
				return -1;
			continue;
		}
		tf.SetOutput(ctx, i + j, *kept_output(run, j), s);
		if (tf.GetCode(s) != TF_OK)
			return framework_failed(run, s);
	}
	return run->count;
}

/* The handle that is the i-th input; 0 if it cannot be read. */
static int64_t handle_take(struct tf_context *ctx, int i, struct tf_status *s)
{
	struct tf_tensor *tensor = NULL;
	int64_t handle = 0;

	tf.GetInput(ctx, i, &tensor, s);
	if (tf.GetCode(s) == TF_OK && tf.TensorByteSize(tensor) == sizeof(handle))
		handle = *(int64_t *)tf.TensorData(tensor);
	if (tensor)
		tf.DeleteTensor(tensor);
	return handle;
}

/*
 * The first half of the inputs are outputs of Start operations, the second half the handle of
 * each: outputs of one Start operation are adjacent and have the same handle.  All collectives
 * are waited for, also when one fails, since their memory is in use.
 */
static void wait_compute(void *kernel, struct tf_context *ctx)
{
	struct ringup *job = bridge_enter();
	struct tf_status *s = tf.NewStatus();
	int n = tf.NumInputs(ctx) / 2, i = 0, status = 0, rc, advance;
	char text[COLLECTIVE_TEXT] = "this process is not in a job: call hvd.init() first";
	struct collective_run *run;

	(void)kernel;
	if (!job)
		status = RINGUP_ESHUTDOWN;
	for (; job && i < n; i += advance) {
		run = handles_take(handle_take(ctx, n + i, s));
		advance = 1;
		if (!run) {
			if (!status)
				snprintf(text, sizeof(text),
					 "input %d is not the handle of a collective in "
					 "progress",
					 n + i);
			status = status ? status : RINGUP_EINVAL;
			continue;
		}
		advance = run->count;
		rc = collective_finish(run);
		if (!rc && i + advance > n)
			rc = collective_fail(run, RINGUP_EINVAL,
					     "RingupWaitAll has too few inputs");
		if (!rc && !status)
			rc = wait_deliver(ctx, run, i, s);
		if (rc < 0 && !status) {
			status = run->status;
			snprintf(text, sizeof(text), "%s", run->text);
		}
		run_end(run);
	}
	if (status)
		report(ctx, s, status, text);
	if (job)
		bridge_leave();
	tf.DeleteStatus(s);
}

/* RingupWaitLater */

/*
 * As RingupWaitAll, but without blocking a thread of TensorFlow.  Where a graph's operations
 * have no order, as in a session of TensorFlow 1, blocking ones would keep others from being
 * started, for which the other ranks may wait.
 *
 * TensorFlow passes an asynchronous kernel its completion callback by the address of a
 * std::function<void()> that is gone when the kernel returns.  The C interface has no way to
 * keep it.  It is moved as libstdc++ moves it: copied, and the original made empty.
 */
enum { CALLBACK_MANAGER = 2, CALLBACK_INVOKER = 3, CALLBACK_WORDS = 4, CALLBACK_DESTROY = 3 };

/* A std::function of libstdc++: storage for its target, and two functions. */
struct callback {
	void *word[CALLBACK_WORDS];
};

struct waiting {
	struct later later;
	struct tf_context *ctx;
	struct callback callback;
	struct collective_run *runs[]; /* later.count of them */
};

/* Moves @from to @to, if it looks like a std::function of libstdc++. */
static bool callback_move(struct callback *to, struct callback *from)
{
	Dl_info unused;

	if (!from->word[CALLBACK_MANAGER] || !from->word[CALLBACK_INVOKER] ||
	    !dladdr(from->word[CALLBACK_MANAGER], &unused) ||
	    !dladdr(from->word[CALLBACK_INVOKER], &unused))
		return false;
	*to = *from;
	from->word[CALLBACK_MANAGER] = NULL; /* which makes it empty */
	return true;
}

/* Call the moved function, then destroy it. */
static void callback_run(struct callback *c)
{
	int (*manage)(void *, void *, int);

	memcpy(&manage, &c->word[CALLBACK_MANAGER], sizeof(manage));
	tf.RunAsyncOpKernelDoneCallback(c);
	manage(c, c, CALLBACK_DESTROY);
}

/* Called by the thread that waits, when all collectives of an operation have ended. */
static void waiting_done(struct later *l)
{
	struct waiting *w = (struct waiting *)l;
	struct tf_status *s = tf.NewStatus();
	int at = 0, rc = 0, step;

	for (int i = 0; i < l->count; i++) {
		step = w->runs[i]->count;
		if (!rc &&
		    (w->runs[i]->status || wait_deliver(w->ctx, w->runs[i], at, s) < 0)) {
			rc = w->runs[i]->status;
			report(w->ctx, s, rc, w->runs[i]->text);
		}
		at += step;
		run_end(w->runs[i]);
	}
	tf.DeleteStatus(s);
	callback_run(&w->callback);
	free(w);
}

/* These runs will not be waited for: they are kept until the job has ended. */
static void waiting_drop(struct waiting *w)
{
	for (int i = 0; i < w->later.count; i++)
		if (!handles_put(w->runs[i]))
			run_end(w->runs[i]);
	free(w);
}

/* Take the runs of all handles; NULL, and nothing is taken, if one is wrong. */
static struct waiting *waiting_make(struct tf_context *ctx, struct tf_status *s)
{
	int n = tf.NumInputs(ctx) / 2, at;
	struct waiting *w = calloc(1, sizeof(*w) + (size_t)n * sizeof(*w->runs));

	if (!w)
		return NULL;
	w->ctx = ctx;
	w->later.runs = w->runs;
	w->later.done = waiting_done;
	for (at = 0; at < n; at += w->runs[w->later.count++]->count) {
		w->runs[w->later.count] = handles_take(handle_take(ctx, n + at, s));
		if (!w->runs[w->later.count])
			break;
	}
	if (at == n)
		return w;
	waiting_drop(w);
	return NULL;
}

static void wait_later_compute(void *kernel, struct tf_context *ctx, void *done)
{
	struct ringup *job = bridge_enter();
	struct tf_status *s = tf.NewStatus();
	struct waiting *w = job ? waiting_make(ctx, s) : NULL;

	(void)kernel;
	if (w && callback_move(&w->callback, done)) {
		tf.DeleteStatus(s);
		if (later_add(&w->later)) {
			for (int i = 0; i < w->later.count; i++)
				collective_finish(w->runs[i]);
			waiting_done(&w->later);
			bridge_leave();
		}
		return;
	}
	if (!job)
		report(ctx, s, RINGUP_ESHUTDOWN,
		       "this process is not in a job: call hvd.init() first");
	else if (!w)
		report(ctx, s, RINGUP_EINVAL,
		       "an input is not the handle of a collective in progress");
	else
		report(ctx, s, RINGUP_ESYSTEM,
		       "this TensorFlow uses an unknown callback convention; use "
		       "tf.function instead of a session, or hvd.grouped_allreduce()");
	if (w)
		waiting_drop(w);
	if (job)
		bridge_leave();
	tf.DeleteStatus(s);
	tf.RunAsyncOpKernelDoneCallback(done);
}

/* RingupQuery */

static void query_compute(void *kernel, struct tf_context *ctx)
{
	const struct kernel *k = kernel;
	struct ringup *job = bridge_enter();
	struct tf_status *s = tf.NewStatus();
	struct ringup_group *g = job ? ringup_group_get(job, k->plan.group) : NULL;
	int value = -1;

	if (g) {
		switch (k->plan.root) {
		case QUERY_RANK:
			value = ringup_rank(g);
			break;
		case QUERY_SIZE:
			value = ringup_size(g);
			break;
		case QUERY_LOCAL_RANK:
			value = ringup_local_rank(job);
			break;
		case QUERY_LOCAL_SIZE:
			value = ringup_local_size(job);
			break;
		case QUERY_INCLUDED:
			value = ringup_rank(g) >= 0;
			break;
		}
		if (scalar_set(ctx, 0, TF_INT32, value, s) < 0)
			tf.OpKernelContext_Failure(ctx, s);
	} else {
		report(ctx, s, job ? RINGUP_EINVAL : RINGUP_ESHUTDOWN,
		       job ? "no such process set"
			   : "this process is not in a job: call "
			     "hvd.init() first");
	}
	if (job)
		bridge_leave();
	tf.DeleteStatus(s);
}

/* Kernels */

static void kernel_delete(void *kernel)
{
	free(kernel);
}

static int64_t attr_number(struct tf_construction *c, const char *name, struct tf_status *s)
{
	int64_t value = 0;

	if (tf.GetCode(s) == TF_OK)
		tf.OpKernelConstruction_GetAttrInt64(c, name, &value, s);
	return value;
}

static double attr_factor(struct tf_construction *c, const char *name, struct tf_status *s)
{
	float value = 1;

	if (tf.GetCode(s) == TF_OK)
		tf.OpKernelConstruction_GetAttrFloat(c, name, &value, s);
	return value;
}

/* The name of a collective: its kind, a dot, and the program's name for it; "" without
 * one. */
static void attr_name(struct tf_construction *c, const char *prefix, char name[COLLECTIVE_NAME],
		      struct tf_status *s)
{
	int32_t list, length = 0;
	int at = snprintf(name, COLLECTIVE_NAME, "%s.", prefix);

	if (tf.GetCode(s) == TF_OK)
		tf.OpKernelConstruction_GetAttrSize(c, "tensor_name", &list, &length, s);
	if (tf.GetCode(s) != TF_OK || length <= 0) {
		name[0] = 0;
	} else if (length >= COLLECTIVE_NAME - at) {
		tf.SetStatus(s, TF_INVALID_ARGUMENT,
			     "the name of a tensor is longer than 480 bytes");
	} else {
		memset(name + at, 0, (size_t)(COLLECTIVE_NAME - at));
		tf.OpKernelConstruction_GetAttrString(c, "tensor_name", name + at,
						      (size_t)length, s);
	}
}

/* Attributes that the operation does not have get a neutral value. */
static void *kernel_make(struct tf_construction *c, const struct tensorflow_op *op)
{
	struct tf_status *s = tf.NewStatus();
	struct kernel *k = calloc(1, sizeof(*k));
	char prefix[32];

	if (!k) {
		tf.SetStatus(s, TF_RESOURCE_EXHAUSTED, "no memory for an operation");
	} else {
		k->plan.kind = op->kind;
		k->plan.pre = k->plan.post = 1;
		k->starts = op->starts;
		if (op->attrs & ATTR_GROUPED)
			k->plan.many = attr_number(c, "grouped", s) != 0;
		if (op->attrs & ATTR_SET)
			k->plan.group = (int)attr_number(c, "process_set_id", s);
		if (op->attrs & ATTR_ROOT)
			k->plan.root = (int)attr_number(c, "root_rank", s);
		if (op->attrs & ATTR_QUERY)
			k->plan.root = (int)attr_number(c, "what", s);
		if (op->attrs & ATTR_REDUCTION) {
			k->plan.redop = (enum ringup_redop)attr_number(c, "reduction", s);
			k->plan.pre = attr_factor(c, "prescale_factor", s);
			k->plan.post = attr_factor(c, "postscale_factor", s);
		}
		snprintf(prefix, sizeof(prefix), "%s%s", k->plan.many ? "grouped_" : "",
			 collective_word(op->kind));
		if (op->attrs & ATTR_NAME)
			attr_name(c, prefix, k->plan.name, s);
		if (tf.GetCode(s) == TF_OK && (k->plan.pre == 0 || k->plan.post == 0))
			tf.SetStatus(
				s, TF_INVALID_ARGUMENT,
				"a scale factor of 0 would give zeros; multiply by 0 yourself");
	}
	if (tf.GetCode(s) != TF_OK) {
		tf.OpKernelConstruction_Failure(c, s);
		free(k);
		k = NULL;
	}
	tf.DeleteStatus(s);
	return k;
}

/* Shapes */

/* Let the i-th output have the shape of the i-th input, for n of them. */
static void shapes_copy(struct tf_inference *c, int n, struct tf_status *s)
{
	struct tf_shape *shape = tf.NewShapeHandle();

	for (int i = 0; i < n && tf.GetCode(s) == TF_OK; i++) {
		tf.ShapeInferenceContextGetInput(c, i, shape, s);
		if (tf.GetCode(s) == TF_OK)
			tf.ShapeInferenceContextSetOutput(c, i, shape, s);
	}
	tf.DeleteShapeHandle(shape);
}

/* Let the i-th output have any number of rows of the i-th input. */
static void shape_of_rows(struct tf_inference *c, int i, struct tf_status *s)
{
	struct tf_shape *shape = tf.NewShapeHandle(), *row = tf.NewShapeHandle();
	struct tf_shape *rows = tf.ShapeInferenceContextVectorFromSize(c, (size_t)-1);

	tf.ShapeInferenceContextGetInput(c, i, shape, s);
	if (tf.GetCode(s) == TF_OK && tf.ShapeInferenceContextRankKnown(c, shape) &&
	    tf.ShapeInferenceContextRank(c, shape) > 0) {
		tf.ShapeInferenceContextSubshape(
			c, shape, 1, tf.ShapeInferenceContextRank(c, shape), row, s);
		if (tf.GetCode(s) == TF_OK)
			tf.ShapeInferenceContextConcatenateShapes(c, rows, row, shape, s);
		if (tf.GetCode(s) == TF_OK)
			tf.ShapeInferenceContextSetOutput(c, i, shape, s);
	}
	tf.DeleteShapeHandle(rows);
	tf.DeleteShapeHandle(row);
	tf.DeleteShapeHandle(shape);
}

/* Let the i-th output be one number. */
static void shape_of_scalar(struct tf_inference *c, int i, struct tf_status *s)
{
	struct tf_shape *shape = tf.ShapeInferenceContextScalar(c);

	if (tf.GetCode(s) == TF_OK)
		tf.ShapeInferenceContextSetOutput(c, i, shape, s);
	tf.DeleteShapeHandle(shape);
}

static void shapes_same(struct tf_inference *c, struct tf_status *s)
{
	shapes_copy(c, (int)tf.ShapeInferenceContextNumInputs(c), s);
}

static void shapes_same_start(struct tf_inference *c, struct tf_status *s)
{
	shapes_same(c, s);
	shape_of_scalar(c, (int)tf.ShapeInferenceContextNumInputs(c), s);
}

static void shapes_rows(struct tf_inference *c, struct tf_status *s)
{
	int i, n = (int)tf.ShapeInferenceContextNumInputs(c);

	tf.ShapeInferenceContextSetUnknownShape(c, s);
	for (i = 0; i < n && tf.GetCode(s) == TF_OK; i++)
		shape_of_rows(c, i, s);
}

static void shapes_rows_start(struct tf_inference *c, struct tf_status *s)
{
	shapes_rows(c, s);
	shape_of_scalar(c, (int)tf.ShapeInferenceContextNumInputs(c), s);
}

static void shapes_alltoall(struct tf_inference *c, struct tf_status *s)
{
	struct tf_shape *vector = tf.ShapeInferenceContextVectorFromSize(c, (size_t)-1);

	tf.ShapeInferenceContextSetUnknownShape(c, s);
	if (tf.GetCode(s) == TF_OK)
		shape_of_rows(c, 0, s);
	if (tf.GetCode(s) == TF_OK)
		tf.ShapeInferenceContextSetOutput(c, 1, vector, s);
	tf.DeleteShapeHandle(vector);
}

static void shapes_wait(struct tf_inference *c, struct tf_status *s)
{
	shapes_copy(c, (int)tf.ShapeInferenceContextNumInputs(c) / 2, s);
}

static void shapes_scalar(struct tf_inference *c, struct tf_status *s)
{
	shape_of_scalar(c, 0, s);
}

static void shapes_none(struct tf_inference *c, struct tf_status *s)
{
	(void)c;
	(void)s;
}

/* Operations */

#define NUMBERS "T: list({" REDUCIBLE "}) >= 1"
#define ANY     "T: list({" MOVABLE "}) >= 1"
#define REDUCES (ATTR_NAME | ATTR_SET | ATTR_GROUPED | ATTR_REDUCTION)
#define GATHERS (ATTR_NAME | ATTR_SET | ATTR_GROUPED)
#define MOVES   (ATTR_NAME | ATTR_SET | ATTR_ROOT)

/* X(word, name, kind, starts, attributes, types, shapes, compute) */
#define TENSORFLOW_OPS(X)                                                                      \
	X(allreduce, "RingupAllreduce", ALLREDUCE, false, REDUCES, NUMBERS, shapes_same,       \
	  collective)                                                                          \
	X(allreduce_start, "RingupAllreduceStart", ALLREDUCE, true, REDUCES, NUMBERS,          \
	  shapes_same_start, collective)                                                       \
	X(allgather, "RingupAllgather", ALLGATHER, false, GATHERS, ANY, shapes_rows,           \
	  collective)                                                                          \
	X(allgather_start, "RingupAllgatherStart", ALLGATHER, true, GATHERS, ANY,              \
	  shapes_rows_start, collective)                                                       \
	X(broadcast, "RingupBroadcast", BROADCAST, false, MOVES, ANY, shapes_same, collective) \
	X(broadcast_start, "RingupBroadcastStart", BROADCAST, true, MOVES, ANY,                \
	  shapes_same_start, collective)                                                       \
	X(reducescatter, "RingupReducescatter", REDUCESCATTER, false, REDUCES, NUMBERS,        \
	  shapes_rows, collective)                                                             \
	X(reducescatter_start, "RingupReducescatterStart", REDUCESCATTER, true, REDUCES,       \
	  NUMBERS, shapes_rows_start, collective)                                              \
	X(alltoall, "RingupAlltoall", ALLTOALL, false, ATTR_NAME | ATTR_SET, ANY,              \
	  shapes_alltoall, collective)                                                         \
	X(barrier, "RingupBarrier", BARRIER, false, ATTR_SET, NULL, shapes_none, collective)   \
	X(join, "RingupJoin", JOIN, false, 0, NULL, shapes_scalar, collective)                 \
	X(query, "RingupQuery", BARRIER, false, ATTR_SET | ATTR_QUERY, NULL, shapes_scalar,    \
	  query)                                                                               \
	X(wait_all, "RingupWaitAll", BARRIER, false, 0, ANY, shapes_wait, wait)                \
	X(wait_later, "RingupWaitLater", BARRIER, false, 0, ANY, shapes_wait, wait)

/* TensorFlow does not pass the operation to the function that makes its kernel, so each
 * operation has a function of its own. */
#define X(word, ...) static void *create_##word(struct tf_construction *c);
TENSORFLOW_OPS(X)
#undef X

enum op_number {
#define X(word, ...) OP_##word,
	TENSORFLOW_OPS(X)
#undef X
		OP_COUNT
};

/* Each collective has an operation, or this does not compile. */
#define X(kind, word, activity, traits) \
	_Static_assert(OP_##word < OP_COUNT, "TensorFlow has no " #word);
COLLECTIVES(X)
#undef X

static const struct tensorflow_op ops[OP_COUNT] = {
#define X(word, name, kind, starts, attrs, types, shapes, compute)   \
	{ name,   COLLECTIVE_##kind, starts,           attrs, types, \
	  shapes, create_##word,     compute##_compute },
	TENSORFLOW_OPS(X)
#undef X
};

#define X(word, ...)                                          \
	static void *create_##word(struct tf_construction *c) \
	{                                                     \
		return kernel_make(c, &ops[OP_##word]);       \
	}
TENSORFLOW_OPS(X)
#undef X

/* Does an operation have handles as inputs? */
static bool waits(const struct tensorflow_op *op)
{
	return op == &ops[OP_wait_all] || op == &ops[OP_wait_later];
}

/* The code that carries an operation out in host memory. */
static struct tf_kernel *op_kernel(const struct tensorflow_op *op)
{
	if (op == &ops[OP_wait_later])
		return tf.NewAsyncKernelBuilder(op->name, "CPU", op->create, wait_later_compute,
						kernel_delete);
	return tf.NewKernelBuilder(op->name, "CPU", op->create, op->compute, kernel_delete);
}

/* Describe inputs, outputs and attributes of an operation. */
static void op_describe(struct tf_op *b, const struct tensorflow_op *op)
{
	if (op->types) {
		tf.OpDefinitionBuilderAddInput(b, "tensors: T");
		tf.OpDefinitionBuilderAddOutput(b, "outputs: T");
		tf.OpDefinitionBuilderAddAttr(b, op->types);
	}
	if (waits(op)) {
		tf.OpDefinitionBuilderAddInput(b, "handles: N * int64");
		tf.OpDefinitionBuilderAddAttr(b, "N: int >= 1");
	}
	if (op->starts)
		tf.OpDefinitionBuilderAddOutput(b, "handle: int64");
	if (op->kind == COLLECTIVE_ALLTOALL) {
		tf.OpDefinitionBuilderAddInput(b, "splits: int32");
		tf.OpDefinitionBuilderAddOutput(b, "received_splits: int32");
	}
	if (op->kind == COLLECTIVE_JOIN || op->attrs & ATTR_QUERY)
		tf.OpDefinitionBuilderAddOutput(b, "value: int32");
	if (op->attrs & ATTR_NAME)
		tf.OpDefinitionBuilderAddAttr(b, "tensor_name: string = ''");
	if (op->attrs & ATTR_SET)
		tf.OpDefinitionBuilderAddAttr(b, "process_set_id: int = 0");
	if (op->attrs & ATTR_GROUPED)
		tf.OpDefinitionBuilderAddAttr(b, "grouped: int = 0");
	if (op->attrs & ATTR_ROOT)
		tf.OpDefinitionBuilderAddAttr(b, "root_rank: int = 0");
	if (op->attrs & ATTR_QUERY)
		tf.OpDefinitionBuilderAddAttr(b, "what: int");
	if (op->attrs & ATTR_REDUCTION) {
		tf.OpDefinitionBuilderAddAttr(b, "reduction: int");
		tf.OpDefinitionBuilderAddAttr(b, "prescale_factor: float = 1.0");
		tf.OpDefinitionBuilderAddAttr(b, "postscale_factor: float = 1.0");
	}
}

/* Tell TensorFlow of an operation and its code. */
static bool op_register(const struct tensorflow_op *op, struct tf_status *s)
{
	struct tf_op *b = tf.NewOpDefinitionBuilder(op->name);

	op_describe(b, op);
	tf.OpDefinitionBuilderSetIsStateful(b, true);
	tf.OpDefinitionBuilderSetShapeInferenceFunction(b, op->shapes);
	tf.RegisterOpDefinition(b, s); /* frees it */
	if (tf.GetCode(s) != TF_OK)
		return false;
	tf.RegisterKernelBuilder(op->name, op_kernel(op), s);
	return tf.GetCode(s) == TF_OK;
}

/* tf.load_op_library() notes which operations are registered while it loads this file. */
static __attribute__((constructor)) void ops_register(void)
{
	struct tf_status *s;

	if (tensorflow_api_find())
		return; /* Python finds no operations, and reports it */
	s = tf.NewStatus();
	for (size_t i = 0; i < OP_COUNT && op_register(&ops[i], s); i++)
		;
	tf.DeleteStatus(s);
}

/* Functions that Python calls */

/*
 * ringup_tensorflow_attach - operations belong to @r from now on; NULL: to no job.
 *
 * Threads:    one at a time, while others run operations.
 * Blocking:   until operations of the job before have returned, which end with a failure.
 */
RINGUP_EXPORT void ringup_tensorflow_attach(struct ringup *r);

void ringup_tensorflow_attach(struct ringup *r)
{
	bridge_attach(NULL);
	if (!r)
		return; /* collectives under way may still use their tensors */
	handles_drop(run_clear);
	bridge_attach(r);
}
