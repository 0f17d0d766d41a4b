/* test_loader.c - a library's name leads to the file that the loader would take. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "detect/loader.h"
#include "detect/rootfs.h"
#include "tap.h"
#include "tinyelf.h"

static char dir[] = "/tmp/test_loader.XXXXXX";

static void put(const char *path, const void *data, size_t len)
{
	ok(file_write(dir, path, 0644, data, len, NULL) == 0, "%s", path);
}

/* A library that looks for others in @paths, as @tag says. */
static void put_caller(const char *path, int64_t tag, const char *paths)
{
	struct tinyelf t;
	unsigned at;

	tinyelf_make(&t, "x", "", 0);
	at = 200;
	t.dyn[5] = (Elf64_Dyn){ tag, { tinyelf_string(&t, &at, paths) } };
	t.dyn[3].d_un.d_val = sizeof(t.strings);
	put(path, &t, sizeof(t));
}

static bool finds(struct rootfs *fs, const char *caller, const char *name, const char *path)
{
	char out[PATH_MAX];
	bool found = loader_find(fs, caller, name, out);

	return found == (*path != 0) && !strcmp(out, path);
}

static void test_recorded(struct rootfs *fs)
{
	put("/usr/lib/x86_64-linux-gnu/liba.so", "", 0);
	put("/usr/lib/aarch64-linux-gnu/liba.so", "", 0);
	put("/usr/lib/liba.so", "", 0);
	put("/usr/lib/libb.so", "", 0);
	put("/opt/x/libb.so", "", 0);
	put("/opt/x/lib/libc.so", "", 0);
	put_caller("/opt/x/lib/libnccl.so.2", DT_RUNPATH, "$ORIGIN/..:/none");
	put_caller("/opt/x/lib/libold.so.2", DT_RPATH, "/none:${ORIGIN}");
#if defined(__aarch64__)
	ok(finds(fs, NULL, "liba.so", "/usr/lib/aarch64-linux-gnu/liba.so"), "the machine's");
#else
	ok(finds(fs, NULL, "liba.so", "/usr/lib/x86_64-linux-gnu/liba.so"), "the machine's");
#endif
	ok(finds(fs, NULL, "libb.so", "/usr/lib/libb.so"), "the loader's own folder");
	ok(finds(fs, NULL, "libc.so", ""), "not in a folder that nobody names");
	ok(finds(fs, "/opt/x/lib/libnccl.so.2", "libb.so", "/opt/x/lib/../libb.so"),
	   "the caller's folders come first");
	ok(finds(fs, "/opt/x/lib/libold.so.2", "libc.so", "/opt/x/lib/libc.so"), "by DT_RPATH");
	ok(finds(fs, "/usr/lib/liba.so", "libc.so", ""), "a caller that is no library");
	ok(loader_needs(fs, "/opt/x/lib/libnccl.so.2", "libc.so.6") &&
		   loader_needs(fs, "/opt/x/lib/libold.so.2", "libcudart.so.12"),
	   "what a library needs");
	ok(!loader_needs(fs, "/opt/x/lib/libold.so.2", "libc.so"), "and what not");
	ok(!loader_needs(fs, "/usr/lib/liba.so", "libc.so.6") &&
		   !loader_needs(fs, "/opt/x/none.so", "libc.so.6") &&
		   !loader_needs(fs, "none.so", "libc.so.6"),
	   "no library needs anything");
	ok(finds(fs, NULL, "/opt/x/libb.so", "/opt/x/libb.so"), "a path is itself");
	ok(finds(fs, NULL, "/opt/x/none.so", ""), "if it is there");
	ok(finds(fs, NULL, "x/libb.so", ""), "a path from nowhere");
}

/* LD_LIBRARY_PATH is of the live node: of this one. */
static void test_live(void)
{
	char given[PATH_MAX], path[PATH_MAX];
	json_t *problems = json_array();
	struct rootfs fs;
	struct err e = { 0 };

	ok(rootfs_open(&fs, "", problems, &e) == 0, "this node: %s", e.text);
	snprintf(given, sizeof(given), "/none:%s/opt/x;%s/usr/lib", dir, dir);
	setenv("LD_LIBRARY_PATH", given, 1);
	snprintf(path, sizeof(path), "%s/opt/x/libb.so", dir);
	ok(finds(&fs, NULL, "libb.so", path), "LD_LIBRARY_PATH, in its order");
	unsetenv("LD_LIBRARY_PATH");
	ok(finds(&fs, NULL, "libb.so", ""), "and only if it is set");
	rootfs_close(&fs);
	json_decref(problems);
}

int main(void)
{
	char rm[64];
	json_t *problems = json_array();
	struct rootfs fs;
	struct err e = { 0 };

	if (!mkdtemp(dir))
		abort();
	unsetenv("LD_LIBRARY_PATH");
	ok(rootfs_open(&fs, dir, problems, &e) == 0, "open: %s", e.text);
	test_recorded(&fs);
	test_live();
	rootfs_close(&fs);
	json_decref(problems);
	snprintf(rm, sizeof(rm), "rm -rf %s", dir);
	ok(system(rm) == 0, "cleaned up");
	return tap_done();
}
