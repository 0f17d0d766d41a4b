/* pinlib.h - where libnccl-env-ringup.so is, for NCCL to be told. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_PINLIB_H
#define SETTLE_PINLIB_H

#include <limits.h>

struct err;

/*
 * pinlib_find - its path on the node below @root ("": this one), without @root.
 *
 * It is beside this program, or where it was to be installed; of /opt/ringup the link
 * `current`, which outlives the version.  Fails where there is none.
 */
int pinlib_find(const char *root, char out[PATH_MAX], struct err *e);

#endif
