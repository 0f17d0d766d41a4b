/* fuzz_fixfile.c - any bytes as a file of settings: our block goes in and out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/fixfile.c"

#include "fuzz/fuzz.h"

static const struct fix_rule rules[] = {
	{ "NCCL_SOCKET_IFNAME", { "=eth0", NULL } },
	{ "OMPI_MCA_btl_tcp_if_exclude", { NULL, NULL } },
	{ "btl_tcp_if_include", { "eth0", "10.0.0.0/24" } },
	{ NULL, { NULL, NULL } },
};
static const char *const names[] = { "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include",
				     NULL };

static void on_conflict(void *arg, const char *path, int number, const char *line)
{
	fuzz_require(number > 0 && path && line);
	++*(int *)arg;
}

/* As fixfile_plan() of a file that holds @before; false if its block is damaged. */
static bool plan(struct fix_file *f, enum fix_grammar g, const char *before,
		 const struct fix_ask *ask)
{
	struct err e = { 0 };
	struct block b;

	*f = (struct fix_file){ .path = "/etc/file", .grammar = g, .before = strdup(before) };
	fuzz_require(f->before);
	if (find_block(f->before, &b, f->path, &e)) {
		fuzz_require(*e.text);
		return false;
	}
	f->folders = b.folders;
	fuzz_require(!rewrite(f, &b, ask, &e));
	return true;
}

/* Is there nothing of ours in @text? */
static bool is_foreign(const char *text)
{
	for (; *text; text += line_length(text))
		if (starts(text, begins) || starts(text, ends) || starts(text, hidden))
			return false;
	return true;
}

static void check(enum fix_grammar g, const char *text, bool force)
{
	static const char settings[] = "NCCL_SOCKET_IFNAME==eth0\nbtl_tcp_if_include = eth0\n";
	int conflicts = 0, again = 0;
	struct fix_ask put = { settings, rules, force, on_conflict, &conflicts };
	struct fix_ask repeat = { settings, rules, force, on_conflict, &again };
	struct fix_ask take = { NULL, rules, force, on_conflict, &again };
	struct fix_file first, second, undone;
	struct netconf c = { 0 };
	struct err e = { 0 };

	if (plan(&first, g, text, &put)) {
		fuzz_require(first.after && (!force || !conflicts));
		fuzz_require(!fixfile_settings(&first, names, &c, &e) || *e.text);
		netconf_free(&c);
		/* Once more changes nothing, ... */
		fuzz_require(plan(&second, g, first.after, &repeat));
		fuzz_require(!fixfile_changes(&second) && again == conflicts);
		fixfile_free(&second);
		/* ... and undone it is as it was. */
		fuzz_require(plan(&undone, g, first.after, &take));
		if (is_foreign(text))
			fuzz_require(undone.after && !strcmp(undone.after, text));
		if (undone.after)
			fuzz_require(!strstr(undone.after, about) || strstr(text, about));
		fixfile_free(&undone);
	}
	fixfile_free(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len);
	int g;

	fuzz_require(text);
	for (g = FIX_NCCL; g <= FIX_ENVIRON; g++) {
		check((enum fix_grammar)g, text, false);
		check((enum fix_grammar)g, text, true);
	}
	free(text);
	return 0;
}
