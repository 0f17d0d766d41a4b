/* page.c - a check as one page or one picture that any browser shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/xml.h"
#include "probe/facts.h"
#include "probe/pairs.h"
#include "probe/verdict.h"
#include "report/picture.h"
#include "ringup.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" "
	"content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n<title>Network "
	"check</title>\n<style>\n";

static const char style[] =
	"body { margin: 0; background: var(--paper); color: var(--ink);\n"
	"  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', sans-serif }\n"
	"main { max-width: 1160px; margin: 0 auto; padding: 28px 20px 48px }\n"
	"h1 { font-size: 24px; margin: 0 0 14px } h2 { font-size: 18px; margin: 34px 0 12px }\n"
	".verdict { border-radius: 10px; padding: 16px 20px; font-size: 18px; font-weight: "
	"600;\n"
	"  border-left: 6px solid; overflow-wrap: anywhere }\n"
	".verdict.bad { background: var(--badbg); border-color: var(--bad) }\n"
	".verdict.good { background: var(--goodbg); border-color: var(--good) }\n"
	".facts, .next { color: var(--dim) } .facts { margin: 10px 0 0; font-size: 14px }\n"
	".card { background: var(--panel); border: 1px solid var(--line); border-radius: "
	"10px;\n"
	"  padding: 14px 18px; margin: 0 0 12px; border-left-width: 5px; overflow-wrap: "
	"anywhere }\n"
	".card.error { border-left-color: var(--bad) } .card.warning { border-left-color: "
	"var(--warn) }\n"
	".card h3 { font-size: 16px; margin: 0 0 6px } .card p { margin: 4px 0 }\n"
	".tag { font-size: 12px; font-weight: 600; border-radius: 20px; padding: 2px 10px;\n"
	"  margin-right: 8px; background: var(--line); white-space: nowrap }\n"
	".error .tag { background: var(--badbg); color: var(--bad) }\n"
	".warning .tag { background: var(--warnbg); color: var(--warn) }\n"
	".code { color: var(--dim); font-size: 12px; font-weight: 400; margin-left: 6px }\n"
	"pre { background: var(--paper); border: 1px solid var(--line); border-radius: 6px;\n"
	"  padding: 8px 12px; margin: 8px 0 0; overflow-x: auto; font-size: 13px }\n"
	".panel { background: var(--panel); border: 1px solid var(--line); border-radius: "
	"10px;\n"
	"  padding: 14px; overflow-x: auto; margin: 0 0 14px }\n"
	".panel > svg { max-width: 100%; height: auto; display: block }\n"
	".maps { display: flex; flex-wrap: wrap; gap: 14px; margin-top: 12px } .maps .panel { "
	"margin: 0 }\n"
	"table { border-collapse: collapse; width: 100%; font-size: 14px }\n"
	"th, td { text-align: left; padding: 6px 12px 6px 0; border-bottom: 1px solid "
	"var(--line);\n"
	"  vertical-align: top; overflow-wrap: anywhere }\n"
	"th { color: var(--dim); white-space: nowrap; overflow-wrap: normal }\n"
	"h1, h2, .card h3 { overflow-wrap: break-word }\n"
	"footer { color: var(--dim); font-size: 13px; margin-top: 28px }\n";

static void put_finding(FILE *out, const struct probe_finding *p)
{
	const char *severity = facts_severity_text(p->severity);

	fprintf(out, "<article class=\"card %s\">\n<h3><span class=\"tag\">%s</span>", severity,
		severity);
	xml_text(out, p->what);
	fputs("<span class=\"code\">", out);
	xml_text(out, p->code);
	fputs("</span></h3>\n<p>", out);
	xml_text(out, p->why ? p->why : "");
	fputs("</p>\n<p class=\"next\">Next: ", out);
	xml_text(out, p->next ? p->next : "");
	fputs("</p>\n", out);
	if (p->command) {
		fputs("<pre><code>", out);
		xml_text(out, p->command);
		fputs("</code></pre>\n", out);
	}
	fputs("</article>\n", out);
}

static void put_maps(FILE *out, const struct probe_facts *f, const struct pairs *p)
{
	int map;

	if (p->n < 2)
		return;
	fputs("<h2>From each node to each other</h2>\n<p class=\"facts\">Cut off: no "
	      "connection "
	      "to the address that a job would use works, even if one to another "
	      "does.</p>\n<div class=\"maps\">\n",
	      out);
	for (map = 0; map < PICTURE_MAPS; map++) {
		if (!picture_heat_has(p, (enum picture_map)map))
			continue;
		fputs("<div class=\"panel\">\n", out);
		picture_heat(out, f, p, (enum picture_map)map, 0, 0);
		fputs("</div>\n", out);
	}
	fputs("</div>\n", out);
	if (p->n < f->nnodes)
		fprintf(out,
			"<p class=\"facts\">%d of %d nodes are shown, those with findings "
			"first.</p>\n",
			p->n, f->nnodes);
}

/* "nccl eth0, openmpi eth0 docker0": what each library would take, a word each. */
static void put_uses(FILE *out, const struct probe_node *n)
{
	int i, k;

	for (i = 0; i < n->nuses; i++) {
		for (k = 0; k < i && (strcmp(n->uses[k].library, n->uses[i].library) != 0 ||
				      strcmp(n->uses[k].interface, n->uses[i].interface) != 0);
		     k++)
			;
		if (k < i)
			continue;
		fputs(i ? ", " : "", out);
		xml_text(out, n->uses[i].library);
		fputs(" ", out);
		xml_text(out,
			 *n->uses[i].interface ? n->uses[i].interface : n->uses[i].address);
	}
}

static void put_nodes(FILE *out, const struct probe_facts *f)
{
	int i, k;

	fputs("<h2>Nodes</h2>\n<div class=\"panel\"><table>\n<tr><th>node</th><th>host "
	      "name</th>"
	      "<th>interfaces</th><th>libraries would take</th></tr>\n",
	      out);
	for (i = 0; i < f->nnodes; i++) {
		const struct probe_node *n = &f->nodes[i];
		const struct iface_list *l = &n->snapshot.ifaces;
		const char *comma = "";
		char text[IFACE_TEXT];

		fputs("<tr><td>", out);
		xml_text(out, n->name);
		fputs("</td><td>", out);
		xml_text(out, n->hostname);
		fputs("</td><td>", out);
		xml_text(out, n->error);
		for (k = 0; k < l->naddrs; k++) {
			if (!iface_is_global(&l->addrs[k].ip))
				continue;
			fputs(comma, out);
			xml_text(out, l->ifaces[l->addrs[k].iface].name);
			fprintf(out, " %s/%d", iface_text(&l->addrs[k].ip, text),
				l->addrs[k].prefix);
			comma = ", ";
		}
		fputs("</td><td>", out);
		put_uses(out, n);
		fputs("</td></tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void put_html(FILE *out, const struct probe_facts *f, const struct pairs *p)
{
	int i;

	fputs(head, out);
	picture_style(out);
	fputs(style, out);
	fprintf(out,
		"</style>\n</head>\n<body>\n<main>\n<h1>Network check</h1>\n<p class=\"verdict "
		"%s\">",
		verdict_is_well(f) ? "good" : "bad");
	xml_text(out, f->verdict ? f->verdict : "");
	fprintf(out,
		"</p>\n<p class=\"facts\">%d nodes, %d connections tried, %.1f seconds</p>\n",
		f->nnodes, f->npaths, f->seconds);
	if (f->nfindings)
		fputs("<h2>Findings</h2>\n", out);
	for (i = 0; i < f->nfindings; i++)
		put_finding(out, &f->findings[i]);
	fputs("<div class=\"panel\">\n", out);
	picture_topology(out, f, p, 0, 0);
	fputs("</div>\n", out);
	put_maps(out, f, p);
	put_nodes(out, f);
	fputs("<footer>Written by ringup net check.</footer>\n</main>\n</body>\n</html>\n",
	      out);
}

/* In a picture the findings are a line each: there is no room for more. */
enum { LINES = 12, LINE = 22, MARGIN = 20, LINE_MOST = 150 };

static int put_lines(FILE *out, const struct probe_facts *f, int y)
{
	int i, n = f->nfindings < LINES ? f->nfindings : LINES;

	fprintf(out, "<text x=\"%d\" y=\"%d\" style=\"font-size:19px;font-weight:600\">",
		MARGIN, y);
	xml_clip(out, f->verdict ? f->verdict : "", 110);
	fputs("</text>\n", out);
	for (i = 0; i < n; i++) {
		const struct probe_finding *p = &f->findings[i];

		y += LINE + (i ? 0 : 8);
		fprintf(out,
			"<circle class=\"dot %s\" cx=\"%d\" cy=\"%d\" r=\"6\"/><text x=\"%d\" "
			"y=\"%d\">%s: ",
			p->severity == FACTS_ERROR     ? "bad"
			: p->severity == FACTS_WARNING ? "warn"
						       : "",
			MARGIN + 6, y - 4, MARGIN + 20, y, facts_severity_text(p->severity));
		xml_clip(out, p->what, LINE_MOST);
		fputs("</text>\n", out);
	}
	return y + 24;
}

/* Heat maps beside each other as far as they fit; returns where they end. */
static int put_heats(FILE *out, const struct probe_facts *f, const struct pairs *p, int y)
{
	int map, width, height, x = MARGIN, end = y;

	picture_heat_size(f, p, &width, &height);
	for (map = 0; map < PICTURE_MAPS; map++) {
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

/* The height is known when all is drawn, so that is done first. */
static int put_svg(FILE *out, const struct probe_facts *f, const struct pairs *p, struct err *e)
{
	size_t len;
	char *body;
	FILE *in = open_memstream(&body, &len);
	int y, width = PICTURE_WIDTH + 2 * MARGIN;

	if (!in)
		return fail(e, RINGUP_ENOMEM, "no memory for the picture");
	y = put_lines(in, f, 40);
	y += picture_topology(in, f, p, MARGIN, y) + MARGIN;
	y = put_heats(in, f, p, y);
	if (fclose(in))
		return fail(e, RINGUP_ENOMEM, "no memory for the picture");
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n<style>\n",
		width, y, width, y);
	picture_style(out);
	fprintf(out, "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"var(--paper)\"/>\n",
		width, y);
	fwrite(body, 1, len, out);
	fputs("</svg>\n", out);
	free(body);
	return 0;
}

int page_make(const struct probe_facts *f, enum page_kind kind, char **datap, size_t *lenp,
	      struct err *e)
{
	struct pairs p = { 0 };
	FILE *out = NULL;
	int rc = pairs_make(&p, f, PICTURE_NODES, e);

	*datap = NULL;
	if (!rc)
		out = open_memstream(datap, lenp);
	if (!rc && !out)
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	if (!rc && kind == PAGE_HTML)
		put_html(out, f, &p);
	else if (!rc)
		rc = put_svg(out, f, &p, e);
	if (out && fclose(out) && !rc)
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	pairs_free(&p);
	return rc;
}

int page_write(const struct probe_facts *f, enum page_kind kind, const char *path,
	       struct err *e)
{
	size_t len;
	char *data;
	int rc = page_make(f, kind, &data, &len, e);

	if (!rc)
		rc = file_save(path, 0644, data, len, e);
	free(data);
	return rc;
}
