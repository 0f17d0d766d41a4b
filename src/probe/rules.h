/* rules.h - this machine's firewall rules that could block a job's connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_RULES_H
#define PROBE_RULES_H

struct err;
struct probe_node;

enum { RULES_MOST = 24 };

/*
 * rules_nft - parse the output of `nft list ruleset`: rules and policies that drop or reject
 * incoming or outgoing packets, in chains of those hooks and chains that these jump to.
 * rules_iptables - the same for the output of iptables-save, run as @program.
 *
 * Both add at most RULES_MOST lines to @n.
 */
int rules_nft(struct probe_node *n, const char *text, struct err *e);
int rules_iptables(struct probe_node *n, const char *program, const char *text, struct err *e);

/* rules_read - run both programs, if they exist and answer within a second. */
int rules_read(struct probe_node *n, struct err *e);

#endif
