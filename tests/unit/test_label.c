/* test_label.c - names as numbers: each once, and as JSON can hold them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/label.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

static struct labels labels;

static const char *shown(uint64_t group, const char *name, size_t len)
{
	return label_text(&labels, label_enter(&labels, group, name, len));
}

/* As JSON reads it. */
static int is_json(const char *text)
{
	char all[8192];
	json_t *j;

	snprintf(all, sizeof(all), "[\"%s\"]", text);
	j = json_loads(all, 0, NULL);
	json_decref(j);
	return j != NULL;
}

static void test_names(void)
{
	uint32_t a = label_enter(&labels, 0, "allreduce.a", 11);

	ok(a && label_enter(&labels, 0, "allreduce.a", 11) == a, "a name has one number");
	ok(label_enter(&labels, 0, "allreduce.b", 11) != a, "another name another one");
	ok(label_enter(&labels, 3, "allreduce.a", 11) != a,
	   "as has the same name of another group");
	ok(!strcmp(label_text(&labels, a), "allreduce.a"), "its text: %s",
	   label_text(&labels, a));
	ok(!strcmp(shown(3, "x", 1), "x (process set 3)"), "a group's says which: %s",
	   shown(3, "x", 1));
	ok(!strcmp(label_text(&labels, 0), "?") && !strcmp(label_text(&labels, 1U << 30), "?"),
	   "what is no label has a text, too");
}

static void test_bytes(void)
{
	char every[256], long_name[3 * LABEL_BYTES];
	int i;

	for (i = 0; i < 256; i++)
		every[i] = (char)i;
	ok(is_json(shown(0, every, sizeof(every))), "any bytes make valid JSON");
	ok(!strcmp(shown(0, "a\"b\\c\n", 6), "a\\\"b\\\\c\\u000a"), "quotes are escaped: %s",
	   shown(0, "a\"b\\c\n", 6));
	ok(!strcmp(shown(0, "gr\xc3\xbc\xc3\x9f", 6), "gr\xc3\xbc\xc3\x9f"), "UTF-8 passes");
	ok(!strcmp(shown(0, "\xc3(\xed\xa0\x80\xf5", 6), "?(????"), "what is none does not: %s",
	   shown(0, "\xc3(\xed\xa0\x80\xf5", 6));
	memset(long_name, 'x', sizeof(long_name));
	ok(strlen(shown(0, long_name, sizeof(long_name))) == LABEL_BYTES, "a long name is cut");
}

static void test_many(void)
{
	char name[32];
	int i, bad = 0;

	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		bad += !label_enter(&labels, 0, name, strlen(name));
	}
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		bad += strcmp(shown(0, name, strlen(name)), name) != 0;
	}
	ok(!bad, "thousands are found again: %d are not", bad);
}

static void test_sets(void)
{
	int two[] = { 3, 5 }, three[] = { 3, 5, 7 }, i, n;
	int a = label_set(&labels, two, 2), b = label_set(&labels, three, 3);

	ok(a >= 0 && b >= 0 && a != b && label_set(&labels, two, 2) == a,
	   "a set of ranks has one number");
	ok(label_ranks(&labels, b)->count == 3 && label_ranks(&labels, b)->ranks[2] == 7,
	   "it is found by that");
	ok(!label_ranks(&labels, -1) && !label_ranks(&labels, LABEL_SETS) &&
		   !label_ranks(&labels, a + b + 1),
	   "others are not");
	for (n = 0, i = 0; i < 2 * LABEL_SETS; i++)
		n += label_set(&labels, &i, 1) >= 0;
	ok(n == LABEL_SETS - 2, "there is an end of sets: %d", n);
}

int main(void)
{
	test_names();
	test_bytes();
	test_many();
	test_sets();
	labels_free(&labels);
	return tap_done();
}
