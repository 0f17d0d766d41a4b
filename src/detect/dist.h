/* dist.h - distributions installed for a Python: pip, conda, distribution packages. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_DIST_H
#define DETECT_DIST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rootfs;

/* One distribution. */
struct dist {
	char name[64];             /* lower case, one '-' for each run of - _ .   */
	char version[64];          /* from the folder's name; empty: not in there */
	char build[64];            /* conda's build string, or empty              */
	char folder[NAME_MAX + 1]; /* "torch-2.1.0.dist-info" below site, or empty */
	const char *site;          /* the folder it is installed in; borrowed     */
};

struct dists {
	struct dist *at;
	size_t count, room;
};

/* What METADATA or PKG-INFO says. */
struct metadata {
	char name[64]; /* as in struct dist */
	char version[64];
	char cuda_runtime[16]; /* "12.6" if nvidia-cuda-runtime 12.6.x is
				* required without conditions but the platform */
};

/* dist_scan_site - add what is installed in @site, by the names of its folders alone. */
void dist_scan_site(struct rootfs *fs, const char *site, struct dists *out);

/* dist_scan_conda - add what conda-meta below @prefix lists, as installed in @site. */
void dist_scan_conda(struct rootfs *fs, const char *prefix, const char *site,
		     struct dists *out);

void dist_free(struct dists *d);

/* dist_metadata - read METADATA or PKG-INFO of @d; false if there is none that is fit
 * to be used, which is then a problem of @fs unless @d has no folder. */
bool dist_metadata(struct rootfs *fs, const struct dist *d, struct metadata *m);

/* dist_installer - what INSTALLER says ("pip", "conda", "debian"), or what the kind of
 * entry lets one suppose; in @out. */
void dist_installer(struct rootfs *fs, const struct dist *d, char *out, size_t cap);

/* dist_brings - do top_level.txt or RECORD of @d say that it has installed the package @folder?
 */
bool dist_brings(struct rootfs *fs, const struct dist *d, const char *folder);

/* dist_editable - the source folder, in @out, of which @d is an editable install; false: it is
 * none. */
bool dist_editable(struct rootfs *fs, const struct dist *d, char out[PATH_MAX]);

/* dist_check - compare the size of @file, a path below the site, with RECORD's; a
 * difference, and a RECORD that is damaged, are problems of @fs. */
void dist_check(struct rootfs *fs, const struct dist *d, const char *file, uint64_t size);

/* The pure parts. */

/* dist_normalise - Torch_Foo.bar is torch-foo-bar; false if it does not fit or
 * has characters that no distribution's name has. */
bool dist_normalise(const char *name, size_t len, char *out, size_t cap);

/* dist_parse_folder - "torch-2.1.0+cu121.dist-info", "torch.egg-info",
 * "horovod-0.28-py3.8.egg-info"; false for anything else. */
bool dist_parse_folder(const char *folder, struct dist *out);

/* dist_parse_conda - "pytorch-2.1.0-py3.11_cuda12.1_0.json". */
bool dist_parse_conda(const char *file, struct dist *out);

/* dist_parse_metadata - the headers of METADATA; false if name or version is
 * missing or unfit.  Looks at nothing after the first empty line. */
bool dist_parse_metadata(const char *data, size_t len, struct metadata *out);

/* dist_parse_record - the size that RECORD gives for @path.  Returns 1 and sets
 * *@size, 0 if @path is not listed with a size, -1 if @data is no RECORD or ends
 * in the middle of a line. */
int dist_parse_record(const char *data, size_t len, const char *path, uint64_t *size);

#endif
