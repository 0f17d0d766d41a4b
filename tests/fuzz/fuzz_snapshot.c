/* fuzz_snapshot.c - any bytes as a recorded machine: refused, or judged and written again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "host/snapshot.h"
#include "nicpick/lint.h"
#include "ringup.h"

static void judge(const struct snapshot *s)
{
	struct lint_report r;
	struct err e;
	int i;

	fuzz_require(lint_run(&r, s, &e) == 0);
	for (i = 0; i < r.n; i++)
		fuzz_require(*r.findings[i].what && *r.findings[i].where);
	lint_free(&r);
}

static void write_again(const struct snapshot *s)
{
	json_t *first = snapshot_json(s), *second;
	struct snapshot again;
	struct err e;

	fuzz_require(first && snapshot_parse(&again, first, &e) == 0);
	second = snapshot_json(&again);
	fuzz_require(json_equal(first, second));
	json_decref(first);
	json_decref(second);
	snapshot_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	json_t *json = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
	struct snapshot s;
	struct err e = { 0 };
	int rc;

	if (!json)
		return 0;
	rc = snapshot_parse(&s, json, &e);
	fuzz_require(!rc || (rc == RINGUP_EINVAL && *e.text));
	if (!rc) {
		judge(&s);
		write_again(&s);
	}
	snapshot_free(&s);
	json_decref(json);
	return 0;
}
