/* test_opt.c - options in every spelling, and the mistakes people make. */
#include "cli/opt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static int ranks, quiet, verbose;
static const char *dir;
static uint64_t bytes;
static struct opt_list vars;
static const char *range[2];

static const struct opt opts[] = {
	{ OPT_HEAD, 0, "", NULL, NULL, "how many" },
	{ OPT_INT, 'n', "np", "N", &ranks, "number of ranks" },
	{ OPT_FLAG, 'q', "quiet", NULL, &quiet, "say little" },
	{ OPT_FLAG, 'v', "verbose", NULL, &verbose, "say much" },
	{ OPT_STR, 'o', "output-dir", "DIR", &dir, "write there" },
	{ OPT_SIZE, 0, "bytes", "SIZE", &bytes, "how much" },
	{ OPT_LIST, 'x', "export", "VAR", &vars, "pass a variable on" },
	{ OPT_PAIR, 0, "range", "MIN MAX", range, "from here to there" },
	{ 0 },
};

static struct err e;
static int rest;

static char *argv[16];
static int argc;

/* Parse the words of @line, which are separated by single spaces. */
static int parse_as(bool runs, const char *line)
{
	static char text[256];
	char *p;

	argc = 0;
	ranks = quiet = verbose = 0;
	dir = NULL;
	bytes = 0;
	vars.count = 0;
	range[0] = range[1] = NULL;
	e = (struct err){ 0 };
	snprintf(text, sizeof(text), "%s", line);
	for (p = strtok(text, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	argv[argc] = NULL;
	return opt_parse(opts, runs, argc, argv, &rest, &e);
}

/* ... of a command whose operands are a program. */
static int parse(const char *line)
{
	return parse_as(true, line);
}

/* ... of one whose operands are not, and are then @left. */
static bool leaves(const char *line, const char *left)
{
	char text[256] = "";
	int i, at = 0;

	if (parse_as(false, line))
		return false;
	for (i = rest; i < argc; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " %s", argv[i]);
	return !strcmp(text, left);
}

static void check_pairs(void)
{
	ok(!parse("run --range 1 -2 x") && !strcmp(range[0], "1") && !strcmp(range[1], "-2") &&
		   !strcmp(argv[rest], "x"),
	   "an option can have two words");
	ok(parse("run --range 1") == RINGUP_EINVAL && strstr(e.text, "two words, MIN MAX"),
	   "both of them");
	ok(parse("run --range=1 2") == RINGUP_EINVAL && parse("run --range") == RINGUP_EINVAL,
	   "none behind =");
	ok(parse("run --=x") == RINGUP_EINVAL && strstr(e.text, "unknown option"),
	   "a heading is no option");
}

int main(void)
{
	check_pairs();
	static const char *const four[] = { "x -n 4",   "x -n4",    "x -np 4", "x -np=4",
					    "x --np 4", "x --np=4", "x -qn4" };
	char *usage = NULL;
	size_t i, size;
	FILE *f;

	for (i = 0; i < sizeof(four) / sizeof(four[0]); i++)
		ok(parse(four[i]) == 0 && ranks == 4, "%s", four[i]);
	ok(parse("x -qv") == 0 && quiet && verbose, "flags bundle");
	ok(parse("x -np 2 python3 x.py --np 3") == 0 && ranks == 2 && rest == 3,
	   "the first operand ends the options");
	ok(parse("x -q -- -v") == 0 && !verbose && rest == 3, "so does --");
	ok(parse("x -q - -v") == 0 && rest == 2, "a lone dash is an operand");
	ok(parse("x -x A -xB=1 --export=C") == 0 && vars.count == 3 &&
		   !strcmp(vars.item[1], "B=1") && !strcmp(vars.item[2], "C"),
	   "a list grows");
	ok(parse("x --bytes 64K") == 0 && bytes == 65536, "a size has units");
	ok(parse("x --output-dir= y") == 0 && !strcmp(dir, "") && rest == 2,
	   "an empty value is a value");
	ok(parse("x -h") == OPT_HELP && parse("x -q --help") == OPT_HELP, "help is everywhere");
	ok(parse("x -hostfile hosts cmd") == RINGUP_EINVAL && strstr(e.text, "-hostfile") &&
		   parse("x -host h1") == RINGUP_EINVAL && parse("x -qh") == RINGUP_EINVAL,
	   "-h stands alone: %s", e.text);
	ok(parse("x -oversubscribe cmd") == RINGUP_EINVAL && !dir &&
		   strstr(e.text, "separate the value with a blank: -o versubscribe"),
	   "a long name of others is no value: %s", e.text);
	ok(parse("x -n-by-node") == RINGUP_EINVAL && parse("x -qo-by-node") == RINGUP_EINVAL,
	   "with dashes in it neither: %s", e.text);
	ok(parse("x -onode.7") == 0 && !strcmp(dir, "node.7") && parse("x -qo../x") == 0 &&
		   quiet && !strcmp(dir, "../x"),
	   "what does not look like one is");
	ok(parse("x -n-4") == 0 && ranks == -4, "and a negative number");
	ok(parse("x cmd --help") == 0, "but not behind an operand");
	ok(leaves("x a -q b -n 3 c", " a b c") && quiet && ranks == 3,
	   "options stand anywhere if operands are no program");
	ok(leaves("x a b", " a b") && leaves("x a -q", " a") && leaves("x -q", ""),
	   "and operands keep their order");
	ok(leaves("x a -q -- -v b", " a -v b") && quiet && !verbose,
	   "-- ends the options there, too");
	ok(parse_as(false, "x a --help") == OPT_HELP, "help is behind an operand as well");
	ok(parse_as(false, "x a -n") == RINGUP_EINVAL && strstr(e.text, "needs N"),
	   "an option at the end without its value: %s", e.text);
	ok(parse("x --bytes 64Q") == RINGUP_EINVAL && strstr(e.text, "64Q"), "%s", e.text);
	ok(parse("x -n four") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x -n 99999999999") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x -n 99999999999999999999") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x -n") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x --quiet=1") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x --qiuet") == RINGUP_EINVAL && strstr(e.text, "--quiet"), "%s", e.text);
	ok(parse("x -qz") == RINGUP_EINVAL, "%s", e.text);
	ok(parse("x --") == 0 && rest == 2, "a bare -- is fine");
	f = open_memstream(&usage, &size);
	opt_usage(opts, f);
	fclose(f);
	ok(strstr(usage, "\n  -o, --output-dir=DIR  write there\n") != NULL, "usage aligns");
	ok(strstr(usage, "how many:\n  -n, -np N             number of ranks\n") == usage,
	   "and spells -np as people do, below its heading");
	ok(strstr(usage, "  -h, --help            show this text\n") != NULL,
	   "and has help: %s", "last row");
	free(usage);
	free(vars.item);
	return tap_done();
}
