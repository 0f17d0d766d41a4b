/* test_ldlibs.c - libraries are found in the loader's order, by name and number. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "detect/ldlibs.h"
#include "detect/rootfs.h"
#include "tap.h"

static const char *const files[] = { "/opt/x/libnccl.so.2.1.0",     "/usr/lib/libnccl.so.2.9.9",
				     "/usr/lib/libnccl_static.a",   "/usr/lib/libncclx.so",
				     "/usr/lib/libunrelated.so",    "/usr/lib/libmpi.so.40",
				     "/etc/ld.so.conf.d/local.conf" };

static void make(const char *dir)
{
	size_t i;

	for (i = 0; i + 1 < sizeof(files) / sizeof(files[0]); i++)
		if (file_write(dir, files[i], 0644, "", 0, NULL))
			abort();
	if (file_write(dir, files[i], 0644, "# mine\n/opt/x # first\n/none\n", 28, NULL))
		abort();
}

static void unmake(const char *dir)
{
	static const char *const dirs[] = {
		"opt/x", "opt", "usr/lib", "usr", "etc/ld.so.conf.d", "etc", ""
	};
	char path[64];
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		file_remove(dir, files[i], NULL);
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, dirs[i]);
		rmdir(path);
	}
}

int main(void)
{
	char dir[] = "/tmp/test_ldlibs.XXXXXX", version[16];
	json_t *problems = json_array();
	struct rootfs fs;
	struct ldlibs libs;
	struct err e = { 0 };
	const char *path;
	size_t at = 0;

	if (!mkdtemp(dir))
		abort();
	make(dir);
	ok(rootfs_open(&fs, dir, problems, &e) == 0, "open: %s", e.text);
	ldlibs_load(&fs, &libs);
	path = ldlibs_next(&libs, "libnccl.so", &at);
	ok(path && !strcmp(path, files[0]), "ld.so.conf comes first");
	path = ldlibs_next(&libs, "libnccl.so", &at);
	ok(path && !strcmp(path, files[1]), "then the usual folders");
	ok(!ldlibs_next(&libs, "libnccl.so", &at), "other names do not count");
	at = 0;
	ok(!ldlibs_next(&libs, "libunrelated.so", &at), "what nobody asks for is not kept");
	ldlibs_version(&fs, files[1], version, sizeof(version));
	ok(!strcmp(version, "2.9.9"), "numbers behind .so.");
	ldlibs_version(&fs, "/usr/lib/libncclx.so", version, sizeof(version));
	ok(!*version, "or none");
	ldlibs_version(&fs, "/nowhere", version, sizeof(version));
	ok(!*version, "also where nothing is");
	ldlibs_free(&libs);
	rootfs_close(&fs);
	json_decref(problems);
	unmake(dir);
	ok(access(dir, F_OK) != 0, "nothing is left");
	return tap_done();
}
