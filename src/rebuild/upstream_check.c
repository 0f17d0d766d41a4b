/* upstream_check.c - check the needs of a Horovod build before it begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/upstream.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/proc.h"
#include "host/cores.h"

enum {
	BUILD_DISK_MB = 400,
	SITE_DISK_MB = 65,
	MB_BASE = 400,   /* pip, CMake and Python while others compile */
	MB_HEAVY = 1800, /* the largest compilation, of torch's headers */
	MB_JOB = 1500,
};

/* Prints the properties of the target Python that a build depends on. */
static const char ask_code[] =
	"import sys\n"
	"out = sys.stdout; sys.stdout = sys.stderr\n"
	"import importlib.util as u, json, os, sysconfig\n"
	"try:\n"
	"    from importlib.metadata import version\n"
	"except ImportError:\n" /* before Python 3.8 */
	"    import pkg_resources\n"
	"    def version(n):\n"
	"        return pkg_resources.get_distribution(n).version\n"
	"def v(n):\n"
	"    try:\n"
	"        return version(n)\n"
	"    except Exception:\n"
	"        return None\n"
	"p = sysconfig.get_paths()\n"
	"print(file=out)\n"
	"out.write(json.dumps(dict({n: v(n) for n in ('pip', 'setuptools', 'wheel', "
	"'packaging',\n"
	"      'keras')}, **{'version': sysconfig.get_python_version(),\n"
	"  'full': sys.version.split()[0],\n"
	"  'site': p['platlib'], 'scripts': p['scripts'], 'prefix': p['data'],\n"
	"  'include': p['include'], 'soabi': sysconfig.get_config_var('SOABI') or '',\n"
	"  'header': os.path.exists(os.path.join(p['include'], 'Python.h')),\n"
	"  'missing': [m for m in sys.argv[1:] if u.find_spec(m.split('=')[0]) is None]})))\n";

static RECORD_FIELDS(told_fields, upstream_told, UPSTREAM_TOLD);

/* Stores Python's answers. */
static void told_read(struct upstream *u, const json_t *answer)
{
	json_t *one;
	size_t i;

	jsonrecord_read(told_fields, &u->told, answer, &u->pool);
	json_array_foreach(json_object_get(answer, "missing"), i, one) {
		const char *word = json_is_string(one) ? json_string_value(one) : "";
		const char *equals = strchr(word, '=');

		textpool_add(&u->pool, &u->missing, word, equals ? equals + 1 : word);
	}
}

/* Runs ask_code in the target's Python. */
int upstream_ask(struct upstream *u, struct err *e)
{
	const char *argv[32] = { u->python, "-I", "-c", ask_code };
	char needs[256], *word, *save = NULL, *text = NULL, *answer;
	int n = 4, status = 0, rc;
	json_t *json;

	snprintf(needs, sizeof(needs), "%s", u->recipe.needs);
	for (word = strtok_r(needs, " ", &save); word && n < 31;
	     word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	rc = proc_capture((char *const *)(uintptr_t)argv, UPSTREAM_ASK_BYTES, UPSTREAM_ASK_MS,
			  &text, &status, e);
	if (rc)
		return rc;
	/* Output of a sitecustomize precedes the answer. */
	answer = strrchr(text, '\n');
	json = status ? NULL : json_loads(answer ? answer + 1 : text, 0, NULL);
	free(text);
	if (json_is_object(json))
		told_read(u, json);
	else
		rc = rebuild_refuse(u->said, REASON_TOOLS, e,
				    "%s does not behave like a Python", u->python);
	json_decref(json);
	return rc;
}

/* The first line that @argv prints. */
static void first_line(const char *const *argv, char *out, size_t size)
{
	struct err e = { 0 };
	char *text = NULL;
	int status = 0;

	*out = 0;
	if (proc_capture((char *const *)(uintptr_t)argv, UPSTREAM_ASK_BYTES, UPSTREAM_ASK_MS,
			 &text, &status, &e))
		return;
	if (!status)
		snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
}

void upstream_cmake(char *out, size_t size)
{
	const char *argv[] = { "cmake", "--version", NULL };
	char line[128];

	first_line(argv, line, sizeof(line));
	snprintf(out, size, "%s", !strncmp(line, "cmake version ", 14) ? line + 14 : "");
}

/* Checks: a fault that would show after an hour shows now. */

static long memory_mb(void)
{
	char line[128], text[CGROUP_TEXT];
	struct cgroup g;
	long mb = 0, limit;
	FILE *f = fopen("/proc/meminfo", "re");
	bool more;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld", &mb) == 1)
			break;
	if (f)
		fclose(f);
	mb /= 1024;
	for (more = cgroup_find(&g, "", "memory"); more; more = cgroup_up(&g))
		if (cgroup_read(&g, "", g.version == 2 ? "memory.max" : "memory.limit_in_bytes",
				text) &&
		    sscanf(text, "%ld", &limit) == 1 && limit / (1 << 20) < mb)
			mb = limit / (1 << 20);
	return mb;
}

static int check_memory(struct upstream *u, struct err *e)
{
	unsigned char mask[CORES_MASK_BYTES];
	long mb = memory_mb(), fit;
	int cores, quota = cores_quota("");

	cores_mask(mask);
	cores = cores_count(mask);
	if (quota && quota < cores)
		cores = quota;
	if (mb < MB_BASE + MB_HEAVY)
		return rebuild_refuse(
			u->said, REASON_SPACE, e,
			"%ld MiB of memory are free, but a build needs %d: stop other "
			"programs, or build elsewhere and share the result with --cache",
			mb, MB_BASE + MB_HEAVY);
	fit = 1 + (mb - MB_BASE - MB_HEAVY) / MB_JOB;
	u->jobs = u->how->jobs ? u->how->jobs : fit < cores ? (int)fit : cores;
	if (u->jobs > fit)
		rebuild_note(u->said,
			     "%d jobs may need more than the available %ld MiB of memory",
			     u->jobs, mb);
	return 0;
}

/* Horovod's CMake files read four lines of Python's output; one more breaks them. */
static int check_noise(struct upstream *u, struct err *e)
{
	const char *start[] = { u->python, "-c", "pass", NULL };
	const char *argv[] = { u->python, "-c", "import tensorflow", NULL };
	char line[100];

	first_line(start, line, sizeof(line));
	if (*line)
		return rebuild_refuse(
			u->said, REASON_TOOLS, e,
			"%.100s prints \"%.60s\" to stdout at each start, which breaks "
			"Horovod's build: make its sitecustomize print to stderr",
			u->python, line);
	if (!buildplan_framework(u->plan, "tensorflow"))
		return 0;
	first_line(argv, line, sizeof(line));
	if (*line)
		return rebuild_refuse(
			u->said, REASON_TOOLS, e,
			"`import tensorflow` prints \"%.60s\" to stdout, which breaks "
			"Horovod's build: find out what prints it (sitecustomize?)",
			line);
	return 0;
}

/* Some distributions have torch's headers in a separate package. */
static int check_headers(const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	static const char *const own[] = { "include/torch/extension.h",
					   "include/torch/csrc/api/include/torch/extension.h" };
	const struct buildplan_framework *torch = buildplan_framework(plan, "torch");
	bool found = !torch || file_exists(NULL, "/usr/include/torch/extension.h");
	char path[PATH_MAX];

	for (size_t i = 0; !found && i < sizeof(own) / sizeof(own[0]); i++)
		found = snprintf(path, sizeof(path), "%s/%s", torch->location, own[i]) <
				(int)sizeof(path) &&
			file_exists(NULL, path);
	return found ? 0
		     : rebuild_refuse(said, REASON_TOOLS, e,
				      "torch has no headers, so nothing can be compiled "
				      "for it: install them (Debian: libtorch-dev "
				      "pybind11-dev)");
}

/* Only Python knows its install folder, but one of its sites must be writable. */
static int check_sites(const json_t *facts, const char *python, struct rebuild_said *said,
		       struct err *e)
{
	const json_t *y = jsonrecord_find(json_object_get(facts, "pythons"), "path", python);
	const char *first = NULL, *s;
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(y, "sites"), i, site) {
		s = json_string_value(site);
		first = first ? first : s;
		if (s && !access(s, W_OK))
			return 0;
	}
	return first ? rebuild_may_write(said, first, e) : 0;
}

int upstream_foresee(const json_t *facts, const struct buildplan *plan,
		     struct rebuild_said *said, struct err *e)
{
	int rc = check_headers(plan, said, e);

	return rc ? rc : check_sites(facts, plan->python.path, said, e);
}

/* The way to get the headers of this kind of Python. */
static const char *headers_cure(const struct upstream *u, char out[128])
{
	const json_t *y =
		jsonrecord_find(json_object_get(u->facts, "pythons"), "path", u->python);
	const char *base = jsonio_string(y, "base_prefix");

	if (!strcmp(jsonio_string(y, "kind"), "conda"))
		snprintf(out, 128, "conda install --force-reinstall python");
	else if (!strcmp(base, "/usr") && file_exists(NULL, "/usr/bin/dnf"))
		snprintf(out, 128, "install python3-devel");
	else if (!strcmp(base, "/usr"))
		snprintf(out, 128, "install python%.20s-dev", u->told.version);
	else
		snprintf(out, 128, "install this Python with its headers, or use another");
	return out;
}

int upstream_check(struct upstream *u, struct err *e)
{
	char cure[128];
	int rc;

	if (!*u->told.pip)
		return rebuild_refuse(u->said, REASON_TOOLS, e,
				      "%s has no pip: `%s -m ensurepip` adds it", u->python,
				      u->python);
	if (!u->told.header)
		return rebuild_refuse(
			u->said, REASON_TOOLS, e,
			"%s/Python.h is missing, so nothing can be compiled for this "
			"Python: %s",
			u->told.include, headers_cure(u, cure));
	if (!*u->plan->compiler.cxx)
		return rebuild_refuse(u->said, REASON_TOOLS, e, "no C++ compiler: install g++");
	rc = rebuild_may_write(u->said, u->told.site, e);
	if (!rc)
		rc = check_memory(u, e);
	if (!rc)
		rc = rebuild_check_space(u->said, u->dir, BUILD_DISK_MB, ", or set TMPDIR", e);
	if (!rc)
		rc = rebuild_check_space(u->said, u->told.site, SITE_DISK_MB, " there", e);
	return rc ? rc : check_noise(u, e);
}
