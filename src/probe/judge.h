/* judge.h - those who look for one kind of fault each in the facts of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_JUDGE_H
#define PROBE_JUDGE_H

#include <stdbool.h>

#include "base/shell.h"
#include "probe/blame.h"
#include "probe/facts.h"

enum { JUDGE_TEXT = 1400 };

/*
 * What judges share.  They are called in the order of causes: who finds one marks the
 * paths that suffer from it, and who comes later leaves those alone.
 */
struct judge_case {
	struct probe_facts *f; /* findings are appended */
	bool *explained;       /* one for each path */
	int *same_as;          /* of each node the first that is the same machine, or itself */
	bool failed;           /* there was no memory: what was found is not all */
	struct probe_finding spare;
};

/* Nodes of which nothing is known. */
void judge_silence(struct judge_case *c);

/* What ties machines together wrongly: the same address, MAC or name twice. */
void judge_twins(struct judge_case *c);

/* What names mean, and libraries that would announce a loopback address. */
void judge_names(struct judge_case *c);

/* Who cannot reach whom, and whose fault that is. */
void judge_reach(struct judge_case *c);

/* Sizes of packets: what the two ends think, what fits between, what gets lost. */
void judge_sizes(struct judge_case *c);

/* Interfaces that are chosen between by the kernel, and ways back that differ. */
void judge_nics(struct judge_case *c);

/* Who is slower than the others, or than its link. */
void judge_pace(struct judge_case *c);

/* How many paths judge_pace() finds slow. */
int judge_slow(struct judge_case *c);

/* For judges. */

/* judge_find - a new finding; where there is no memory one that nobody will see. */
struct probe_finding *judge_find(struct judge_case *c, const char *code,
				 enum facts_severity severity);

/* judge_blame - append @node to those that @p is about, once. */
void judge_blame(struct judge_case *c, struct probe_finding *p, int node);

/* judge_say - a sentence of a finding, printf. */
void judge_say(struct judge_case *c, char **sentence, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* judge_fix - the remedy is `ringup net fix` on all nodes. */
void judge_fix(struct judge_case *c, struct probe_finding *p);

/* judge_list - "n1, n2 and n3", "all 16 nodes", "n1, n2, n3 and 9 more"; returns @out. */
const char *judge_list(const struct judge_case *c, const int *nodes, int n,
		       char out[JUDGE_TEXT]);

/* judge_word - a name as one word of a shell, quoted if need be; returns @out. */
static inline const char *judge_word(const char *name, char out[JUDGE_TEXT])
{
	return shell_word(name, out, JUDGE_TEXT);
}

/* judge_users - the libraries of @nodes that would really take address or interface (NULL:
 * any), such as "Open MPI (btl, oob) and UCX"; "" if there is none; returns @out. */
const char *judge_users(const struct judge_case *c, const int *nodes, int n,
			const char *interface, const char *address, char out[JUDGE_TEXT]);

/* judge_count_users - how many libraries those are. */
int judge_count_users(const struct judge_case *c, const int *nodes, int n,
		      const char *interface, const char *address);

/* judge_is_slow, judge_is_weak - a round trip, a bandwidth, far from what is usual: not
 * all that is so is a fault, for it may be noise. */
bool judge_is_slow(double us, double usual_us);
bool judge_is_weak(double mbs, double usual_mbs);

/* judge_iface - interface @name of @node, or NULL. */
const struct iface *judge_iface(const struct judge_case *c, int node, const char *name);

/* What a judge thinks of one path; JUDGE_NONE: it is no evidence. */
enum judge_mark { JUDGE_NONE, JUDGE_GOOD, JUDGE_BAD };

/* Texts as numbers from 1, in the order in which they come.  Zeroed is empty. */
struct judge_texts {
	char **text;
	int n;
};

/* judge_number - 0 for "", and without memory; what is too much gets the last number. */
int judge_number(struct judge_case *c, struct judge_texts *all, const char *text);
void judge_texts_free(struct judge_texts *all);

/* judge_uses - does @p leave or arrive by interface @nic of @node? */
bool judge_uses(const struct probe_path *p, int node, const char *nic);

/* judge_explain - what comes of the paths that use @nic of @node has its reason. */
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

/* What all bad paths of a scope have in common, with one of them, becomes a finding. */
typedef void judge_sayer(struct judge_case *c, const struct blame_scope *s,
			 const struct probe_path *x);

/* judge_each - find the scopes of marked paths, whatever their port; bad ones are
 * explained then.  @mark may be NULL. */
void judge_each(struct judge_case *c, const unsigned char *mark, judge_sayer *say);

/* judge_about - the finding is about the nodes of @s, and their direction. */
void judge_about(struct judge_case *c, struct probe_finding *p, const struct blame_scope *s);

/* judge_between - "from n1 to n2", "to and from n3", "between all nodes"; returns @out. */
const char *judge_between(const struct judge_case *c, const struct blame_scope *s,
			  char out[JUDGE_TEXT]);

#endif
