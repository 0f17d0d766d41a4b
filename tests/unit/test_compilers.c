/* test_compilers.c - names of compilers are told from names of others. */
#include <string.h>

#include "detect/compilers.h"
#include "tap.h"

int main(void)
{
	static const struct {
		const char *name, *family;
		bool is_cxx;
		const char *version;
	} rows[] = {
		{ "gcc", "gcc", false, "" },
		{ "g++-12", "gcc", true, "12" },
		{ "gcc-4.8", "gcc", false, "4.8" },
		{ "clang", "clang", false, "" },
		{ "clang++-14", "clang", true, "14" },
		{ "x86_64-linux-gnu-g++-12", "gcc", true, "12" },
		{ "x86_64-conda-linux-gnu-gcc", "gcc", false, "" },
		{ "gcc-ar", NULL, false, NULL },
		{ "gcc-ar-12", NULL, false, NULL },
		{ "gccgo", NULL, false, NULL },
		{ "clang-format-14", NULL, false, NULL },
		{ "clangd", NULL, false, NULL },
		{ "clang-14x", NULL, false, NULL },
		{ "c++", NULL, false, NULL },
		{ "gcc-123456789012345678901234567890", NULL, false, NULL },
		{ "", NULL, false, NULL },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *family = NULL;
		char version[16] = "";
		bool is_cxx = false;
		bool good = compilers_parse_name(rows[i].name, &family, &is_cxx, version, 16);

		ok(rows[i].family ? good && !strcmp(family, rows[i].family) &&
					    is_cxx == rows[i].is_cxx &&
					    !strcmp(version, rows[i].version)
				  : !good,
		   "'%s'", rows[i].name);
	}
	return tap_done();
}
