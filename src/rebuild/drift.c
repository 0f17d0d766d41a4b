/* drift.c - find builds that no longer fit the installed software, and how to fix them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/drift.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/shell.h"
#include "detect/lookup.h"
#include "rebuild/modules.h"
#include "rebuild/package.h"
#include "rebuild/stamp.h"
#include "ringup.h"

enum { MAX_COMMAND = 2 * PATH_MAX };

static void drift_add(json_t *out, const char *place, const char *sentence, const char *command)
{
	json_array_append_new(out, json_pack("{ss ss ss}", "place", place, "text", sentence,
					     "command", command));
}

static void command_of(char out[MAX_COMMAND], const char *engine, const char *python)
{
	char word[MAX_COMMAND - 64] = "";

	if (*python)
		shell_word(python, word, sizeof(word));
	snprintf(out, MAX_COMMAND, "ringup rebuild --engine %s%s%s", engine,
		 *python ? " --python " : "", word);
}

/* Appends --accept for the advisories that the build accepted. */
static void add_accepted(char command[MAX_COMMAND], const json_t *stamp)
{
	char word[256];
	json_t *id;
	size_t i, n;

	json_array_foreach(json_object_get(stamp, "accepted"), i, id) {
		n = strlen(command);
		if (json_string_length(id) < sizeof(word) / 4) {
			shell_word(json_string_value(id), word, sizeof(word));
			snprintf(command + n, MAX_COMMAND - n, " --accept %s", word);
		}
	}
}

void drift_command(char *command, size_t size, const char *root, const char *location,
		   const char *python, const char *framework)
{
	char path[PATH_MAX], whole[MAX_COMMAND];
	json_t *stamp = NULL;
	struct err e = { 0 };

	command_of(whole, "horovod", python);
	if (snprintf(path, sizeof(path), "%.4000s/ringup-build.json", location) < PATH_MAX &&
	    !stamp_read(root, path, &stamp, &e) && stamp)
		add_accepted(whole, stamp);
	else
		snprintf(whole + strlen(whole), sizeof(whole) - strlen(whole), " --for %.64s",
			 framework);
	json_decref(stamp);
	snprintf(command, size, "%s", whole);
}

static const char *title(const char *what)
{
	static const char *const titles[][2] = {
		{ "python", "Python" },
		{ "cuda", "CUDA" },
		{ "nccl", "NCCL" },
		{ "driver", "the GPU driver" },
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (!strcmp(what, titles[i][0]))
			return titles[i][1];
	return lookup_mpi_title(what);
}

static void drift_text(char *out, size_t size, const json_t *diff, const char *engine,
		       const char *python)
{
	const char *is = jsonio_string(diff, "is");

	snprintf(out, size, "%s was %s when %s was built for %s, and %s%s now",
		 title(jsonio_string(diff, "what")), jsonio_string(diff, "was"), engine, python,
		 *is ? "is " : "is gone", is);
}

/* Adds all differences from the stamp at @path; false if there is no stamp. */
static bool drift_compare(json_t *out, const char *root, const char *path, const char *engine,
			  const char *python, const json_t *facts)
{
	char command[MAX_COMMAND], sentence[512];
	json_t *stamp = NULL, *diff, *d;
	struct err e = { 0 };
	size_t i;

	command_of(command, engine, python);
	if (stamp_read(root, path, &stamp, &e)) {
		drift_add(out, path, e.text, command);
		return true;
	}
	if (!stamp)
		return false;
	add_accepted(command, stamp);
	diff = stamp_diff(stamp, facts, python);
	json_array_foreach(diff, i, d) {
		drift_text(sentence, sizeof(sentence), d, engine, python);
		drift_add(out, path, sentence, command);
	}
	json_decref(diff);
	json_decref(stamp);
	return true;
}

/* Compares the package in @site with this release; false: this user cannot tell. */
static bool judge_package(json_t *out, const char *root, const char *site, const char *command)
{
	const char *state = package_state(root, site);
	char open[MAX_COMMAND], word[PATH_MAX];

	if (!strcmp(state, "unreadable")) {
		snprintf(open, sizeof(open),
			 "chmod -R go+rX %s/ringup*, as the user who owns it",
			 shell_word(site, word, sizeof(word)));
		drift_add(out, site, "this user cannot read its package ringup", open);
		return false;
	}
	if (strcmp(state, "current"))
		drift_add(out, site, "its package ringup belongs to another release", command);
	return true;
}

static void find_in_site(json_t *out, const char *root, const char *site, const char *python,
			 const json_t *facts)
{
	char path[PATH_MAX], command[MAX_COMMAND];

	if (snprintf(path, sizeof(path), "%s/ringup/_version.py", site) >= PATH_MAX ||
	    strlen(site) + sizeof(STAMP_HOROVOD) >= sizeof(path))
		return;
	errno = 0;
	if (file_exists(root, path) || errno == EACCES) {
		command_of(command, "ringup", python);
		snprintf(path, sizeof(path), "%.4000s/" STAMP_PACKAGE, site);
		if (judge_package(out, root, site, command))
			drift_compare(out, root, path, "ringup", python, facts);
	}
	snprintf(path, sizeof(path), "%.4000s/" STAMP_HOROVOD, site);
	if (file_exists(root, path))
		drift_compare(out, root, path, "horovod", python, facts);
}

/* Are the versions equal?  Horovod's note may lack the wheel's "+cpu". */
static bool drift_is_same(const char *a, const char *b)
{
	size_t n = strcspn(a, "+"), m = strcspn(b, "+");

	return n == m && !strncmp(a, b, n) && (!a[n] || !b[m] || !strcmp(a + n, b + m));
}

/* Compares a foreign Horovod's own note of its frameworks. */
static void find_in_horovod(json_t *out, const char *root, const json_t *engine,
			    const json_t *facts)
{
	const char *python = jsonio_string(engine, "python");
	char path[PATH_MAX], sentence[512], command[MAX_COMMAND];
	json_t *x, *f;
	size_t i, j;

	/* find_in_site() has handled builds with a stamp of ours. */
	if (snprintf(path, sizeof(path), "%s/ringup-build.json",
		     jsonio_string(engine, "location")) >= PATH_MAX ||
	    file_exists(root, path))
		return;
	command_of(command, "horovod", python);
	json_array_foreach(json_object_get(engine, "extensions"), i, x)
		json_array_foreach(json_object_get(facts, "frameworks"), j, f) {
			if (strcmp(jsonio_string(f, "python"), python) ||
			    strcmp(jsonio_string(f, "name"), jsonio_string(x, "framework")) ||
			    !*jsonio_string(x, "built_for") ||
			    drift_is_same(jsonio_string(x, "built_for"),
					  jsonio_string(f, "version")))
				continue;
			snprintf(sentence, sizeof(sentence),
				 "%s was %s when horovod was built for %s, and is %s now",
				 jsonio_string(f, "name"), jsonio_string(x, "built_for"),
				 python, jsonio_string(f, "version"));
			drift_add(out, jsonio_string(x, "library"), sentence, command);
		}
}

/* The Python in whose folders @file is, since only its facts show that MPI; or "". */
static const char *python_of(const json_t *facts, const char *file)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(facts, "pythons"), i, o) {
		const char *prefix = jsonio_string(o, "prefix");
		size_t n = strlen(prefix);

		if (strcmp(jsonio_string(o, "kind"), "system") && n &&
		    !strncmp(file, prefix, n) && file[n] == '/')
			return jsonio_string(o, "path");
	}
	return "";
}

static void find_in_modules(json_t *out, const char *root, const json_t *facts)
{
	char folder[PATH_MAX], source[MODULES_KEY] = "", sentence[512], command[MAX_COMMAND];
	struct modules_state *states;
	struct err e = { 0 };
	int n;

	if (modules_folder(folder, root, &e))
		return;
	/* For another machine's tree, this program's source proves nothing. */
	if (*root || modules_source(source, &e))
		*source = 0;
	n = modules_states(root, folder, source, facts, &states);
	for (int i = 0; i < n; i++) {
		const struct modules_state *s = &states[i];

		/* Where there is no folder yet, none has been built: nothing has drifted. */
		if (!modules_is_wanted(s) ||
		    (s->fate == MODULES_MISSING && !file_exists(root, folder)))
			continue;
		snprintf(sentence, sizeof(sentence), "%s %s has no module: %s",
			 title(s->flavour), s->version, s->why);
		command_of(command, "ringup",
			   python_of(facts, jsonio_string(s->mpi, "library")));
		drift_add(out, folder, sentence, command);
	}
	free(states);
}

int drift_find(const char *root, const json_t *facts, json_t **out, struct err *e)
{
	json_t *y, *site, *o;
	size_t i, j;

	*out = json_array();
	if (!*out)
		return fail(e, RINGUP_ENOMEM, "drift");
	find_in_modules(*out, root, facts);
	json_array_foreach(json_object_get(facts, "pythons"), i, y)
		json_array_foreach(json_object_get(y, "sites"), j, site)
			if (json_is_string(site))
				find_in_site(*out, root, json_string_value(site),
					     jsonio_string(y, "path"), facts);
	json_array_foreach(json_object_get(facts, "engines"), i, o)
		if (!strcmp(jsonio_string(o, "name"), "horovod"))
			find_in_horovod(*out, root, o, facts);
	return 0;
}
