/* test_elfinfo.c - the evidence in a library is read right, and damage is survived. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/elfinfo.h"
#include "ringup.h"
#include "tap.h"
#include "tinyelf.h"

static const char *const spaces[] = { "3c10", "5torch", NULL };

/* Read @len bytes at @data as if they were a file. */
static int read_bytes(const void *data, size_t len, struct elfinfo *info, struct err *e)
{
	int fd = memfd_create("tinyelf", MFD_CLOEXEC), rc;

	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	rc = elfinfo_read(fd, spaces, info, e);
	close(fd);
	return rc;
}

static int abi_of(const char *symbol)
{
	struct elfinfo info;
	struct err e = { 0 };
	struct tinyelf t;

	tinyelf_make(&t, symbol, "", 0);
	return read_bytes(&t, sizeof(t), &info, &e) ? -2 : info.cxx11_abi;
}

static void test_abi(void)
{
	static const struct {
		const char *symbol;
		int abi;
		const char *what;
	} rows[] = {
		{ "_ZN3c105shoutERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", 1,
		  "a new string as an argument" },
		{ "_ZN3c104nameB5cxx11Ev", 1, "a new string as the result" },
		{ "_ZNK3c104Type3strB5cxx11Ev", 1, "of a const function" },
		{ "_ZN3c105shoutERKSs", 0, "an old string" },
		{ "_ZTIN3c105ErrorIJSsEEE", 0, "an old string in a type's name" },
		{ "_ZN3c104wideERKSbIwSt11char_traitsIwESaIwEE", 0, "an old wide string" },
		{ "_ZN3c103addEii", -1, "no string at all" },
		{ "_ZN3c107SsClassC1Ev", -1, "Ss in somebody's name" },
		{ "_ZN3c107__cxx10C1Ev", -1, "nearly" },
		{ "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4swapERS4_", -1,
		  "libstdc++'s own piece proves nothing" },
		{ "_ZN6google8protobuf7messageERKSs", -1, "nor does another library's" },
		{ "_ZN5torch3mapISt4pairIKNS_1AES1_EEEvS2_S12_RKSs", 0,
		  "references back are no lengths" },
		{ "_ZN3c103getILb1ELi42EEEvRKSs", 0, "literals are no lengths" },
		{ "_ZN3c1099999999999999999999x", -1, "a length beyond the end" },
		{ "_ZTN", -1, "too short" },
		{ "c10shoutRKSs", -1, "a C name" },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(abi_of(rows[i].symbol) == rows[i].abi, "%s: %d", rows[i].what, rows[i].abi);
}

static void test_compiler(void)
{
#define ROW(comment, compiler)                     \
	{                                          \
		comment, sizeof(comment), compiler \
	}
	static const struct {
		const char *comment;
		size_t len;
		const char *compiler;
	} rows[] = {
		ROW("GCC: (GNU) 13.3.1 20240611 (Red Hat 13.3.1-2)", "gcc 13.3.1"),
		ROW("GCC: (Debian 12.2.0-14) 12.2.0", "gcc 12.2.0"),
		ROW("GCC: (GNU) 4.7.3\0GCC: (crosstool (x) 1) 9.3.1\0GCC: (GNU) 7.5.0",
		    "gcc 9.3.1"),
		ROW("GCC: (GNU) 4.7.3\0Ubuntu clang version 17.0.2 (++2023)\0Linker: LLD",
		    "clang 17.0.2"),
		ROW("clang version 18.1.8", "clang 18.1.8"),
		ROW("Intel(R) oneAPI DPC++ 2024.2", ""),
		ROW("GCC: (never closed 1.2.3", ""),
		ROW("GCC: (GNU) \033[31m", ""),
		ROW("GCC:", ""),
		ROW("", ""),
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct elfinfo info;
		struct err e = { 0 };
		struct tinyelf t;

		tinyelf_make(&t, "_ZN3c103addEii", rows[i].comment, rows[i].len);
		ok(!read_bytes(&t, sizeof(t), &info, &e) &&
			   !strcmp(info.compiler, rows[i].compiler),
		   "row %zu: compiler '%s' %s", i, info.compiler, e.text);
	}
}

static void test_rest(void)
{
	struct elfinfo info;
	struct err e = { 0 };
	struct tinyelf t;

	tinyelf_make(&t, "_ZN3c105shoutERKSs", "clang version 18.1.8", 21);
	ok(!read_bytes(&t, sizeof(t), &info, &e), "read: %s", e.text);
	ok(info.needed_count == 2 && !strcmp(info.needed[0], "libcudart.so.12"), "DT_NEEDED");
	ok(!strcmp(info.glibc, "2.17") && !*info.glibcxx, "the newest symbol version: %s",
	   info.glibc);
	t.head.e_shoff = 0;
	ok(!read_bytes(&t, sizeof(t), &info, &e) && !*info.compiler && info.cxx11_abi == 0,
	   "without section headers only the compiler is unknown");
}

static void test_refused(void)
{
	struct elfinfo info;
	struct err e = { 0 };
	struct tinyelf t;

	ok(read_bytes("", 0, &info, &e) == RINGUP_EINVAL, "an empty file: %s", e.text);
	ok(read_bytes("#!/bin/sh\n", 10, &info, &e) == RINGUP_EINVAL, "a script: %s", e.text);
	tinyelf_make(&t, "x", "", 0);
	t.head.e_ident[EI_CLASS] = ELFCLASS32;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "32 bits: %s", e.text);
	tinyelf_make(&t, "x", "", 0);
	t.head.e_shnum = 60000;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "60000 sections: %s", e.text);
	tinyelf_make(&t, "x", "", 0);
	t.head.e_phnum = 60000;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "60000 segments: %s", e.text);
	tinyelf_make(&t, "x", "", 0);
	t.dynamic.p_filesz = UINT64_MAX;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "dynamic section: %s",
	   e.text);
	tinyelf_make(&t, "x", "", 0);
	t.dyn[3].d_un.d_val = UINT64_MAX;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "strings: %s", e.text);
	tinyelf_make(&t, "x", "", 0);
	t.dynamic.p_type = PT_NULL;
	ok(read_bytes(&t, sizeof(t), &info, &e) == RINGUP_EINVAL, "no dynamic: %s", e.text);
	ok(info.cxx11_abi == -1 && !*info.compiler, "a refused file leaves nothing behind");
}

/* Chains of offsets that bite their tail end all the same. */
static void test_chains(void)
{
	struct elfinfo info;
	struct err e = { 0 };
	struct tinyelf t;

	tinyelf_make(&t, "x", "", 0);
	t.versions.need.vn_next = 16;
	t.versions.aux[0].vna_next = 0xfffffff0;
	ok(!read_bytes(&t, sizeof(t), &info, &e), "offsets beyond the table");
	t.versions.aux[0].vna_next = 1;
	t.versions.need.vn_next = 1;
	ok(!read_bytes(&t, sizeof(t), &info, &e), "steps of one byte");
}

/* Every byte wrong once, and every length: nothing may crash or hang.  The
 * sanitizers are the judges; here a failure must leave a sentence. */
static void test_damage(void)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct elfinfo info;
	struct tinyelf good, t;
	int silent = 0, refused = 0;
	size_t i, v;

	tinyelf_make(&good, "_ZN3c105shoutERKSs", "clang version 18.1.8", 21);
	for (i = 0; i < sizeof(t); i++)
		for (v = 0; v < sizeof(values); v++) {
			struct err e = { 0 };

			t = good;
			((unsigned char *)&t)[i] = values[v];
			refused += !!read_bytes(&t, sizeof(t), &info, &e);
			silent += e.code && !*e.text;
		}
	for (i = 0; i < sizeof(t); i++) {
		struct err e = { 0 };

		refused += !!read_bytes(&good, i, &info, &e);
		silent += e.code && !*e.text;
	}
	ok(refused > 0 && !silent, "%d damaged files were refused, each with a reason",
	   refused);
}

/* A name longer than the window, then one that counts. */
static void test_long_name(void)
{
	size_t len = sizeof(struct tinyelf) + 200000;
	char *file = calloc(1, len), *p;
	struct tinyelf *t = (struct tinyelf *)(void *)file;
	struct elfinfo info;
	struct err e = { 0 };

	tinyelf_make(t, "x", "", 0);
	p = file + sizeof(*t);
	memset(p, 'a', 199000);
	memcpy(p, "_ZN3c10", 7);
	strcpy(p + 199001, "_ZN3c105shoutERKSs");
	t->load.p_filesz = len;
	t->dyn[2].d_un.d_ptr = 0x1000 + sizeof(*t);
	t->dyn[3].d_un.d_val = 200000;
	ok(!read_bytes(file, len, &info, &e) && info.cxx11_abi == 0, "found behind it: %s",
	   e.text);
	free(file);
}

int main(void)
{
	test_abi();
	test_compiler();
	test_rest();
	test_refused();
	test_chains();
	test_damage();
	test_long_name();
	return tap_done();
}
