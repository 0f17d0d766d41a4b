/* commlibs.c - find the installed versions of communication libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/commlibs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/envplugins.h"
#include "detect/ldlibs.h"
#include "detect/mpilibs.h"
#include "detect/nccllibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "host/netconf.h"

enum { MAX_NOTES = 64 << 20 };

static int set(struct netconf *c, const char *library, const char *version, struct err *e)
{
	return *version ? netconf_set_version(c, library, version, e) : 0;
}

/* Adds the newest of all copies, and the env plug-in that it would find. */
static int set_nccl(struct netconf *c, struct rootfs *fs, const json_t *all, struct err *e)
{
	const char *best = "", *library = "";
	const json_t *o;
	size_t i;
	int rc;

	json_array_foreach(all, i, o)
		if (release_compare(jsonio_string(o, "version"), best) > 0) {
			best = jsonio_string(o, "version");
			library = jsonio_string(o, "library");
		}
	rc = set(c, "nccl", best, e);
	return rc ? rc : envplugins_find(c, fs, *library ? library : NULL, e);
}

static int set_mpi(struct netconf *c, const json_t *all, struct err *e)
{
	const json_t *o;
	size_t i;

	json_array_foreach(all, i, o)
		if (!strcmp(jsonio_string(o, "flavour"), "openmpi"))
			return set(c, "openmpi", jsonio_string(o, "version"), e);
	return 0;
}

/* The numbers after "Version: " in @text, before @end if not NULL; "1.13.1" of "1.13.1-1". */
static void read_version(const char *text, const char *end, char out[64])
{
	static const char field[] = "\nVersion: ";
	const char *at = text ? strstr(text, field) : NULL;

	*out = 0;
	if (!at || (end && at > end))
		return;
	at += sizeof(field) - 1;
	text_copy(out, 64, at, strspn(at, "0123456789."));
}

/* The version of the UCX that the dynamic loader finds: its files have no number in their
 * names, but pkg-config's notes or those of dpkg have. */
static void ucx_version(struct rootfs *fs, const struct ldlibs *libs, char out[64])
{
	static const char *const packages[] = { "\nPackage: libucx0\n", "\nPackage: ucx\n" };
	char dir[PATH_MAX], path[PATH_MAX];
	size_t cursor = 0, len;
	const char *library = ldlibs_next(libs, "libucp.so", &cursor);
	char *data, *at;

	*out = 0;
	if (!library)
		return;
	text_copy(dir, sizeof(dir), library, (size_t)(strrchr(library, '/') - library));
	data = rootfs_join(path, dir, "pkgconfig/ucx.pc")
		       ? rootfs_read(fs, path, MAX_NOTES, &len)
		       : NULL;
	read_version(data, NULL, out);
	free(data);
	data = *out ? NULL : rootfs_read(fs, "/var/lib/dpkg/status", MAX_NOTES, &len);
	for (size_t i = 0; data && !*out && i < sizeof(packages) / sizeof(packages[0]); i++) {
		at = strstr(data, packages[i]);
		if (at)
			read_version(at, strstr(at, "\n\n"), out);
	}
	free(data);
}

/* Adds versions of Python packages: the first of each name, as import would find it. */
static int set_dists(struct netconf *c, const struct pythons *py, struct err *e)
{
	static const struct {
		const char *dist, *library;
	} known[] = { { "torch", "gloo" },
		      { "horovod", "horovod" },
		      { "libucx-cu12", "ucx" },
		      { "libucx-cu13", "ucx" },
		      { "ucx", "ucx" } };
	int rc = 0;

	for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		for (int i = 0; !rc && i < py->count && !*netconf_version(c, known[k].library);
		     i++)
			for (size_t d = 0; d < py->at[i].dists.count; d++) {
				const struct dist *one = &py->at[i].dists.at[d];

				if (strcmp(one->name, known[k].dist))
					continue;
				rc = set(c, known[k].library, one->version, e);
				break;
			}
	return rc;
}

int commlibs_find(struct netconf *c, const char *root, struct err *e)
{
	json_t *problems = json_array(), *nccl = NULL, *mpi = NULL;
	struct pythons py = { 0 };
	struct ldlibs libs = { 0 };
	struct rootfs fs;
	char ucx[64];
	int rc = rootfs_open(&fs, root, problems, e);

	if (!rc) {
		rc = pythons_find(&fs, NULL, &py, e);
		if (!rc) {
			ldlibs_load(&fs, &libs);
			nccl = nccllibs_find(&fs, &libs, &py);
			mpi = mpilibs_find(&fs, &libs, &py);
			rc = set_nccl(c, &fs, nccl, e);
		}
		if (!rc)
			rc = set_mpi(c, mpi, e);
		ucx_version(&fs, &libs, ucx);
		if (!rc)
			rc = set(c, "ucx", ucx, e);
		if (!rc)
			rc = set_dists(c, &py, e);
		ldlibs_free(&libs);
		pythons_free(&py);
		rootfs_close(&fs);
	}
	json_decref(nccl);
	json_decref(mpi);
	json_decref(problems);
	return rc;
}
