/* array.h - lists on the heap that grow by one element at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/*
 * array_more - a zeroed element of @size bytes at the end of the list at *@listp, which has
 * *@count of them, moves when it grows and is the caller's to free().
 *
 * Room is made at each power of two and not counted, so only this function may enlarge the
 * list.  Returns NULL without memory; then the list is as before.
 */
void *array_more(void *listp, int *count, size_t size);

/* array_room - the same element, not yet counted: the caller adds it by raising the count. */
void *array_room(void *listp, int count, size_t size);

#endif
