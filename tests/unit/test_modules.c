/* test_modules.c - which module there is for an MPI, and why not. */
#include "rebuild/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "tap.h"

static const char facts_text[] =
	"{\"mpi\":[{\"flavour\":\"openmpi\",\"version\":\"4.1.4\",\"library\":\"/a/libmpi.so\","
	"\"header\":\"/a/mpi.h\",\"mpicc\":\"/a/mpicc\"},"
	"{\"flavour\":\"mvapich\",\"version\":\"3.0\",\"library\":\"/b/libmpi.so\","
	"\"header\":\"/b/mpi.h\",\"mpicc\":\"/b/mpicc\"},"
	"{\"flavour\":\"openmpi\",\"version\":\"5.0.11\",\"library\":\"/c/libmpi.so\","
	"\"header\":null,\"mpicc\":null}]}";

static char root[] = "/tmp/ringup-modules.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[128];
	struct err e = { 0 };

	snprintf(path, sizeof(path), "/lib/%s", name);
	ok(!file_write(root, path, 0644, text, strlen(text), &e), "%s is there", name);
}

static void take(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/lib/%s", root, name);
	unlink(path);
}

/* The states of all three MPIs, joined by blanks. */
static const char *states(const char *source)
{
	static const char *const words[] = { [MODULES_BUILT] = "built",
					     [MODULES_INSTALLED] = "installed",
					     [MODULES_STALE] = "stale",
					     [MODULES_MISSING] = "missing",
					     [MODULES_IMPOSSIBLE] = "impossible" };
	static char out[128];
	json_t *facts = json_loads(facts_text, 0, NULL);
	struct modules_state *s;
	size_t at = 0;
	int i, n = modules_states(root, "/lib", source, facts, &s);

	*out = 0;
	for (i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%s", i ? " " : "",
				       words[s[i].fate]);
	free(s);
	json_decref(facts);
	return out;
}

static int is(const char *source, const char *want)
{
	const char *got = states(source);

	if (strcmp(got, want))
		printf("# %s\n", got);
	return !strcmp(got, want);
}

static void test_names(void)
{
	json_t *facts = json_loads(facts_text, 0, NULL), *all = json_object_get(facts, "mpi");
	char name[MODULES_NAME];

	modules_name(name, json_array_get(all, 0));
	ok(!strcmp(name, "ringup-mpi-openmpi-4.1.4.so"), "kind and version");
	modules_name(name, json_array_get(all, 1));
	ok(!strcmp(name, "ringup-mpi-mpich-3.0.so"), "MVAPICH has MPICH's binary interface");
	json_object_set_new(json_array_get(all, 0), "version", json_null());
	ok(modules_why_not(json_array_get(all, 0)), "without a version there is no module");
	json_decref(facts);
}

int main(void)
{
	static const char stamp[] =
		"{\"schema\":1,\"engine\":\"ringup\",\"version\":\"0.1.0\",\"mpi\":["
		"{\"flavour\":\"openmpi\",\"version\":\"4.1.4\",\"library\":\"/a/libmpi.so\","
		"\"module\":\"ringup-mpi-openmpi-4.1.4.so\",\"source\":\"s1\"}]}";
	static const char moved[] =
		"{\"schema\":1,\"engine\":\"ringup\",\"version\":\"0.1.0\",\"mpi\":["
		"{\"flavour\":\"openmpi\",\"version\":\"4.1.4\",\"library\":\"/z/libmpi.so\","
		"\"module\":\"ringup-mpi-openmpi-4.1.4.so\",\"source\":\"s1\"}]}";
	char path[256];

	if (!mkdtemp(root))
		return 1;
	test_names();
	ok(is("", "missing missing impossible"), "nothing is there");
	put("ringup-mpi-openmpi.so", "");
	ok(is("", "installed missing impossible"), "the one of the release is for the first");
	put("modules.json", stamp);
	ok(is("s1", "stale missing impossible"), "noted, but gone");
	put("ringup-mpi-openmpi-4.1.4.so", "");
	ok(is("s1", "built missing impossible"), "noted and there");
	ok(is("s2", "stale missing impossible"), "from another source");
	ok(is("", "built missing impossible"), "whose source nobody asks for");
	put("modules.json", moved);
	ok(is("s1", "stale missing impossible"), "the MPI has moved");
	put("modules.json", "{");
	ok(is("s1", "installed missing impossible"), "half a note is none");
	take("modules.json");
	take("ringup-mpi-openmpi.so");
	take("ringup-mpi-openmpi-4.1.4.so");
	snprintf(path, sizeof(path), "%s/lib", root);
	ok(!rmdir(path) && !rmdir(root), "nothing else was left");
	return tap_done();
}
