/* oom.h - the OOM killer's counters: processes killed for lack of memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_OOM_H
#define HOST_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cgroup.h"

/*
 * The kernel counts them, by control group and altogether, before they die; only its log
 * names them.  So a count is reported together with a death, but proves nothing.
 */
struct oom {
	struct cgroup group; /* of this process, as far as it can be seen; version 0: none */
	uint64_t in_group, on_host;
};

/* oom_mark - remember how many there have been so far. */
void oom_mark(struct oom *o, const char *root);

/*
 * oom_since - have there been more since oom_mark()?  Then writes to @out "; out of memory in
 * control group /job_7 (64 MiB)" or "; out of memory on this host", else "".  The number is
 * the smallest limit of the group and those above it.
 */
bool oom_since(const struct oom *o, const char *root, char *out, size_t size);

#endif
