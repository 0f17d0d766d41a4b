/* cmd_env.c - `ringup env`: show every setting, its value and its meaning. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "ringup.h"

static int names_only, as_json;

static const struct opt opts[] = {
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 'n', "names", NULL, &names_only, "print the names only" },
	{ 0 },
};

static const char *origin(const struct setting *s, enum conf_from from)
{
	switch (from) {
	case CONF_OWN:
		return "environment";
	case CONF_ALIAS:
		return conf_alias(s);
	case CONF_PROFILE:
		return "profile";
	case CONF_DEFAULT:
		break;
	}
	return "default";
}

static int print_names(void)
{
	const struct setting *s;
	char name[CONF_NAME_BYTES];

	for (s = settings; s->name; s++) {
		conf_name(s, name);
		out_text("%s\n", name);
	}
	return 0;
}

static int print_table(struct err *e)
{
	static const char *const heads[] = { "VARIABLE", "VALUE",   "FROM",
					     "DEFAULT",  "MEANING", NULL };
	const struct setting *s;
	struct out_table t;

	out_table_init(&t, heads);
	for (s = settings; s->name; s++) {
		char name[CONF_NAME_BYTES], buf[CONF_VALUE_BYTES];
		enum conf_from from;
		const char *value = conf_value(s, &from, buf);

		conf_name(s, name);
		out_table_cell(&t, OUT_PLAIN, "%s", name);
		out_table_cell(&t, from == CONF_DEFAULT ? OUT_PLAIN : OUT_BOLD, "%s",
			       *value ? value : "-");
		out_table_cell(&t, OUT_PLAIN, "%s", origin(s, from));
		out_table_cell(&t, OUT_DIM, "%s", *s->def ? s->def : "-");
		out_table_cell(&t, OUT_PLAIN, "%s", s->help);
	}
	return out_table_print(&t, e);
}

static int print_json(struct err *e)
{
	json_t *list = json_array();
	const struct setting *s;

	for (s = settings; s->name; s++) {
		char name[CONF_NAME_BYTES], buf[CONF_VALUE_BYTES];
		enum conf_from from;
		const char *value = conf_value(s, &from, buf);
		json_t *row;

		conf_name(s, name);
		row = json_pack("{ss so ss ss ss ss ss}", "name", name, "value",
				out_string(value), "from", origin(s, from), "default", s->def,
				"kind", s->kind, "alias", conf_alias(s), "help", s->help);
		if (json_array_append_new(list, row)) {
			json_decref(list);
			return fail(e, RINGUP_ENOMEM, "no memory for the list of settings");
		}
	}
	return out_json(json_pack("{so}", "settings", list), e);
}

static int run(int argc, char **argv, struct err *e)
{
	(void)argc;
	(void)argv;
	if (names_only)
		return print_names();
	return as_json ? print_json(e) : print_table(e);
}

const struct cmd cmd_env = {
	.name = "env",
	.operands = "",
	.summary = "show every setting and what it means",
	.examples = "ringup env\n"
		    "RINGUP_FUSION_BYTES=64K ringup env --json",
	.opts = opts,
	.run = run,
};
