/* stack.h - stacks that are large enough, whatever `ulimit -s` says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include "base/err.h"

/*
 * Below a limit of STACK_BYTES for a process's stack, which is also the default size of a
 * thread's, ringup's own threads and programs have stacks of that size.  What calls the
 * library has to bring STACK_LEAST_BYTES.
 */
enum { STACK_BYTES = 1 << 20, STACK_LEAST_BYTES = 128 << 10 };

/* stack_run - what @program returns for these arguments, on a stack that is large enough. */
int stack_run(int (*program)(int argc, char **argv), int argc, char **argv);

/* stack_check - fails, and names the cure, if the limit is below STACK_LEAST_BYTES. */
int stack_check(struct err *e);

#endif
