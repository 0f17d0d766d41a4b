/* bind.h - bind a whole process to one processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_BIND_H
#define BENCH_BIND_H

#include <sys/types.h>

struct err;

/*
 * bind_process - bind all current threads of @pid to one processor; later ones inherit it.
 *
 * @n counts the processors that the calling thread may use, and wraps around at the end; -1 is
 * the last, -2 the one before it.
 */
int bind_process(pid_t pid, int n, struct err *e);

#endif
