/* dist.h - find a Python's installed distributions: pip, conda, distribution packages. */
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
	char version[64];          /* from the folder's name; empty: not in it */
	char build[64];            /* conda's build string, or empty              */
	char folder[NAME_MAX + 1]; /* "torch-2.1.0.dist-info" below site, or empty */
	const char *site;          /* the folder it is installed in; borrowed     */
};

struct dists {
	struct dist *at;
	size_t count, room;
};

/* Fields of METADATA or PKG-INFO. */
struct metadata {
	char name[64]; /* as in struct dist */
	char version[64];
	char cuda_runtime[16]; /* "12.6" if nvidia-cuda-runtime 12.6.x is required, with no
				* condition but the platform */
};

/* dist_scan_site - add the distributions in @site, by their folders' names alone. */
void dist_scan_site(struct rootfs *fs, const char *site, struct dists *out);

/* dist_scan_conda - add the packages that conda-meta below @prefix lists, as in @site. */
void dist_scan_conda(struct rootfs *fs, const char *prefix, const char *site,
		     struct dists *out);

void dist_free(struct dists *d);

/* dist_metadata - read METADATA or PKG-INFO of @d; false if there is no valid one, which is
 * then a problem of @fs unless @d has no folder. */
bool dist_metadata(struct rootfs *fs, const struct dist *d, struct metadata *m);

/* dist_installer - set @out to the contents of INSTALLER ("pip", "conda", "debian"), or a guess
 * from the kind of entry. */
void dist_installer(struct rootfs *fs, const struct dist *d, char *out, size_t cap);

/* dist_brings - does top_level.txt or RECORD of @d list the package @folder? */
bool dist_brings(struct rootfs *fs, const struct dist *d, const char *folder);

/* dist_lists - does RECORD of @d list @file, a path below the site? */
bool dist_lists(struct rootfs *fs, const struct dist *d, const char *file);

/* dist_tag - set @out to what follows "cp" in WHEEL's tag, such as "38-cp38-linux_x86_64";
 * false if its files are for any Python 3, or WHEEL tells nothing. */
bool dist_tag(struct rootfs *fs, const struct dist *d, char out[64]);

/* dist_editable - set @out to the source folder of @d if it is an editable install; else
 * false. */
bool dist_editable(struct rootfs *fs, const struct dist *d, char out[PATH_MAX]);

/* dist_check - compare the size of @file, a path below the site, with RECORD's; a difference or
 * a damaged RECORD is a problem of @fs. */
void dist_check(struct rootfs *fs, const struct dist *d, const char *file, uint64_t size);

/* The pure functions. */

/* dist_normalise - "Torch_Foo.bar" becomes "torch-foo-bar"; false if it does not fit or has
 * characters that no distribution's name has. */
bool dist_normalise(const char *name, size_t len, char *out, size_t cap);

/* dist_parse_folder - parse "torch-2.1.0+cu121.dist-info", "torch.egg-info",
 * "horovod-0.28-py3.8.egg-info"; false for other names. */
bool dist_parse_folder(const char *folder, struct dist *out);

/* dist_parse_conda - parse "pytorch-2.1.0-py3.11_cuda12.1_0.json". */
bool dist_parse_conda(const char *file, struct dist *out);

/* dist_parse_metadata - parse the headers of METADATA; false if name or version is missing or
 * invalid.  Stops at the first empty line. */
bool dist_parse_metadata(const char *data, size_t len, struct metadata *out);

/* dist_parse_record - the size of @path in RECORD.  Returns 1 and sets *@size, 0 if @path is
 * not listed with a size, -1 if @data is no RECORD or ends in the middle of a line. */
int dist_parse_record(const char *data, size_t len, const char *path, uint64_t *size);

#endif
