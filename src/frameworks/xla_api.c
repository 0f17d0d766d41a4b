/* xla_api.c - the part of XLA's C interface for foreign functions that is used. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/xla_api.h"

#include "ringup.h"

int xla_api_dtype(int dtype, uint32_t *each)
{
	static const struct {
		int xla, dtype;
		uint32_t each;
	} types[] = {
		{ XLA_PRED, RINGUP_BOOL, 1 }, { XLA_S8, RINGUP_I8, 1 },
		{ XLA_S16, RINGUP_I16, 1 },   { XLA_S32, RINGUP_I32, 1 },
		{ XLA_S64, RINGUP_I64, 1 },   { XLA_U8, RINGUP_U8, 1 },
		{ XLA_U16, RINGUP_U16, 1 },   { XLA_U32, RINGUP_U8, 4 },
		{ XLA_U64, RINGUP_U8, 8 },    { XLA_F16, RINGUP_F16, 1 },
		{ XLA_F32, RINGUP_F32, 1 },   { XLA_F64, RINGUP_F64, 1 },
		{ XLA_C64, RINGUP_U8, 8 },    { XLA_BF16, RINGUP_BF16, 1 },
		{ XLA_C128, RINGUP_U8, 16 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i].xla == dtype) {
			*each = types[i].each;
			return types[i].dtype;
		}
	return -1;
}

int xla_api_code(int status)
{
	switch (status) {
	case RINGUP_EINVAL:
	case RINGUP_EBUSY:
		return XLA_INVALID_ARGUMENT;
	case RINGUP_EMISMATCH:
	case RINGUP_EDEADLOCK:
		return XLA_FAILED_PRECONDITION;
	case RINGUP_ENOMEM:
		return XLA_RESOURCE_EXHAUSTED;
	case RINGUP_EPEER:
	case RINGUP_ESHUTDOWN:
	case RINGUP_EABORTED:
		return XLA_ABORTED;
	default:
		return XLA_INTERNAL;
	}
}
