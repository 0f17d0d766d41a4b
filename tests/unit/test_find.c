/* test_find.c - all eight parts are there, on this node and on an empty one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/find.h"
#include "tap.h"

static const char *const parts[] = { "pythons", "frameworks", "compilers", "cuda",
				     "nccl",    "mpi",        "engines",   "problems" };

static void test_parts(const struct find_how *how, const char *what)
{
	struct err e = { 0 };
	json_t *all = NULL;
	size_t i;

	ok(find_all(how, &all, &e) == 0 && json_object_size(all) == 8, "%s: eight parts %s",
	   what, e.text);
	for (i = 0; i < 8; i++)
		ok(!strcmp(parts[i], "cuda") ? json_is_object(json_object_get(all, parts[i]))
					     : json_is_array(json_object_get(all, parts[i])),
		   "%s", parts[i]);
	json_decref(all);
}

int main(void)
{
	char dir[] = "/tmp/test_find.XXXXXX";
	struct err e = { 0 };
	json_t *all = NULL;

	test_parts(&(struct find_how){ 0 }, "this node");
	if (!mkdtemp(dir))
		abort();
	test_parts(&(struct find_how){ .root = dir }, "an empty tree");
	ok(find_all(&(struct find_how){ .root = dir, .python = "x" }, &all, &e) < 0 && !all,
	   "no Python: %s", e.text);
	rmdir(dir);
	ok(find_all(&(struct find_how){ .root = dir }, &all, &e) < 0 && !all, "no root: %s",
	   e.text);
	return tap_done();
}
