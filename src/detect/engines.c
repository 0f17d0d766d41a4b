/* engines.c - find builds of a collective engine on a node: ringup's and Horovod's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "detect/framework.h"
#include "detect/ldlibs.h"
#include "detect/loads.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

static json_t *engines_add(json_t *all, const char *name, const char *version,
			   const char *python, const char *location, const char *library)
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

/* Adds the C library, with its version from lib/pkgconfig. */
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
	engines_add(all, "ringup", version, NULL, dir, library);
}

static const json_t *installed(const json_t *found, const char *name, const char *python)
{
	json_t *o;
	size_t i;

	json_array_foreach(found, i, o) {
		const char *n = json_string_value(json_object_get(o, "name"));
		const char *p = json_string_value(json_object_get(o, "python"));

		if (n && p && !strcmp(n, name) && !strcmp(p, python))
			return o;
	}
	return NULL;
}

/* Are both the same version?  Wheels append the build, 2.1.0+cu121. */
static bool is_same_version(const char *a, const char *b)
{
	size_t n = strcspn(a, "+"), m = strcspn(b, "+");

	return n == m && !strncmp(a, b, n) && (!a[n] || !b[m] || !strcmp(a + n, b + m));
}

/* Where and for what the search runs. */
struct scene {
	struct rootfs *fs;
	const struct ldlibs *libs;
	const struct python *python;
	const json_t *found; /* frameworks */
};

static const char *const *spaces_of(const char *framework)
{
	static const char *const none[] = { NULL };

	for (size_t i = 0; frameworks[i]; i++)
		if (!strcmp(frameworks[i]->name, framework))
			return frameworks[i]->spaces;
	return none;
}

/* Sets @why to the reason why the extension at @path cannot be loaded; or "". */
static void engines_judge(const struct scene *sc, const char *path, const char *site,
			  const char *framework, const json_t *have, char why[LOADS_WHY])
{
	json_t *abi = json_object_get(have, "cxx11_abi");
	char title[96];
	struct loads_case c = {
		.fs = sc->fs,
		.libs = sc->libs,
		.python = sc->python,
		.site = site,
		.title = title,
		.location = json_string_value(json_object_get(have, "location")),
		.spaces = spaces_of(framework),
		.cxx11_abi = json_is_integer(abi) ? (int)json_integer_value(abi) : -1
	};

	snprintf(title, sizeof(title), "%s %.60s", framework,
		 have ? jsonio_string(have, "version") : "");
	loads_judge(&c, path, why);
}

static void engines_add_file(const struct scene *sc, const char *path, const char *site,
			     const char *framework, const char *noted, json_t *into)
{
	const json_t *found = installed(sc->found, framework, sc->python->path);
	const char *have = json_string_value(json_object_get(found, "version"));
	char why[LOADS_WHY], shown[64];
	json_t *o = json_object();

	engines_judge(sc, path, site, framework, found, why);
	json_object_set_new(o, "framework", text_json(framework));
	json_object_set_new(o, "library", text_json(path));
	json_object_set_new(o, "built_for", text_json(noted));
	json_object_set_new(o, "fault", text_json(*why ? why : NULL));
	json_array_append_new(into, o);
	if (*why)
		rootfs_problem(sc->fs, path, "cannot be loaded: %s", why);
	if (!noted || !have || is_same_version(noted, have))
		return;
	text_clean(shown, sizeof(shown), noted);
	rootfs_problem(sc->fs, path, "built for %s %s, but %s is installed: rebuild it",
		       framework, shown, have);
}

static void add_extension(const struct scene *sc, const char *site, const char *location,
			  const char *framework, const json_t *notes, json_t *into)
{
	const char *noted = json_string_value(json_object_get(notes, framework));
	char dir[PATH_MAX], path[PATH_MAX];
	struct names n;

	if (!rootfs_join(dir, location, framework))
		return;
	n = rootfs_names(sc->fs, dir, "mpi_lib");
	for (size_t i = 0; i < n.count; i++)
		if (strstr(n.at[i], ".so") && rootfs_join(path, dir, n.at[i]))
			engines_add_file(sc, path, site, framework, noted, into);
	rootfs_names_free(&n);
}

static void add_horovod(const struct scene *sc, const struct dist *d, json_t *all)
{
	static const char *const parts[] = { "torch", "tensorflow", "mxnet" };
	char location[PATH_MAX], path[PATH_MAX];
	json_t *extensions, *notes = NULL;
	struct rootfs *fs = sc->fs;
	size_t len;
	char *data = NULL;

	if (!rootfs_join(location, d->site, "horovod") || !rootfs_is_dir(fs, location)) {
		rootfs_problem(fs, d->site,
			       "Horovod %s is listed as installed, but its folder is missing",
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
	extensions = engines_add(all, "horovod", d->version, sc->python->path, location, NULL);
	for (size_t i = 0; i < 3; i++)
		add_extension(sc, d->site, location, parts[i], notes, extensions);
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

	if (!rootfs_join(location, d->site, "ringup"))
		return;
	n = rootfs_names(fs, location, "libringup.so");
	for (size_t i = 0; i < n.count && !library; i++)
		if (rootfs_join(path, location, n.at[i]))
			library = path;
	engines_add(all, "ringup", d->version, y->path, location, library);
	rootfs_names_free(&n);
}

json_t *engines_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py,
		     const json_t *found)
{
	struct scene sc = { .fs = fs, .libs = libs, .found = found };
	json_t *all = json_array();

	add_library(fs, libs, all);
	for (int i = 0; i < py->count; i++)
		for (size_t j = 0; j < py->at[i].dists.count; j++) {
			const struct python *y = &py->at[i];
			const struct dist *d = &y->dists.at[j];

			sc.python = y;
			if (!strcmp(d->name, "ringup"))
				add_ours(fs, y, d, all);
			else if (!strcmp(d->name, "horovod"))
				add_horovod(&sc, d, all);
		}
	return all;
}
