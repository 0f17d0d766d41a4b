/* array.c - lists on the heap that grow by one element at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

void *array_room(void *listp, int count, size_t size)
{
	size_t n = (size_t)count, bytes;
	char *list;

	/* The type of the caller's pointer is unknown here, so it is copied as bytes. */
	memcpy(&list, listp, sizeof(list));
	if (!(n & (n - 1))) {
		list = __builtin_mul_overflow(n ? 2 * n : 1, size, &bytes)
			       ? NULL
			       : realloc(list, bytes);
		if (!list)
			return NULL;
		memcpy(listp, &list, sizeof(list));
	}
	return memset(list + n * size, 0, size);
}

void *array_more(void *listp, int *count, size_t size)
{
	void *one = array_room(listp, *count, size);

	*count += one != NULL;
	return one;
}
