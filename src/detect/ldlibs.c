/* ldlibs.c - list the shared libraries of interest that the dynamic loader would find. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/ldlibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_CONF = 65536, MAX_LIBS = 4096 };

static const char *const wanted[] = {
	"libc10",   "libcuda.",  "libcudart.",    "libmpi.",  "libmpich.", "libmxnet",
	"libnccl.", "libringup", "libtensorflow", "libtorch", "libucp.",   NULL,
};

static const char *const usual[] = {
	"/usr/local/lib",
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib64",
	"/usr/local/lib64",
	"/usr/lib",
	"/usr/local/cuda/lib64",
	"/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu",
	"/lib64",
	"/lib",
	NULL,
};

static void add_dir(struct rootfs *fs, const char *dir, struct ldlibs *out)
{
	char real[PATH_MAX], path[PATH_MAX], **more;
	struct names n;
	size_t w;

	if (out->dir_count == LDLIBS_DIRS || !rootfs_is_dir(fs, dir) ||
	    !rootfs_real(fs, dir, real))
		return;
	for (size_t i = 0; i < out->dir_count; i++)
		if (!strcmp(out->dirs[i], real))
			return;
	out->dirs[out->dir_count] = strdup(real);
	out->dir_count += !!out->dirs[out->dir_count];
	n = rootfs_names(fs, real, "lib");
	for (size_t i = 0; i < n.count && out->count < MAX_LIBS; i++) {
		for (w = 0; wanted[w] && strncmp(n.at[i], wanted[w], strlen(wanted[w])); w++)
			;
		if (!wanted[w] || !strstr(n.at[i], ".so") || !rootfs_join(path, real, n.at[i]))
			continue;
		more = realloc(out->paths, (out->count + 1) * sizeof(*more));
		if (!more)
			break;
		out->paths = more;
		more[out->count] = strdup(path);
		out->count += !!more[out->count];
	}
	rootfs_names_free(&n);
}

static void add_conf(struct rootfs *fs, const char *file, struct ldlibs *out)
{
	char *data, *line, *save = NULL;
	size_t len;

	data = rootfs_read(fs, file, MAX_CONF, &len);
	for (line = data ? strtok_r(data, "\r\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\r\n", &save)) {
		line += strspn(line, " \t");
		line[strcspn(line, " \t#")] = 0;
		if (*line == '/')
			add_dir(fs, line, out);
	}
	free(data);
}

void ldlibs_load(struct rootfs *fs, struct ldlibs *out)
{
	const char *p = rootfs_is_live(fs) ? conf_env("LD_LIBRARY_PATH") : NULL;
	char path[PATH_MAX];
	struct names n;

	*out = (struct ldlibs){ 0 };
	while (p && *p) {
		size_t len = strcspn(p, ":");

		if (*p == '/' && len < sizeof(path)) {
			text_copy(path, sizeof(path), p, len);
			add_dir(fs, path, out);
		}
		p += len + (p[len] == ':');
	}
	add_conf(fs, "/etc/ld.so.conf", out);
	n = rootfs_names(fs, "/etc/ld.so.conf.d", "");
	for (size_t i = 0; i < n.count; i++)
		if (rootfs_join(path, "/etc/ld.so.conf.d", n.at[i]))
			add_conf(fs, path, out);
	rootfs_names_free(&n);
	for (size_t i = 0; usual[i]; i++)
		add_dir(fs, usual[i], out);
}

void ldlibs_free(struct ldlibs *l)
{
	while (l->count)
		free(l->paths[--l->count]);
	free(l->paths);
	l->paths = NULL;
	while (l->dir_count)
		free(l->dirs[--l->dir_count]);
}

const char *ldlibs_next(const struct ldlibs *l, const char *name, size_t *cursor)
{
	size_t n = strlen(name);

	while (*cursor < l->count) {
		const char *path = l->paths[(*cursor)++];
		const char *file = strrchr(path, '/') + 1;

		if (!strncmp(file, name, n) && (!file[n] || file[n] == '.'))
			return path;
	}
	return NULL;
}

bool ldlibs_find(struct rootfs *fs, const struct ldlibs *l, const char *name, char *out)
{
	/* A processor may have a variant that the loader prefers to the common build. */
	static const char *const variants[] = { "glibc-hwcaps/x86-64-v4",
						"glibc-hwcaps/x86-64-v3",
						"glibc-hwcaps/x86-64-v2", "" };
	char dir[PATH_MAX];

	for (size_t i = 0; i < l->dir_count; i++)
		for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++)
			if (rootfs_join(dir, l->dirs[i], variants[v]) &&
			    rootfs_join(out, dir, name) && rootfs_is_file(fs, out))
				return true;
	*out = 0;
	return false;
}

void ldlibs_version(struct rootfs *fs, const char *path, char *out, size_t cap)
{
	char real[PATH_MAX];
	const char *so;

	*out = 0;
	if (!rootfs_real(fs, path, real))
		return;
	so = strstr(strrchr(real, '/'), ".so.");
	if (so && text_is_version(so + 4) && strlen(so + 4) < cap)
		text_set(out, cap, so + 4);
}
