/* empty_ops.c - operations of TensorFlow that do nothing: the least that ours can cost. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * EmptyStart passes a tensor on and makes a handle, EmptyWait passes tensors on and reads their
 * handles: what RingupAllreduceStart and RingupWaitAll do without a collective.  EmptyPass and
 * EmptyJoin are the same without handles.
 */

#include "frameworks/tensorflow_api.h"

static void *create(struct tf_construction *c)
{
	(void)c;
	return (void *)create;
}

static void discard(void *kernel)
{
	(void)kernel;
}

static void pass(struct tf_context *ctx, int i, struct tf_status *s)
{
	struct tf_tensor *tensor = NULL;

	tf.GetInput(ctx, i, &tensor, s);
	if (tf.GetCode(s) == TF_OK)
		tf.SetOutput(ctx, i, tensor, s);
	if (tensor)
		tf.DeleteTensor(tensor);
}

static void pass_compute(void *kernel, struct tf_context *ctx)
{
	struct tf_status *s = tf.NewStatus();

	(void)kernel;
	pass(ctx, 0, s);
	tf.DeleteStatus(s);
}

static void start_compute(void *kernel, struct tf_context *ctx)
{
	struct tf_status *s = tf.NewStatus();
	struct tf_tensor *handle;

	(void)kernel;
	pass(ctx, 0, s);
	handle = tf.AllocateOutput(ctx, 1, TF_INT64, NULL, 0, sizeof(int64_t), s);
	if (tf.GetCode(s) == TF_OK) {
		*(int64_t *)tf.TensorData(handle) = 1;
		tf.DeleteTensor(handle);
	}
	tf.DeleteStatus(s);
}

static void join_compute(void *kernel, struct tf_context *ctx)
{
	struct tf_status *s = tf.NewStatus();
	int i, n = tf.NumInputs(ctx);

	(void)kernel;
	for (i = 0; i < n; i++)
		pass(ctx, i, s);
	tf.DeleteStatus(s);
}

static void wait_compute(void *kernel, struct tf_context *ctx)
{
	struct tf_status *s = tf.NewStatus();
	int i, n = tf.NumInputs(ctx) / 2;

	(void)kernel;
	for (i = 0; i < n; i++) {
		struct tf_tensor *handle = NULL;

		pass(ctx, i, s);
		tf.GetInput(ctx, n + i, &handle, s);
		if (handle)
			tf.DeleteTensor(handle);
	}
	tf.DeleteStatus(s);
}

static void shapes(struct tf_inference *c, struct tf_status *s)
{
	tf.ShapeInferenceContextSetUnknownShape(c, s);
}

static void op_register(const char *name, bool handles, bool joins,
			void (*compute)(void *, struct tf_context *), struct tf_status *s)
{
	struct tf_op *op = tf.NewOpDefinitionBuilder(name);

	tf.OpDefinitionBuilderAddInput(op, joins ? "tensors: N * float" : "tensor: float");
	tf.OpDefinitionBuilderAddOutput(op, joins ? "outputs: N * float" : "output: float");
	if (joins)
		tf.OpDefinitionBuilderAddAttr(op, "N: int >= 1");
	if (handles && joins)
		tf.OpDefinitionBuilderAddInput(op, "handles: N * int64");
	else if (handles)
		tf.OpDefinitionBuilderAddOutput(op, "handle: int64");
	tf.OpDefinitionBuilderSetIsStateful(op, true);
	tf.OpDefinitionBuilderSetShapeInferenceFunction(op, shapes);
	tf.RegisterOpDefinition(op, s);
	tf.RegisterKernelBuilder(name,
				 tf.NewKernelBuilder(name, "CPU", create, compute, discard), s);
}

static __attribute__((constructor)) void ops_register(void)
{
	struct tf_status *s;

	if (tensorflow_api_find())
		return;
	s = tf.NewStatus();
	op_register("EmptyStart", true, false, start_compute, s);
	op_register("EmptyWait", true, true, wait_compute, s);
	op_register("EmptyPass", false, false, pass_compute, s);
	op_register("EmptyJoin", false, true, join_compute, s);
	tf.DeleteStatus(s);
}
