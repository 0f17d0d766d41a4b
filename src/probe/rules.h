/* rules.h - rules of this machine's firewall that could keep a job from talking. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_RULES_H
#define PROBE_RULES_H

struct err;
struct probe_node;

enum { RULES_MOST = 24 };

/*
 * rules_nft - out of what `nft list ruleset` prints: rules and policies that drop or reject
 * what comes in or goes out, in chains of those hooks and chains that these jump to.
 * rules_iptables - the same out of what iptables-save prints, as @program.
 *
 * Adds at most RULES_MOST lines to @n.
 */
int rules_nft(struct probe_node *n, const char *text, struct err *e);
int rules_iptables(struct probe_node *n, const char *program, const char *text, struct err *e);

/* rules_read - ask both programs, where they are and answer within a second. */
int rules_read(struct probe_node *n, struct err *e);

#endif
