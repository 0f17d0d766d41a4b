/* nomemory.h - makes malloc() of sanitizers return NULL for impossible sizes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NOMEMORY_H
#define TESTS_NOMEMORY_H

/* By default it ends the program.  The sanitizers look these up by name. */
#define SEEN __attribute__((visibility("default")))

SEEN const char *__asan_default_options(void);
SEEN const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

#endif
