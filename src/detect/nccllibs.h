/* nccllibs.h - find the copies of NCCL on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_NCCLLIBS_H
#define DETECT_NCCLLIBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct ldlibs;
struct pythons;
struct rootfs;

/*
 * nccllibs_find - array of {version, library, header, source}.
 *
 * The system's ("system"), and the one in nvidia-nccl-cuNN of each Python, whose
 * path is then the source.  Version from the library's real name, from
 * nccl.h, or from the distribution.
 */
json_t *nccllibs_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py);

/* nccllibs_version - the version that the file @library tells of itself, as "2.27.5", and the
 * CUDA that it was built for, as "12.9"; false: none.  Each has @cap bytes; @cuda may be NULL.
 */
bool nccllibs_version(struct rootfs *fs, const char *library, char *out, char *cuda,
		      size_t cap);

#endif
