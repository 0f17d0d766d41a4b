/* stamp.c - the stamp beside a build: the versions that it was made for, as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "detect/lookup.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "rebuild/jsonrecord.h"
#include "ringup.h"

enum { SCHEMA = 1, MAX_STAMP = 256 * 1024, MAX_TEXT = 4096 };

static void make_frameworks(json_t *stamp, const struct stamp_of *of, const json_t *facts)
{
	json_t *versions = json_object(), *abis = json_object();

	for (size_t i = 0; of->python && of->frameworks && of->frameworks[i]; i++) {
		const char *name = of->frameworks[i];
		const json_t *f = lookup_entry(facts, "frameworks", of->python, name);
		json_t *abi = json_object_get(f, "cxx11_abi");

		if (!f)
			continue;
		json_object_set(versions, name, json_object_get(f, "version"));
		if (json_is_integer(abi))
			json_object_set(abis, name, abi);
	}
	json_object_set_new(stamp, "frameworks", versions);
	json_object_set_new(stamp, "cxx11_abi", abis);
}

static json_t *make_accepted(const struct textpairs *advisories)
{
	json_t *out = json_array();

	for (int i = 0; advisories && i < advisories->count; i++)
		json_array_append_new(out, jsonio_text(advisories->at[i].name));
	return out;
}

static json_t *make_python(const struct stamp_of *of, const json_t *facts)
{
	const json_t *y = of->python ? jsonrecord_find(json_object_get(facts, "pythons"),
						       "path", of->python)
				     : NULL;

	return y ? json_pack("{sO sO}", "path", json_object_get(y, "path"), "version",
			     json_object_get(y, "version"))
		 : json_null();
}

json_t *stamp_make(const struct stamp_of *of, const json_t *facts)
{
	const json_t *driver = json_object_get(json_object_get(facts, "cuda"), "driver");
	json_t *stamp = json_pack("{si ss ss}", "schema", SCHEMA, "engine", of->engine,
				  "version", of->version);
	char built[32] = "";
	struct tm tm;

	if (gmtime_r(&of->built, &tm))
		strftime(built, sizeof(built), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_object_set_new(stamp, "built", json_string(built));
	json_object_set_new(stamp, "python", make_python(of, facts));
	make_frameworks(stamp, of, facts);
	json_object_set_new(stamp, "mpi", of->mpi ? json_deep_copy(of->mpi) : json_array());
	json_object_set_new(stamp, "cuda", jsonio_text(of->cuda));
	json_object_set_new(stamp, "nccl", jsonio_text(of->nccl));
	json_object_set_new(stamp, "driver",
			    of->cuda && *jsonio_string(driver, "version")
				    ? json_string(jsonio_string(driver, "version"))
				    : json_null());
	json_object_set_new(stamp, "compiler", jsonio_text(of->compiler));
	json_object_set_new(stamp, "key", jsonio_text(of->key));
	json_object_set_new(stamp, "accepted", make_accepted(of->advisories));
	/* jansson passes NULL on; a missing part means that memory was short. */
	if (json_object_size(stamp) == 14)
		return stamp;
	json_decref(stamp);
	return NULL;
}

int stamp_write(const char *root, const char *path, const json_t *stamp, struct err *e)
{
	char *data = stamp ? json_dumps(stamp, JSON_INDENT(2)) : NULL;
	size_t len = data ? strlen(data) : 0;
	int rc;

	if (!data)
		return fail(e, RINGUP_ENOMEM, "%s", path);
	data[len] = '\n'; /* in place of the NUL: a text ends with a newline */
	rc = file_write(root, path, 0644, data, len + 1, e);
	free(data);
	return rc;
}

/* True for absent, null, or text that is short enough and printable. */
static bool is_text(const json_t *v)
{
	char clean[MAX_TEXT];

	if (jsonio_is_absent(v))
		return true;
	if (!json_is_string(v) || json_string_length(v) >= sizeof(clean))
		return false;
	text_clean(clean, sizeof(clean), json_string_value(v));
	return json_string_length(v) == strlen(clean) && !strcmp(clean, json_string_value(v));
}

static bool are_texts(const json_t *o, const char *const *keys)
{
	for (size_t i = 0; keys[i]; i++)
		if (!is_text(json_object_get(o, keys[i])))
			return false;
	return true;
}

/* Is every member of @o, if any, a text, or with @numbers a number? */
static bool is_map(json_t *o, bool numbers)
{
	const char *key;
	json_t *v;

	if (!jsonio_is_absent(o) && !json_is_object(o))
		return false;
	json_object_foreach(o, key, v) {
		char clean[64];

		text_clean(clean, sizeof(clean), key);
		if (strcmp(clean, key) || (numbers ? !json_is_integer(v) : !is_text(v)))
			return false;
	}
	return true;
}

static bool are_mpis(const json_t *list)
{
	static const char *const keys[] = { "flavour", "version", "library", "module",
					    "mpicc",   "mpirun",  NULL };
	json_t *o;
	size_t i;

	if (!jsonio_is_absent(list) && !json_is_array(list))
		return false;
	json_array_foreach(list, i, o)
		if (!json_is_object(o) || !are_texts(o, keys))
			return false;
	return true;
}

static bool is_list_of_texts(const json_t *list)
{
	json_t *v;
	size_t i;

	if (!jsonio_is_absent(list) && !json_is_array(list))
		return false;
	json_array_foreach(list, i, v)
		if (!json_is_string(v) || !is_text(v))
			return false;
	return true;
}

static bool is_stamp(const json_t *s)
{
	static const char *const keys[] = { "engine", "version",  "built", "cuda", "nccl",
					    "driver", "compiler", "key",   NULL };
	static const char *const of_python[] = { "path", "version", NULL };
	const json_t *python = json_object_get(s, "python");

	return json_is_object(s) && *jsonio_string(s, "engine") &&
	       *jsonio_string(s, "version") && are_texts(s, keys) &&
	       (jsonio_is_absent(python) || json_is_object(python)) &&
	       are_texts(python, of_python) &&
	       is_map(json_object_get(s, "frameworks"), false) &&
	       is_map(json_object_get(s, "cxx11_abi"), true) &&
	       are_mpis(json_object_get(s, "mpi")) &&
	       is_list_of_texts(json_object_get(s, "accepted"));
}

int stamp_parse(const char *data, size_t len, json_t **out, struct err *e)
{
	json_error_t why;
	json_t *s = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
	int schema;

	*out = NULL;
	if (!s)
		return fail(e, RINGUP_EINVAL, "not JSON: line %d: %s", why.line, why.text);
	if (!jsonio_get_int(s, "schema", 1, 1 << 20, 0, &schema) || !is_stamp(s)) {
		json_decref(s);
		return fail(e, RINGUP_EINVAL, "not a build stamp");
	}
	if (schema != SCHEMA) {
		json_decref(s);
		return fail(e, RINGUP_EINVAL,
			    "a build stamp of schema %d; this ringup reads %d", schema, SCHEMA);
	}
	*out = s;
	return 0;
}

int stamp_read(const char *root, const char *path, json_t **out, struct err *e)
{
	json_t *problems = json_array();
	struct rootfs fs;
	char *data = NULL;
	size_t len = 0;
	int rc = rootfs_open(&fs, root, problems, e);

	*out = NULL;
	if (rc)
		goto out;
	data = rootfs_read(&fs, path, MAX_STAMP, &len);
	if (data)
		rc = stamp_parse(data, len, out, e);
	else if (json_array_size(problems))
		rc = fail(e, RINGUP_EINVAL, "%s",
			  jsonio_string(json_array_get(problems, 0), "reason"));
	free(data);
	rootfs_close(&fs);
out:
	json_decref(problems);
	return rc ? fail_in(e, "%s", path) : 0;
}

static void differ(json_t *out, const char *what, const char *was, const char *is)
{
	json_array_append_new(out, json_pack("{ss ss ss?}", "what", what, "was", was, "is",
					     is && *is ? is : NULL));
}

static bool is_series(const char *a, const char *b)
{
	size_t n = strcspn(a, "."), m = strcspn(b, ".");

	n += a[n] ? 1 + strcspn(a + n + 1, ".") : 0;
	m += b[m] ? 1 + strcspn(b + m + 1, ".") : 0;
	return n == m && !strncmp(a, b, n);
}

/* Are the programs @a and @b in one folder? */
static bool are_siblings(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');

	return x && y && x - a == y - b && !strncmp(a, b, (size_t)(x - a));
}

/*
 * The Python of @facts that @stamp means, or NULL.
 *
 * One program has several names: python3 and python3.11 of an environment, and the environment
 * itself may be reached through a link.  So after the name itself, @here counts, the Python in
 * whose folders the build lies, if it is of the same series; then another in the same folder,
 * which at least is the replacement.
 */
static const json_t *python_of(const json_t *stamp, const json_t *facts, const char *here)
{
	const json_t *noted = json_object_get(stamp, "python"), *list, *y, *found;
	const char *path = jsonio_string(noted, "path");
	json_t *o;

	list = json_object_get(facts, "pythons");
	found = jsonrecord_find(list, "path", path);
	y = found ? NULL : jsonrecord_find(list, "path", here);
	if (y && is_series(jsonio_string(y, "version"), jsonio_string(noted, "version")))
		found = y;
	for (size_t i = 0; !found && i < 2; i++) {
		size_t j;

		json_array_foreach(list, j, o)
			if (!found && are_siblings(path, jsonio_string(o, "path")) &&
			    (i || is_series(jsonio_string(o, "version"),
					    jsonio_string(noted, "version"))))
				found = o;
	}
	return found;
}

static void diff_python(json_t *out, const json_t *stamp, const json_t *have)
{
	const json_t *python = json_object_get(stamp, "python");

	if (*jsonio_string(python, "version") &&
	    !is_series(jsonio_string(python, "version"), jsonio_string(have, "version")))
		differ(out, "python", jsonio_string(python, "version"),
		       jsonio_string(have, "version"));
}

static void diff_frameworks(json_t *out, const json_t *stamp, const json_t *facts,
			    const json_t *have)
{
	const char *python = jsonio_string(have, "path"), *name;
	json_t *version;

	json_object_foreach(json_object_get(stamp, "frameworks"), name, version) {
		const json_t *f = lookup_entry(facts, "frameworks", python, name);
		const char *was = json_string_value(version), *is = jsonio_string(f, "version");
		json_t *abi = json_object_get(json_object_get(stamp, "cxx11_abi"), name);
		json_t *now = json_object_get(f, "cxx11_abi");
		char what[80];

		if (was && strcmp(was, is)) {
			differ(out, name, was, is);
		} else if (json_is_integer(abi) && json_is_integer(now) &&
			   !json_equal(abi, now)) {
			snprintf(what, sizeof(what), "%.60s ABI", name);
			differ(out, what, json_integer_value(abi) ? "1" : "0",
			       json_integer_value(now) ? "1" : "0");
		}
	}
}

/* The MPI that replaces @m: the one with its library, else its equal, else its kind. */
static const json_t *now_of(const json_t *m, const json_t *found)
{
	const char *library = jsonio_string(m, "library"),
		   *version = jsonio_string(m, "version");
	const json_t *same = *library ? jsonrecord_find(found, "library", library) : NULL;
	json_t *o;
	size_t i;

	if (same)
		return same;
	json_array_foreach(found, i, o)
		if (!strcmp(jsonio_string(o, "flavour"), jsonio_string(m, "flavour")) &&
		    !strcmp(jsonio_string(o, "version"), version))
			return o;
	return jsonrecord_find(found, "flavour", jsonio_string(m, "flavour"));
}

static void diff_mpi(json_t *out, const json_t *stamp, const json_t *facts)
{
	json_t *m;
	size_t i;

	json_array_foreach(json_object_get(stamp, "mpi"), i, m) {
		const json_t *same = now_of(m, json_object_get(facts, "mpi"));

		if (strcmp(jsonio_string(same, "version"), jsonio_string(m, "version")))
			differ(out, jsonio_string(m, "flavour"), jsonio_string(m, "version"),
			       jsonio_string(same, "version"));
	}
}

/* Reports a change unless one version in @list is still @was. */
static void diff_any(json_t *out, const char *what, const char *was, const json_t *list)
{
	if (*was && !jsonrecord_find(list, "version", was))
		differ(out, what, was, jsonio_string(json_array_get(list, 0), "version"));
}

json_t *stamp_diff(const json_t *stamp, const json_t *facts, const char *here)
{
	const json_t *have = python_of(stamp, facts, here);
	const json_t *cuda = json_object_get(facts, "cuda");
	const char *driver = jsonio_string(stamp, "driver");
	json_t *out = json_array();

	diff_python(out, stamp, have);
	diff_frameworks(out, stamp, facts, have);
	diff_mpi(out, stamp, facts);
	diff_any(out, "cuda", jsonio_string(stamp, "cuda"), json_object_get(cuda, "toolkits"));
	diff_any(out, "nccl", jsonio_string(stamp, "nccl"), json_object_get(facts, "nccl"));
	if (*driver &&
	    strcmp(driver, jsonio_string(json_object_get(cuda, "driver"), "version")))
		differ(out, "driver", driver,
		       jsonio_string(json_object_get(cuda, "driver"), "version"));
	return out;
}
