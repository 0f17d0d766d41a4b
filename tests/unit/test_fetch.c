/* test_fetch.c - an archive is unpacked only if its list is harmless. */
#include "rebuild/fetch.h"

#include <string.h>

#include "base/err.h"
#include "tap.h"

#define LINE(mode, size, name) mode " root/root " size " 2023-06-13 01:02 " name "\n"

int main(void)
{
	static const struct {
		const char *list, *why;
	} rows[] = {
		{ LINE("drwxr-xr-x", "0", "x-1/") LINE("-rw-r--r--", "12", "x-1/a b"), NULL },
		{ LINE("-rw-r--r--", "12", "x-1/a..b/..c"), NULL },
		{ "", "empty" },
		{ LINE("-rw-r--r--", "12", "/etc/passwd"), "leads outside" },
		{ LINE("-rw-r--r--", "12", "x-1/../../etc/passwd"), "leads outside" },
		{ LINE("-rw-r--r--", "12", "../x"), "leads outside" },
		{ LINE("-rw-r--r--", "12", "x-1/.."), "leads outside" },
		{ LINE("lrwxrwxrwx", "0", "x-1/a -> /etc"), "neither file nor folder" },
		{ LINE("hrw-r--r--", "0", "x-1/a link to x-1/b"), "neither file nor folder" },
		{ LINE("crw-r--r--", "1,3", "x-1/null"), "neither file nor folder" },
		{ LINE("drwxr-xr-x", "0", "x-1/") LINE("-rw-r--r--", "1", "y/a"),
		  "one folder" },
		{ LINE("drwxr-xr-x", "0", "x-1/") LINE("-rw-r--r--", "1", "x-10/a"),
		  "one folder" },
		{ LINE("-rw-r--r--", "3000000000", "x-1/a"), "2 GiB" },
		{ LINE("-rw-r--r--", "2000000000", "x-1/a")
			  LINE("-rw-r--r--", "2000000000", "x-1/b"),
		  "2 GiB" },
		{ LINE("-rw-r--r--", "-5", "x-1/a"), "2 GiB" },
		{ "garbage\n", "leads outside" },
	};
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc;

		fail_none(&e);
		rc = fetch_list_is_sound(rows[i].list, &e);
		if (rows[i].why)
			ok(rc && strstr(e.text, rows[i].why), "row %zu is refused: %s", i,
			   e.text);
		else
			ok(!rc, "row %zu is taken: %s", i, e.text);
	}
	return tap_done();
}
