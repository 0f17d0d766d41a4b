/* test_rules.c - rules that matter are found in what nft and iptables-save print. */
#include "probe/rules.h"

#include <string.h>

#include "base/err.h"
#include "probe/facts.h"
#include "tap.h"

static const char nft[] = "table inet filter {\n"
			  "\tchain input {\n"
			  "\t\ttype filter hook input priority filter; policy drop;\n"
			  "\t\tct state established,related accept\n"
			  "\t\tiifname \"eth0\" jump jobs\n"
			  "\t}\n"
			  "\tchain forward {\n"
			  "\t\ttype filter hook forward priority filter; policy drop;\n"
			  "\t}\n"
			  "\tchain jobs {\n"
			  "\t\ttcp dport 1024-65535 reject with tcp reset\n"
			  "\t\tjump more\n"
			  "\t}\n"
			  "\tchain more {\n"
			  "\t\tudp dport 53 drop\n"
			  "\t}\n"
			  "\tchain unused {\n"
			  "\t\ttcp dport 80 drop\n"
			  "\t}\n"
			  "}\n";

static const char save[] =
	"*filter\n"
	":INPUT DROP [12:345]\n"
	":FORWARD DROP [0:0]\n"
	":DOCKER - [0:0]\n"
	":jobs - [0:0]\n"
	"-A INPUT -i eth0 -j jobs\n"
	"-A FORWARD -j DOCKER\n"
	"-A DOCKER -j DROP\n"
	"-A jobs -p tcp --dport 1024:65535 -j REJECT --reject-with tcp-reset\n"
	"COMMIT\n";

static const char own_nft[] = "table ip x {\n"
			      "\tchain c {\n"
			      "\t\ttype filter hook output priority 0; policy accept;\n"
			      "\t\tip daddr 10.0.0.2 drop\n"
			      "\t\tjump both\n"
			      "\t}\n"
			      "\tchain d {\n"
			      "\t\ttype filter hook input priority 0; policy accept;\n"
			      "\t\tgoto both\n"
			      "\t}\n"
			      "\tchain both {\n"
			      "\t\ttcp dport 9 drop\n"
			      "\t}\n"
			      "\tchain late {\n"
			      "\t\ttype filter hook postrouting priority 0; policy accept;\n"
			      "\t\tip daddr 10.0.0.3 drop\n"
			      "\t}\n"
			      "}\n";

static const char own_save[] = "*filter\n"
			       ":INPUT ACCEPT [0:0]\n"
			       ":OUTPUT ACCEPT [0:0]\n"
			       ":mine - [0:0]\n"
			       "-A OUTPUT -d 10.0.0.2/32 -j DROP\n"
			       "-A OUTPUT -o eth0 -j mine\n"
			       "-A mine -d 10.0.0.3/32 -j DROP\n"
			       "COMMIT\n";

static bool is(const struct probe_node *n, int i, const char *rule)
{
	return i < n->nfirewall && !strcmp(n->firewall[i], rule);
}

int main(void)
{
	struct probe_facts f = { 0 };
	struct probe_node *n = facts_add_node(&f, "n1");
	struct err e = { 0 };

	ok(!rules_nft(n, nft, &e) && n->nfirewall == 3, "nft: three rules matter");
	ok(is(n, 0,
	      "nft: table inet filter chain input: type filter hook input priority filter; "
	      "policy drop;"),
	   "a policy");
	ok(is(n, 1,
	      "nft: table inet filter chain jobs: tcp dport 1024-65535 reject with tcp reset"),
	   "a rule behind a jump");
	ok(is(n, 2, "nft: table inet filter chain more: udp dport 53 drop"), "behind two");
	n = facts_add_node(&f, "n2");
	ok(!rules_iptables(n, "iptables", save, &e) && n->nfirewall == 2 &&
		   is(n, 0, "iptables: INPUT DROP ") &&
		   is(n, 1,
		      "iptables: -A jobs -p tcp --dport 1024:65535 -j REJECT --reject-with "
		      "tcp-reset"),
	   "iptables: a policy and a rule behind a jump");
	n = facts_add_node(&f, "n4");
	ok(!rules_nft(n, own_nft, &e) && n->nfirewall == 3 &&
		   is(n, 0, "nft: table ip x chain c (output): ip daddr 10.0.0.2 drop") &&
		   is(n, 1,
		      "nft: table ip x chain both (input and output): tcp dport 9 drop") &&
		   is(n, 2, "nft: table ip x chain late (output): ip daddr 10.0.0.3 drop"),
	   "nft: rules for what leaves, whatever their chain is called");
	n = facts_add_node(&f, "n5");
	ok(!rules_iptables(n, "iptables-legacy-save", own_save, &e) && n->nfirewall == 2 &&
		   is(n, 0, "iptables-legacy-save: -A OUTPUT -d 10.0.0.2/32 -j DROP") &&
		   is(n, 1, "iptables-legacy-save (output): -A mine -d 10.0.0.3/32 -j DROP"),
	   "iptables: the same, also behind a jump");
	n = facts_add_node(&f, "n3");
	ok(!rules_nft(n, "chain {\n}}}\ntable\n drop\x1b\n", &e) && n->nfirewall == 0,
	   "nonsense has no rules");
	facts_free(&f);
	return tap_done();
}
