/* pickers.c - the list of libraries whose choice of interface is known. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nicpick/picker.h"

/*
 * In the order of reports.  To add one, write nicpick/NAME.c defining
 * picker_NAME, put NAME here, and record cases of the real library for it.
 */
#define PICKERS(X) \
	X(nccl)    \
	X(ompi)    \
	X(gloo)    \
	X(hvd)

#define X(name) extern const struct picker picker_##name;
PICKERS(X)
#undef X

const struct picker *const pickers[] = {
#define X(name) &picker_##name,
	PICKERS(X) NULL,
#undef X
};

const struct picker *picker_find(const char *name)
{
	int i;

	for (i = 0; pickers[i]; i++)
		if (!strcmp(pickers[i]->name, name))
			return pickers[i];
	return NULL;
}
