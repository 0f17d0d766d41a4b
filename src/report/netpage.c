/* netpage.c - the results of a network check as an HTML page or an SVG picture. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/netpage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/xml.h"
#include "probe/facts.h"
#include "probe/pairs.h"
#include "probe/verdict.h"
#include "report/page.h"
#include "report/picture.h"
#include "ringup.h"

/* Users pass the page on, so it keeps only the data that it shows. */
static void node_trim(json_t *node)
{
	static const char *const not_shown[] = { "machine_id", "resolves", "firewall" };
	json_t *snapshot = json_object_get(node, "snapshot");

	for (size_t i = 0; i < sizeof(not_shown) / sizeof(not_shown[0]); i++)
		json_object_del(node, not_shown[i]);
	if (json_is_object(snapshot))
		json_object_set_new(node, "snapshot",
				    json_pack("{sO? sO?}", "interfaces",
					      json_object_get(snapshot, "interfaces"),
					      "addresses",
					      json_object_get(snapshot, "addresses")));
}

static json_t *page_json(const struct probe_facts *f)
{
	json_t *all = facts_json(f), *node;
	size_t i;

	if (!all)
		return NULL;
	json_array_foreach(json_object_get(all, "nodes"), i, node) {
		node_trim(node);
	}
	json_object_del(all, "paths");
	json_object_set_new(all, "connections", json_integer(f->npaths));
	json_object_set_new(all, "well", json_boolean(verdict_is_well(f)));
	return all;
}

static void maps_put(FILE *out, const struct probe_facts *f, const struct pairs *p)
{
	for (int map = 0; map < PICTURE_MAPS; map++) {
		if (!picture_heat_has(p, (enum picture_map)map))
			continue;
		page_panel_begin(out);
		picture_heat(out, f, p, (enum picture_map)map, 0, 0);
		page_panel_end(out);
	}
	if (p->n > 1)
		fputs("<p class='facts'>Cut off: no connection to the address that a job would "
		      "use works, even if one to another does.</p>\n",
		      out);
	if (p->n < f->nnodes)
		fprintf(out,
			"<p class='facts'>%d of %d nodes are shown, those with findings "
			"first.</p>\n",
			p->n, f->nnodes);
}

static int html_put(FILE *out, const struct probe_facts *f, const struct pairs *p,
		    struct err *e)
{
	char *pictures = NULL;
	size_t len;
	FILE *in = open_memstream(&pictures, &len);
	json_t *data = page_json(f);
	int rc = in && data ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the page");

	if (!rc) {
		page_panel_begin(in);
		picture_topology(in, f, p, 0, 0);
		page_panel_end(in);
		maps_put(in, f, p);
	}
	if (in && fclose(in) && !rc)
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	if (!rc)
		rc = page_put(out, &(struct page){ "Network check", pictures, data }, e);
	free(pictures);
	json_decref(data);
	return rc;
}

/* A picture has room for one line per finding. */
enum { LINES = 12, LINE = 22, MARGIN = 20, LINE_MOST = 150 };

static int lines_put(FILE *out, const struct probe_facts *f, int y)
{
	int n = f->nfindings < LINES ? f->nfindings : LINES;

	fprintf(out, "<text x='%d' y='%d' style='font-size:19px;font-weight:600'>", MARGIN, y);
	xml_clip(out, f->verdict ? f->verdict : "", 110);
	fputs("</text>\n", out);
	for (int i = 0; i < n; i++) {
		const struct probe_finding *p = &f->findings[i];

		y += LINE + (i ? 0 : 8);
		fprintf(out,
			"<circle class='dot %s' cx='%d' cy='%d' r='6'/><text x='%d' "
			"y='%d'>%s: ",
			p->severity == FACTS_ERROR     ? "bad"
			: p->severity == FACTS_WARNING ? "warn"
						       : "",
			MARGIN + 6, y - 4, MARGIN + 20, y, facts_severity_text(p->severity));
		xml_clip(out, p->what, LINE_MOST);
		fputs("</text>\n", out);
	}
	return y + 24;
}

/* Draws heat maps side by side as far as they fit; returns the y below them. */
static int heats_put(FILE *out, const struct probe_facts *f, const struct pairs *p, int y)
{
	int width, height, x = MARGIN, end = y;

	picture_heat_size(f, p, &width, &height);
	for (int map = 0; map < PICTURE_MAPS; map++) {
		if (!picture_heat_has(p, (enum picture_map)map))
			continue;
		if (x > MARGIN && x + width > PICTURE_WIDTH + MARGIN) {
			x = MARGIN;
			y = end;
		}
		picture_heat(out, f, p, (enum picture_map)map, x, y);
		x += width + MARGIN;
		end = y + height + MARGIN;
	}
	return end;
}

/* The height is known only after drawing, so the body is drawn first. */
static int svg_put(FILE *out, const struct probe_facts *f, const struct pairs *p, struct err *e)
{
	size_t len;
	char *body;
	FILE *in = open_memstream(&body, &len);
	int y, rc;

	if (!in)
		return fail(e, RINGUP_ENOMEM, "no memory for the picture");
	y = lines_put(in, f, 40);
	y += picture_topology(in, f, p, MARGIN, y) + MARGIN;
	y = heats_put(in, f, p, y);
	if (fclose(in))
		return fail(e, RINGUP_ENOMEM, "no memory for the picture");
	rc = picture_file_begin(out, PICTURE_WIDTH + 2 * MARGIN, y, e);
	fwrite(body, 1, len, out);
	fputs("</svg>\n", out);
	free(body);
	return rc;
}

int netpage_make(const struct probe_facts *f, enum netpage_kind kind, char **datap,
		 size_t *lenp, struct err *e)
{
	struct pairs p = { 0 };
	FILE *out = NULL;
	int rc = pairs_make(&p, f, PICTURE_NODES, e);

	*datap = NULL;
	if (!rc)
		out = open_memstream(datap, lenp);
	if (!rc && !out)
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	if (!rc)
		rc = kind == NETPAGE_HTML ? html_put(out, f, &p, e) : svg_put(out, f, &p, e);
	if (out && fclose(out) && !rc)
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	pairs_free(&p);
	return rc;
}

int netpage_write(const struct probe_facts *f, enum netpage_kind kind, const char *path,
		  struct err *e)
{
	size_t len;
	char *data;
	int rc = netpage_make(f, kind, &data, &len, e);

	if (!rc)
		rc = file_save(path, 0644, data, len, e);
	free(data);
	return rc;
}
