/* imports.c - report what importing each framework says, as the last proof. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/imports.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/shell.h"
#include "detect/lookup.h"
#include "detect/origins.h"
#include "doctor/exam.h"
#include "doctor/trial.h"
#include "rebuild/jsonrecord.h"
#include "ringup.h"

static const char undefined[] = "undefined symbol: ";

/* Causes that an exception's text proves, and their remedies; one that begins with "-" is for
 * its Python, and NULL installs it again. */
static const struct {
	const char *text, *why, *todo;
} causes[] = {
	{ "it is a folder without __init__.py", "only parts of the package are left", NULL },
	{ "undefined symbol: _Z", "its files belong to several versions of it", NULL },
	{ "version `GLIBCXX_",
	  "the libstdc++ that is loaded is older than the compiler it was built with",
	  "conda install -c conda-forge libstdcxx-ng, or remove the older libstdc++.so.6 from "
	  "LD_LIBRARY_PATH" },
	{ "version `CXXABI_",
	  "the libstdc++ that is loaded is older than the compiler it was built with",
	  "conda install -c conda-forge libstdcxx-ng, or remove the older libstdc++.so.6 from "
	  "LD_LIBRARY_PATH" },
	{ "version `GLIBC_", "it was built for a newer distribution",
	  "use a newer distribution or an older framework" },
	{ "version `GOMP_",
	  "the libgomp that is loaded is older than the compiler it was built with",
	  "install a newer libgomp (conda-forge: libgomp)" },
	{ "cannot allocate memory in static TLS block",
	  "libraries that were loaded before took the room for thread-local variables",
	  "import this framework first, or name the library of the message in LD_PRELOAD" },
	{ "compiled using NumPy 1.x", "NumPy 2 changed the ABI", "-m pip install 'numpy<2'" },
	{ "numpy.core.multiarray failed to import", "it was built for another NumPy",
	  "-m pip install 'numpy<2'" },
	{ "Descriptors cannot be created directly",
	  "protobuf is newer than the framework takes", "-m pip install 'protobuf<4'" },
};

/* One framework that is tried. */
struct candidate {
	const json_t *framework;
	const char *name; /* what is imported: "horovod.torch" */
};

/* Adds the framework @f, and the Horovod for it, which are two at most; returns the new count.
 */
static int choose(const struct exam *x, const json_t *f, struct candidate *out, int n)
{
	static const char *const pairs[][2] = { { "torch", "horovod.torch" },
						{ "tensorflow", "horovod.tensorflow" },
						{ "jax", NULL } };
	const char *name = jsonio_string(f, "name");
	const json_t *horovod =
		lookup_entry(x->facts, "engines", jsonio_string(f, "python"), "horovod");
	const json_t *extension = lookup_extension(horovod, name);

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (strcmp(name, pairs[i][0]) != 0)
			continue;
		out[n++] = (struct candidate){ f, name };
		if (pairs[i][1] && extension && !*jsonio_string(extension, "fault"))
			out[n++] = (struct candidate){ f, pairs[i][1] };
	}
	return n;
}

/* Adds the reason and the remedy of the failure @t of framework @f. */
static void add_cause(struct exam *x, const json_t *f, const struct trial *t)
{
	char todo[3 * PATH_MAX], word[PATH_MAX];
	const char *why = NULL, *symbol = strstr(t->text, undefined);
	const struct origin *from = symbol ? origins_of(symbol + strlen(undefined)) : NULL;

	shell_word(t->python, word, sizeof(word));
	snprintf(todo, sizeof(todo), "%s -c 'import %s' shows where", word, t->module);
	/* Its own names are missing from another package, or from one of its own files. */
	if (from &&
	    (*from->prefix != '_' || from->prefix[1] != 'Z' || strchr(t->module, '.'))) {
		why = from->why;
		snprintf(todo, sizeof(todo), "%s", from->todo);
	}
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]) && !why; i++) {
		if (!strstr(t->text, causes[i].text))
			continue;
		why = causes[i].why;
		if (causes[i].todo)
			snprintf(todo, sizeof(todo), "%s%s%s",
				 *causes[i].todo == '-' ? word : "",
				 *causes[i].todo == '-' ? " " : "", causes[i].todo);
		else
			snprintf(todo, sizeof(todo),
				 "%s -m pip install --force-reinstall %s==%s", word, t->module,
				 jsonio_string(f, "version"));
	}
	exam_why(x, why, todo);
}

/* A Python that does not start is reported once. */
static bool is_said_down(const struct trial *all, const struct trial *t)
{
	for (; all < t; all++)
		if (all->result == TRIAL_DOWN && !strcmp(all->python, t->python))
			return true;
	return false;
}

static void add_result(struct exam *x, const struct candidate *c, const struct trial *all,
		       const struct trial *t)
{
	const char *version = jsonio_string(c->framework, "version");
	const char *of = strchr(t->module, '.') ? "" : version;

	switch (t->result) {
	case TRIAL_WORKS:
		break;
	case TRIAL_FAILS:
		exam_add(x, EXAM_BAD, "%s%s%s of %s: the import fails: %s", t->module,
			 *of ? " " : "", of, t->python, t->text);
		add_cause(x, c->framework, t);
		break;
	case TRIAL_DOWN:
		if (is_said_down(all, t))
			break;
		exam_add(x, EXAM_BAD, "%s does not start: %s", t->python, t->text);
		exam_why(x, "no program of this Python runs",
			 "install this Python again, or make the environment anew");
		break;
	case TRIAL_LATE:
		exam_add(x, EXAM_NOTE, "%s%s%s of %s: the import took more than %d s",
			 t->module, *of ? " " : "", of, t->python, TRIAL_SECONDS);
		break;
	case TRIAL_UNSAFE:
	case TRIAL_UNTRIED:
		exam_add(x, EXAM_NOTE, "%s%s%s of %s: not imported, since %s", t->module,
			 *of ? " " : "", of, t->python, t->text);
		if (t->result == TRIAL_UNSAFE)
			exam_why(x, "root runs no code that another user may change",
				 "run ringup doctor as the user who trains");
		break;
	}
}

static int add_results(struct exam *x, const struct candidate *which, const struct trial *all,
		       int n, json_t *reported, struct err *e)
{
	static const char *const results[] = { "works", "fails",   "fails",
					       "late",  "untried", "untried" };

	for (int i = 0; i < n; i++) {
		const struct trial *t = &all[i];

		add_result(x, &which[i], all, t);
		if (t->result == TRIAL_FAILS || t->result == TRIAL_DOWN)
			json_object_set_new(reported, t->location, json_false());
		json_array_append_new(x->imports,
				      json_pack("{ss ss ss so}", "python", t->python, "name",
						t->module, "result", results[t->result], "text",
						jsonio_text(*t->text ? t->text : NULL)));
	}
	return json_array_size(x->imports) == (size_t)n
		       ? 0
		       : fail(e, RINGUP_ENOMEM, "no memory for imports");
}

static int try_all(struct exam *x, const struct candidate *which, int n, json_t *reported,
		   struct err *e)
{
	struct trial *all = calloc((size_t)n, sizeof(*all));
	int rc;

	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for imports");
	for (int k = 0; k < n; k++) {
		const json_t *f = which[k].framework;
		const char *python = jsonio_string(f, "python");

		all[k] = (struct trial){
			.python = python,
			.module = which[k].name,
			.location = jsonio_string(f, "location"),
			.sites = json_object_get(
				jsonrecord_find(json_object_get(x->facts, "pythons"), "path",
						python),
				"sites"),
		};
	}
	if (x->progress)
		x->progress("importing frameworks, for at most 20 s each");
	rc = trial_run(all, n, e);
	if (x->progress)
		x->progress(NULL);
	if (!rc)
		rc = add_results(x, which, all, n, reported, e);
	free(all);
	return rc;
}

int imports_add(struct exam *x, const json_t *list, json_t *reported, struct err *e)
{
	struct candidate *which = calloc(2 * json_array_size(list) + 1, sizeof(*which));
	int n = 0, rc = 0;
	json_t *o;
	size_t i;

	if (!which)
		return fail(e, RINGUP_ENOMEM, "no memory for imports");
	json_array_foreach(list, i, o)
		if (!json_object_get(reported, jsonio_string(o, "location")))
			n = choose(x, o, which, n);
	if (n)
		rc = try_all(x, which, n, reported, e);
	free(which);
	return rc;
}
