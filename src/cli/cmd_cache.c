/* cmd_cache.c - `ringup cache`: keys and entries of the shared build cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "rebuild/cache.h"
#include "rebuild/signkey.h"

static int as_json;
static const char *dir;

static const struct opt opts[] = {
	{ OPT_STR, 0, "cache", "DIR", &dir, "the cache folder (default: RINGUP_CACHE)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ 0 },
};

/* Makes a key pair in @folder, and prints the settings to make. */
static int keygen(const char *folder, struct err *e)
{
	char private_file[4096], public_file[4096], line[SIGNKEY_ID_BYTES];
	struct signkey_private k;
	struct signkey_public pub;
	int rc;

	if (snprintf(private_file, sizeof(private_file), "%s/cache.key", folder) >=
		    (int)sizeof(private_file) ||
	    snprintf(public_file, sizeof(public_file), "%s/cache.pub", folder) >=
		    (int)sizeof(public_file))
		return cmd_misuse(e, "%.80s...: too long", folder);
	rc = signkey_new(&k, e);
	if (!rc)
		rc = signkey_write(&k, private_file, public_file, e);
	signkey_public_of(&k, &pub);
	signkey_wipe(&k);
	if (rc)
		return rc;
	signkey_line(&pub, line);
	if (as_json)
		return out_json(json_pack("{ss so so ss}", "schema", "ringup.cache.keygen/1",
					  "key", out_string(private_file), "public",
					  out_string(public_file), "trust", line),
				e);
	out_text("%s: private key; copy it only to nodes that build\n", private_file);
	out_text("%s: public key; copy it, or only this line, to all nodes:\n", public_file);
	out_text("RINGUP_CACHE_TRUST=%s\n", line);
	return 0;
}

/* Results of see(). */
struct listing {
	struct out_table table;
	json_t *entries;
	int wrong;
};

static void size_text(uint64_t bytes, char out[24])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	double n = (double)bytes;
	int i;

	for (i = 0; i < 3 && n >= 1024; i++)
		n /= 1024;
	snprintf(out, 24, i ? "%.1f %s" : "%.0f %s", n, units[i]);
}

static void add_row(struct listing *l, const struct cache_entry *it, const char *made)
{
	char size[24];

	size_text(it->bytes, size);
	out_table_cell(&l->table, OUT_PLAIN, "%s", it->key);
	out_table_cell(&l->table, OUT_PLAIN, "%s", size);
	out_table_cell(&l->table, OUT_PLAIN, "%s", made);
	if (*it->wrong)
		out_table_cell(&l->table, OUT_BAD, "%s", it->wrong);
	else
		out_table_cell(&l->table, OUT_GOOD, "good");
}

static int see(void *arg, const struct cache_entry *it, struct err *e)
{
	struct listing *l = arg;
	time_t when = (time_t)it->made;
	char made[32];
	struct tm tm;

	(void)e;
	gmtime_r(&when, &tm);
	strftime(made, sizeof(made), "%Y-%m-%dT%H:%M:%SZ", &tm);
	l->wrong += *it->wrong != 0;
	if (!as_json)
		add_row(l, it, made);
	else
		json_array_append_new(l->entries,
				      json_pack("{ss sI ss so}", "key", it->key, "bytes",
						(json_int_t)it->bytes, "made", made, "wrong",
						out_string_or_null(it->wrong)));
	return 0;
}

static int list(const struct cache_how *how, bool all, struct err *e)
{
	static const char *const heads[] = { "KEY", "SIZE", "MADE", "STATE", NULL };
	struct listing l = { 0 };
	int rc;

	out_table_init(&l.table, heads);
	l.table.right = 1 << 1;
	l.entries = json_array();
	rc = cache_each(how, all, see, &l, e);
	if (!rc && as_json)
		rc = out_json(json_pack("{ss so sO}", "schema", "ringup.cache.list/2", "cache",
					out_string(how->dir), "entries", l.entries),
			      e);
	else if (!rc)
		rc = out_table_print(&l.table, e);
	json_decref(l.entries);
	return rc ? rc : l.wrong ? CMD_NO : CMD_YES;
}

static const char *word_of(const struct cache_said *result, bool is_put)
{
	if (is_put)
		return result->is_published ? "published" : "there already";
	return result->from == CACHE_HIT ? "taken" : "not taken";
}

/* Runs put and get. */
static int move(const struct cache_how *how, const char *key, const char *folder, bool is_put,
		struct err *e)
{
	struct cache_said result;
	int rc = is_put ? cache_put(how, key, folder, &result, e)
			: cache_get(how, key, folder, &result, e);
	int json;

	if (rc < 0)
		return rc;
	if (as_json) {
		json = out_json(json_pack("{ss ss ss so}", "schema", "ringup.cache.entry/1",
					  "key", key, "result", word_of(&result, is_put),
					  "note", out_string_or_null(result.note)),
				e);
		return json ? json : rc;
	}
	out_text("%.12s...: %s%s%s\n", key, word_of(&result, is_put), *result.note ? ": " : "",
		 result.note);
	return rc;
}

/* The actions, with the number and names of their operands. */
static const struct action {
	const char *name, *operands;
	int count;
} actions[] = {
	{ "keygen", "DIR", 1 },  { "list", "", 0 },       { "verify", "", 0 },
	{ "put", "KEY DIR", 2 }, { "get", "KEY DIR", 2 }, { 0 },
};

static const struct action *action_find(const char *name)
{
	const struct action *a;

	for (a = actions; a->name; a++)
		if (!strcmp(a->name, name))
			return a;
	return NULL;
}

static int cmd_cache_run(int argc, char **argv, struct err *e)
{
	const struct action *a = action_find(argv[0]);
	struct cache_how how;

	if (!a)
		return cmd_misuse(e, "%.80s: not keygen, list, verify, put or get", argv[0]);
	if (argc - 1 != a->count)
		return cmd_misuse(e, "usage: ringup cache %s%s%s", a->name,
				  *a->operands ? " " : "", a->operands);
	if (!strcmp(a->name, "keygen"))
		return keygen(argv[1], e);
	cache_conf(&how, cmd_conf());
	if (dir)
		how.dir = dir;
	if (!*how.dir)
		return cmd_misuse(e, "no cache folder: use --cache=DIR or set RINGUP_CACHE");
	if (a->count)
		return move(&how, argv[1], argv[2], !strcmp(a->name, "put"), e);
	return list(&how, !strcmp(a->name, "verify"), e);
}

const struct cmd cmd_cache = {
	.name = "cache",
	.operands = "keygen DIR | list | verify | put KEY DIR | get KEY DIR",
	.summary = "manage the build cache that nodes share",
	.examples = "ringup cache keygen /etc/ringup\n"
		    "ringup cache list --cache /srv/shared/ringup\n"
		    "ringup cache verify",
	.opts = opts,
	.min = 1,
	.max = 3,
	.run = cmd_cache_run,
};
