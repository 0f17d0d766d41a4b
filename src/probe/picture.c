/* picture.c - a check as pictures: who is on which network, and heat maps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/picture.h"

#include <math.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/xml.h"

/* Colours are told apart by lightness too, and what is wrong has a sign besides. */
static const char style[] =
	":root { --paper: #fbfbfa; --panel: #ffffff; --ink: #1d1d1f; --dim: #6b6b73;\n"
	"  --line: #d8d8de; --good: #1b7f4d; --warn: #b25e00; --bad: #c3242f;\n"
	"  --warnbg: #fdf1e0; --badbg: #fdeaea; --goodbg: #e6f4ec;\n"
	"  --h0: #e7f0fa; --h1: #c9def3; --h2: #9fc5e8; --h3: #6fa6d9; --h4: #4285c4;\n"
	"  --h5: #2364a3; --h6: #0d4480; --low: #1d1d1f; --high: #ffffff }\n"
	"@media (prefers-color-scheme: dark) {\n"
	":root { --paper: #141417; --panel: #1d1d21; --ink: #ececf1; --dim: #9b9ba5;\n"
	"  --line: #37373e; --good: #4cc38a; --warn: #f0a53c; --bad: #ff6f70;\n"
	"  --warnbg: #33260f; --badbg: #3a1a1c; --goodbg: #14301f;\n"
	"  --h0: #14263a; --h1: #183652; --h2: #1f4a72; --h3: #2b6398; --h4: #4684bf;\n"
	"  --h5: #76abdd; --h6: #b3d4f2; --low: #ececf1; --high: #101014 }\n"
	"}\n"
	"svg { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 12px "
	"}\n"
	"svg text { fill: var(--ink) } svg text.dim { fill: var(--dim) }\n"
	"svg text.title { font-size: 15px; font-weight: 600 } svg text.net { font-weight: 600 "
	"}\n"
	"svg text.small { font-size: 11px; paint-order: stroke; stroke: var(--panel);\n"
	"  stroke-width: 3px }\n"
	".cell { stroke: var(--paper) } .none { fill: var(--line); fill-opacity: .45 }\n"
	".self { fill: none } .ok { fill: var(--good); fill-opacity: .28 }\n"
	".part { fill: var(--warn); fill-opacity: .55 } .fail { fill: var(--bad) }\n"
	".h0 { fill: var(--h0) } .h1 { fill: var(--h1) } .h2 { fill: var(--h2) }\n"
	".h3 { fill: var(--h3) } .h4 { fill: var(--h4) } .h5 { fill: var(--h5) }\n"
	".h6 { fill: var(--h6) } svg text.low { fill: var(--low) }\n"
	"svg text.high { fill: var(--high) } svg text.sign { fill: #fff; font-weight: 700 }\n"
	"svg text.okay { fill: var(--good) }\n"
	".out { fill: none; stroke: var(--warn); stroke-width: 2.5 }\n"
	".box { fill: var(--panel); stroke: var(--line); stroke-width: 1.5 }\n"
	".box.warn { stroke: var(--warn); fill: var(--warnbg) }\n"
	".box.bad { stroke: var(--bad); fill: var(--badbg); stroke-width: 2 }\n"
	".wire { stroke: var(--dim); fill: none; stroke-width: 1.5 }\n"
	".wire.good { stroke: var(--good) } .wire.warn { stroke: var(--warn) }\n"
	".wire.bad { stroke: var(--bad) } .bus { stroke-width: 3.5; stroke-linecap: round }\n"
	".twice { stroke-dasharray: 5 5 }\n"
	".dot { fill: var(--dim); stroke: var(--paper); stroke-width: 1.5 }\n"
	".dot.good { fill: var(--good) } .dot.warn { fill: var(--warn) }\n"
	".dot.bad { fill: var(--bad) }\n"
	".arc { fill: none; stroke: var(--bad); stroke-width: 1.6; stroke-opacity: .85 }\n"
	".head { fill: var(--bad) }\n";

void picture_style(FILE *out)
{
	fputs(style, out);
}

/* Characters on a screen, not bytes. */
static int width_of(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static const char *name_of(const struct probe_facts *f, const struct pairs *p, int i)
{
	return f->nodes[p->node[i]].name;
}

/* Heat maps. */

enum { NAME_MOST = 16, TITLE = 30, LEGEND = 58, BINS = 7 };

/* In pixels; a cell shrinks as nodes become many, and its labels with it. */
struct grid {
	int cell, font, label, top, width,
		height; /* label: the rows' names; top: all above cells */
};

static struct grid grid_of(const struct probe_facts *f, const struct pairs *p)
{
	struct grid g;
	int i, longest = 2;

	g.cell = 510 / (p->n ? p->n : 1);
	g.cell = g.cell > 48 ? 48 : g.cell < 8 ? 8 : g.cell;
	g.font = g.cell >= 14 ? 12 : g.cell - 1;
	for (i = 0; i < p->n; i++)
		longest = width_of(name_of(f, p, i)) > longest ? width_of(name_of(f, p, i))
							       : longest;
	longest = longest > NAME_MOST ? NAME_MOST : longest;
	g.label = (int)(longest * g.font * 0.62) + 12;
	g.top = TITLE + (g.label < 22 ? 22 : g.label);
	/* "from, to" stands in the corner. */
	g.label = g.label < 76 ? 76 : g.label;
	g.width = g.label + p->n * g.cell + 12;
	g.width = g.width < 360 ? 360 : g.width;
	g.height = g.top + p->n * g.cell + LEGEND;
	return g;
}

void picture_heat_size(const struct probe_facts *f, const struct pairs *p, int *width,
		       int *height)
{
	struct grid g = grid_of(f, p);

	*width = g.width;
	*height = g.height;
}

bool picture_heat_has(const struct pairs *p, enum picture_map map)
{
	return p->n > 1 &&
	       (map == PICTURE_REACH || (map == PICTURE_LATENCY ? p->us : p->mbs)[1] >= 0);
}

/* What a map shows of a pair; < 0: it has not been measured. */
static double value_of(const struct pair *x, enum picture_map map)
{
	return map == PICTURE_LATENCY ? x->us : x->mbs;
}

/* A value's place between the least and the most, by ratio; 0 to BINS - 1. */
static int bin_of(const double range[2], double v)
{
	double low = fmax(range[0], 1e-3), high = fmax(range[1], low);

	/* Where all are alike, small differences would look like large ones. */
	if (high < 1.5 * low)
		return 2;
	return (int)fmin(BINS - 1, log(fmax(v, low) / low) / log(high / low) * BINS);
}

static void put_value(FILE *out, enum picture_map map, double v, bool unit)
{
	if (map == PICTURE_LATENCY && v >= 1000)
		fprintf(out, "%.3g%s", v / 1000, unit ? " ms" : "ms");
	else if (map == PICTURE_LATENCY)
		fprintf(out, "%.*f%s", v < 10, v, unit ? " \xc2\xb5s" : "");
	else if (v >= 1000)
		fprintf(out, "%.3g%s", v / 1000, unit ? " GB/s" : "G");
	else
		fprintf(out, "%.*f%s", v < 10, v, unit ? " MB/s" : "");
}

static void put_tip(FILE *out, const struct probe_facts *f, const struct pairs *p, int a, int b)
{
	const struct pair *x = pairs_at(p, a, b);

	fputs("<title>", out);
	xml_text(out, name_of(f, p, a));
	fputs(" \xe2\x86\x92 ", out);
	xml_text(out, name_of(f, p, b));
	if (!x->tried)
		fputs(": not tried", out);
	else if (x->failed)
		fprintf(out, ": %d of %d connections fail, %s", x->failed, x->tried,
			facts_state_text(x->state));
	else
		fprintf(out, ": %d connections work", x->tried);
	if (x->us >= 0) {
		fputs("; ", out);
		put_value(out, PICTURE_LATENCY, x->us, true);
	}
	if (x->mbs >= 0) {
		fputs("; ", out);
		put_value(out, PICTURE_BANDWIDTH, x->mbs, true);
	}
	fputs(x->lost ? "; full-size packets get lost</title>" : "</title>", out);
}

static const char *class_of(const struct pair *x, enum picture_map map, const double range[2],
			    char out[8])
{
	if (x->tried && x->failed == x->tried)
		return "fail";
	if (map == PICTURE_REACH)
		return !x->tried ? "none" : x->failed || x->lost ? "part" : "ok";
	if (value_of(x, map) < 0)
		return "none";
	snprintf(out, 8, "h%d", bin_of(range, value_of(x, map)));
	return out;
}

static void put_cell(FILE *out, const struct probe_facts *f, const struct pairs *p,
		     const struct grid *g, enum picture_map map, int a, int b)
{
	const struct pair *x = pairs_at(p, a, b);
	const double *range = map == PICTURE_LATENCY ? p->us : p->mbs;
	int left = g->label + b * g->cell, top = g->top + a * g->cell;
	int middle = left + g->cell / 2, base = top + g->cell / 2 + 4;
	char text[8];
	const char *class = class_of(x, map, range, text);

	fprintf(out,
		"<g><rect class=\"cell %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
		"rx=\"%d\"/>",
		class, left, top, g->cell, g->cell, g->cell > 20 ? 4 : 1);
	put_tip(out, f, p, a, b);
	if (!strcmp(class, "fail") && g->cell >= 12) {
		fprintf(out,
			"<text class=\"sign\" x=\"%d\" y=\"%d\" "
			"text-anchor=\"middle\">\xc3\x97</text>",
			middle, base);
	} else if (map == PICTURE_REACH && g->cell >= 20 && x->tried) {
		fprintf(out,
			"<text class=\"%s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>",
			x->failed || x->lost ? "" : "okay", middle, base,
			x->failed || x->lost ? "!" : "\xe2\x9c\x93");
	} else if (*class == 'h' && g->cell >= 30) {
		fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
			class[1] > '3' ? "high" : "low", middle, base);
		put_value(out, map, value_of(x, map), false);
		fputs("</text>", out);
	}
	if ((map == PICTURE_LATENCY && x->slow) || (map == PICTURE_BANDWIDTH && x->weak))
		fprintf(out,
			"<rect class=\"out\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			"height=\"%.1f\" rx=\"2\"/>",
			left + 1.5, top + 1.5, g->cell - 3.0, g->cell - 3.0);
	fputs("</g>\n", out);
}

static void put_labels(FILE *out, const struct probe_facts *f, const struct pairs *p,
		       const struct grid *g)
{
	int i, at;

	for (i = 0; i < p->n; i++) {
		at = g->top + i * g->cell + g->cell / 2 + g->font / 3;
		fprintf(out,
			"<text x=\"%d\" y=\"%d\" text-anchor=\"end\" font-size=\"%d\" "
			"style=\"font-size:%dpx\">",
			g->label - 6, at, g->font, g->font);
		xml_clip(out, name_of(f, p, i), NAME_MOST);
		at = g->label + i * g->cell + g->cell / 2 + g->font / 3;
		fprintf(out,
			"</text><text transform=\"translate(%d %d) rotate(-90)\" "
			"style=\"font-size:%dpx\">",
			at, g->top - 6, g->font);
		xml_clip(out, name_of(f, p, i), NAME_MOST);
		fputs("</text>\n", out);
	}
	fprintf(out,
		"<text class=\"dim small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">from "
		"\xe2\x86\x93 to \xe2\x86\x92</text>\n",
		g->label - 6, g->top - 6);
}

static void put_swatch(FILE *out, const char *class, int x, int y, const char *text)
{
	fprintf(out,
		"<rect class=\"cell %s\" x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" "
		"rx=\"3\"/>"
		"<text class=\"dim small\" x=\"%d\" y=\"%d\">%s</text>\n",
		class, x, y, x + 19, y + 11, text);
}

static void put_legend(FILE *out, const struct pairs *p, const struct grid *g,
		       enum picture_map map)
{
	const double *range = map == PICTURE_LATENCY ? p->us : p->mbs;
	int x = 6, y = g->height - LEGEND + 14, i;

	if (map == PICTURE_REACH) {
		put_swatch(out, "ok", x, y, "all work");
		put_swatch(out, "part", x + 84, y, "some fail");
		put_swatch(out, "fail", x + 170, y, "none works");
		put_swatch(out, "none", x + 262, y, "not tried");
		return;
	}
	for (i = 0; i < BINS; i++)
		fprintf(out,
			"<rect class=\"h%d\" x=\"%d\" y=\"%d\" width=\"16\" height=\"14\"/>", i,
			x + i * 16, y);
	fprintf(out, "<text class=\"dim small\" x=\"%d\" y=\"%d\">", x, y + 28);
	put_value(out, map, range[0], true);
	fprintf(out, "</text><text class=\"dim small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">",
		x + BINS * 16, y + 28);
	put_value(out, map, range[1], true);
	fputs("</text>\n", out);
	fprintf(out,
		"<rect class=\"out\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\"/>",
		x + 130, y + 1);
	fprintf(out, "<text class=\"dim small\" x=\"%d\" y=\"%d\">outlier</text>\n", x + 149,
		y + 11);
	put_swatch(out, "fail", x + 200, y, "none works");
}

void picture_heat(FILE *out, const struct probe_facts *f, const struct pairs *p,
		  enum picture_map map, int x, int y)
{
	static const char *const titles[] = { "Connections", "Round trip, \xc2\xb5s",
					      "Bandwidth of one connection, MB/s" };
	struct grid g = grid_of(f, p);
	int a, b;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" x=\"%d\" y=\"%d\" "
		"width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<text class=\"title\" x=\"6\" y=\"18\">%s</text>\n",
		x, y, g.width, g.height, g.width, g.height, titles[map]);
	put_labels(out, f, p, &g);
	for (a = 0; a < p->n; a++)
		for (b = 0; b < p->n; b++)
			if (a != b)
				put_cell(out, f, p, &g, map, a, b);
	put_legend(out, p, &g, map);
	fputs("</svg>\n", out);
}

/* Who is on which network. */

enum { BUSES = 7, LEFT = 214, ROW = 58, ARCS = 40 };

/* An interface of a node on a network. */
struct port {
	int at; /* the node's place among those shown */
	const struct iface *iface;
	char address[IFACE_TEXT];
	int open, failed; /* paths that lead to it */
};

struct bus {
	char net[IFACE_TEXT];
	struct port *port;
	int n;
	bool twice; /* an address is there more than once */
	int open, failed;
};

struct buses {
	struct bus *bus;
	int n;
};

static struct bus *bus_of(struct buses *b, const char *net)
{
	struct bus *more;
	int i;

	for (i = 0; i < b->n; i++)
		if (!strcmp(b->bus[i].net, net))
			return &b->bus[i];
	more = reallocarray(b->bus, (size_t)b->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	b->bus = more;
	memset(&more[b->n], 0, sizeof(*more));
	snprintf(more[b->n].net, sizeof(more[b->n].net), "%s", net);
	return &more[b->n++];
}

static void add_port(struct buses *all, const struct probe_facts *f, int node, int at,
		     const struct iface_addr *a)
{
	const struct iface *iface = &f->nodes[node].snapshot.ifaces.ifaces[a->iface];
	char net[IFACE_TEXT], address[IFACE_TEXT];
	struct port *more;
	struct bus *b;
	int i;

	iface_text(&a->ip, address);
	b = bus_of(all, facts_net(f, node, address, net));
	if (!b || (b->n && b->port[b->n - 1].at == at))
		return;
	for (i = 0; i < b->n; i++)
		b->twice |= !strcmp(b->port[i].address, address);
	more = reallocarray(b->port, (size_t)b->n + 1, sizeof(*more));
	if (!more)
		return;
	b->port = more;
	more[b->n] = (struct port){ .at = at, .iface = iface };
	memcpy(more[b->n++].address, address, sizeof(address));
}

/* Networks of many first; what leads nowhere last. */
static int by_ports(const void *a, const void *b)
{
	const struct bus *x = a, *y = b;
	int d = (y->open > 0) - (x->open > 0);

	return d ? d : y->n != x->n ? y->n - x->n : strcmp(x->net, y->net);
}

static void count_paths(struct buses *all, const struct probe_facts *f, const int *place)
{
	char net[IFACE_TEXT];
	int i, k, n;

	for (i = 0; i < f->npaths; i++) {
		const struct probe_path *p = &f->paths[i];

		facts_net(f, p->to, p->address, net);
		for (k = 0; k < all->n && strcmp(all->bus[k].net, net) != 0; k++)
			;
		if (k == all->n)
			continue;
		all->bus[k].open += p->state == FACTS_OPEN;
		all->bus[k].failed += p->state != FACTS_OPEN;
		for (n = 0; n < all->bus[k].n; n++)
			if (all->bus[k].port[n].at == place[p->to]) {
				all->bus[k].port[n].open += p->state == FACTS_OPEN;
				all->bus[k].port[n].failed += p->state != FACTS_OPEN;
			}
	}
}

static void find_buses(struct buses *all, const struct probe_facts *f, const struct pairs *p)
{
	int i, k, *place = calloc((size_t)f->nnodes + 1, sizeof(*place));

	memset(all, 0, sizeof(*all));
	for (i = 0; place && i < f->nnodes; i++)
		place[i] = -1;
	for (i = 0; place && i < p->n; i++) {
		const struct iface_list *l = &f->nodes[p->node[i]].snapshot.ifaces;

		place[p->node[i]] = i;
		for (k = 0; k < l->naddrs; k++)
			if (iface_is_global(&l->addrs[k].ip) &&
			    l->ifaces[l->addrs[k].iface].flags & IFF_UP)
				add_port(all, f, p->node[i], i, &l->addrs[k]);
	}
	if (place && all->n) {
		count_paths(all, f, place);
		qsort(all->bus, (size_t)all->n, sizeof(*all->bus), by_ports);
	}
	free(place);
}

static void free_buses(struct buses *all)
{
	while (all->n)
		free(all->bus[--all->n].port);
	free(all->bus);
}

static const char *health(int open, int failed)
{
	return !open && !failed ? "" : !failed ? "good" : open ? "warn" : "bad";
}

/* Where things are; the step from node to node shrinks as they become many. */
struct plan {
	const struct probe_facts *f;
	const struct pairs *p;
	struct buses all;
	int buses, arcs, names; /* rows drawn, height of arcs and of names that stand upright */
	double step;
};

static double x_of(const struct plan *s, int at)
{
	return LEFT + s->step * (at + 0.5);
}

static int y_of_boxes(const struct plan *s)
{
	return TITLE + s->arcs + s->names;
}

static int box_height(const struct plan *s)
{
	return s->names ? 16 : 36;
}

static int y_of_bus(const struct plan *s, int k)
{
	return y_of_boxes(s) + box_height(s) + 44 + k * ROW;
}

/* Is the node in a finding, and how bad?  What concerns all nodes marks none. */
static const char *mark_of(const struct probe_facts *f, int node)
{
	int i, k;

	for (i = 0; i < f->nfindings; i++)
		for (k = 0; f->findings[i].severity > FACTS_NOTE && k < f->findings[i].nnodes;
		     k++)
			if (f->findings[i].nodes[k] == node &&
			    (f->findings[i].nnodes < f->nnodes || f->nnodes < 3))
				return f->findings[i].severity == FACTS_ERROR ? "bad" : "warn";
	return "";
}

static void put_boxes(FILE *out, const struct plan *s)
{
	int i, y = y_of_boxes(s), h = box_height(s);
	double w = s->step > 130 ? 120 : s->step - (s->names ? 3 : 10);

	for (i = 0; i < s->p->n; i++) {
		const struct probe_node *n = &s->f->nodes[s->p->node[i]];

		fprintf(out,
			"<g><rect class=\"box %s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
			"height=\"%d\" "
			"rx=\"%d\"/><title>",
			mark_of(s->f, s->p->node[i]), x_of(s, i) - w / 2, y, w, h,
			s->names ? 3 : 7);
		xml_text(out, n->name);
		if (*n->error) {
			fputs(": ", out);
			xml_text(out, n->error);
		}
		fputs("</title></g>", out);
		if (s->names)
			fprintf(out,
				"<text class=\"small\" transform=\"translate(%.1f %d) "
				"rotate(-90)\" "
				"style=\"font-size:%dpx\">",
				x_of(s, i) + 4, y - 5, s->step < 13 ? 9 : 11);
		else
			fprintf(out,
				"<text class=\"net\" x=\"%.1f\" y=\"%d\" "
				"text-anchor=\"middle\">",
				x_of(s, i), y + 22);
		xml_clip(out, n->name, s->names ? 12 : (int)(w / 7.5));
		fputs("</text>\n", out);
	}
}

/* Connections that fail are drawn from node to node, unless so many that a map says more. */
static void put_arcs(FILE *out, const struct plan *s)
{
	int a, b, y = TITLE + s->arcs - 4;
	double x, w;

	for (a = 0; s->arcs && a < s->p->n; a++)
		for (b = 0; b < s->p->n; b++) {
			const struct pair *c = pairs_at(s->p, a, b);

			if (a == b || !c->failed || c->failed < c->tried)
				continue;
			x = x_of(s, a);
			w = x_of(s, b);
			fprintf(out,
				"<path class=\"arc\" marker-end=\"url(#head)\" d=\"M%.1f %d "
				"Q%.1f %.1f "
				"%.1f %d\"/>\n",
				x + (w > x ? 3 : -3), y, (x + w) / 2,
				y - fmin(2.0 * s->arcs - 14, 24 + fabs(w - x) * 0.35),
				w + (w > x ? -4 : 4), y);
		}
}

static void put_bus_label(FILE *out, const struct bus *b, int y)
{
	int i, least, most;

	least = most = b->port[0].iface->mtu;
	for (i = 1; i < b->n; i++) {
		least = b->port[i].iface->mtu < least ? b->port[i].iface->mtu : least;
		most = b->port[i].iface->mtu > most ? b->port[i].iface->mtu : most;
	}
	fprintf(out, "<text class=\"net\" x=\"6\" y=\"%d\">", y - 2);
	xml_clip(out, b->net, 27);
	fprintf(out, "</text><text class=\"dim small\" x=\"6\" y=\"%d\">", y + 13);
	xml_clip(out, b->port[0].iface->name, 15);
	for (i = 1; i < b->n && !strcmp(b->port[i].iface->name, b->port[0].iface->name); i++)
		;
	fprintf(out, "%s, MTU %d", i < b->n ? " and others" : "", least);
	if (most != least)
		fprintf(out, " to %d", most);
	if (b->twice)
		fputs(", one address many times", out);
	else if (b->port[0].iface->speed_mbps > 0)
		fprintf(out, ", %g Gb/s", b->port[0].iface->speed_mbps / 1000.0);
	fputs("</text>\n", out);
}

static void put_bus(FILE *out, const struct plan *s, int k)
{
	const struct bus *b = &s->all.bus[k];
	int i, y = y_of_bus(s, k), top = y_of_boxes(s) + box_height(s);
	double shift = (k - (s->buses - 1) / 2.0) * fmin(9, s->step / (s->buses + 1)), x;
	const char *class = b->twice ? "bad" : health(b->open, b->failed);

	put_bus_label(out, b, y);
	for (i = 0; i < b->n; i++) {
		x = x_of(s, b->port[i].at) + shift;
		fprintf(out, "<path class=\"wire %s\" d=\"M%.1f %dV%d\"/>",
			b->twice ? "bad twice" : health(b->port[i].open, b->port[i].failed), x,
			top, y);
	}
	fprintf(out, "<path class=\"wire bus %s%s\" d=\"M%.1f %dH%.1f\"/>\n", class,
		b->twice || b->n < 2 ? " twice" : "", x_of(s, b->port[0].at) + shift - 8, y,
		x_of(s, b->port[b->n - 1].at) + shift + 8);
	for (i = 0; i < b->n; i++) {
		x = x_of(s, b->port[i].at) + shift;
		fprintf(out,
			"<g><circle class=\"dot %s\" cx=\"%.1f\" cy=\"%d\" r=\"%g\"/><title>",
			b->twice ? "bad" : health(b->port[i].open, b->port[i].failed), x, y,
			s->step < 20 ? 3.5 : 5.5);
		xml_text(out, name_of(s->f, s->p, b->port[i].at));
		fputs(" ", out);
		xml_text(out, b->port[i].iface->name);
		fputs(" ", out);
		xml_text(out, b->port[i].address);
		fputs("</title></g>", out);
		if (s->step >= 92) {
			fprintf(out,
				"<text class=\"dim small\" x=\"%.1f\" y=\"%d\" "
				"text-anchor=\"middle\">",
				x, y + 20);
			xml_clip(out, b->port[i].address, (int)(s->step / 6.4));
			fputs("</text>", out);
		}
		fputs("\n", out);
	}
}

static void make_plan(struct plan *s)
{
	int i, k, failed = 0;

	find_buses(&s->all, s->f, s->p);
	s->buses = s->all.n > BUSES ? BUSES : s->all.n;
	s->step = (PICTURE_WIDTH - LEFT - 10.0) / (s->p->n ? s->p->n : 1);
	s->step = s->step > 190 ? 190 : s->step;
	s->names = s->step < 60 ? 84 : 0;
	for (i = 0; i < s->p->n; i++)
		for (k = 0; k < s->p->n; k++)
			failed += pairs_at(s->p, i, k)->failed > 0 &&
				  pairs_at(s->p, i, k)->failed == pairs_at(s->p, i, k)->tried;
	s->arcs = failed && failed <= ARCS ? 78 : 0;
}

int picture_topology(FILE *out, const struct probe_facts *f, const struct pairs *p, int x,
		     int y)
{
	struct plan s = { .f = f, .p = p };
	int k, height;

	make_plan(&s);
	height = y_of_bus(&s, s.buses) + (s.all.n > s.buses ? 24 : 0) - 10;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" x=\"%d\" y=\"%d\" "
		"width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
		"markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" "
		"orient=\"auto\">"
		"<path class=\"head\" d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n"
		"<text class=\"title\" x=\"6\" y=\"18\">Nodes and networks</text>\n",
		x, y, PICTURE_WIDTH, height, PICTURE_WIDTH, height);
	if (s.arcs)
		fprintf(out,
			"<text class=\"dim small\" x=\"6\" y=\"%d\">does not connect "
			"\xe2\x86\x92</text>\n",
			TITLE + s.arcs - 8);
	put_arcs(out, &s);
	for (k = 0; k < s.buses; k++)
		put_bus(out, &s, k);
	put_boxes(out, &s);
	if (s.all.n > s.buses)
		fprintf(out,
			"<text class=\"dim small\" x=\"6\" y=\"%d\">and %d other "
			"networks</text>\n",
			height - 10, s.all.n - s.buses);
	fputs("</svg>\n", out);
	free_buses(&s.all);
	return height;
}
