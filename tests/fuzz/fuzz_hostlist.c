/* fuzz_hostlist.c - any bytes as -H, a hostfile or what a discovery script prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "launch/hostlist.h"

/* Each becomes a word of a command, and is there once. */
static void check(struct hostlist *l, int rc, const struct err *e)
{
	const char *name;
	int i, k;

	fuzz_require(!rc || *e->text);
	for (i = 0; i < l->count; i++) {
		name = l->host[i].name;
		fuzz_require(*name && *name != '-' && l->host[i].slots >= 0);
		for (; *name; name++)
			fuzz_require(isalnum((unsigned char)*name) || strchr("._-@%:", *name));
		for (k = 0; k < i; k++)
			fuzz_require(strcmp(l->host[i].name, l->host[k].name) != 0);
	}
	hostlist_fini(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len);
	struct hostlist l = { 0 };
	struct err e = { 0 };

	fuzz_require(text);
	check(&l, hostlist_option(&l, text, 2, &e), &e);
	e = (struct err){ 0 };
	check(&l, hostlist_script(&l, text, 2, &e), &e);
	free(text);
	return 0;
}
