/* rules.c - this machine's firewall rules that could block a job's connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rules.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/proc.h"
#include "probe/facts.h"
#include "probe/talk.h"
#include "ringup.h"

enum { CHAINS = 256, WORD = 64, TEXT_CAP = 1 << 20, ASK_MS = 1000 };

/* Directions of this machine's own packets that can pass a chain. */
enum { WAY_IN = 1, WAY_OUT = 2 };

struct chain {
	char table[WORD], name[WORD];
	int ways;
};

struct chains {
	struct chain chain[CHAINS];
	int n;
};

/* Takes one line of a program's output; strips blanks around it. */
static const char *next_line(const char *text, char line[FACTS_TEXT])
{
	const char *end = text + strcspn(text, "\n"), *stop = end;

	while (text < stop && isspace((unsigned char)*text))
		text++;
	while (stop > text && isspace((unsigned char)stop[-1]))
		stop--;
	snprintf(line, FACTS_TEXT, "%.*s", (int)(stop - text), text);
	talk_clean(line);
	return *end ? end + 1 : end;
}

/* Is @word one of the words of @line? */
static bool has_word(const char *line, const char *word)
{
	size_t len = strlen(word);
	const char *p;

	for (p = strstr(line, word); p; p = strstr(p + 1, word))
		if ((p == line || strchr(" ;:", p[-1])) && (!p[len] || strchr(" ;", p[len])))
			return true;
	return false;
}

static struct chain *chain_of(struct chains *c, const char *table, const char *name)
{
	struct chain *x;

	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->chain[i].table, table) && !strcmp(c->chain[i].name, name))
			return &c->chain[i];
	if (c->n >= CHAINS)
		return NULL;
	x = &c->chain[c->n++];
	snprintf(x->table, sizeof(x->table), "%s", table);
	snprintf(x->name, sizeof(x->name), "%s", name);
	return x;
}

/* The suffix that tells the direction of a rule, where its chain's name does not: an output
 * chain may have any name, and the direction tells whose connections the rule is about. */
static const char *way_words(const struct chain *x, const char *text)
{
	if (!(x->ways & WAY_OUT) || (x->ways == WAY_OUT && strcasestr(text, "output")))
		return "";
	return x->ways == WAY_OUT ? " (output)" : " (input and output)";
}

static int rules_add(struct probe_node *n, const char *head, const char *what, struct err *e)
{
	char line[FACTS_TEXT];

	if (n->nfirewall >= RULES_MOST)
		return 0;
	snprintf(line, sizeof(line), "%.120s: %.120s", head, what);
	return facts_add_rule(n, line) ? fail(e, RINGUP_ENOMEM, "no memory for rules") : 0;
}

/* nftables. */

/* For "table inet filter {" and "chain input {", what follows the first word, without "{". */
static bool opens(const char *line, const char *what, char out[WORD])
{
	size_t len = strlen(what);

	if (strncmp(line, what, len) != 0 || line[len] != ' ')
		return false;
	snprintf(out, WORD, "%s", line + len + 1);
	out[strcspn(out, "{")] = 0;
	len = strlen(out);
	while (len && out[len - 1] == ' ')
		out[--len] = 0;
	return true;
}

/* The directions of a base chain's packets; 0: not this machine's, or no base chain. */
static int ways_of(const char *line)
{
	static const struct {
		const char *hook;
		int way;
	} hooks[] = { { "hook input", WAY_IN },        { "hook prerouting", WAY_IN },
		      { "hook ingress", WAY_IN },      { "hook output", WAY_OUT },
		      { "hook postrouting", WAY_OUT }, { "hook egress", WAY_OUT } };

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (has_word(line, hooks[i].hook))
			return hooks[i].way;
	return 0;
}

/* Adds @ways to the chain that @line jumps to; true if that changed something. */
static bool use_target(struct chains *c, const char *table, const char *line, const char *verb,
		       int ways)
{
	const char *p = strstr(line, verb);
	char name[WORD];
	struct chain *x;

	if (!p)
		return false;
	p += strlen(verb);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, " ;}"), p);
	x = chain_of(c, table, name);
	if (!x || (x->ways | ways) == x->ways)
		return false;
	x->ways |= ways;
	return true;
}

/* Marks chains that are reached; true if there was a new one. */
static bool mark_nft(struct chains *c, const char *text)
{
	char line[FACTS_TEXT], table[WORD] = "", name[WORD] = "";
	struct chain *x = NULL;
	bool news = false;

	while (*text) {
		text = next_line(text, line);
		if (opens(line, "table", table))
			continue;
		if (opens(line, "chain", name)) {
			x = chain_of(c, table, name);
		} else if (x && (x->ways | ways_of(line)) != x->ways) {
			x->ways |= ways_of(line);
			news = true;
		} else if (x && x->ways) {
			news |= use_target(c, table, line, "jump ", x->ways);
			news |= use_target(c, table, line, "goto ", x->ways);
		}
	}
	return news;
}

static int list_nft(struct probe_node *n, struct chains *c, const char *text, struct err *e)
{
	char line[FACTS_TEXT], table[WORD] = "", name[WORD] = "", head[3 * WORD];
	struct chain *x = NULL;
	int rc = 0;

	while (!rc && *text) {
		text = next_line(text, line);
		if (opens(line, "table", table)) {
			x = NULL;
		} else if (opens(line, "chain", name)) {
			x = chain_of(c, table, name);
			snprintf(head, sizeof(head), "nft: table %s chain %s%s", table, name,
				 x ? way_words(x, name) : "");
		} else if (x && x->ways &&
			   (has_word(line, "drop") || has_word(line, "reject"))) {
			rc = rules_add(n, head, line, e);
		}
	}
	return rc;
}

int rules_nft(struct probe_node *n, const char *text, struct err *e)
{
	struct chains *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(e, RINGUP_ENOMEM, "no memory for chains");
	for (int rounds = 0; rounds < 16 && mark_nft(c, text); rounds++)
		;
	rc = list_nft(n, c, text, e);
	free(c);
	return rc;
}

/* iptables. */

static bool mark_iptables(struct chains *c, const char *text)
{
	char line[FACTS_TEXT], name[WORD];
	bool news = false;
	struct chain *x;

	chain_of(c, "", "INPUT")->ways |= WAY_IN;
	chain_of(c, "", "OUTPUT")->ways |= WAY_OUT;
	while (*text) {
		text = next_line(text, line);
		if (strncmp(line, "-A ", 3) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(line + 3, " "), line + 3);
		x = chain_of(c, "", name);
		if (x && x->ways) {
			news |= use_target(c, "", line, " -j ", x->ways);
			news |= use_target(c, "", line, " -g ", x->ways);
		}
	}
	return news;
}

static bool is_policy(const char *line)
{
	return !strncmp(line, ":INPUT DROP", 11) || !strncmp(line, ":OUTPUT DROP", 12);
}

static int list_iptables(struct probe_node *n, struct chains *c, const char *program,
			 const char *text, struct err *e)
{
	char line[FACTS_TEXT], name[WORD], head[2 * WORD];
	struct chain *x;
	int rc = 0;

	while (!rc && *text) {
		text = next_line(text, line);
		if (is_policy(line)) {
			line[strcspn(line, "[")] = 0;
			rc = rules_add(n, program, line + 1, e);
		}
		if (strncmp(line, "-A ", 3) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(line + 3, " "), line + 3);
		x = chain_of(c, "", name);
		if (!x || !x->ways || (!strstr(line, "-j DROP") && !strstr(line, "-j REJECT")))
			continue;
		snprintf(head, sizeof(head), "%s%s", program, way_words(x, line));
		rc = rules_add(n, head, line, e);
	}
	return rc;
}

int rules_iptables(struct probe_node *n, const char *program, const char *text, struct err *e)
{
	struct chains *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(e, RINGUP_ENOMEM, "no memory for chains");
	for (int rounds = 0; rounds < 16 && mark_iptables(c, text); rounds++)
		;
	rc = list_iptables(n, c, program, text, e);
	free(c);
	return rc;
}

/* The output of a program, or NULL: a lack of rights is no error. */
static char *rules_ask(const char *const *argv)
{
	char *text = NULL;
	int status;

	if (proc_capture((char *const *)argv, TEXT_CAP, ASK_MS, &text, &status, NULL))
		return NULL;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return text;
	free(text);
	return NULL;
}

int rules_read(struct probe_node *n, struct err *e)
{
	static const char *const nft[] = { "nft", "list", "ruleset", NULL };
	static const char *const saves[] = { "iptables-legacy-save", "ip6tables-legacy-save",
					     NULL };
	char *text = rules_ask(nft);
	int rc = 0;

	if (text)
		rc = rules_nft(n, text, e);
	free(text);
	for (int i = 0; !rc && saves[i]; i++) {
		const char *argv[] = { saves[i], NULL };

		text = rules_ask(argv);
		if (text)
			rc = rules_iptables(n, saves[i], text, e);
		free(text);
	}
	return rc;
}
