/* test_tensorflow_api.c - types and failures in TensorFlow's numbers, without TensorFlow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/tensorflow_api.h"

#include <string.h>

#include "base/kinds.h"
#include "ringup.h"
#include "tap.h"

static const size_t library_size[DTYPE_COUNT] = {
#define X(name, bytes) [RINGUP_##name] = bytes,
	RINGUP_DTYPES(X)
#undef X
};

/* TensorFlow's types, and the size of an element, as its documentation has them. */
static const struct {
	int dtype, bytes, reducible;
} types[] = {
	{ TF_FLOAT, 4, 1 },     { TF_DOUBLE, 8, 1 }, { TF_INT32, 4, 1 },
	{ TF_UINT8, 1, 1 },     { TF_INT16, 2, 1 },  { TF_INT8, 1, 1 },
	{ TF_COMPLEX64, 8, 0 }, { TF_INT64, 8, 1 },  { TF_BOOL, 1, 1 },
	{ TF_BFLOAT16, 2, 1 },  { TF_UINT16, 2, 1 }, { TF_COMPLEX128, 16, 0 },
	{ TF_HALF, 2, 1 },      { TF_UINT32, 4, 0 }, { TF_UINT64, 8, 0 },
};

int main(void)
{
	static const int lost[] = { RINGUP_EPEER, RINGUP_ESHUTDOWN, RINGUP_EABORTED };
	int good = 1, reducible = 1, dtype;
	const char *missing;
	uint32_t each;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		dtype = tensorflow_api_dtype(types[i].dtype, &each);
		good = good && dtype >= 0 &&
		       library_size[dtype] * each == (size_t)types[i].bytes;
		reducible = reducible && (each == 1) == types[i].reducible;
	}
	ok(good, "each type that can be sent has its size");
	ok(reducible, "those that cannot be reduced are sent as bytes");
	ok(tensorflow_api_dtype(7, &each) < 0, "a string cannot be sent");
	ok(tensorflow_api_dtype(1000, &each) < 0, "nor what does not exist");
	for (i = 0, good = 1; i < sizeof(lost) / sizeof(*lost); i++)
		good = good && tensorflow_api_code(lost[i]) == TF_ABORTED;
	ok(good, "a job that has lost a rank is an AbortedError");
	ok(tensorflow_api_code(RINGUP_EMISMATCH) == TF_FAILED_PRECONDITION,
	   "ranks that disagree");
	ok(tensorflow_api_code(RINGUP_EINVAL) == TF_INVALID_ARGUMENT, "a wrong argument");
	ok(tensorflow_api_code(RINGUP_ESYSTEM) == TF_INTERNAL, "anything else");
	missing = tensorflow_api_find();
	ok(missing && strstr(missing, "libtensorflow_framework"),
	   "there is no TensorFlow here");
	ok(!tf.NewStatus, "and nothing of it is used");
	return tap_done();
}
