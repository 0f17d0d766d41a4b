/* serve.h - a rank of ringup as a contender: carries out the conductor's orders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

struct err;
struct measure_how;
struct ringup;

/*
 * serve_run - connect to the socket at @path and carry out orders until it is closed.
 *
 * The protocol, in lines (see contender.h for the other side):
 *
 *	> hello RANK SIZE ABOUT...      once
 *	< rest                          give buffers back, answered by "ok"
 *	< do ...                        see task_write()
 *	> ok WRONG US...                a number for each sample
 *	> no REASON                     cannot, but accepts other orders
 *	> fail REASON                   and the rank ends
 *
 * Between orders the rank sleeps in read(2).
 */
int serve_run(struct ringup *r, const struct measure_how *how, const char *path, struct err *e);

#endif
