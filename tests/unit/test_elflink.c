/* test_elflink.c - what a library wants and gives is read right, and damage is survived. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/elflink.h"
#include "ringup.h"
#include "tap.h"
#include "tinyelf.h"

static bool gives(const struct elflink *l, const char *version)
{
	size_t i;

	for (i = 0; i < l->give_count; i++)
		if (!strcmp(l->gives[i], version))
			return true;
	return false;
}

/* The names that are undefined here, one of which is looked for. */
struct look {
	const char *name;
	int count, found;
};

static bool see(void *arg, const char *name)
{
	struct look *k = arg;

	k->count++;
	k->found += !strcmp(name, k->name);
	return !k->found;
}

/* The C library that this program has, whose contents everybody knows. */
static void test_libc(void)
{
	struct elflink *l;
	struct err e = { 0 };
	Dl_info info;
	int fd;

	ok(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info), "there is a libc");
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	ok(fd >= 0 && !elflink_open(fd, &l, &e), "%s: %s", info.dli_fname, e.text);
	if (fd < 0 || e.code)
		return;
	ok(l->give_count > 5 && gives(l, "GLIBC_2.17") && !gives(l, "GLIBC_99.9"),
	   "versions that it gives: %zu", l->give_count);
	ok(l->want_count > 0 && !strncmp(l->wants[0].file, "ld-linux", 8),
	   "and one that it wants of %s", l->wants[0].file);
	ok(elflink_defines(l, "fopen") && elflink_defines(l, "strtol"), "names in it");
	ok(!elflink_defines(l, "fopen_") && !elflink_defines(l, ""), "names that are not");
	ok(!elflink_defines(l, "__tls_get_addr"), "wanted is not defined");
	free(l);
	close(fd);
}

/* This program: it wants fopen's like of libc. */
static void test_self(void)
{
	struct look k = { .name = "memfd_create" };
	struct elflink *l;
	struct err e = { 0 };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), i, has_libc = 0;

	ok(!elflink_open(fd, &l, &e), "this program: %s", e.text);
	if (e.code)
		return;
	for (i = 0; i < l->needed_count; i++)
		has_libc += !strncmp(l->needed[i], "libc.so", 7);
	ok(has_libc == 1, "it needs libc, once");
	elflink_undefined(l, see, &k);
	ok(k.found == 1, "%s is undefined in it, the %dth", k.name, k.count);
	k = (struct look){ .name = "no such name" };
	elflink_undefined(l, see, &k);
	ok(!k.found && k.count > 10, "%d names are", k.count);
	free(l);
	close(fd);
}

static int read_bytes(const void *data, size_t len, struct err *e)
{
	int fd = memfd_create("tinyelf", MFD_CLOEXEC), rc;
	struct look k = { .name = "" };
	struct elflink *l;

	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	rc = elflink_open(fd, &l, e);
	if (!rc) {
		elflink_undefined(l, see, &k);
		elflink_defines(l, "x");
	}
	free(l);
	close(fd);
	return rc;
}

/* Every byte wrong once, and every length; the sanitizers are the judges. */
static void test_damage(void)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	int silent = 0, refused = 0;
	struct tinyelf good, t;
	size_t i, v;

	tinyelf_make(&good, "_ZN3c105shoutERKSs", "clang version 18.1.8", 21);
	/* Tables where others lie: a file says what it likes. */
	good.dyn[5] = (Elf64_Dyn){ DT_VERDEF, { good.dyn[4].d_un.d_ptr } };
	good.dyn[6] = (Elf64_Dyn){ DT_GNU_HASH, { 0x1000 + 64 } };
	good.dyn[7] = (Elf64_Dyn){ DT_SYMTAB, { 0x1000 } };
	for (i = 0; i < sizeof(t); i++)
		for (v = 0; v < sizeof(values); v++) {
			struct err e = { 0 };

			t = good;
			((unsigned char *)&t)[i] = values[v];
			refused += !!read_bytes(&t, sizeof(t), &e);
			silent += e.code && !*e.text;
		}
	for (i = 0; i < sizeof(t); i++) {
		struct err e = { 0 };

		refused += !!read_bytes(&good, i, &e);
		silent += e.code && !*e.text;
	}
	ok(refused > 0 && !silent, "%d damaged files were refused, each with a reason",
	   refused);
}

int main(void)
{
	test_libc();
	test_self();
	test_damage();
	return tap_done();
}
