/* pinlib.h - find libnccl-env-ringup.so, for NCCL's setting. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_PINLIB_H
#define SETTLE_PINLIB_H

#include <limits.h>

struct err;

/*
 * pinlib_find - its path on the node below @root ("": this one), without @root.
 *
 * It is beside this program, or in the installation folder; for /opt/ringup the path goes
 * through the link `current`, which outlives the version.  Fails if there is none.
 */
int pinlib_find(const char *root, char out[PATH_MAX], struct err *e);

#endif
