/* stamp.h - the stamp beside a build: the versions that it was made for, as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_STAMP_H
#define REBUILD_STAMP_H

#include <jansson.h>
#include <time.h>

#include "rebuild/textpool.h"

struct err;

/*
 * A stamp is a JSON object that lies beside the build:
 *
 *	{schema: 1, engine, version, built, python: {path, version} | null,
 *	 frameworks: {torch: "2.13.0"}, cxx11_abi: {torch: 1},
 *	 mpi: [{flavour, version, library, ...}], cuda, nccl, driver, compiler, key,
 *	 accepted: ["CVE-2024-10190"]}
 *
 * Members that the build does not depend on are null or empty, and never count as changed.
 * Stamps are untrusted input: a malformed one is an error.
 */

#define STAMP_HOROVOD "horovod/ringup-build.json" /* below site-packages      */
#define STAMP_PACKAGE "ringup/build.json"         /* below site-packages      */
#define STAMP_MODULES "modules.json"              /* below $libdir/ringup     */

/* Inputs of a stamp.  Zero-initialise, then set what the build depends on; all borrowed. */
struct stamp_of {
	const char *engine, *version;       /* "ringup" or "horovod", and its version         */
	const char *python;                 /* its path as detect tells it; NULL: none        */
	const char *const *frameworks;      /* names, the last NULL; versions are detect's    */
	const json_t *mpi;                  /* array of entries like detect's; NULL: none     */
	const char *cuda, *nccl;            /* versions; with a cuda the driver is noted, too */
	const char *compiler;               /* "gcc 12.2.0"                                   */
	const char *key;                    /* of the cache                                   */
	const struct textpairs *advisories; /* accepted ones; NULL: none */
	time_t built;
};

/* stamp_make - the object, with versions from @facts, of find_all(); the caller's reference, or
 * NULL without memory. */
json_t *stamp_make(const struct stamp_of *of, const json_t *facts);

/* stamp_write - replace the file at root + path by @stamp, wholly or not at all. */
int stamp_write(const char *root, const char *path, const json_t *stamp, struct err *e);

/* stamp_parse - parse and check @len untrusted bytes as a stamp; the caller's reference. */
int stamp_parse(const char *data, size_t len, json_t **out, struct err *e);

/*
 * stamp_read - the stamp at root + path, every link followed as in a chroot.
 *
 * Returns 0 with *@out the caller's reference, or NULL if there is no such file; or
 * RINGUP_EINVAL if it is no stamp, or RINGUP_ESYSTEM.
 */
int stamp_read(const char *root, const char *path, json_t **out, struct err *e);

/*
 * stamp_diff - array of {what, was, is}: dependencies of @stamp that differ in @facts.
 *
 * @what is "torch", "torch ABI", "python", "openmpi", "cuda", "nccl" or "driver"; @is null: it
 * is gone.  Where several versions are installed and one of them is still the stamp's, nothing
 * has changed.  A framework that was added later is no difference.  Python counts by its
 * series, 3.11, since extensions depend on no more; python3 and python3.11 of one environment
 * are one Python, and so is @here, the path in @facts of the Python in whose folders the build
 * was found ("": unknown).  The caller's reference, or NULL without memory.
 */
json_t *stamp_diff(const json_t *stamp, const json_t *facts, const char *here);

#endif
