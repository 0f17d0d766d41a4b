/* fuzz_facts.c - any bytes as a recorded check, judged, and written again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "probe/facts.h"
#include "probe/verdict.h"
#include "report/netpage.h"

/* The data and the script of the page, and none that came with a text. */
static int count_scripts(const char *page)
{
	int n = 0;

	for (; (page = strstr(page, "<script")); page++)
		n++;
	return n;
}

static void judge(const json_t *json)
{
	struct probe_facts f, again;
	struct err e;
	json_t *first, *second;
	size_t size;
	char *page;

	if (!facts_parse(&f, json, &e)) {
		fuzz_require(!verdict_find(&f, &e));
		fuzz_require(f.verdict && !strchr(f.verdict, '\n') && !strchr(f.verdict, 27));
		fuzz_require(!netpage_make(&f, &page, &size, &e));
		fuzz_require(!strchr(page, 27) && count_scripts(page) == 2);
		free(page);
		first = facts_json(&f);
		fuzz_require(first && !facts_parse(&again, first, &e));
		fuzz_require(!verdict_find(&again, &e));
		second = facts_json(&again);
		fuzz_require(json_equal(first, second));
		json_decref(first);
		json_decref(second);
		facts_free(&again);
	}
	facts_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	json_t *json;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	json = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);

	if (json)
		judge(json);
	json_decref(json);
	return 0;
}
