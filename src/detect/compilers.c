/* compilers.c - find the C and C++ compilers on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/compilers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/release.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_COMPILERS = 48, MAX_ASKED = 8, ASK_MS = 2000, MAX_DIRS = 64 };

struct compiler {
	char key[PATH_MAX]; /* the real C driver */
	const char *family;
	char version[32];
	char cc[PATH_MAX], cxx[PATH_MAX];
	bool is_default;
};

struct search {
	struct rootfs *fs;
	struct compiler at[MAX_COMPILERS];
	int count, asked;
	bool has_default[2];           /* gcc, clang */
	char dirs[MAX_DIRS][PATH_MAX]; /* already searched */
	int dir_count;
};

bool compilers_parse_name(const char *name, const char **family, bool *is_cxx, char *version,
			  size_t cap)
{
	static const struct {
		const char *word, *family;
		bool is_cxx;
	} words[] = { { "gcc", "gcc", false },
		      { "g++", "gcc", true },
		      { "clang++", "clang", true },
		      { "clang", "clang", false } };
	const char *triple = strstr(name, "-linux-gnu-"), *tail;

	if (triple)
		name = triple + strlen("-linux-gnu-");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].word);

		if (strncmp(name, words[i].word, n))
			continue;
		tail = name + n;
		if (*tail && (*tail != '-' || !isdigit((unsigned char)tail[1])))
			continue;
		tail += *tail == '-';
		if (tail[strspn(tail, "0123456789.")] || strlen(tail) >= cap)
			return false;
		*family = words[i].family;
		*is_cxx = words[i].is_cxx;
		text_set(version, cap, tail);
		return true;
	}
	return false;
}

/* The real C driver for a real path: .../gcc-12 for .../g++-12. */
static void make_key(const char *real, char *key)
{
	const char *file = strrchr(real, '/') + 1, *p;
	size_t n = (size_t)(file - real);

	p = strstr(file, "clang++");
	if (p)
		n = (size_t)(p - real) + 5;
	else if ((p = strstr(file, "g++")))
		n = (size_t)(p - real) + 1;
	snprintf(key, PATH_MAX, "%.*s%s%s", (int)(p ? n : strlen(real)), real,
		 p && strncmp(p, "clang", 5) ? "cc" : "",
		 p ? p + (strncmp(p, "clang", 5) ? 3 : 7) : "");
}

/* The newest folder in @dir whose name is @want, or @want and further numbers. */
static bool newest(struct rootfs *fs, const char *dir, const char *want, char *out, size_t cap)
{
	struct names n = rootfs_names(fs, dir, want);
	size_t w = strlen(want), i;
	bool found = false;

	for (i = 0; i < n.count; i++) {
		const char *s = n.at[i];

		if (!isdigit((unsigned char)*s) || s[strspn(s, "0123456789.")] ||
		    strlen(s) >= cap || (w && s[w] && s[w] != '.'))
			continue;
		if (!found || release_compare(s, out) > 0)
			text_set(out, cap, s);
		found = true;
	}
	rootfs_names_free(&n);
	return found;
}

/* The parent of the folder of @key: /usr for /usr/bin/gcc-12. */
static bool prefix_of(const char *key, char *out)
{
	char *slash;

	snprintf(out, PATH_MAX, "%s", key);
	for (int i = 0; i < 2; i++) {
		slash = strrchr(out, '/');
		if (!slash)
			return false;
		*slash = 0;
	}
	return true;
}

static void gcc_version(struct search *s, struct compiler *c, const char *want)
{
	char prefix[PATH_MAX], dir[PATH_MAX], one[32], triple[PATH_MAX] = "";
	struct names n;

	if (!prefix_of(c->key, prefix) || !rootfs_join(dir, prefix, "lib/gcc"))
		return;
	n = rootfs_names(s->fs, dir, "");
	for (size_t i = 0; i < n.count; i++) {
		/* Cross compilers have their folders here, too. */
		if (snprintf(dir, sizeof(dir), "%s/lib/gcc/%s", prefix, n.at[i]) < PATH_MAX &&
		    newest(s->fs, dir, want, one, sizeof(one)) &&
		    release_compare(one, c->version) > 0) {
			text_set(c->version, sizeof(c->version), one);
			snprintf(triple, sizeof(triple), "%s", n.at[i]);
		}
	}
	rootfs_names_free(&n);
	if (!*triple || !*c->cxx)
		return;
	for (size_t i = 0; i < 2; i++)
		if (snprintf(dir, sizeof(dir), "%s/%s/gcc/%s/%s/cc1plus", prefix,
			     i ? "libexec" : "lib", triple, c->version) < PATH_MAX &&
		    rootfs_is_file(s->fs, dir))
			return;
	rootfs_problem(s->fs, c->cxx, "cannot compile C++: its cc1plus is missing");
}

static void clang_version(struct search *s, struct compiler *c, const char *want)
{
	static const char *const libs[] = { "lib/clang", "lib64/clang" };
	char prefix[PATH_MAX], dir[PATH_MAX];

	if (!prefix_of(c->key, prefix))
		return;
	for (size_t i = 0; i < 2 && !*c->version; i++)
		if (rootfs_join(dir, prefix, libs[i]))
			newest(s->fs, dir, want, c->version, sizeof(c->version));
}

/* Asks a gcc for its version; only possible on the live node. */
static void compilers_ask(struct search *s, struct compiler *c)
{
	static char full[] = "-dumpfullversion";
	char *argv[] = { c->key, full, NULL };
	struct err e = { 0 };
	char *text = NULL;
	int status;

	if (!rootfs_is_live(s->fs) || s->asked++ >= MAX_ASKED)
		return;
	if (proc_capture(argv, 256, ASK_MS, &text, &status, &e)) {
		rootfs_problem(s->fs, c->key, "%s", e.text);
		return;
	}
	text[strcspn(text, "\r\n")] = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		rootfs_problem(s->fs, c->key, "%s failed", argv[1]);
	else if (text_is_version(text) && strlen(text) < sizeof(c->version))
		text_set(c->version, sizeof(c->version), text);
	free(text);
}

static struct compiler *slot(struct search *s, const char *key, const char *family)
{
	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->at[i].key, key))
			return &s->at[i];
	if (s->count == MAX_COMPILERS)
		return NULL;
	snprintf(s->at[s->count].key, PATH_MAX, "%s", key);
	s->at[s->count].family = family;
	return &s->at[s->count++];
}

static void add_program(struct search *s, const char *dir, const char *name)
{
	char path[PATH_MAX], real[PATH_MAX], key[PATH_MAX], version[32], real_version[32];
	const char *family, *real_family;
	bool is_cxx, real_cxx;
	struct compiler *c;
	char *into;

	if (!compilers_parse_name(name, &family, &is_cxx, version, sizeof(version)) ||
	    !rootfs_join(path, dir, name) || !rootfs_is_file(s->fs, path) ||
	    !rootfs_real(s->fs, path, real))
		return;
	/* ccache and other wrappers lead to a file that is no compiler. */
	if (!compilers_parse_name(strrchr(real, '/') + 1, &real_family, &real_cxx, real_version,
				  sizeof(real_version)))
		return;
	make_key(real, key);
	c = slot(s, key, real_family);
	if (!c)
		return;
	into = is_cxx ? c->cxx : c->cc;
	/* gcc-12 keeps its meaning when gcc changes; a shorter folder is the better known
	 * one. */
	if (!*into || (*version && !strpbrk(strrchr(into, '/'), "0123456789")))
		text_set(into, PATH_MAX, path);
	if (!strcmp(name, "gcc") || !strcmp(name, "clang")) {
		bool *has = &s->has_default[*name == 'c'];

		c->is_default |= !*has;
		*has = true;
	}
}

static void add_folder(struct search *s, const char *dir)
{
	struct names n = rootfs_names(s->fs, dir, "");

	for (size_t i = 0; i < n.count; i++)
		add_program(s, dir, n.at[i]);
	rootfs_names_free(&n);
}

/* Searches a folder once, even if links or PATH name it twice. */
static void add_once(struct search *s, const char *dir)
{
	char real[PATH_MAX];

	if (!rootfs_is_dir(s->fs, dir) || !rootfs_real(s->fs, dir, real))
		return;
	for (int i = 0; i < s->dir_count; i++)
		if (!strcmp(s->dirs[i], real))
			return;
	if (s->dir_count < MAX_DIRS)
		text_set(s->dirs[s->dir_count++], PATH_MAX, real);
	add_folder(s, real);
}

/* Searches dir/X/tail for every X in dir. */
static void add_each(struct search *s, const char *dir, const char *tail)
{
	struct names n = rootfs_names(s->fs, dir, "");
	char path[PATH_MAX];

	for (size_t i = 0; i < n.count; i++)
		if (snprintf(path, sizeof(path), "%s/%s/%s", dir, n.at[i], tail) < PATH_MAX &&
		    rootfs_is_dir(s->fs, path))
			add_once(s, path);
	rootfs_names_free(&n);
}

static void add_everywhere(struct search *s, const struct pythons *py)
{
	const char *p = rootfs_is_live(s->fs) ? conf_env("PATH") : NULL;
	char dir[PATH_MAX];

	/* PATH comes first: its gcc is the default one. */
	while (path_next(&p, dir))
		if (*dir == '/')
			add_once(s, dir);
	add_once(s, "/usr/local/bin");
	add_once(s, "/usr/bin");
	add_each(s, "/opt", "bin");
	add_each(s, "/opt/rh", "root/usr/bin");
	for (int i = 0; i < py->count; i++)
		if (!strcmp(py->at[i].kind, "conda") &&
		    rootfs_join(dir, py->at[i].prefix, "bin"))
			add_once(s, dir);
}

json_t *compilers_find(struct rootfs *fs, const struct pythons *py)
{
	struct search *s = calloc(1, sizeof(*s));
	json_t *all = json_array();

	if (!s)
		return all;
	s->fs = fs;
	add_everywhere(s, py);
	for (int i = 0; i < s->count; i++) {
		struct compiler *c = &s->at[i];
		const char *family;
		char want[32] = "";
		bool is_cxx;
		json_t *o;

		compilers_parse_name(strrchr(c->key, '/') + 1, &family, &is_cxx, want,
				     sizeof(want));
		if (!strcmp(c->family, "gcc"))
			gcc_version(s, c, want);
		else
			clang_version(s, c, want);
		/* clang loads 100 MB of libraries to answer, and its folder has the version. */
		if (!strchr(c->version, '.') && !strcmp(c->family, "gcc"))
			compilers_ask(s, c);
		o = json_object();
		json_object_set_new(o, "family", text_json(c->family));
		json_object_set_new(o, "version", text_json(*c->version ? c->version : want));
		json_object_set_new(o, "cc", text_json(c->cc));
		json_object_set_new(o, "cxx", text_json(c->cxx));
		json_object_set_new(o, "default", json_boolean(c->is_default));
		json_array_append_new(all, o);
	}
	free(s);
	return all;
}
