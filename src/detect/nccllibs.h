/* nccllibs.h - find the copies of NCCL on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_NCCLLIBS_H
#define DETECT_NCCLLIBS_H

#include <jansson.h>
#include <limits.h>
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

/*
 * nccllibs_choose - the NCCL that a job with @framework, of frameworks_find(), would load:
 * {library, version, cuda, why, flaw, second}.
 *
 * In the order of backend/nccl_lib.c: the one that RINGUP_NCCL, @told, names; the one that
 * LD_PRELOAD or the framework's import loads; the wheel's beside the framework; the loader's.
 * Variables count on the live node only.  @framework may be NULL: a program without one.
 * library is null if there is none; flaw says why it does not load, on the live node.  second:
 * the framework has another one, or one that is linked into it.
 */
json_t *nccllibs_choose(struct rootfs *fs, const json_t *framework, const char *told);

/* nccllibs_judge - what is wrong with @chosen, of nccllibs_choose(), beside a driver, whose
 * version may be "": @fault says it. */
enum nccllibs_fit {
	NCCLLIBS_FITS,
	NCCLLIBS_NONE,
	NCCLLIBS_BROKEN,
	NCCLLIBS_OLD,
	NCCLLIBS_DRIVER,
};

enum nccllibs_fit nccllibs_judge(const json_t *chosen, const char *driver,
				 char fault[PATH_MAX]);

/* nccllibs_version - the version that the file @library tells of itself, as "2.27.5", and the
 * CUDA that it was built for, as "12.9"; false: none.  Each has @cap bytes; @cuda may be NULL.
 */
bool nccllibs_version(struct rootfs *fs, const char *library, char *out, char *cuda,
		      size_t cap);

#endif
