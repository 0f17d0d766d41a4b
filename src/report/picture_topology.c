/* picture_topology.c - a picture of nodes, their networks and failing connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xml.h"
#include "report/picture.h"

enum { LEGEND = 26, BUSES = 7, LEFT = 214, ROW = 58, ARCS = 40 };

/* An interface of a node on a network. */
struct port {
	int at; /* the node's index among those shown */
	const struct iface *iface;
	char address[IFACE_TEXT];
	int open, failed; /* paths that lead to it */
};

struct bus {
	char net[IFACE_TEXT];
	struct port *port;
	int n;
	bool twice; /* an address occurs more than once */
	int open, failed;
};

struct buses {
	struct bus *bus;
	int n;
};

static struct bus *bus_of(struct buses *b, const char *net)
{
	struct bus *one;

	for (int i = 0; i < b->n; i++)
		if (!strcmp(b->bus[i].net, net))
			return &b->bus[i];
	one = array_more(&b->bus, &b->n, sizeof(*one));
	if (one)
		snprintf(one->net, sizeof(one->net), "%s", net);
	return one;
}

static void port_add(struct buses *all, const struct probe_facts *f, int node, int at,
		     const struct iface_addr *a)
{
	const struct iface *iface = &f->nodes[node].snapshot.ifaces.ifaces[a->iface];
	char net[IFACE_TEXT], address[IFACE_TEXT];
	struct port *one;
	struct bus *b;

	iface_text(&a->ip, address);
	b = bus_of(all, facts_net(f, node, address, net));
	if (!b || (b->n && b->port[b->n - 1].at == at))
		return;
	for (int i = 0; i < b->n; i++)
		b->twice |= !strcmp(b->port[i].address, address);
	one = array_more(&b->port, &b->n, sizeof(*one));
	if (!one)
		return;
	*one = (struct port){ .at = at, .iface = iface };
	memcpy(one->address, address, sizeof(address));
}

/* Large networks come first, unreachable ones last. */
static int bus_compare(const void *a, const void *b)
{
	const struct bus *x = a, *y = b;
	int d = (y->open > 0) - (x->open > 0);

	return d ? d : y->n != x->n ? y->n - x->n : strcmp(x->net, y->net);
}

static void buses_count_paths(struct buses *all, const struct probe_facts *f, const int *place)
{
	char net[IFACE_TEXT];
	int k;

	for (int i = 0; i < f->npaths; i++) {
		const struct probe_path *p = &f->paths[i];

		facts_net(f, p->to, p->address, net);
		for (k = 0; k < all->n && strcmp(all->bus[k].net, net) != 0; k++)
			;
		if (k == all->n)
			continue;
		all->bus[k].open += p->state == FACTS_OPEN;
		all->bus[k].failed += p->state != FACTS_OPEN;
		for (int n = 0; n < all->bus[k].n; n++)
			if (all->bus[k].port[n].at == place[p->to]) {
				all->bus[k].port[n].open += p->state == FACTS_OPEN;
				all->bus[k].port[n].failed += p->state != FACTS_OPEN;
			}
	}
}

static void buses_find(struct buses *all, const struct probe_facts *f, const struct pairs *p)
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
				port_add(all, f, p->node[i], i, &l->addrs[k]);
	}
	if (place && all->n) {
		buses_count_paths(all, f, place);
		qsort(all->bus, (size_t)all->n, sizeof(*all->bus), bus_compare);
	}
	free(place);
}

static void buses_free(struct buses *all)
{
	while (all->n)
		free(all->bus[--all->n].port);
	free(all->bus);
}

static const char *paths_class(int open, int failed)
{
	return !open && !failed ? "" : !failed ? "good" : open ? "warn" : "bad";
}

/* The layout; the step from node to node shrinks as they become many. */
struct layout {
	const struct probe_facts *f;
	const struct pairs *p;
	struct buses all;
	int buses, arcs, names; /* rows drawn, heights of arcs and of upright names */
	int failed;             /* pairs that do not connect */
	double step;
};

static double node_x(const struct layout *s, int at)
{
	return LEFT + s->step * (at + 0.5);
}

static int boxes_y(const struct layout *s)
{
	return PICTURE_TITLE + s->arcs + s->names;
}

static int box_height(const struct layout *s)
{
	return s->names ? 16 : 36;
}

static int bus_y(const struct layout *s, int k)
{
	return boxes_y(s) + box_height(s) + 44 + k * ROW;
}

/* The worst mark of the node in a finding; a finding about all nodes marks none. */
static const char *node_mark(const struct probe_facts *f, int node)
{
	for (int i = 0; i < f->nfindings; i++)
		for (int k = 0;
		     f->findings[i].severity > FACTS_NOTE && k < f->findings[i].nnodes; k++)
			if (f->findings[i].nodes[k] == node &&
			    (f->findings[i].nnodes < f->nnodes || f->nnodes < 3))
				return f->findings[i].severity == FACTS_ERROR ? "bad" : "warn";
	return "";
}

static void boxes_put(FILE *out, const struct layout *s)
{
	int i, y = boxes_y(s), h = box_height(s);
	double w = s->step > 130 ? 120 : s->step - (s->names ? 3 : 10);

	for (i = 0; i < s->p->n; i++) {
		const struct probe_node *n = &s->f->nodes[s->p->node[i]];

		fprintf(out,
			"<g><rect class='box %s' x='%.1f' y='%d' width='%.1f' height='%d' "
			"rx='%d'/><title>",
			node_mark(s->f, s->p->node[i]), node_x(s, i) - w / 2, y, w, h,
			s->names ? 3 : 7);
		xml_text(out, n->name);
		if (*n->error) {
			fputs(": ", out);
			xml_text(out, n->error);
		}
		fputs("</title></g>", out);
		if (s->names)
			fprintf(out,
				"<text class='small' transform='translate(%.1f %d) "
				"rotate(-90)' style='font-size:%dpx'>",
				node_x(s, i) + 4, y - 5, s->step < 13 ? 9 : 11);
		else
			fprintf(out, "<text class='net' x='%.1f' y='%d' text-anchor='middle'>",
				node_x(s, i), y + 22);
		xml_clip(out, n->name, s->names ? 12 : (int)(w / 7.5));
		fputs("</text>\n", out);
	}
}

/* Draws failing connections from node to node, unless there are too many for a picture. */
static void arcs_put(FILE *out, const struct layout *s)
{
	int y = PICTURE_TITLE + s->arcs - 4;
	double x, w;

	for (int a = 0; s->arcs && a < s->p->n; a++)
		for (int b = 0; b < s->p->n; b++) {
			const struct pair *c = pairs_at(s->p, a, b);

			if (a == b || !pairs_is_dead(c))
				continue;
			x = node_x(s, a);
			w = node_x(s, b);
			fprintf(out,
				"<path class='arc' marker-end='url(#head)' d='M%.1f %d Q%.1f "
				"%.1f %.1f %d'/>\n",
				x + (w > x ? 3 : -3), y, (x + w) / 2,
				y - fmin(2.0 * s->arcs - 14, 24 + fabs(w - x) * 0.35),
				w + (w > x ? -4 : 4), y);
		}
}

static void bus_label_put(FILE *out, const struct bus *b, int y)
{
	int i, least, most;

	least = most = b->port[0].iface->mtu;
	for (i = 1; i < b->n; i++) {
		least = b->port[i].iface->mtu < least ? b->port[i].iface->mtu : least;
		most = b->port[i].iface->mtu > most ? b->port[i].iface->mtu : most;
	}
	fprintf(out, "<text class='net' x='6' y='%d'>", y - 2);
	xml_clip(out, b->net, 27);
	fprintf(out, "</text><text class='dim small' x='6' y='%d'>", y + 13);
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

static void bus_put(FILE *out, const struct layout *s, int k)
{
	const struct bus *b = &s->all.bus[k];
	int i, y = bus_y(s, k), top = boxes_y(s) + box_height(s);
	double shift = (k - (s->buses - 1) / 2.0) * fmin(9, s->step / (s->buses + 1)), x;
	const char *class = b->twice ? "bad" : paths_class(b->open, b->failed);

	bus_label_put(out, b, y);
	for (i = 0; i < b->n; i++) {
		x = node_x(s, b->port[i].at) + shift;
		fprintf(out, "<path class='wire %s' d='M%.1f %dV%d'/>",
			b->twice ? "bad twice"
				 : paths_class(b->port[i].open, b->port[i].failed),
			x, top, y);
	}
	fprintf(out, "<path class='wire bus %s%s' d='M%.1f %dH%.1f'/>\n", class,
		b->twice || b->n < 2 ? " twice" : "", node_x(s, b->port[0].at) + shift - 8, y,
		node_x(s, b->port[b->n - 1].at) + shift + 8);
	for (i = 0; i < b->n; i++) {
		x = node_x(s, b->port[i].at) + shift;
		fprintf(out, "<g><circle class='dot %s' cx='%.1f' cy='%d' r='%g'/><title>",
			b->twice ? "bad" : paths_class(b->port[i].open, b->port[i].failed), x,
			y, s->step < 20 ? 3.5 : 5.5);
		xml_text(out, pairs_name(s->p, s->f, b->port[i].at));
		fputs(" ", out);
		xml_text(out, b->port[i].iface->name);
		fputs(" ", out);
		xml_text(out, b->port[i].address);
		fputs("</title></g>", out);
		if (s->step >= 92) {
			fprintf(out,
				"<text class='dim small' x='%.1f' y='%d' text-anchor='middle'>",
				x, y + 20);
			xml_clip(out, b->port[i].address, (int)(s->step / 6.4));
			fputs("</text>", out);
		}
		fputs("\n", out);
	}
}

static void layout_make(struct layout *s)
{
	buses_find(&s->all, s->f, s->p);
	s->buses = s->all.n > BUSES ? BUSES : s->all.n;
	s->step = (PICTURE_WIDTH - LEFT - 10.0) / (s->p->n ? s->p->n : 1);
	s->step = s->step > 190 ? 190 : s->step;
	s->names = s->step < 60 ? 84 : 0;
	for (int i = 0; i < s->p->n; i++)
		for (int k = 0; k < s->p->n; k++)
			s->failed += pairs_is_dead(pairs_at(s->p, i, k));
	s->arcs = s->failed && s->failed <= ARCS ? 78 : 0;
}

/* Explains the colours of dots, lines and boxes. */
static void topology_legend_put(FILE *out, int y)
{
	static const struct {
		const char *class, *means;
		int x;
	} dots[] = { { "good", "all connections work", 6 },
		     { "warn", "some fail", 152 },
		     { "bad", "none works", 236 },
		     { "", "not tried", 326 } },
	  boxes[] = { { "warn", "node with a warning", 410 },
		      { "bad", "node with an error", 556 } };

	for (size_t i = 0; i < sizeof(dots) / sizeof(dots[0]); i++)
		fprintf(out,
			"<circle class='dot %s' cx='%d' cy='%d' r='5.5'/><text class='dim "
			"small' x='%d' y='%d'>%s</text>\n",
			dots[i].class, dots[i].x + 6, y - 4, dots[i].x + 16, y, dots[i].means);
	for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
		fprintf(out,
			"<rect class='box %s' x='%d' y='%d' width='14' height='12' "
			"rx='3'/><text class='dim small' x='%d' y='%d'>%s</text>\n",
			boxes[i].class, boxes[i].x, y - 10, boxes[i].x + 19, y, boxes[i].means);
	fprintf(out,
		"<path class='wire twice' d='M702 %dH726'/><text class='dim small' x='731' "
		"y='%d'>one address on many nodes, or a network of one</text>\n",
		y - 4, y);
}

int picture_topology(FILE *out, const struct probe_facts *f, const struct pairs *p, int x,
		     int y)
{
	struct layout s = { .f = f, .p = p };
	char about[128];
	int height;

	layout_make(&s);
	height = bus_y(&s, s.buses) + (s.all.n > s.buses ? 24 : 0) - 10 + LEGEND;
	snprintf(about, sizeof(about),
		 "%d nodes and the %d networks between them; %d pairs of nodes do not connect.",
		 p->n, s.all.n, s.failed);
	picture_begin(out, x, y, PICTURE_WIDTH, height, "Nodes and networks", about);
	fputs("<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' "
	      "markerHeight='8' markerUnits='userSpaceOnUse' orient='auto'><path class='head' "
	      "d='M0 0L8 4L0 8Z'/></marker></defs>\n",
	      out);
	if (s.arcs)
		fprintf(out,
			"<text class='dim small' x='6' y='%d'>does not connect "
			"\xe2\x86\x92</text>\n",
			PICTURE_TITLE + s.arcs - 8);
	arcs_put(out, &s);
	for (int k = 0; k < s.buses; k++)
		bus_put(out, &s, k);
	boxes_put(out, &s);
	if (s.all.n > s.buses)
		fprintf(out,
			"<text class='dim small' x='6' y='%d'>and %d other networks</text>\n",
			height - LEGEND - 10, s.all.n - s.buses);
	topology_legend_put(out, height - 10);
	fputs("</svg>\n", out);
	buses_free(&s.all);
	return height;
}
