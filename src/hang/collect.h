/* collect.h - saves all it can learn about a hung job to a folder, within a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_COLLECT_H
#define HANG_COLLECT_H

#include <stdint.h>

struct err;
struct hang_job;

enum { COLLECT_MS = 10000 };

/*
 * collect_job - write what is known of @j to the folder @dir, which exists, until @until_ns.
 *
 * Per rank: its stacks in C and Python, its state in /proc, its last operations, the end of its
 * output, if that is a file, and the flight record that torch.distributed has written of this
 * job; the report of NCCL RAS; of the host: sockets and the kernel's log.  Each item has a
 * limit of its own, and what there was no time for is named in the file "missing". Environments
 * are not kept, since they may have secrets.
 */
int collect_job(const char *dir, const struct hang_job *j, int64_t until_ns, struct err *e);

#endif
