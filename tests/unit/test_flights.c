/* test_flights.c - flight records of several ranks: which rank missed which operation. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hang/flights.h"
#include "hang/ruling.h"
#include "ringup.h"

#include "tap.h"

/*
 * A dump is a word for each operation: its letter is the line of the program (and stands for
 * the kind of operation if it is a capital), '!' says that it has not ended, '2' that it is
 * larger.
 */
static size_t make_dump(char *out, size_t size, const char *ops, const char *members)
{
	size_t n = (size_t)snprintf(out, size,
				    "{\"version\": \"2.10\", \"pg_config\": {\"0\": {\"name\": "
				    "\"%s\", \"desc\": \"default_pg\", \"ranks\": \"%s\"}}, "
				    "\"entries\": [",
				    members ? "0" : "", members ? members : "[]");
	int number = 0;

	for (; *ops; ops++) {
		bool over, large;
		char op = *ops;

		if (op == ' ')
			continue;
		large = ops[1] == '2';
		ops += large;
		over = ops[1] != '!';
		ops += !over;
		n += (size_t)snprintf(
			out + n, size - n,
			"%s{\"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": "
			"%d, "
			"\"profiling_name\": \"gloo:%s\", \"input_sizes\": [[%d]], "
			"\"input_dtypes\": [\"Float\"], \"state\": \"scheduled\", \"retired\": "
			"%s, "
			"\"is_p2p\": false, \"frames\": [{\"name\": \"f\", \"filename\": "
			"\"/v/site-packages/torch/x.py\", \"line\": 1}, {\"name\": \"train\", "
			"\"filename\": \"/srv/u/train.py\", \"line\": %d}]}",
			number ? ", " : "", number + 1, op >= 'a' ? "all_reduce" : "barrier",
			large ? 2048 : 1024, over ? "true" : "false", op);
		number++;
	}
	return n + (size_t)snprintf(out + n, size - n, "]}");
}

struct row {
	const char *name, *members, *dump[4];
	enum ruling_kind kind;
	int culprit; /* -1: none */
	const char *says;
};

/* 'a' is 97, and so on. */
static const struct row table[] = {
	{ "all agree",
	  NULL,
	  { "a b c", "a b c", "a b c" },
	  RULING_MOVES,
	  -1,
	  "3 dumps: no operation" },
	{ "a rank did not come to the last",
	  NULL,
	  { "a b c!", "a b", "a b c!" },
	  RULING_LATE,
	  1,
	  "train.py:99 (number 3 of 3)" },
	{ "the first dump is the odd one",
	  NULL,
	  { "a b", "a b c!", "a b c!" },
	  RULING_LATE,
	  0,
	  "" },
	{ "a rank skipped one of equal ones, and the lines tell which",
	  NULL,
	  { "a b c d e!", "a c d e", "a b c d e!" },
	  RULING_LATE,
	  1,
	  "train.py:98 (number 2 of 5)" },
	{ "a rank took another branch",
	  NULL,
	  { "a b C!", "a b c!", "a b c!" },
	  RULING_ODD,
	  0,
	  "it started barrier" },
	{ "a rank brought another size",
	  NULL,
	  { "a b!", "a b!", "a b2!" },
	  RULING_ODD,
	  2,
	  "[2048]" },
	{ "two against two", NULL, { "a b!", "a b!", "a B!", "a B!" }, RULING_APART, -1, "" },
	{ "a rank called one too many", NULL, { "a", "a", "a b!" }, RULING_ODD, 2, "more" },
	{ "all wait in the same", NULL, { "a b!", "a b!", "a b!" }, RULING_UNENDING, -1, "" },
	{ "dumps of different moments: the others have ended it",
	  NULL,
	  { "a b c", "a b", "a b c" },
	  RULING_MOVES,
	  -1,
	  "" },
	{ "a rank without a dump is not blamed",
	  "[0, 1, 2, 3]",
	  { "a b!", "a b!", NULL, "a b!" },
	  RULING_UNENDING,
	  -1,
	  "" },
};

static void check(const struct row *t)
{
	static struct ruling r;
	static char text[65536];
	struct flights f = { 0 };
	struct err e;
	char absent[256];
	bool right;
	int rc = 0;

	for (int i = 0; i < 4 && !rc; i++)
		if (t->dump[i])
			rc = flights_add(&f, i, text,
					 make_dump(text, sizeof(text), t->dump[i], t->members),
					 &e);
	flights_judge(&f, &r, absent, sizeof(absent));
	right = t->culprit < 0 ? !r.culprits : r.culprits == 1 && r.culprit[t->culprit];
	ok(!rc && r.kind == t->kind && right &&
		   (strstr(r.what, t->says) || strstr(r.why, t->says)),
	   "%s: %s; %s; %s", t->name, ruling_name(r.kind), r.what, r.why);
	ok(!t->members == !*absent, "%s: missing dumps are told: %s", t->name, absent);
	flights_free(&f);
}

/* ringup's and NCCL's dumps have states: what has failed is retired, and not complete. */
static void check_failed(void)
{
#define FAILED                                                                              \
	"{\"version\": \"2.10\", \"comm_lib_version\": \"ringup\", \"entries\": ["          \
	"{\"process_group\": [\"0\", \"\"], \"collective_seq_id\": 1, \"profiling_name\": " \
	"\"gloo:all_reduce\", \"state\": \"completed\", \"retired\": true}"
	static const char with[] =
		FAILED ", {\"process_group\": [\"0\", \"\"], \"collective_seq_id\": 2, "
		       "\"profiling_name\": "
		       "\"gloo:all_reduce\", \"state\": \"scheduled\", \"retired\": true}]}";
	static const char without[] = FAILED "]}";
	static struct ruling r;
	struct flights f = { 0 };
	struct err e;
	char absent[64];

	ok(!flights_add(&f, 0, with, sizeof(with) - 1, &e) &&
		   !flights_add(&f, 1, without, sizeof(without) - 1, &e),
	   "dumps of ringup are read");
	flights_judge(&f, &r, absent, sizeof(absent));
	ok(r.kind == RULING_LATE && r.culprits == 1 && r.culprit[1],
	   "an operation that failed was not ended: rank 1 did not start it");
	flights_free(&f);
}

/* The list of dumps grows at 64. */
static void check_many(void)
{
	enum { MANY = 70, ODD = 66 };
	static struct ruling r;
	struct flights f = { 0 };
	char text[8192], absent[256], who[32];
	struct err e;
	int rc = 0;

	for (int i = 0; i < MANY && !rc; i++)
		rc = flights_add(&f, i, text,
				 make_dump(text, sizeof(text), i == ODD ? "ab" : "abc!", NULL),
				 &e);
	flights_judge(&f, &r, absent, sizeof(absent));
	snprintf(who, sizeof(who), "rank %d alone", ODD);
	ok(!rc && r.culprits == 1 && r.culprit[ODD], "of %d dumps, %s is late", MANY, who);
	flights_free(&f);
}

/* Of a longer record the first entries are kept. */
static void check_long(void)
{
	enum { ROOM = 32 << 20, LONG = FLIGHT_ENTRIES + 3 };
	char *text = malloc(ROOM), *ops = malloc(LONG + 1);
	struct flights f = { 0 };
	struct err e;

	if (text && ops) {
		memset(ops, 'a', LONG);
		ops[LONG] = 0;
		ok(!flights_add(&f, 0, text, make_dump(text, ROOM, ops, NULL), &e) &&
			   f.dump[0].entries == FLIGHT_ENTRIES,
		   "%d entries of a longer record are kept", FLIGHT_ENTRIES);
	}
	flights_free(&f);
	free(ops);
	free(text);
}

int main(void)
{
	static const char good[] = "{\"version\": \"2.10\", \"entries\": []}";
	struct flights f = { 0 };
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check(&table[i]);
	check_failed();
	check_many();
	check_long();
	ok(flights_add(&f, 0, "{}", 2, &e) == RINGUP_EINVAL, "other JSON is refused: %s",
	   e.text);
	ok(flights_add(&f, -1, good, sizeof(good) - 1, &e) == RINGUP_EINVAL,
	   "so is a rank that cannot be");
	ok(!flights_add(&f, 3, good, sizeof(good) - 1, &e) &&
		   flights_add(&f, 3, good, sizeof(good) - 1, &e) == RINGUP_EINVAL,
	   "and a second dump of a rank");
	ok(flights_file(&f, "/nowhere/trace", &e) == RINGUP_EINVAL && strstr(e.text, "rank"),
	   "a file without a rank in its name is refused: %s", e.text);
	flights_free(&f);
	return tap_done();
}
