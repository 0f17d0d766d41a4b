/* test_requires.c - requirements of distributions are parsed, and versions compared. */
#include <string.h>

#include "detect/requires.h"
#include "tap.h"

static void test_parse(void)
{
	static const struct {
		const char *text, *name, *versions; /* NULL: does not hold */
	} rows[] = {
		{ "typing-extensions>=4.10.0", "typing-extensions", ">=4.10.0" },
		{ "protobuf (<5.0.0dev,>=3.20.3)", "protobuf", "<5.0.0dev,>=3.20.3" },
		{ "Opt_Einsum", "opt-einsum", "" },
		{ "numpy[x, y] >= 2 ; python_version >= \"3.12\"", NULL, NULL },
		{ "numpy>=1.26; python_version >= '3.9' and python_version < '3.12'", "numpy",
		  ">=1.26" },
		{ "triton==3.4.0; platform_system == \"Linux\" and (platform_machine == "
		  "\"x86_64\" "
		  "or platform_machine == \"aarch64\")",
		  "triton", "==3.4.0" },
		{ "tensorflow-intel==2.15.1 ; platform_system == \"Windows\"", NULL, NULL },
		{ "scipy; sys_platform != 'win32'", "scipy", "" },
		{ "a; os_name in 'posix nt'", "a", "" },
		{ "a; os_name not in 'posix nt'", NULL, NULL },
		{ "optree>=0.13; extra == 'optree'", NULL, NULL },
		{ "a; unknown_variable == 'x'", NULL, NULL },
		{ "a; python_version", NULL, NULL },
		{ "a; ((python_version > '3')", NULL, NULL },
		{ "a @ https://example.org/a.whl", "a", "" },
		{ "a>=1'; rm -rf", NULL, NULL },
		{ "", NULL, NULL },
	};
	struct requirement r;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool holds = requires_parse(rows[i].text, "3.11", &r);

		ok(rows[i].name ? holds && !strcmp(r.name, rows[i].name) &&
					  !strcmp(r.versions, rows[i].versions)
				: !holds,
		   "requirement %zu: %s", i, rows[i].text);
	}
}

static void test_compare(void)
{
	static const struct {
		const char *version, *versions;
		enum requires_fit fit;
	} rows[] = {
		{ "4.25.3", "!=4.21.0,<5.0.0dev,>=3.20.3", REQUIRES_FITS },
		{ "6.31.1", "!=4.21.0,<5.0.0dev,>=3.20.3", REQUIRES_NEWER },
		{ "3.19.6", "!=4.21.0,<5.0.0dev,>=3.20.3", REQUIRES_OLDER },
		{ "4.21.0", "!=4.21.0,<5.0.0dev,>=3.20.3", REQUIRES_OTHER },
		{ "0.10.1", "<=0.10.2,>=0.10.1", REQUIRES_FITS },
		{ "0.10.3", "<=0.10.2,>=0.10.1", REQUIRES_NEWER },
		{ "0.3.2", "~=0.3.1", REQUIRES_FITS },
		{ "0.4.0", "~=0.3.1", REQUIRES_NEWER },
		{ "0.3.0", "~=0.3.1", REQUIRES_OLDER },
		{ "2.8.0", "==2.8.*", REQUIRES_FITS },
		{ "2.9.0", "==2.8.*", REQUIRES_NEWER },
		{ "2.8.0+cu128", "==2.8.0", REQUIRES_FITS },
		{ "1.0", "", REQUIRES_FITS },
		{ "1.0", ">1.0", REQUIRES_OLDER },
		{ "1.0", "<1.0", REQUIRES_NEWER },
		{ "1.0", "?3,=x", REQUIRES_FITS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(requires_compare(rows[i].version, rows[i].versions) == rows[i].fit,
		   "%s and %s", rows[i].version, rows[i].versions);
}

int main(void)
{
	test_parse();
	test_compare();
	return tap_done();
}
