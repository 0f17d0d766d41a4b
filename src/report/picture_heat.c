/* picture_heat.c - a heat map: a cell for each pair of nodes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xml.h"
#include "report/picture.h"

enum { NAME_MOST = 16, LEGEND = 58, BINS = 7 };

/* In pixels; cells and labels shrink as nodes become many. */
struct grid {
	int cell, font, label, top, width,
		height; /* label: the rows' names; top: all above cells */
};

static struct grid grid_of(const struct probe_facts *f, const struct pairs *p)
{
	struct grid g;
	int longest = 2;

	g.cell = 510 / (p->n ? p->n : 1);
	g.cell = g.cell > 48 ? 48 : g.cell < 8 ? 8 : g.cell;
	g.font = g.cell >= 14 ? 12 : g.cell - 1;
	for (int i = 0; i < p->n; i++)
		longest = utf8_count(pairs_name(p, f, i)) > longest
				  ? utf8_count(pairs_name(p, f, i))
				  : longest;
	longest = longest > NAME_MOST ? NAME_MOST : longest;
	g.label = (int)(longest * g.font * 0.62) + 12;
	g.top = PICTURE_TITLE + (g.label < 22 ? 22 : g.label);
	/* The corner holds "from, to". */
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

/* The value of a pair in a map; < 0: not measured. */
static double pair_value(const struct pair *x, enum picture_map map)
{
	return map == PICTURE_LATENCY ? x->us : x->mbs;
}

/* The rank of a value between least and most, by ratio; 0 to BINS - 1. */
static int value_bin(const double range[2], double v)
{
	double low = fmax(range[0], 1e-3), high = fmax(range[1], low);

	/* If all values are similar, small differences would look large. */
	if (high < 1.5 * low)
		return 2;
	return (int)fmin(BINS - 1, log(fmax(v, low) / low) / log(high / low) * BINS);
}

static void value_put(FILE *out, enum picture_map map, double v, bool unit)
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

static void tip_put(FILE *out, const struct probe_facts *f, const struct pairs *p, int a, int b)
{
	const struct pair *x = pairs_at(p, a, b);

	fputs("<title>", out);
	xml_text(out, pairs_name(p, f, a));
	fputs(" \xe2\x86\x92 ", out);
	xml_text(out, pairs_name(p, f, b));
	if (!x->tried)
		fputs(": not tried", out);
	else if (x->failed)
		fprintf(out, ": %d of %d connections fail, %s%s", x->failed, x->tried,
			x->cut && x->failed < x->tried
				? "among them all to the address that a job would use, "
				: "",
			facts_state_text(x->state));
	else
		fprintf(out, ": %d connections work", x->tried);
	if (x->us >= 0) {
		fputs("; ", out);
		value_put(out, PICTURE_LATENCY, x->us, true);
	}
	if (x->mbs >= 0) {
		fputs("; ", out);
		value_put(out, PICTURE_BANDWIDTH, x->mbs, true);
	}
	fputs(x->lost ? "; full-size packets get lost</title>" : "</title>", out);
}

static const char *cell_class(const struct pair *x, enum picture_map map, const double range[2],
			      char out[8])
{
	if (pairs_is_dead(x))
		return "fail";
	if (map == PICTURE_REACH)
		return !x->tried ? "none" : x->failed || x->lost ? "part" : "ok";
	if (pair_value(x, map) < 0)
		return "none";
	snprintf(out, 8, "h%d", value_bin(range, pair_value(x, map)));
	return out;
}

static void cell_put(FILE *out, const struct probe_facts *f, const struct pairs *p,
		     const struct grid *g, enum picture_map map, int a, int b)
{
	const struct pair *x = pairs_at(p, a, b);
	const double *range = map == PICTURE_LATENCY ? p->us : p->mbs;
	int left = g->label + b * g->cell, top = g->top + a * g->cell;
	int middle = left + g->cell / 2, base = top + g->cell / 2 + 4;
	char text[8];
	const char *class = cell_class(x, map, range, text);

	fprintf(out, "<g><rect class='cell %s' x='%d' y='%d' width='%d' height='%d' rx='%d'/>",
		class, left, top, g->cell, g->cell, g->cell > 20 ? 4 : 1);
	tip_put(out, f, p, a, b);
	if (!strcmp(class, "fail") && g->cell >= 12) {
		fprintf(out,
			"<text class='sign' x='%d' y='%d' text-anchor='middle'>\xc3\x97</text>",
			middle, base);
	} else if (map == PICTURE_REACH && g->cell >= 20 && x->tried) {
		fprintf(out, "<text class='%s' x='%d' y='%d' text-anchor='middle'>%s</text>",
			x->failed || x->lost ? "" : "okay", middle, base,
			x->failed || x->lost ? "!" : "\xe2\x9c\x93");
	} else if (*class == 'h' && g->cell >= 30) {
		fprintf(out, "<text class='%s' x='%d' y='%d' text-anchor='middle'>",
			class[1] > '3' ? "high" : "low", middle, base);
		value_put(out, map, pair_value(x, map), false);
		fputs("</text>", out);
	}
	if ((map == PICTURE_LATENCY && x->slow) || (map == PICTURE_BANDWIDTH && x->weak))
		fprintf(out,
			"<rect class='out' x='%.1f' y='%.1f' width='%.1f' height='%.1f' "
			"rx='2'/>",
			left + 1.5, top + 1.5, g->cell - 3.0, g->cell - 3.0);
	fputs("</g>\n", out);
}

static void labels_put(FILE *out, const struct probe_facts *f, const struct pairs *p,
		       const struct grid *g)
{
	int at;

	for (int i = 0; i < p->n; i++) {
		at = g->top + i * g->cell + g->cell / 2 + g->font / 3;
		fprintf(out,
			"<text x='%d' y='%d' text-anchor='end' font-size='%d' "
			"style='font-size:%dpx'>",
			g->label - 6, at, g->font, g->font);
		xml_clip(out, pairs_name(p, f, i), NAME_MOST);
		at = g->label + i * g->cell + g->cell / 2 + g->font / 3;
		fprintf(out,
			"</text><text transform='translate(%d %d) rotate(-90)' "
			"style='font-size:%dpx'>",
			at, g->top - 6, g->font);
		xml_clip(out, pairs_name(p, f, i), NAME_MOST);
		fputs("</text>\n", out);
	}
	fprintf(out,
		"<text class='dim small' x='%d' y='%d' text-anchor='end'>from \xe2\x86\x93 to "
		"\xe2\x86\x92</text>\n",
		g->label - 6, g->top - 6);
}

static void swatch_put(FILE *out, const char *class, int x, int y, const char *text)
{
	fprintf(out,
		"<rect class='cell %s' x='%d' y='%d' width='14' height='14' rx='3'/><text "
		"class='dim small' x='%d' y='%d'>%s</text>\n",
		class, x, y, x + 19, y + 11, text);
}

static void heat_legend_put(FILE *out, const struct pairs *p, const struct grid *g,
			    enum picture_map map)
{
	const double *range = map == PICTURE_LATENCY ? p->us : p->mbs;
	int x = 6, y = g->height - LEGEND + 14;

	if (map == PICTURE_REACH) {
		swatch_put(out, "ok", x, y, "all work");
		swatch_put(out, "part", x + 84, y, "some fail");
		swatch_put(out, "fail", x + 170, y, "cut off");
		swatch_put(out, "none", x + 240, y, "not tried");
		return;
	}
	for (int i = 0; i < BINS; i++)
		fprintf(out, "<rect class='h%d' x='%d' y='%d' width='16' height='14'/>", i,
			x + i * 16, y);
	fprintf(out, "<text class='dim small' x='%d' y='%d'>", x, y + 28);
	value_put(out, map, range[0], true);
	fprintf(out, "</text><text class='dim small' x='%d' y='%d' text-anchor='end'>",
		x + BINS * 16, y + 28);
	value_put(out, map, range[1], true);
	fputs("</text>\n", out);
	fprintf(out, "<rect class='out' x='%d' y='%d' width='12' height='12' rx='2'/>", x + 130,
		y + 1);
	fprintf(out, "<text class='dim small' x='%d' y='%d'>outlier</text>\n", x + 149, y + 11);
	swatch_put(out, "fail", x + 200, y, "cut off");
	swatch_put(out, "none", x + 270, y, "not known");
}

static int cut_count(const struct pairs *p)
{
	int n = 0;

	for (int i = 0; i < p->n * p->n; i++)
		n += pairs_is_dead(&p->pair[i]);
	return n;
}

void picture_heat(FILE *out, const struct probe_facts *f, const struct pairs *p,
		  enum picture_map map, int x, int y)
{
	static const char *const titles[] = { "Connections", "Round trip, \xc2\xb5s",
					      "Bandwidth of one connection, MB/s" };
	struct grid g = grid_of(f, p);
	char about[128];

	snprintf(about, sizeof(about),
		 "A cell for each pair of %d nodes, from the row's to the column's. %d pairs "
		 "are cut off.",
		 p->n, cut_count(p));
	picture_begin(out, x, y, g.width, g.height, titles[map], about);
	labels_put(out, f, p, &g);
	for (int a = 0; a < p->n; a++)
		for (int b = 0; b < p->n; b++)
			if (a != b)
				cell_put(out, f, p, &g, map, a, b);
	heat_legend_put(out, p, &g, map);
	fputs("</svg>\n", out);
}
