/* test_prove.c - what ranks tell of their training is judged: only averaging passes. */
#include "rebuild/prove.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static json_t *rank(int n, int size, const char *weights, double off, double alone)
{
	return json_pack("{si si ss sf sf}", "rank", n, "size", size, "weights", weights, "off",
			 off, "alone", alone);
}

static void check(const char *name, json_t *a, json_t *b, const char *want)
{
	json_t *told = json_pack("[oo]", a, b);
	char why[256];
	int bad = prove_judge(told, why, sizeof(why));

	if (want)
		ok(bad && strstr(why, want), "%s: %s", name, why);
	else
		ok(!bad, "%s", name);
	json_decref(told);
}

int main(void)
{
	check("averaged", rank(0, 2, "a", 0, 0.5), rank(1, 2, "a", 1e-7, 0.4), NULL);
	check("nothing was averaged", rank(0, 2, "a", 0.2, 0.2), rank(1, 2, "b", 0.3, 0.3),
	      "different weights");
	check("the same, but summed", rank(0, 2, "a", 0.2, 0.5), rank(1, 2, "a", 0.2, 0.4),
	      "differ from the expected average");
	check("each in a separate job", rank(0, 1, "a", 0, 0.5), rank(0, 1, "a", 0, 0.5),
	      "separate job");
	check("data that prove nothing", rank(0, 2, "a", 0, 0), rank(1, 2, "a", 0, 0),
	      "cannot show");
	check("a word is missing", json_pack("{si ss}", "size", 2, "weights", "a"),
	      rank(1, 2, "a", 0, 0.5), "differ");
	check("not a number at all",
	      json_pack("{si ss ss sf}", "size", 2, "weights", "a", "off", "0", "alone", 1.0),
	      rank(1, 2, "a", 0, 0.5), "differ");
	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	ok(prove_exists("torch") && prove_exists("tensorflow") && prove_exists("keras") &&
		   prove_exists("jax"),
	   "there are proofs");
	ok(!prove_exists("mxnet") && !prove_exists("../x"), "and none for others");
	return tap_done();
}
