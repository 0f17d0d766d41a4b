/* pythons.c - find every Python on a node without running it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/pythons.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/path.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "ringup.h"

enum { MAX_PYTHONS = 64, MAX_SMALL = 65536 };

/* Program folders to search; a '*' stands for one level. */
static const char *const bins[] = {
	"/databricks/python3/bin",
	"/databricks/python/bin",
	"/usr/local/bin",
	"/usr/bin",
	"/opt/*/bin",
	"/opt/conda/envs/*/bin",
	"/opt/*/envs/*/bin",
	"/opt/*/versions/*/bin",
	"/opt/conda/*/bin",
	"/azureml-envs/*/bin",
	"/venv/bin",
	"/.venv/bin",
	"/app/.venv/bin",
	"/opt/pyenv/versions/*/bin",
	"/usr/local/pyenv/versions/*/bin",
	NULL,
};

/* The same below a user's home. */
static const char *const home_bins[] = {
	".pyenv/versions/*/bin",
	"miniconda3/bin",
	"anaconda3/bin",
	"miniforge3/bin",
	"mambaforge/bin",
	"miniconda3/envs/*/bin",
	"anaconda3/envs/*/bin",
	"miniforge3/envs/*/bin",
	"mambaforge/envs/*/bin",
	".conda/envs/*/bin",
	"micromamba/envs/*/bin",
	".local/share/mamba/envs/*/bin",
	".pixi/envs/*/bin",
	".virtualenvs/*/bin",
	".cache/pypoetry/virtualenvs/*/bin",
	".local/share/uv/python/*/bin",
	".venv/bin",
	".local/bin",
	NULL,
};

struct search {
	struct rootfs *fs;
	struct pythons *out;
	const char *home;     /* of the user whose site-packages count, or NULL */
	char local[PATH_MAX]; /* where those are; "": they do not count   */
};

bool pythons_series(const char *s, char *out, size_t cap)
{
	size_t n;

	if (!strncmp(s, "python", 6))
		s += 6;
	n = strspn(s, "0123456789");
	if (!n || s[n] != '.' || !isdigit((unsigned char)s[n + 1]))
		return false;
	n += 1 + strspn(s + n + 1, "0123456789");
	if (n >= cap)
		return false;
	text_copy(out, cap, s, n);
	return true;
}

bool pythons_tag(const char *s, char out[16])
{
	size_t n = strspn(s, "0123456789");

	if (n < 2 || n > 4)
		return false;
	snprintf(out, 16, "%c.%.*s", *s, (int)n - 1, s + 1);
	return true;
}

/* Cuts the last component; false at the top. */
static bool parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || !slash[1])
		return false;
	slash[slash == path] = 0;
	return true;
}

static void add_site(struct search *s, struct python *p, const char *path)
{
	char real[PATH_MAX];

	if (!*path || !rootfs_is_dir(s->fs, path) || !rootfs_real(s->fs, path, real))
		return;
	for (int i = 0; i < p->site_count; i++)
		if (!strcmp(p->sites[i], real))
			return;
	if (p->site_count == PYTHON_SITES) {
		rootfs_problem(s->fs, path, "too many package folders; the rest is ignored");
		return;
	}
	p->sites[p->site_count] = strdup(real);
	if (p->sites[p->site_count])
		p->site_count++;
}

/* Adds PREFIX/LIB/pythonX.Y/NAME. */
static void add_lib_site(struct search *s, struct python *p, const char *prefix,
			 const char *lib, const char *series, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s/python%s%s/%s",
			 strcmp(prefix, "/") ? prefix : "", lib, series,
			 strcmp(series, "3") ? p->threads : "", name);

	if (n < PATH_MAX)
		add_site(s, p, path);
}

/* Lines of .pth files are further folders; those that start with `import` are code, which is
 * not run here. */
static void add_pth(struct search *s, struct python *p, const char *site)
{
	struct names n = rootfs_names(s->fs, site, "");
	char path[PATH_MAX], dir[PATH_MAX];
	size_t len;

	for (size_t i = 0; i < n.count; i++) {
		size_t l = strlen(n.at[i]);
		char *data, *line, *save = NULL;

		if (l < 5 || strcmp(n.at[i] + l - 4, ".pth") ||
		    !rootfs_join(path, site, n.at[i]))
			continue;
		data = rootfs_read(s->fs, path, MAX_SMALL, &len);
		for (line = data ? strtok_r(data, "\r\n", &save) : NULL; line;
		     line = strtok_r(NULL, "\r\n", &save)) {
			if (*line == '#' || !strncmp(line, "import", 6))
				continue;
			if (*line == '/' ? rootfs_join(dir, line, "")
					 : rootfs_join(dir, site, line))
				add_site(s, p, dir);
		}
		free(data);
	}
	rootfs_names_free(&n);
}

static void add_base_sites(struct search *s, struct python *p)
{
	if (*s->local)
		add_lib_site(s, p, s->local, "lib", p->series, "site-packages");
	if (!strcmp(p->base, "/usr")) {
		add_lib_site(s, p, "/usr/local", "lib", p->series, "dist-packages");
		add_lib_site(s, p, "/usr/local", "lib", p->series, "site-packages");
		/* pip as root on Red Hat's distributions */
		add_lib_site(s, p, "/usr/local", "lib64", p->series, "site-packages");
		add_lib_site(s, p, "/usr", "lib", "3", "dist-packages");
		add_lib_site(s, p, "/usr", "lib", p->series, "dist-packages");
	}
	add_lib_site(s, p, p->base, "lib", p->series, "site-packages");
	add_lib_site(s, p, p->base, "lib64", p->series, "site-packages");
}

/* Finds the patch level, if a file has it. */
static void find_version(struct search *s, struct python *p)
{
	char path[PATH_MAX], version[sizeof(p->version)], *data;
	struct names n;
	size_t len;

	for (size_t i = 0; i < 2; i++) {
		/* Until 3.7 the folder was called python3.7m. */
		if (snprintf(path, sizeof(path), "%s/include/python%s%s/patchlevel.h", p->base,
			     p->series, i ? "m" : p->threads) >= PATH_MAX)
			continue;
		data = rootfs_read(s->fs, path, MAX_SMALL, &len);
		if (data && text_defined(data, len, "PY_VERSION", version, sizeof(version)) &&
		    text_is_version(version))
			text_set(p->version, sizeof(p->version), version);
		free(data);
	}
	/* conda-meta/python-3.11.7-h955ad1f_0.json */
	if (strcmp(p->kind, "conda") || !rootfs_join(path, p->prefix, "conda-meta"))
		return;
	n = rootfs_names(s->fs, path, "python-3");
	for (size_t i = 0; i < n.count; i++) {
		struct dist d;

		if (dist_parse_conda(n.at[i], &d) && !strcmp(d.name, "python") &&
		    strlen(d.version) < sizeof(p->version))
			text_set(p->version, sizeof(p->version), d.version);
	}
	rootfs_names_free(&n);
}

static void fill_sites(struct search *s, struct python *p, bool with_system)
{
	int i, first;

	if (strcmp(p->prefix, p->base)) {
		add_lib_site(s, p, p->prefix, "lib", p->series, "site-packages");
		add_lib_site(s, p, p->prefix, "lib64", p->series, "site-packages");
	}
	if (with_system)
		add_base_sites(s, p);
	/* One level: as in Python, .pth files of the added folders are not read. */
	for (i = 0, first = p->site_count; i < first; i++)
		add_pth(s, p, p->sites[i]);
	for (i = 0; i < p->site_count; i++)
		dist_scan_site(s->fs, p->sites[i], &p->dists);
	if (!strcmp(p->kind, "conda") && p->site_count)
		dist_scan_conda(s->fs, p->prefix, p->sites[p->site_count - 1], &p->dists);
}

static bool pythons_is_known(const struct search *s, const struct python *p)
{
	for (int i = 0; i < s->out->count; i++)
		if (!strcmp(s->out->at[i].prefix, p->prefix) &&
		    !strcmp(s->out->at[i].series, p->series) &&
		    !strcmp(s->out->at[i].threads, p->threads))
			return true;
	return false;
}

/* The only lib/pythonX.Y below the prefix, for a program name without X.Y. */
static bool only_series(struct search *s, const char *prefix, char *out, size_t cap)
{
	char path[PATH_MAX], one[16];
	struct names n;
	int found = 0;

	if (!rootfs_join(path, prefix, "lib"))
		return false;
	n = rootfs_names(s->fs, path, "python3.");
	for (size_t i = 0; i < n.count; i++)
		if (pythons_series(n.at[i], one, sizeof(one)) &&
		    (!n.at[i][6 + strlen(one)] || !strcmp(n.at[i] + 6 + strlen(one), "t"))) {
			snprintf(out, cap, "%s", one);
			found++;
		}
	rootfs_names_free(&n);
	return found == 1;
}

/* Reads pyvenv.cfg of a virtual environment, which names its parent. */
static bool read_venv(struct search *s, struct python *p, bool *with_system)
{
	char path[PATH_MAX], value[PATH_MAX], *data;
	size_t len;

	if (!rootfs_join(path, p->prefix, "pyvenv.cfg"))
		return false;
	data = rootfs_read(s->fs, path, MAX_SMALL, &len);
	if (!data)
		return false;
	p->kind = "venv";
	*with_system = text_field(data, len, "include-system-site-packages", '=', value,
				  sizeof(value)) &&
		       !strcasecmp(value, "true");
	if (text_field(data, len, "version", '=', value, sizeof(p->version)) ||
	    text_field(data, len, "version_info", '=', value, sizeof(p->version)))
		if (text_is_version(value))
			text_copy(p->version, sizeof(p->version), value, strlen(value));
	if (text_field(data, len, "home", '=', value, sizeof(value)) && *value == '/' &&
	    rootfs_real(s->fs, value, p->base))
		parent(p->base);
	free(data);
	return true;
}

/* Finds the folder lib/pythonX.Y of @p, or lib/pythonX.Yt of a free-threaded Python, whose
 * program at @name says so if both are there. */
static bool find_folder(struct search *s, struct python *p, const char *name)
{
	size_t n = strlen(name);
	bool is_free = name[n - 1] == 't';
	char lib[PATH_MAX];

	for (int i = 0; i < 2; i++, is_free = !is_free) {
		snprintf(p->threads, sizeof(p->threads), "%s", is_free ? "t" : "");
		if (snprintf(lib, sizeof(lib), "%s/lib/python%s%s", p->prefix, p->series,
			     p->threads) < PATH_MAX &&
		    rootfs_is_dir(s->fs, lib))
			return true;
	}
	return false;
}

/* The file at the end of the links from @path, which is not there, in @out; live only. */
static bool follow_links(const char *path, char out[PATH_MAX])
{
	char link[PATH_MAX], next[PATH_MAX];
	enum { LONGEST = 40 };

	text_set(out, PATH_MAX, path);
	for (int i = 0; i < LONGEST; i++) {
		ssize_t n = readlink(out, link, sizeof(link) - 1);
		char *slash = strrchr(out, '/');

		if (n <= 0)
			return i > 0 && access(out, F_OK);
		link[n] = 0;
		if (*link == '/')
			text_set(next, sizeof(next), link);
		else if (!slash || snprintf(next, sizeof(next), "%.*s/%s", (int)(slash - out),
					    out, link) >= PATH_MAX)
			return false;
		text_set(out, PATH_MAX, next);
	}
	return false;
}

/* Reports an environment whose @program leads to a Python that was removed. */
static void report_gone(struct search *s, const char *program)
{
	char prefix[PATH_MAX], config[PATH_MAX], gone[PATH_MAX];

	text_set(prefix, sizeof(prefix), program);
	if (rootfs_is_file(s->fs, program) || !parent(prefix) || !parent(prefix) ||
	    !rootfs_join(config, prefix, "pyvenv.cfg") || !rootfs_is_file(s->fs, config))
		return;
	if (!rootfs_is_live(s->fs) || !follow_links(program, gone))
		snprintf(gone, sizeof(gone), "see pyvenv.cfg");
	rootfs_problem(
		s->fs, prefix,
		"the Python of this environment was removed (%s): recreate the environment",
		gone);
}

static struct python *next_slot(struct search *s, const char *path)
{
	if (s->out->count == MAX_PYTHONS) {
		rootfs_problem(s->fs, path, "more than %d Pythons; the rest is ignored",
			       MAX_PYTHONS);
		return NULL;
	}
	return array_room(&s->out->at, s->out->count, sizeof(*s->out->at));
}

/* Is the program at @path a Python?  If so, it is in the list afterwards. */
static bool add_program(struct search *s, const char *path)
{
	char real[PATH_MAX], lib[PATH_MAX];
	bool with_system = true;
	struct python *p;

	if (!rootfs_is_file(s->fs, path) || !rootfs_real(s->fs, path, real) ||
	    strncmp(strrchr(real, '/'), "/python", 7))
		return false;
	p = next_slot(s, path);
	if (!p)
		return false;
	snprintf(p->path, sizeof(p->path), "%s", path);
	snprintf(p->prefix, sizeof(p->prefix), "%s", path);
	snprintf(p->base, sizeof(p->base), "%s", real);
	if (!parent(p->prefix) || !parent(p->prefix) || !parent(p->base) || !parent(p->base))
		return false;
	/* The folder may be a link: /bin is /usr/bin. */
	if (rootfs_real(s->fs, p->prefix, lib))
		text_set(p->prefix, sizeof(p->prefix), lib);
	p->kind = "system";
	if (!read_venv(s, p, &with_system))
		text_set(p->prefix, sizeof(p->prefix), p->base);
	if (!pythons_series(strrchr(real, '/') + 1, p->series, sizeof(p->series)) &&
	    !pythons_series(p->version, p->series, sizeof(p->series)) &&
	    !only_series(s, p->prefix, p->series, sizeof(p->series)))
		return false;
	if (strncmp(p->series, "3.", 2) || !find_folder(s, p, strrchr(real, '/')))
		return false;
	if (pythons_is_known(s, p))
		return true;
	if (rootfs_join(lib, p->prefix, "conda-meta") && rootfs_is_dir(s->fs, lib))
		p->kind = "conda";
	else if (!strcmp(p->kind, "system") && strstr(p->prefix, "/versions/"))
		p->kind = "pyenv";
	find_version(s, p);
	if (!*p->version)
		text_set(p->version, sizeof(p->version), p->series);
	if (*p->threads) {
		size_t length = strlen(p->version);

		text_set(p->version + length, sizeof(p->version) - length, p->threads);
	}
	fill_sites(s, p, with_system);
	s->out->count++;
	return true;
}

/* Adds "python3.11", "python3", "python", the most specific first. */
static void add_folder(struct search *s, const char *dir)
{
	struct names n = rootfs_names(s->fs, dir, "python");
	char path[PATH_MAX];

	for (size_t i = n.count; i-- > 0;) {
		const char *tail = n.at[i] + 6;

		if (*tail && (*tail != '3' || strspn(tail, "0123456789.t") < strlen(tail)))
			continue;
		if (rootfs_join(path, dir, n.at[i]) && !add_program(s, path))
			report_gone(s, path);
	}
	rootfs_names_free(&n);
}

/* Searches every folder that @pattern matches; a '*' is a whole component. */
static void add_pattern(struct search *s, const char *pattern)
{
	const char *star = strchr(pattern, '*');
	char dir[PATH_MAX], next[PATH_MAX];
	struct names n;

	if (!star) {
		add_folder(s, pattern);
		return;
	}
	text_copy(dir, sizeof(dir), pattern, (size_t)(star - pattern - 1));
	n = rootfs_names(s->fs, dir, "");
	for (size_t i = 0; i < n.count; i++)
		if (snprintf(next, sizeof(next), "%s/%s%s", dir, n.at[i], star + 1) < PATH_MAX)
			add_pattern(s, next);
	rootfs_names_free(&n);
}

static void add_below(struct search *s, const char *dir, const char *pattern)
{
	char path[PATH_MAX];

	if (dir && *dir == '/' && rootfs_join(path, dir, pattern))
		add_pattern(s, path);
}

static void add_path(struct search *s)
{
	const char *p = conf_env("PATH");
	char dir[PATH_MAX];

	while (path_next(&p, dir))
		if (*dir == '/')
			add_folder(s, dir);
}

/* Adds the active environment of a shell, by the variable @name; a removed one is reported,
 * since its user believes to be in it. */
static void add_active(struct search *s, const char *name)
{
	const char *env = conf_env(name);

	if (!env || *env != '/')
		return;
	add_below(s, env, "bin");
	if (!rootfs_is_dir(s->fs, env))
		rootfs_problem(
			s->fs, env,
			"%s names this environment, which was removed: deactivate it, or "
			"recreate it",
			name);
}

static void add_everywhere(struct search *s)
{
	if (rootfs_is_live(s->fs)) {
		add_active(s, "VIRTUAL_ENV");
		add_active(s, "CONDA_PREFIX");
	}
	for (int i = 0; bins[i]; i++)
		add_pattern(s, bins[i]);
	for (int i = 0; s->home && home_bins[i]; i++)
		add_below(s, s->home, home_bins[i]);
	if (rootfs_is_live(s->fs)) {
		add_below(s, conf_env("PYENV_ROOT"), "versions/*/bin");
		add_path(s);
	}
}

/* Looks a name without a slash up where shells would. */
static bool add_named(struct search *s, const char *name)
{
	const char *p = rootfs_is_live(s->fs) ? conf_env("PATH") : "/usr/local/bin:/usr/bin";
	char dir[PATH_MAX], path[PATH_MAX];

	while (path_next(&p, dir))
		if (*dir == '/' && rootfs_join(path, dir, name) && add_program(s, path))
			return true;
	return false;
}

static bool add_only(struct search *s, const char *only)
{
	char path[PATH_MAX], full[PATH_MAX], here[PATH_MAX];

	if (!strchr(only, '/')) {
		if (add_named(s, only))
			return true;
		/* No program, but perhaps the folder of an environment. */
		if (!rootfs_is_live(s->fs) ||
		    snprintf(here, sizeof(here), "./%s", only) >= PATH_MAX)
			return false;
		only = here;
	}
	if (*only != '/' && rootfs_is_live(s->fs)) {
		/* A relative path is the live user's; its folder is made absolute, and the last
		 * component kept, since it may be the link of an environment. */
		const char *slash = strrchr(only, '/');

		text_copy(path, sizeof(path), only, (size_t)(slash - only));
		if (!rootfs_real(s->fs, path, full) || !rootfs_join(path, full, slash + 1))
			return false;
		only = path;
	}
	if (!rootfs_is_dir(s->fs, only))
		return add_program(s, only);
	return rootfs_join(full, only, "bin/python3") && add_program(s, full);
}

/* The live file of @only: the Python of a folder, the first of that name in PATH. */
static bool named_file(const char *only, char *path)
{
	struct stat st;

	if (!strncmp(only, "python", 6) && !strchr(only, '/') && path_program(only, path))
		return true;
	if (stat(only, &st) || !S_ISDIR(st.st_mode))
		return snprintf(path, PATH_MAX, "%s", only) < PATH_MAX;
	return snprintf(path, PATH_MAX, "%s/bin/python3", only) < PATH_MAX;
}

static bool is_script(const char *path)
{
	char mark[2] = "";
	FILE *f = fopen(path, "re");
	bool is = f && fread(mark, 1, 2, f) == 2 && !memcmp(mark, "#!", 2);

	if (f)
		fclose(f);
	return is;
}

/* A bare name means the first program of that name, which may be a script. */
static bool is_shim(const struct rootfs *fs, const char *only)
{
	char path[PATH_MAX];

	return rootfs_is_live(fs) && !strchr(only, '/') && named_file(only, path) &&
	       is_script(path);
}

/* Fails with the reason why there is no Python at @only. */
static int fail_named(const struct rootfs *fs, const char *only, struct err *e)
{
	char path[PATH_MAX], gone[PATH_MAX];
	struct stat st;
	bool live = rootfs_is_live(fs) && named_file(only, path);

	if (live && stat(path, &st) && errno == EACCES)
		return fail(e, RINGUP_EINVAL,
			    "%s: Permission denied: this user cannot access it or its target; "
			    "run this as a user who can, or create your own environment",
			    path);
	if (live && follow_links(path, gone))
		return fail(e, RINGUP_EINVAL,
			    "%s: its Python %s was removed; recreate the environment with "
			    "python3 -m venv --clear or uv venv --clear",
			    only, gone);
	if (live && is_script(path))
		return fail(e, RINGUP_EINVAL,
			    "%s: this is a script; name the Python that it starts, which %s -c "
			    "'import sys; print(sys.executable)' prints",
			    path, only);
	return fail(e, RINGUP_EINVAL,
		    "%s: not a Python 3; name the program, such as /usr/bin/python3, or an "
		    "environment's folder",
		    only);
}

/* Sets the folder of the packages that the user has installed with pip install --user. */
static void find_local(struct search *s)
{
	const char *base = rootfs_is_live(s->fs) ? conf_env("PYTHONUSERBASE") : NULL;
	const char *off = rootfs_is_live(s->fs) ? conf_env("PYTHONNOUSERSITE") : NULL;

	if (off && *off)
		*s->local = 0;
	else if (base && *base == '/')
		text_set(s->local, sizeof(s->local), base);
	else if (s->home)
		(void)rootfs_join(s->local, s->home, ".local");
}

int pythons_find(struct rootfs *fs, const char *only, struct pythons *out, struct err *e)
{
	struct search s = { .fs = fs,
			    .out = out,
			    .home = rootfs_is_live(fs) ? conf_env("HOME") : "/root" };

	*out = (struct pythons){ 0 };
	find_local(&s);
	if (!only || !*only) {
		add_everywhere(&s);
		return 0;
	}
	if (!is_shim(fs, only) && add_only(&s, only))
		return 0;
	return fail_named(fs, only, e);
}

void pythons_free(struct pythons *p)
{
	for (int i = 0; i < p->count; i++) {
		for (int j = 0; j < p->at[i].site_count; j++)
			free(p->at[i].sites[j]);
		dist_free(&p->at[i].dists);
	}
	free(p->at);
	*p = (struct pythons){ 0 };
}

json_t *pythons_json(const struct pythons *p)
{
	json_t *all = json_array();

	for (int i = 0; i < p->count; i++) {
		const struct python *y = &p->at[i];
		json_t *o = json_object(), *sites = json_array();

		json_object_set_new(o, "path", text_json(y->path));
		json_object_set_new(o, "version", text_json(y->version));
		json_object_set_new(o, "kind", text_json(y->kind));
		json_object_set_new(o, "prefix", text_json(y->prefix));
		json_object_set_new(o, "base_prefix", text_json(y->base));
		for (int j = 0; j < y->site_count; j++)
			json_array_append_new(sites, text_json(y->sites[j]));
		json_object_set_new(o, "sites", sites);
		json_array_append_new(all, o);
	}
	return all;
}
