/* judge_pace.c - paths slower than the others, or than their links promise. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "probe/judge.h"

/* Noise: deviations below this number of standard deviations may be chance. */
static const double slow_factor = 3, slow_us = 50, weak_factor = 0.5, noise = 6;

/* On a free way, one connection reaches at least this share of the links' rate. */
static const double kept_promise = 0.4;

bool judge_is_slow(double us, double usual_us)
{
	return us > slow_factor * usual_us && us - usual_us > slow_us;
}

bool judge_is_weak(double mbs, double usual_mbs)
{
	return mbs < weak_factor * usual_mbs;
}

/* One measured quantity of a path. */
struct measure {
	bool (*has)(const struct probe_path *p);
	double (*cost)(const struct probe_path *p); /* the higher, the worse */
	bool (*is_bad)(double cost, double usual);
};

static bool has_latency(const struct probe_path *p)
{
	return p->state == FACTS_OPEN && p->latency_median_us >= 0;
}

static double latency_of(const struct probe_path *p)
{
	return p->latency_median_us;
}

static bool has_bandwidth(const struct probe_path *p)
{
	return p->state == FACTS_OPEN && p->bandwidth_mbs >= 0;
}

static double slowness_of(const struct probe_path *p)
{
	return p->bandwidth_mbs > 0 ? 1 / p->bandwidth_mbs : 1e6;
}

static bool is_weak(double slowness, double usual)
{
	return judge_is_weak(1 / slowness, 1 / usual);
}

static const struct measure latency = { has_latency, latency_of, judge_is_slow };
static const struct measure bandwidth = { has_bandwidth, slowness_of, is_weak };

/* The paths to one network, since only those can be compared. */
struct sample {
	const struct measure *of;
	const int *path;
	int n;
};

/* The usual cost: the median over nodes of each node's best path.  The median over paths would
 * be wrong where it matters most: one slow node of three is in four of six paths. */
static double usual(struct judge_case *c, const struct sample *s)
{
	double *best = calloc((size_t)c->f->nnodes + 1, sizeof(*best)), cost, m = 0;
	int n = 0;

	c->failed |= !best;
	for (int i = 0; best && i < c->f->nnodes; i++)
		best[i] = INFINITY;
	for (int i = 0; best && i < s->n; i++) {
		const struct probe_path *p = &c->f->paths[s->path[i]];

		cost = s->of->cost(p);
		best[p->from] = fmin(best[p->from], cost);
		best[p->to] = fmin(best[p->to], cost);
	}
	for (int i = 0; best && i < c->f->nnodes; i++)
		if (best[i] < INFINITY)
			best[n++] = best[i];
	if (n)
		m = stats_median(best, n);
	free(best);
	return m;
}

/* The median distance from the usual of the paths that are not obviously slow, scaled to be the
 * standard deviation of a normal distribution. */
static double spread(struct judge_case *c, const struct sample *s, double m)
{
	double *away = calloc((size_t)s->n + 1, sizeof(*away)), d = 0;
	int n = 0;

	c->failed |= !away;
	for (int i = 0; away && i < s->n; i++) {
		double cost = s->of->cost(&c->f->paths[s->path[i]]);

		if (cost < 2 * m)
			away[n++] = fabs(cost - m);
	}
	if (n)
		d = 1.4826 * stats_median(away, n);
	free(away);
	return d;
}

/* Sets @net to the network of each comparable path, as a number from 1; 0: not comparable.
 * Returns the number of networks. */
static int sort_by_net(struct judge_case *c, const struct measure *of, int *net)
{
	struct judge_texts nets = { 0 };
	char text[IFACE_TEXT];
	int n;

	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (c->explained[i] || !of->has(p) || !facts_is_live(c->f, p->from) ||
		    !facts_is_live(c->f, p->to))
			continue;
		facts_net(c->f, p->to, p->address, text);
		net[i] = judge_number(c, &nets, text);
	}
	n = nets.n;
	judge_texts_free(&nets);
	return n;
}

static void mark_sample(struct judge_case *c, const struct sample *s, unsigned char *mark)
{
	double m = usual(c, s), d = spread(c, s, m), cost;

	for (int i = 0; i < s->n; i++) {
		cost = s->of->cost(&c->f->paths[s->path[i]]);
		mark[s->path[i]] =
			s->of->is_bad(cost, m) && cost > m + noise * d ? JUDGE_BAD : JUDGE_GOOD;
	}
}

/* Marks all paths that have this measure; each network has its own usual cost. */
static unsigned char *mark_all(struct judge_case *c, const struct measure *of)
{
	int i, k, nets, *net = calloc((size_t)c->f->npaths + 1, sizeof(*net));
	int *path = calloc((size_t)c->f->npaths + 1, sizeof(*path));
	unsigned char *mark = judge_marks(c);
	struct sample s = { of, path, 0 };

	c->failed |= !net || !path;
	nets = net && path && mark ? sort_by_net(c, of, net) : 0;
	for (k = 1; k <= nets && k <= BLAME_SCOPES; k++) {
		for (s.n = 0, i = 0; i < c->f->npaths; i++)
			if (net[i] == k)
				path[s.n++] = i;
		mark_sample(c, &s, mark);
	}
	free(net);
	free(path);
	return mark;
}

/* The cost that the better quarter of the paths in the network of @x stays below: where paths
 * are few, the slow ones may be more than half. */
static double elsewhere(struct judge_case *c, const struct probe_path *x,
			const struct measure *of)
{
	double *all = calloc((size_t)c->f->npaths + 1, sizeof(*all)), cost = of->cost(x);
	char net[IFACE_TEXT], is[IFACE_TEXT];
	int n = 0;

	c->failed |= !all;
	facts_net(c->f, x->to, x->address, net);
	for (int i = 0; all && i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (of->has(p) && facts_is_live(c->f, p->to) &&
		    !strcmp(facts_net(c->f, p->to, p->address, is), net))
			all[n++] = of->cost(p);
	}
	if (n) {
		stats_sort(all, n);
		cost = all[n / 4];
	}
	free(all);
	return cost;
}

static const char *time_text(double us, char out[32])
{
	if (us < 1000)
		snprintf(out, 32, "%.0f us", us);
	else
		snprintf(out, 32, "%.1f ms", us / 1000);
	return out;
}

static void say_latency(struct judge_case *c, const struct blame_scope *s,
			const struct probe_path *x)
{
	bool groups = s->form == BLAME_SPLIT;
	struct probe_finding *p =
		judge_find(c, "slow-latency", groups ? FACTS_NOTE : FACTS_WARNING);
	char who[JUDGE_TEXT], mine[32], theirs[32];

	judge_about(c, p, s);
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_say(c, &p->what, "a round trip %s takes %s, others take %s",
		  judge_between(c, s, who), time_text(x->latency_median_us, mine),
		  time_text(elsewhere(c, x, &latency), theirs));
	judge_say(c, &p->why,
		  groups ? "They are probably in different racks or zones."
			 : "Every small collective waits for the slowest pair: a busy "
			   "processor, a power-saving state, a longer route or a bad cable.");
	judge_say(c, &p->fix, "check the load, the interface's error counters, and the route");
	judge_say(c, &p->run, "ssh %s ip -s link show dev %s",
		  judge_word(c->f->nodes[s->a >= 0 ? s->a : x->from].name, who),
		  *x->via ? x->via : x->interface);
}

static const char *rate_text(double mbs, char out[32])
{
	if (mbs < 1000)
		snprintf(out, 32, "%.3g MB/s", mbs);
	else
		snprintf(out, 32, "%.3g GB/s", mbs / 1000);
	return out;
}

static void say_bandwidth(struct judge_case *c, const struct blame_scope *s,
			  const struct probe_path *x)
{
	bool groups = s->form == BLAME_SPLIT;
	struct probe_finding *p =
		judge_find(c, "slow-bandwidth", groups ? FACTS_NOTE : FACTS_WARNING);
	char who[JUDGE_TEXT], mine[32], theirs[32];

	judge_about(c, p, s);
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_say(c, &p->what, "%s %s, others %s", rate_text(x->bandwidth_mbs, mine),
		  judge_between(c, s, who), rate_text(1 / elsewhere(c, x, &bandwidth), theirs));
	judge_say(c, &p->why,
		  groups ? "The link between the groups is slower, as between racks."
			 : "A ring is as fast as its slowest link. Typical causes: a link that "
			   "came up at 1 Gb/s or half duplex, another job, lost packets.");
	judge_say(c, &p->fix, "check the interface's speed and error counters");
	judge_say(c, &p->run, "ssh %s ethtool %s",
		  judge_word(c->f->nodes[s->a >= 0 ? s->a : x->from].name, who),
		  *x->via ? x->via : x->interface);
}

/* The speed of a real interface; -1 for a virtual one, whose speed means nothing. */
static int speed_of(const struct judge_case *c, int node, const char *name)
{
	const struct iface *f = judge_iface(c, node, name);

	return f && (f->kind == IFACE_PHYSICAL || f->kind == IFACE_BOND ||
		     f->kind == IFACE_INFINIBAND)
		       ? f->speed_mbps
		       : -1;
}

/* In MB/s; a single connection fills 10 Gb/s, not always more.  < 0: unknown. */
static double promise(const struct judge_case *c, const struct probe_path *p)
{
	int a = speed_of(c, p->from, p->via), b = speed_of(c, p->to, p->interface);
	int least = a < b ? a : b;

	return least <= 0 ? -1 : fmin(least, 10000) / 8;
}

static void say_link(struct judge_case *c, const struct blame_scope *s,
		     const struct probe_path *x)
{
	struct probe_finding *p = judge_find(c, "link-slow", FACTS_WARNING);
	char who[JUDGE_TEXT], rate[32];

	judge_about(c, p, s);
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_say(c, &p->what, "%s %s, although both links have at least %.3g Gb/s",
		  rate_text(x->bandwidth_mbs, rate), judge_between(c, s, who),
		  promise(c, x) * 8 / 1000);
	judge_say(c, &p->why,
		  "Something between the nodes is slower than their links: a switch port, a "
		  "cloud limit, or other traffic.");
	judge_say(c, &p->fix, "compare with the bandwidth that the switch or the cloud offers");
	judge_say(c, &p->run, "ssh %s ethtool %s", judge_word(c->f->nodes[x->from].name, who),
		  *x->via ? x->via : x->interface);
}

/* Marks the paths whose links have a known speed. */
static unsigned char *mark_links(struct judge_case *c)
{
	unsigned char *mark = judge_marks(c);

	for (int i = 0; mark && i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];
		double most = has_bandwidth(p) ? promise(c, p) : -1;

		if (most > 0)
			mark[i] =
				p->bandwidth_mbs < kept_promise * most ? JUDGE_BAD : JUDGE_GOOD;
	}
	return mark;
}

/* Compares, in the first network, the speeds of the interfaces that paths lead to. */
static void judge_speeds(struct judge_case *c)
{
	double *speed = calloc((size_t)c->f->nnodes + 1, sizeof(*speed)), usual_mbps;
	const char **nic = calloc((size_t)c->f->nnodes + 1, sizeof(*nic));
	struct probe_finding *p;
	char word[JUDGE_TEXT];
	int n = 0;

	for (int i = 0; speed && nic && i < c->f->npaths; i++) {
		const struct probe_path *x = &c->f->paths[i];

		if (!nic[x->to] && has_bandwidth(x) && speed_of(c, x->to, x->interface) > 0) {
			nic[x->to] = x->interface;
			speed[n++] = speed_of(c, x->to, x->interface);
		}
	}
	usual_mbps = n ? stats_median(speed, n) : 0;
	/* With two nodes, the faster speed is the usual one. */
	usual_mbps = n == 2 ? speed[1] : usual_mbps;
	for (int i = 0; n && i < c->f->nnodes; i++) {
		double is = nic[i] ? speed_of(c, i, nic[i]) : usual_mbps;

		if (is >= usual_mbps)
			continue;
		p = judge_find(c, "link-speed", FACTS_WARNING);
		judge_blame(c, p, i);
		snprintf(p->interface, sizeof(p->interface), "%s", nic[i]);
		judge_say(c, &p->what, "%s on %s runs at %.3g Gb/s, others at %.3g", nic[i],
			  c->f->nodes[i].name, is / 1000, usual_mbps / 1000);
		judge_say(c, &p->why, "Every collective runs at the speed of this link.");
		judge_say(c, &p->fix, "check the cable, the port and the negotiated speed");
		judge_say(c, &p->run, "ssh %s ethtool %s",
			  judge_word(c->f->nodes[i].name, word), nic[i]);
		judge_explain(c, i, nic[i]);
	}
	free(speed);
	free(nic);
}

void judge_pace(struct judge_case *c)
{
	unsigned char *mark;

	judge_speeds(c);
	mark = mark_all(c, &bandwidth);
	judge_each(c, mark, say_bandwidth);
	free(mark);
	mark = mark_all(c, &latency);
	judge_each(c, mark, say_latency);
	free(mark);
	mark = mark_links(c);
	judge_each(c, mark, say_link);
	free(mark);
}

int judge_slow(struct judge_case *c)
{
	unsigned char *mark[] = { mark_all(c, &bandwidth), mark_all(c, &latency),
				  mark_links(c) };
	enum { MARKS = sizeof(mark) / sizeof(*mark) };
	int k, n = 0;

	for (int i = 0; i < c->f->npaths; i++) {
		for (k = 0; k < MARKS && !(mark[k] && mark[k][i] == JUDGE_BAD); k++)
			;
		n += k < MARKS;
	}
	for (k = 0; k < MARKS; k++)
		free(mark[k]);
	return n;
}
