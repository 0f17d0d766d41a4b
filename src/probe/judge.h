/* judge.h - the judges: each finds one kind of fault in the facts of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_JUDGE_H
#define PROBE_JUDGE_H

#include <stdbool.h>

#include "base/shell.h"
#include "probe/blame.h"
#include "probe/facts.h"

enum { JUDGE_TEXT = 1400 };

/* State that judges share.  They run in the order of causes: a judge that finds a fault marks
 * the paths that suffer from it, and later judges leave those alone. */
struct judge_case {
	struct probe_facts *f; /* findings are appended */
	bool *explained;       /* one for each path */
	int *same_as;          /* of each node, the first node on the same machine */
	const int *peers;      /* while judge_each() tells of several pairs: the other nodes */
	int npeers;
	bool failed; /* memory ran out: findings are incomplete */
	struct probe_finding spare;
};

/* Nodes that reported nothing. */
void judge_silence(struct judge_case *c);

/* Machines that share an address, a MAC or a name that should be unique. */
void judge_duplicates(struct judge_case *c);

/* Names that resolve wrongly, and libraries that would announce a loopback address. */
void judge_names(struct judge_case *c);

/* Connections that fail, and the node or firewall rule at fault. */
void judge_reach(struct judge_case *c);

/* Addresses that a router translates, wrong MACs of neighbours, and full tables of them. */
void judge_ways(struct judge_case *c);

/* Packet sizes: MTUs that differ, MTUs that do not pass, segments that get lost. */
void judge_sizes(struct judge_case *c);

/* Interfaces that the kernel chooses between, and ways back that differ. */
void judge_nics(struct judge_case *c);

/* Paths slower than the others, or than their links promise. */
void judge_pace(struct judge_case *c);

/* judge_slow - count the paths that judge_pace() finds slow. */
int judge_slow(struct judge_case *c);

/* Helpers of the judges. */

/* judge_find - append a finding; without memory, a spare that is never shown. */
struct probe_finding *judge_find(struct judge_case *c, const char *code,
				 enum facts_severity severity);

/* judge_blame - add @node to the nodes that @p is about, once. */
void judge_blame(struct judge_case *c, struct probe_finding *p, int node);

/* judge_say - set a sentence of a finding, in printf's way. */
void judge_say(struct judge_case *c, char **sentence, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* judge_fix - set the remedy `ringup net fix` on all nodes. */
void judge_fix(struct judge_case *c, struct probe_finding *p);

/* judge_list - "n1, n2 and n3", "all 16 nodes", "n1, n2, n3 and 9 more"; returns @out. */
const char *judge_list(const struct judge_case *c, const int *nodes, int n,
		       char out[JUDGE_TEXT]);

/* judge_word - a name as one word of a shell, quoted if need be; returns @out. */
static inline const char *judge_word(const char *name, char out[JUDGE_TEXT])
{
	return shell_word(name, out, JUDGE_TEXT);
}

/* judge_users - the libraries of @nodes that would really use @address or @interface (NULL:
 * any), such as "Open MPI (btl, oob) and UCX"; "" if there is none; returns @out. */
const char *judge_users(const struct judge_case *c, const int *nodes, int n,
			const char *interface, const char *address, char out[JUDGE_TEXT]);

/* judge_count_users - count these libraries. */
int judge_count_users(const struct judge_case *c, const int *nodes, int n,
		      const char *interface, const char *address);

/* judge_is_slow, judge_is_weak - is a round trip or a bandwidth far from the usual?  That alone
 * proves no fault, since it may be noise. */
bool judge_is_slow(double us, double usual_us);
bool judge_is_weak(double mbs, double usual_mbs);

/* judge_iface - interface @name of @node, or NULL. */
const struct iface *judge_iface(const struct judge_case *c, int node, const char *name);

/* A judge's mark for one path; JUDGE_NONE: it is no evidence. */
enum judge_mark { JUDGE_NONE, JUDGE_GOOD, JUDGE_BAD };

/* Distinct texts, numbered from 1 in the order of arrival.  Zeroed is empty. */
struct judge_texts {
	char **text;
	int n;
};

/* judge_number - number of @text; 0 for "", or without memory; a surplus gets the last one. */
int judge_number(struct judge_case *c, struct judge_texts *all, const char *text);
void judge_texts_free(struct judge_texts *all);

/* judge_uses - does @p leave or arrive by interface @nic of @node? */
bool judge_uses(const struct probe_path *p, int node, const char *nic);

/* judge_explain - mark the paths that use @nic of @node as explained. */
void judge_explain(struct judge_case *c, int node, const char *nic);

/* judge_marks - JUDGE_NONE for each path; the caller's to free(), NULL without memory. */
unsigned char *judge_marks(struct judge_case *c);

/*
 * judge_trials - a trial for each marked path between live nodes that is not explained
 * yet, in their order; (*@path)[i] is the path of trial i.
 *
 * Ownership: both lists are the caller's to free(); NULL without memory.
 */
struct blame_trial *judge_trials(struct judge_case *c, const unsigned char *mark, int **path,
				 int *n);

/* Makes one finding of a scope whose paths are all bad; @x is one of these paths. */
typedef void judge_sayer(struct judge_case *c, const struct blame_scope *s,
			 const struct probe_path *x);

/*
 * judge_each - find the scopes of marked paths, whatever their port, and call @say for each;
 * bad paths are then explained.  @mark may be NULL.
 *
 * Pairs that share a node are told of together, as one scope of that node: judge_about() and
 * judge_between() add the others.
 */
void judge_each(struct judge_case *c, const unsigned char *mark, judge_sayer *say);

/* judge_about - set the nodes of the finding to those of @s, and their direction. */
void judge_about(struct judge_case *c, struct probe_finding *p, const struct blame_scope *s);

/* judge_between - "from n1 to n2", "to and from n3", "between all nodes"; returns @out. */
const char *judge_between(const struct judge_case *c, const struct blame_scope *s,
			  char out[JUDGE_TEXT]);

#endif
