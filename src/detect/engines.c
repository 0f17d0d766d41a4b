/* engines.c - builds of a collective engine on a node: ringup's and Horovod's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/engines.h"

#include <stdlib.h>
#include <string.h>

#include "detect/ldlibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

static json_t *add(json_t *all, const char *name, const char *version, const char *python,
		   const char *location, const char *library)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", text_json(name));
	json_object_set_new(o, "version", text_json(version));
	json_object_set_new(o, "python", text_json(python));
	json_object_set_new(o, "location", text_json(location));
	json_object_set_new(o, "library", text_json(library));
	json_object_set_new(o, "extensions", json_array());
	json_array_append_new(all, o);
	return json_object_get(o, "extensions");
}

/* The C library, and in lib/pkgconfig its version. */
static void add_library(struct rootfs *fs, const struct ldlibs *libs, json_t *all)
{
	size_t cursor = 0, len;
	const char *library = ldlibs_next(libs, "libringup.so", &cursor);
	char dir[PATH_MAX], path[PATH_MAX], version[64] = "";
	char *data = NULL;

	if (!library)
		return;
	text_copy(dir, sizeof(dir), library, (size_t)(strrchr(library, '/') - library));
	if (rootfs_join(path, dir, "pkgconfig/ringup.pc"))
		data = rootfs_read(fs, path, 65536, &len);
	if (data && (!text_field(data, len, "Version", ':', version, sizeof(version)) ||
		     !text_is_version(version)))
		*version = 0;
	free(data);
	add(all, "ringup", version, NULL, dir, library);
}

static const char *installed_version(const json_t *frameworks, const char *name,
				     const char *python)
{
	json_t *o;
	size_t i;

	json_array_foreach(frameworks, i, o) {
		const char *n = json_string_value(json_object_get(o, "name"));
		const char *p = json_string_value(json_object_get(o, "python"));

		if (n && p && !strcmp(n, name) && !strcmp(p, python))
			return json_string_value(json_object_get(o, "version"));
	}
	return NULL;
}

/* Two spellings of one version: wheels add the build, 2.1.0+cu121. */
static bool is_same_version(const char *a, const char *b)
{
	size_t n = strcspn(a, "+"), m = strcspn(b, "+");

	return n == m && !strncmp(a, b, n) && (!a[n] || !b[m] || !strcmp(a + n, b + m));
}

static void add_extension(struct rootfs *fs, const struct python *y, const char *location,
			  const char *framework, const json_t *notes, const json_t *frameworks,
			  json_t *into)
{
	const char *noted = json_string_value(json_object_get(notes, framework));
	const char *have = installed_version(frameworks, framework, y->path);
	char dir[PATH_MAX], path[PATH_MAX], shown[64];
	struct names n;
	size_t i;
	json_t *o;

	if (!rootfs_join(dir, location, framework))
		return;
	n = rootfs_names(fs, dir, "mpi_lib");
	for (i = 0; i < n.count; i++) {
		if (!strstr(n.at[i], ".so") || !rootfs_join(path, dir, n.at[i]))
			continue;
		o = json_object();
		json_object_set_new(o, "framework", text_json(framework));
		json_object_set_new(o, "library", text_json(path));
		json_object_set_new(o, "built_for", text_json(noted));
		json_array_append_new(into, o);
		if (!noted || !have || is_same_version(noted, have))
			continue;
		text_clean(shown, sizeof(shown), noted);
		rootfs_problem(fs, path, "built for %s %s, but %s is installed: rebuild it",
			       framework, shown, have);
	}
	rootfs_names_free(&n);
}

static void add_horovod(struct rootfs *fs, const struct python *y, const struct dist *d,
			const json_t *frameworks, json_t *all)
{
	static const char *const parts[] = { "torch", "tensorflow", "mxnet" };
	char location[PATH_MAX], path[PATH_MAX];
	json_t *extensions, *notes = NULL;
	size_t len, i;
	char *data = NULL;

	if (!rootfs_join(location, d->site, "horovod") || !rootfs_is_dir(fs, location)) {
		rootfs_problem(fs, d->site,
			       "Horovod %s is listed as installed, but its folder "
			       "is not there",
			       d->version);
		return;
	}
	if (rootfs_join(path, location, "metadata.json"))
		data = rootfs_read(fs, path, 65536, &len);
	if (data) {
		notes = json_loadb(data, len, 0, NULL);
		if (!json_is_object(notes))
			rootfs_problem(fs, path, "not a JSON object");
	}
	extensions = add(all, "horovod", d->version, y->path, location, NULL);
	for (i = 0; i < 3; i++)
		add_extension(fs, y, location, parts[i], notes, frameworks, extensions);
	if (!json_array_size(extensions))
		rootfs_problem(fs, location,
			       "Horovod without a built extension: no framework can use it");
	json_decref(notes);
	free(data);
}

static void add_ours(struct rootfs *fs, const struct python *y, const struct dist *d,
		     json_t *all)
{
	char location[PATH_MAX], path[PATH_MAX];
	const char *library = NULL;
	struct names n;
	size_t i;

	if (!rootfs_join(location, d->site, "ringup"))
		return;
	n = rootfs_names(fs, location, "libringup.so");
	for (i = 0; i < n.count && !library; i++)
		if (rootfs_join(path, location, n.at[i]))
			library = path;
	add(all, "ringup", d->version, y->path, location, library);
	rootfs_names_free(&n);
}

json_t *engines_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py,
		     const json_t *frameworks)
{
	json_t *all = json_array();
	size_t j;
	int i;

	add_library(fs, libs, all);
	for (i = 0; i < py->count; i++)
		for (j = 0; j < py->at[i].dists.count; j++) {
			const struct python *y = &py->at[i];
			const struct dist *d = &y->dists.at[j];

			if (!strcmp(d->name, "ringup"))
				add_ours(fs, y, d, all);
			else if (!strcmp(d->name, "horovod"))
				add_horovod(fs, y, d, frameworks, all);
		}
	return all;
}
