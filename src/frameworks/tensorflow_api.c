/* tensorflow_api.c - the part of TensorFlow's C API that is used, found at run time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/tensorflow_api.h"

#include <dlfcn.h>
#include <string.h>

#include "ringup.h"

struct tensorflow_api tf;

const char *tensorflow_api_find(void)
{
	static const char library[] = "libtensorflow_framework.so.2";
	struct tensorflow_api found;
	void *handle, *f;

	/* Only if Python has loaded it: a second copy would be another TensorFlow. */
	handle = dlopen(library, RTLD_NOLOAD | RTLD_NOW);
	if (!handle)
		return library;
#define X(type, name, arguments)        \
	f = dlsym(handle, "TF_" #name); \
	if (!f)                         \
		return "TF_" #name;     \
	memcpy(&found.name, &f, sizeof(found.name));
	TENSORFLOW_API(X)
#undef X
	tf = found;
	return NULL;
}

int tensorflow_api_dtype(int dtype, uint32_t *each)
{
	*each = 1;
	switch (dtype) {
	case TF_FLOAT:
		return RINGUP_F32;
	case TF_DOUBLE:
		return RINGUP_F64;
	case TF_HALF:
		return RINGUP_F16;
	case TF_BFLOAT16:
		return RINGUP_BF16;
	case TF_UINT8:
		return RINGUP_U8;
	case TF_INT8:
		return RINGUP_I8;
	case TF_UINT16:
		return RINGUP_U16;
	case TF_INT16:
		return RINGUP_I16;
	case TF_INT32:
		return RINGUP_I32;
	case TF_INT64:
		return RINGUP_I64;
	case TF_BOOL:
		return RINGUP_BOOL;
	case TF_UINT32:
		*each = 4;
		return RINGUP_U8;
	case TF_UINT64:
	case TF_COMPLEX64:
		*each = 8;
		return RINGUP_U8;
	case TF_COMPLEX128:
		*each = 16;
		return RINGUP_U8;
	default:
		return -1;
	}
}

int tensorflow_api_code(int status)
{
	switch (status) {
	case 0:
		return TF_OK;
	case RINGUP_EINVAL:
	case RINGUP_EBUSY:
		return TF_INVALID_ARGUMENT;
	case RINGUP_EMISMATCH:
	case RINGUP_EDEADLOCK:
		return TF_FAILED_PRECONDITION;
	case RINGUP_ENOMEM:
		return TF_RESOURCE_EXHAUSTED;
	case RINGUP_EPEER:
	case RINGUP_ESHUTDOWN:
	case RINGUP_EABORTED:
		return TF_ABORTED;
	default:
		return TF_INTERNAL;
	}
}
