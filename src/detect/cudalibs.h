/* cudalibs.h - find CUDA on a node: toolkits and the driver. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_CUDALIBS_H
#define DETECT_CUDALIBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct ldlibs;
struct rootfs;

/*
 * cudalibs_find - {toolkits: [{path, version, nvcc}], driver, gpu_count}.
 *
 * nvcc is not run: version.json, version.txt or cuda.h has the version.  The driver is
 * {version, library}, from /proc and libcuda.so.1, or null without either.
 */
json_t *cudalibs_find(struct rootfs *fs, const struct ldlibs *libs);

/* cudalibs_driver - the version in /proc/driver/nvidia/version: the first word of
 * numbers and dots after "Kernel Module"; false if there is none. */
bool cudalibs_driver(const char *data, char *out, size_t cap);

/* cudalibs_driver_for - the oldest driver that runs programs of a CUDA, such as "12.8", by its
 * minor version compatibility; "": unknown. */
const char *cudalibs_driver_for(const char *cuda);

#endif
