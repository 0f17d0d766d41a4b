/* fuzz_rules.c - any bytes as what programs and the kernel print: rules, groups, processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.c"

#include "base/err.h"
#include "base/pidstat.h"
#include "fuzz/fuzz.h"
#include "probe/facts.h"
#include "probe/rules.h"

/* What goes to terminals of other machines is printable. */
static void check_rules(struct probe_facts *f)
{
	const struct probe_node *n = &f->nodes[0];
	const char *p;
	int i;

	fuzz_require(n->nfirewall <= 2 * RULES_MOST);
	for (i = 0; i < n->nfirewall; i++)
		for (p = n->firewall[i]; *p; p++)
			fuzz_require((unsigned char)*p >= ' ' && *p != 127);
	facts_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len), *line, *rest;
	struct cgroup g = { .controller = "memory" };
	struct probe_facts f = { 0 };
	struct probe_node *n = facts_add_node(&f, "n1");
	struct pidstat p;

	fuzz_require(text && n);
	fuzz_require(!rules_nft(n, text, NULL));
	fuzz_require(!rules_iptables(n, "iptables-save", text, NULL));
	check_rules(&f);
	if (!pidstat_parse(text, &p))
		fuzz_require(memchr(p.name, 0, sizeof(p.name)));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		cgroup_read_line(&g, line);
	fuzz_require(memchr(g.path, 0, sizeof(g.path)));
	while (cgroup_up(&g))
		;
	free(text);
	return 0;
}
