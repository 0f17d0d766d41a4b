/* test_versions.c - the table of versions is sane, and so are its answers. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rebuild/versions.h"
#include "tap.h"

#define HEAD "subject\tver_min\tver_max\tattr\tvalue\tconfidence\tsource\tnote\n"

static struct versions t;

static void test_refused(void)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ HEAD "torch\t1\t2\n", "table:2: 3 fields instead of 8" },
		{ HEAD "torch\t1\t2\tcxx11_abi\t0\tsure\tx\t\n", "no confidence 'sure'" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = { 0 };

		ok(versions_parse(&t, "table", rows[i].text, strlen(rows[i].text), &e) &&
			   strstr(e.text, rows[i].says),
		   "%s: %s", rows[i].says, e.text);
		versions_free(&t);
	}
	ok(versions_parse(&t, "table", "a\0b", 3, NULL), "no text");
	versions_free(&t);
	ok(!versions_parse(&t, "table", "", 0, NULL) && !t.count, "an empty table");
	versions_free(&t);
}

static const char *ask(const char *subject, const char *version, const char *attr,
		       const char *one, const char *two)
{
	const char *variants[] = { one, two, NULL };
	const struct version_fact *f = versions_ask(&t, subject, version, attr, variants);

	return f ? f->value : "";
}

static void test_asking(void)
{
	static const char text[] = HEAD "# for people\n"
					"torch\t1\t2.6\tcxx11_abi\t0\tissue\tx\t\n"
					"torch\t2.6\t2.6\tcxx11_abi\t1\ttested\tx\ty\n"
					"torch\t1\t2\tcxx11_abi@cu118\t1\tmemory\tx\t\n"
					"torch\t1\t2\tcxx11_abi@debian\t0\tdoc\tx\t";

	ok(!versions_parse(&t, "table", text, strlen(text), NULL) && t.count == 4,
	   "four facts");
	ok(!strcmp(ask("torch", "2.6.0", "cxx11_abi", NULL, NULL), "1"),
	   "the more trusted goes first");
	ok(!strcmp(ask("torch", "2.6.0", "cxx11_abi", "cu126", NULL), "1"),
	   "a variant that nobody knows is one of all");
	ok(!strcmp(ask("torch", "1.13", "cxx11_abi", "cu118", NULL), "1"),
	   "a variant's fact goes before all trust");
	ok(!strcmp(ask("torch", "1.13", "cxx11_abi", "debian", "cu118"), "0"),
	   "the first variant is the most telling");
	ok(!strcmp(ask("torch", "3", "cxx11_abi", "cu118", NULL), ""), "out of all ranges");
	ok(!versions_ask(&t, "jax", "1", "cxx11_abi", NULL), "nobody knows");
	versions_free(&t);
}

static void test_in(void)
{
	ok(versions_in("3.9", "2.7,3.5-3.9") && versions_in("2.7.18", "2.7,3.5-3.9"), "in one");
	ok(!versions_in("3.4", "2.7,3.5-3.9") && !versions_in("3.10", "3.5-3.9"), "in none");
	ok(versions_in("3.4", "-3.9") && versions_in("99", "3-") && !versions_in("2", "3-"),
	   "open ends");
	ok(!versions_in("1", "") && !versions_in("", "1"), "nothing");
}

/* The one that is installed says what everything else builds upon. */
static void test_ours(void)
{
	static const struct {
		const char *subject, *version, *attr, *variant, *want;
	} rows[] = {
		{ "tensorflow", "1.14.0", "compiler", "", "gcc 4.8" },
		{ "tensorflow", "2.8.4", "cxx11_abi", "cp38", "0" },
		{ "tensorflow", "1.13.1", "cxx11_abi", "cp37", "1" },
		{ "tensorflow", "1.13.1", "cxx11_abi", "cp36", "0" },
		{ "tensorflow", "2.15.1", "compiler", "tensorflow-cpu", "clang 17.0.2" },
		{ "tensorflow", "2.15.1", "compiler", "tensorflow", "clang 16.0.0" },
		{ "tensorflow", "2.21.0", "cxx_standard", "", "17" },
		{ "torch", "1.13.1", "cxx11_abi", "debian", "1" },
		{ "torch", "1.13.1", "cxx11_abi", "cu117", "0" },
		{ "torch", "2.6.0+cu124", "cxx11_abi", "cu124", "0" },
		{ "torch", "2.6.0+cu126", "cxx11_abi", "cu126", "1" },
		{ "torch", "2.13.0", "cxx11_abi", "cu126", "1" },
		{ "torch", "2.0.1", "cxx_standard", "", "14" },
		{ "torch", "2.1.0", "cxx_standard", "", "17" },
		{ "cuda", "12.4.1", "gcc_max", "", "13" },
		{ "cuda", "11.8", "gcc_max", "", "11" },
		{ "cuda", "13.0", "clang_max", "", "20" },
		{ "nccl", "2.21.5", "cuda", "", "11-12" },
		{ "gcc", "12.2.0", "glibcxx", "", "3.4.30" },
		{ "gcc", "7.5.0", "cxx_standard", "", "14" },
		{ "horovod", "0.28.0", "gcc_max", "", "11" },
		{ "openmpi", "3.1.3", "bad", "", "horovod" },
		{ "keras", "3.15.1", "bad", "", "horovod" },
		{ "keras", "2.15.0", "bad", "", "" },
		{ "debian", "12", "gcc", "", "11-12" },
	};
	char path[PATH_MAX];
	struct err e = { 0 };
	size_t i;
	int k, noted = 0;

	snprintf(path, sizeof(path), "%s/compat/versions.tsv",
		 getenv("srcdir") ? getenv("srcdir") : "..");
	ok(!versions_load(&t, path, &e), "it parses%s%s", *e.text ? ": " : "", e.text);
	ok(t.count > 100, "%d facts", t.count);
	for (k = 0; k < t.count; k++)
		noted += strlen(t.at[k].note) > 100;
	ok(!noted, "notes are short");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got = ask(rows[i].subject, rows[i].version, rows[i].attr,
				      rows[i].variant, NULL);

		ok(!strcmp(got, rows[i].want), "%s %s %s@%s is '%s'", rows[i].subject,
		   rows[i].version, rows[i].attr, rows[i].variant, got);
	}
	versions_free(&t);
	ok(versions_load(&t, "/nonexistent/versions.tsv", &e), "no file: %s", e.text);
	versions_free(&t);
}

int main(void)
{
	test_refused();
	test_asking();
	test_in();
	test_ours();
	return tap_done();
}
