/* cmd.c - find the subcommand, parse its options, run it, report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

#include <stdarg.h>
#include <string.h>

#include "base/build.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/near.h"
#include "cli/out.h"
#include "ringup.h"

static struct conf conf;
static bool is_misuse;

const struct conf *cmd_conf(void)
{
	return &conf;
}

int cmd_misuse(struct err *e, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	is_misuse = true;
	return fail(e, RINGUP_EINVAL, "%s", text);
}

const struct cmd *cmd_find(const struct cmd *const *list, const char *name)
{
	for (; *list; list++)
		if (!strcmp((*list)->name, name))
			return *list;
	return NULL;
}

const char *cmd_nearest(const struct cmd *const *list, const char *typed)
{
	struct near n = { 0 };

	for (; *list; list++)
		near_offer(&n, typed, (*list)->name);
	return n.best;
}

static void print_subs(const struct cmd *const *list, FILE *f)
{
	int width = 0;

	for (int i = 0; list[i]; i++)
		if ((int)strlen(list[i]->name) > width)
			width = (int)strlen(list[i]->name);
	for (int i = 0; list[i]; i++)
		fprintf(f, "  %-*s  %s\n", width, list[i]->name, list[i]->summary);
}

static void print_examples(const char *text, FILE *f)
{
	fputs("\nexamples:\n", f);
	while (*text) {
		int len = (int)strcspn(text, "\n");

		fprintf(f, "  %.*s\n", len, text);
		text += len + (text[len] == '\n');
	}
}

static void print_end(const char *exits, const char *page, FILE *f)
{
	fprintf(f,
		"\nexit status: %s\n"
		"manual:      man ringup%s%s\n",
		exits ? exits : "0 success, 1 negative result, 2 usage error, 3 failure",
		*page ? "-" : "", page);
}

void cmd_usage(const struct cmd *family, const struct cmd *c, FILE *f)
{
	const char *first = family ? family->name : "", *space = family ? " " : "";

	if (c->subs) {
		fprintf(f, "usage: ringup %s COMMAND [OPTION]... [OPERAND]...\n%s\n\n", c->name,
			c->summary);
		print_subs(c->subs, f);
		fprintf(f, "\n`ringup help %s COMMAND` explains a command.\n", c->name);
	} else {
		fprintf(f, "usage: ringup %s%s%s [OPTION]...%s%s\n%s\n\n", first, space,
			c->name, *c->operands ? " " : "", c->operands, c->summary);
		opt_usage(c->opts, f);
	}
	if (c->examples)
		print_examples(c->examples, f);
	print_end(c->exits, family ? first : c->name, f);
}

void cmd_list(FILE *f)
{
	fputs("usage: ringup COMMAND [OPTION]... [OPERAND]...\n"
	      "Set up training nodes, run distributed jobs, and diagnose their network.\n\n",
	      f);
	print_subs(cmds, f);
	fputs("\n`ringup help COMMAND` or `ringup COMMAND --help` explains a command.\n"
	      "`ringup --version` prints the version.\n",
	      f);
	print_end(NULL, "", f);
}

/* Prints "ringup net explain: why", and the command for help. */
static int usage_error(const struct cmd *family, const struct cmd *c, const char *why)
{
	const char *one = family ? family->name : c ? c->name : "";
	const char *two = family && c ? c->name : "";

	/* The typed words may hold control characters, which a terminal must not get. */
	out_note("ringup%s%s%s%s: %s\n", *one ? " " : "", one, *two ? " " : "", two, why);
	out_note("try: ringup%s%s%s%s --help\n", *one ? " " : "", one, *two ? " " : "", two);
	return CMD_USAGE;
}

static int command_unknown(const struct cmd *family, const char *typed)
{
	const char *near = cmd_nearest(family ? family->subs : cmds, typed);
	char why[256];

	if (*typed == '-')
		snprintf(why, sizeof(why), "unknown option %.64s before the command", typed);
	else
		snprintf(why, sizeof(why), "no command called %.64s%s%s%s", typed,
			 near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return usage_error(family, NULL, why);
}

static int failed(const struct cmd *family, const struct cmd *c, const struct err *e)
{
	out_note("ringup %s%s%s: %s\n", family ? family->name : "", family ? " " : "", c->name,
		 e->text);
	return CMD_FAIL;
}

static int wrong_operands(const struct cmd *family, const struct cmd *c, int argc, char **argv)
{
	char why[256];

	if (argc < c->min)
		snprintf(why, sizeof(why), "%s is missing", c->operands);
	else
		snprintf(why, sizeof(why), "unexpected operand %.64s", argv[c->max]);
	return usage_error(family, c, why);
}

static int command_run(const struct cmd *family, const struct cmd *c, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, rc, status;

	rc = opt_parse(c->opts, c->runs, argc, argv, &rest, &e);
	if (rc < 0)
		return usage_error(family, c, e.text);
	if (rc == OPT_HELP) {
		cmd_usage(family, c, stdout);
		return out_end(&e) ? failed(family, c, &e) : CMD_YES;
	}
	argc -= rest;
	argv += rest;
	if (argc < c->min || (c->max >= 0 && argc > c->max))
		return wrong_operands(family, c, argc, argv);
	if (conf_load(&conf, CONF_FORBID, &e))
		return failed(family, c, &e);
	rc = c->run(argc, argv, &e);
	if (rc < 0)
		status = is_misuse ? usage_error(family, c, e.text) : failed(family, c, &e);
	else
		status = rc;
	/* Output may still be in the buffer, and the disk full. */
	if (out_end(&e) && rc >= 0)
		status = failed(family, c, &e);
	return status;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run_sub(const struct cmd *family, int argc, char **argv)
{
	const struct cmd *c;
	struct err e = { 0 };

	if (argc < 2)
		return usage_error(family, NULL, "which command of the family?");
	if (is_help(argv[1])) {
		cmd_usage(NULL, family, stdout);
		return out_end(&e) ? failed(NULL, family, &e) : CMD_YES;
	}
	c = cmd_find(family->subs, argv[1]);
	return c ? command_run(family, c, argc - 1, argv + 1)
		 : command_unknown(family, argv[1]);
}

int cmd_main(int argc, char **argv)
{
	const struct cmd *c, *help = cmd_find(cmds, "help");
	struct err e = { 0 };

	out_start();
	if (argc < 2) {
		cmd_list(stderr);
		return CMD_USAGE;
	}
	if (is_help(argv[1])) {
		cmd_list(stdout);
		return out_end(&e) ? failed(NULL, help, &e) : CMD_YES;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("ringup %s\n", build_version());
		return out_end(&e) ? failed(NULL, help, &e) : CMD_YES;
	}
	c = cmd_find(cmds, argv[1]);
	if (!c)
		return command_unknown(NULL, argv[1]);
	return c->subs ? run_sub(c, argc - 1, argv + 1)
		       : command_run(NULL, c, argc - 1, argv + 1);
}
