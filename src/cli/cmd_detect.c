/* cmd_detect.c - `ringup detect`: frameworks, compilers and libraries of this node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "detect/find.h"

static int as_json;
static const char *python;
static const char *root;

static const struct opt opts[] = {
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 'p', "python", "P", &python, "examine only this Python or environment" },
	{ OPT_STR, 'r', "root", "DIR", &root, "examine the tree below this folder" },
	{ 0 },
};

static const char *or_dash(const char *s)
{
	return *s ? s : "-";
}

/* Prints why there are no frameworks, and the remedy. */
static void print_none(const json_t *all)
{
	out_look(OUT_WARN, "no frameworks found");
	if (json_array_size(json_object_get(all, "pythons")))
		out_text("; make an environment and install one: python3 -m venv /opt/venv && "
			 "/opt/venv/bin/pip install torch (Debian: after apt-get install "
			 "python3-venv); or name its Python with --python\n");
	else
		out_text(": no Python 3; install one, or name it with --python\n");
}

static int print_frameworks(const json_t *list, struct err *e)
{
	static const char *const heads[] = { "FRAMEWORK", "VERSION", "ABI",    "COMPILER",
					     "C++",       "CUDA",    "PYTHON", NULL };
	struct out_table t;
	json_t *o;
	size_t i;

	out_table_init(&t, heads);
	json_array_foreach(list, i, o) {
		const json_t *abi = json_object_get(o, "cxx11_abi");
		const json_t *standard = json_object_get(o, "cxx_standard");

		out_table_cell(&t, OUT_GOOD, "%s", jsonio_string(o, "name"));
		out_table_cell(&t, OUT_PLAIN, "%s", or_dash(jsonio_string(o, "version")));
		out_table_cell(&t, OUT_PLAIN, json_is_integer(abi) ? "%d" : "-",
			       (int)json_integer_value(abi));
		out_table_cell(&t, OUT_PLAIN, "%s", or_dash(jsonio_string(o, "compiler")));
		out_table_cell(&t, OUT_PLAIN, json_is_integer(standard) ? "%d" : "-",
			       (int)json_integer_value(standard));
		out_table_cell(&t, OUT_PLAIN, "%s", or_dash(jsonio_string(o, "cuda")));
		out_table_cell(&t, OUT_PLAIN, "%s", jsonio_string(o, "python"));
	}
	return out_table_print(&t, e);
}

static void row(struct out_table *t, const char *kind, const char *version, const char *where,
		const char *note)
{
	out_table_cell(t, OUT_PLAIN, "%s", kind);
	out_table_cell(t, OUT_PLAIN, "%s", or_dash(version));
	out_table_cell(t, OUT_PLAIN, "%s%s", where, note);
}

static const char *first_of(const json_t *o, const char *key, const char *other)
{
	return *jsonio_string(o, key) ? jsonio_string(o, key) : jsonio_string(o, other);
}

static void add_pythons(struct out_table *t, const json_t *list)
{
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o) {
		const char *kind = jsonio_string(o, "kind");

		row(t, "python", jsonio_string(o, "version"), jsonio_string(o, "path"),
		    !strcmp(kind, "venv")    ? " (virtual environment)"
		    : !strcmp(kind, "conda") ? " (conda)"
		    : !strcmp(kind, "pyenv") ? " (pyenv)"
					     : "");
	}
}

static void add_compilers(struct out_table *t, const json_t *list)
{
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
		row(t, jsonio_string(o, "family"), jsonio_string(o, "version"),
		    first_of(o, "cxx", "cc"),
		    !*jsonio_string(o, "cxx")                     ? " (C only)"
		    : json_is_true(json_object_get(o, "default")) ? " (default)"
								  : "");
}

static void add_libraries(struct out_table *t, const json_t *all)
{
	const json_t *cuda = json_object_get(all, "cuda");
	const json_t *driver = json_object_get(cuda, "driver");
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(cuda, "toolkits"), i, o)
		row(t, "CUDA", jsonio_string(o, "version"), jsonio_string(o, "path"),
		    *jsonio_string(o, "nvcc") ? "" : " (no nvcc)");
	if (json_is_object(driver))
		row(t, "driver", jsonio_string(driver, "version"),
		    jsonio_string(driver, "library"), "");
	json_array_foreach(json_object_get(all, "nccl"), i, o)
		row(t, "NCCL", jsonio_string(o, "version"), first_of(o, "library", "header"),
		    "");
	json_array_foreach(json_object_get(all, "mpi"), i, o)
		row(t, jsonio_string(o, "flavour"), jsonio_string(o, "version"),
		    first_of(o, "mpirun", "library"),
		    *jsonio_string(o, "mpicc") ? "" : " (no mpicc)");
	json_array_foreach(json_object_get(all, "engines"), i, o)
		row(t, jsonio_string(o, "name"), jsonio_string(o, "version"),
		    jsonio_string(o, "location"), "");
}

static int print_rest(const json_t *all, struct err *e)
{
	static const char *const heads[] = { "FOUND", "VERSION", "WHERE", NULL };
	struct out_table t;

	out_table_init(&t, heads);
	add_pythons(&t, json_object_get(all, "pythons"));
	add_compilers(&t, json_object_get(all, "compilers"));
	add_libraries(&t, all);
	if (!t.cells && !t.failed)
		return 0;
	out_text("\n");
	return out_table_print(&t, e);
}

/* Prints the NCCL that a job of each framework would load. */
static int print_nccl(const json_t *list, struct err *e)
{
	static const char *const heads[] = { "JOB WITH", "NCCL", "PYTHON",
					     "LIBRARY",  "WHY",  NULL };
	struct out_table t;
	json_t *f;
	size_t i;

	out_table_init(&t, heads);
	json_array_foreach(list, i, f) {
		const json_t *nccl = json_object_get(f, "nccl");
		const char *library = jsonio_string(nccl, "library"),
			   *why = *library ? jsonio_string(nccl, "why") : "",
			   *fault = jsonio_string(nccl, "fault");

		/* jaxlib is JAX's binary half. */
		if (!json_is_object(nccl) || !strcmp(jsonio_string(f, "name"), "jaxlib"))
			continue;
		out_table_cell(&t, OUT_PLAIN, "%s", jsonio_string(f, "name"));
		out_table_cell(&t, OUT_PLAIN, "%s", or_dash(jsonio_string(nccl, "version")));
		out_table_cell(&t, OUT_PLAIN, "%s", jsonio_string(f, "python"));
		out_table_cell(&t, OUT_PLAIN, "%s", or_dash(library));
		out_table_cell(&t, *fault ? OUT_WARN : OUT_PLAIN, "%s%s%s", why,
			       *why && *fault ? "; " : "", fault);
	}
	if (!t.cells && !t.failed)
		return 0;
	out_text("\n");
	return out_table_print(&t, e);
}

static void print_problems(const json_t *list)
{
	json_t *o;
	size_t i;

	if (json_array_size(list))
		out_text("\n");
	json_array_foreach(list, i, o) {
		out_look(OUT_BAD, "problem");
		out_text(": %s: %s\n", jsonio_string(o, "path"), jsonio_string(o, "reason"));
	}
}

static int cmd_detect_print_text(const json_t *all, struct err *e)
{
	const json_t *found = json_object_get(all, "frameworks");
	int rc = 0;

	if (json_array_size(found))
		rc = print_frameworks(found, e);
	else
		print_none(all);
	if (rc)
		return rc;
	rc = print_rest(all, e);
	if (!rc)
		rc = print_nccl(found, e);
	print_problems(json_object_get(all, "problems"));
	return rc;
}

static int cmd_detect_run(int argc, char **argv, struct err *e)
{
	const struct find_how how = { .root = root ? root : cmd_conf()->root,
				      .python = python ? python : cmd_conf()->python,
				      .nccl = cmd_conf()->nccl };
	json_t *all;
	int rc;

	(void)argc;
	(void)argv;
	rc = find_all(&how, &all, e);
	if (rc)
		return rc;
	if (as_json)
		return out_json(all, e);
	rc = cmd_detect_print_text(all, e);
	json_decref(all);
	return rc;
}

const struct cmd cmd_detect = {
	.name = "detect",
	.operands = "",
	.summary = "find frameworks, compilers and libraries without running them",
	.examples = "ringup detect\n"
		    "ringup detect --json --python /databricks/python3",
	.opts = opts,
	.run = cmd_detect_run,
};
