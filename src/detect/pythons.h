/* pythons.h - find every Python on a node without running it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_PYTHONS_H
#define DETECT_PYTHONS_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "detect/dist.h"

struct err;
struct rootfs;

enum { PYTHON_SITES = 24 };

struct python {
	char path[PATH_MAX];   /* the program                                    */
	char prefix[PATH_MAX]; /* sys.prefix                                     */
	char base[PATH_MAX];   /* sys.base_prefix; differs in a virtual environment */
	char series[16];       /* "3.11"                                         */
	char threads[2];  /* "t" of a free-threaded Python, whose folders end in it; or "" */
	char version[32]; /* "3.11.7", or the series if no file has it; "3.13.1t" */
	const char *kind; /* "system", "venv", "conda" or "pyenv"           */
	char *sites[PYTHON_SITES]; /* package folders, in the order of sys.path */
	int site_count;
	struct dists dists; /* distributions there, in that order */
};

struct pythons {
	struct python *at;
	int count;
};

/*
 * pythons_find - search the usual places, or only @only.
 *
 * @only is a program, a name to be looked up, or the folder of an environment.  On the live
 * node VIRTUAL_ENV, CONDA_PREFIX, PYENV_ROOT, PATH and HOME are honoured; a recorded tree has
 * no environment.  One entry for each prefix and series, however many links lead there.
 *
 * Ownership: pythons_free() also after a failure.
 * Returns 0, also when there is none, or RINGUP_EINVAL if there is no Python at @only, or
 * RINGUP_ENOMEM.
 */
int pythons_find(struct rootfs *fs, const char *only, struct pythons *out, struct err *e);
void pythons_free(struct pythons *p);

/* pythons_json - in the form of `ringup detect --json`. */
json_t *pythons_json(const struct pythons *p);

/* pythons_series - "3.11" from "python3.11" or "3.11.7"; false if there is none. */
bool pythons_series(const char *s, char *out, size_t cap);

/* pythons_tag - "3.11" from what follows "cp" or "cpython-" in names of extensions and wheels:
 * "311-x86_64-linux-gnu.so"; false if there is none. */
bool pythons_tag(const char *s, char out[16]);

#endif
