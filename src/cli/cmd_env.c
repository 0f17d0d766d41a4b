/* cmd_env.c - `ringup env`: show every setting, its value and its meaning. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/horovod.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "ringup.h"

static int names_only, as_json, horovod_only;

static const struct opt opts[] = {
	{ OPT_FLAG, 'H', "horovod", NULL, &horovod_only,
	  "list Horovod's variables and their meaning in ringup" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 'n', "names", NULL, &names_only, "print only the names" },
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

/* The value in force, with secrets hidden. */
static const char *cmd_env_value_of(const struct setting *s, enum conf_from *from,
				    char buf[CONF_VALUE_BYTES])
{
	const char *value = conf_value(s, from, buf);

	return *value && !strcmp(s->kind, "SECRET") ? "(hidden)" : value;
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
		const char *value = cmd_env_value_of(s, &from, buf);

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

/* A secret is not shown. */
static const char *shown(const struct horovod *h, const char *value)
{
	return h && !strcmp(h->name, "_HOROVOD_SECRET_KEY") ? "(hidden)" : value;
}

/* Prints Horovod's variables that are set. */
static int print_found(struct err *e)
{
	static const char *const heads[] = { "HOROVOD'S", "VALUE", "KIND", "MEANING HERE",
					     NULL };
	char **p, text[HOROVOD_TEXT];
	struct out_table t;
	int found = 0;
	size_t len;

	out_table_init(&t, heads);
	for (p = conf_environ(); p && *p; p++) {
		const struct horovod *h;

		if (!horovod_is(*p, &len) || !(*p)[len])
			continue;
		h = horovod_find(*p, len);
		found++;
		out_table_cell(&t, OUT_PLAIN, "%.*s", (int)len, *p);
		out_table_cell(&t, OUT_BOLD, "%s", shown(h, *p + len + 1));
		out_table_cell(&t, OUT_PLAIN, "%s", h ? horovod_kind(h) : "unknown");
		out_table_cell(&t, OUT_PLAIN, "%s",
			       h ? horovod_meaning(h, text)
				 : "not a Horovod 0.28 variable; ignored");
	}
	if (found)
		out_text("\n");
	return found ? out_table_print(&t, e) : 0;
}

static int print_horovod(struct err *e)
{
	static const char *const heads[] = { "VARIABLE", "KIND", "MEANING HERE", NULL };
	const struct horovod *h;
	char text[HOROVOD_TEXT];
	struct out_table t;

	out_table_init(&t, heads);
	for (h = horovods; h->name; h++) {
		out_table_cell(&t, OUT_PLAIN, "%s", h->name);
		out_table_cell(&t, OUT_PLAIN, "%s", horovod_kind(h));
		out_table_cell(&t, OUT_PLAIN, "%s", horovod_meaning(h, text));
	}
	return out_table_print(&t, e);
}

static json_t *horovod_row(const struct horovod *h, const char *name, size_t len,
			   const char *value)
{
	char text[HOROVOD_TEXT];

	return json_pack("{ss% so ss ss}", "name", name, len, "value",
			 value ? out_string(shown(h, value)) : json_null(), "kind",
			 h ? horovod_kind(h) : "unknown", "meaning",
			 h ? horovod_meaning(h, text) : "");
}

/* Horovod's variables that are set, or all. */
static json_t *horovod_list(bool all)
{
	json_t *list = json_array();
	const struct horovod *h;
	size_t len;
	char **p;

	for (h = horovods; all && h->name; h++)
		json_array_append_new(
			list, horovod_row(h, h->name, strlen(h->name), conf_env(h->name)));
	for (p = conf_environ(); !all && p && *p; p++)
		if (horovod_is(*p, &len) && (*p)[len])
			json_array_append_new(list, horovod_row(horovod_find(*p, len), *p, len,
								*p + len + 1));
	return list;
}

static int cmd_env_print_json(struct err *e)
{
	json_t *list = json_array();
	const struct setting *s;

	for (s = settings; s->name; s++) {
		char name[CONF_NAME_BYTES], buf[CONF_VALUE_BYTES];
		enum conf_from from;
		const char *value = cmd_env_value_of(s, &from, buf);
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
	return out_json(json_pack("{soso}", "settings", list, "horovod", horovod_list(false)),
			e);
}

static int cmd_env_run(int argc, char **argv, struct err *e)
{
	int rc;

	(void)argc;
	(void)argv;
	if (names_only)
		return print_names();
	if (horovod_only)
		return as_json ? out_json(json_pack("{so}", "horovod", horovod_list(true)), e)
			       : print_horovod(e);
	if (as_json)
		return cmd_env_print_json(e);
	rc = print_table(e);
	return rc ? rc : print_found(e);
}

const struct cmd cmd_env = {
	.name = "env",
	.operands = "",
	.summary = "show every setting with its value and meaning",
	.examples = "ringup env\n"
		    "ringup env --horovod\n"
		    "RINGUP_FUSION_BYTES=64K ringup env --json",
	.opts = opts,
	.run = cmd_env_run,
};
