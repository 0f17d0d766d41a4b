/* test_textpool.c - texts are copies; lists grow and keep their order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/textpool.h"

#include <stdio.h>
#include <string.h>

#include "tap.h"

static void test_texts(void)
{
	struct textpool p = { 0 };
	char own[] = "gcc";
	const char *kept = textpool_keep(&p, own);

	own[0] = 'X';
	ok(!strcmp(kept, "gcc"), "a text is a copy");
	ok(!*textpool_keep(&p, NULL) && !*textpool_keep(&p, ""), "none is empty, not NULL");
	ok(!p.is_short, "there was memory for all");
	textpool_free(&p);
	textpool_free(&p);
	ok(!p.first, "what is free may be freed again");
}

static void test_pairs(void)
{
	struct textpool p = { 0 };
	struct textpairs list = { 0 }, other = { 0 };
	char name[16];
	int i;

	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		textpool_add(&p, &list, name, "x");
		textpool_set(&p, &other, name, "x");
	}
	ok(list.count == 100 && !strcmp(list.at[0].name, "n0") &&
		   !strcmp(list.at[99].name, "n99"),
	   "a hundred pairs in their order");
	ok(other.count == 100 && !strcmp(other.at[99].name, "n99"),
	   "set where none is appends");
	textpool_set(&p, &other, "n7", "y");
	ok(other.count == 100 && !strcmp(textpool_get(&other, "n7"), "y"), "else it replaces");
	textpool_add(&p, &list, "n7", "z");
	ok(list.count == 101 && !strcmp(textpool_get(&list, "n7"), "x"),
	   "of several of one name the first is got");
	ok(!textpool_get(&list, "n100"), "what is not there is NULL");
	textpool_free(&p);
}

int main(void)
{
	test_texts();
	test_pairs();
	return tap_done();
}
