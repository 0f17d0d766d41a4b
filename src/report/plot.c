/* plot.c - a plot of times over sizes, as an SVG or an HTML page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/xml.h"
#include "report/page.h"
#include "report/picture.h"
#include "report/style.h"
#include "ringup.h"

/* In pixels: the picture, and the frame in it. */
enum { WIDTH = 900, HEIGHT = 560, LEFT = 90, RIGHT = 700, TOP = 60, BOTTOM = 490 };

/* Classes of picture.css; later curves have the same colours and are dashed. */
enum { COLOURS = 8 };

/* The axes' ranges, as exponents of 2 and of 10. */
struct frame {
	double x0, x1, y0, y1;
};

void plot_add(struct plot *p, const char *name, double bytes, double us)
{
	struct plot_curve *c;
	int i;

	for (i = 0; i < p->curves && strcmp(p->curve[i].name, name) != 0;)
		i++;
	if (i == PLOT_CURVES || !(bytes > 0) || !(us > 0))
		return;
	c = &p->curve[i];
	if (i == p->curves) {
		p->curves++;
		c->points = 0;
		snprintf(c->name, sizeof(c->name), "%s", name);
	}
	if (c->points < PLOT_POINTS)
		c->point[c->points++] = (struct plot_point){ bytes, us };
}

void plot_add_row(struct plot *p, json_t *row)
{
	if (!p->rows)
		p->rows = json_array();
	json_array_append_new(p->rows, row);
}

static struct frame frame_of(const struct plot *p)
{
	struct frame f = { INFINITY, -INFINITY, INFINITY, -INFINITY };

	for (int i = 0; i < p->curves; i++)
		for (int j = 0; j < p->curve[i].points; j++) {
			f.x0 = fmin(f.x0, log2(p->curve[i].point[j].bytes));
			f.x1 = fmax(f.x1, log2(p->curve[i].point[j].bytes));
			f.y0 = fmin(f.y0, log10(p->curve[i].point[j].us));
			f.y1 = fmax(f.y1, log10(p->curve[i].point[j].us));
		}
	if (f.x0 > f.x1)
		f = (struct frame){ 0, 1, 0, 1 };
	f.x0 = floor(f.x0);
	f.x1 = fmax(ceil(f.x1), f.x0 + 1);
	f.y0 = floor(f.y0);
	f.y1 = fmax(ceil(f.y1), f.y0 + 1);
	return f;
}

static double size_x(const struct frame *f, double log2_bytes)
{
	return LEFT + (log2_bytes - f->x0) / (f->x1 - f->x0) * (RIGHT - LEFT);
}

static double time_y(const struct frame *f, double log10_us)
{
	return BOTTOM - (log10_us - f->y0) / (f->y1 - f->y0) * (BOTTOM - TOP);
}

static void size_put(FILE *out, double log2_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	int unit = (int)(log2_bytes / 10);

	if (unit > 4)
		unit = 4;
	fprintf(out, "%.0f %s", exp2(log2_bytes - unit * 10), units[unit]);
}

static void time_put(FILE *out, double log10_us)
{
	if (log10_us < 0)
		fprintf(out, "%g us", pow(10, log10_us));
	else if (log10_us < 3)
		fprintf(out, "%.0f us", pow(10, log10_us));
	else if (log10_us < 6)
		fprintf(out, "%.0f ms", pow(10, log10_us - 3));
	else
		fprintf(out, "%.0f s", pow(10, log10_us - 6));
}

static void axes_put(FILE *out, const struct frame *f)
{
	double at, step = f->x1 - f->x0 > 14 ? 4 : f->x1 - f->x0 > 7 ? 2 : 1;

	for (at = f->x0; at <= f->x1; at += step) {
		fprintf(out,
			"<line class='grid' x1='%.1f' y1='%d' x2='%.1f' y2='%d'/>\n"
			"<text x='%.1f' y='%d' text-anchor='middle'>",
			size_x(f, at), TOP, size_x(f, at), BOTTOM, size_x(f, at), BOTTOM + 20);
		size_put(out, at);
		fprintf(out, "</text>\n");
	}
	for (at = f->y0; at <= f->y1; at++) {
		fprintf(out,
			"<line class='grid' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/>\n"
			"<text x='%d' y='%.1f' text-anchor='end'>",
			LEFT, time_y(f, at), RIGHT, time_y(f, at), LEFT - 8, time_y(f, at) + 4);
		time_put(out, at);
		fprintf(out, "</text>\n");
	}
	fprintf(out,
		"<rect class='frame' x='%d' y='%d' width='%d' height='%d'/>\n"
		"<text x='%d' y='%d' text-anchor='middle'>size</text>\n"
		"<text x='%d' y='%d' text-anchor='middle' transform='rotate(-90 %d %d)'>time "
		"of one call, slowest rank</text>\n",
		LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, (LEFT + RIGHT) / 2, BOTTOM + 48, 22,
		(TOP + BOTTOM) / 2, 22, (TOP + BOTTOM) / 2);
}

static void curve_put(FILE *out, const struct frame *f, const struct plot_curve *c, int n)
{
	int i, colour = n % COLOURS, y = TOP + 14 + n * 22;
	const char *dashed = n < COLOURS ? "" : " dashed";

	fprintf(out, "<polyline class='curve c%d%s%s' points='", colour, dashed,
		n ? "" : " first");
	for (i = 0; i < c->points; i++)
		fprintf(out, "%s%.1f,%.1f", i ? " " : "", size_x(f, log2(c->point[i].bytes)),
			time_y(f, log10(c->point[i].us)));
	fprintf(out, "'/>\n");
	for (i = 0; i < c->points; i++) {
		fprintf(out, "<circle class='point c%d' cx='%.1f' cy='%.1f' r='3.5'><title>",
			colour, size_x(f, log2(c->point[i].bytes)),
			time_y(f, log10(c->point[i].us)));
		xml_text(out, c->name);
		fprintf(out, ", %.0f bytes: %.4g us</title></circle>\n", c->point[i].bytes,
			c->point[i].us);
	}
	fprintf(out,
		"<line class='curve c%d%s first' x1='%d' y1='%d' x2='%d' y2='%d'/>\n"
		"<text x='%d' y='%d'>",
		colour, dashed, RIGHT + 16, y - 4, RIGHT + 44, y - 4, RIGHT + 52, y);
	xml_text(out, c->name);
	fprintf(out, "</text>\n");
}

static void plot_draw(FILE *out, const struct plot *p)
{
	struct frame f = frame_of(p);
	char about[128];

	snprintf(about, sizeof(about),
		 "The time of one call over the size of a message: %d curves. Lower is faster.",
		 p->curves);
	picture_begin(out, 0, 0, WIDTH, HEIGHT, p->title, about);
	axes_put(out, &f);
	for (int i = 0; i < p->curves; i++)
		curve_put(out, &f, &p->curve[i], i);
	fputs("</svg>\n", out);
}

static bool is_page(const char *path)
{
	size_t n = strlen(path);

	return n > 5 && !strcmp(path + n - 5, ".html");
}

static int page_write(FILE *out, const struct plot *p, struct err *e)
{
	char *picture = NULL;
	size_t len;
	FILE *in = open_memstream(&picture, &len);
	json_t *data = json_pack("{ss sO?}", "schema", "ringup.bench/1", "results", p->rows);
	int rc = in && data ? 0 : fail(e, RINGUP_ENOMEM, "no memory for a plot");

	if (!rc) {
		page_panel_begin(in);
		plot_draw(in, p);
		page_panel_end(in);
	}
	if (in && fclose(in) && !rc)
		rc = fail(e, RINGUP_ENOMEM, "no memory for a plot");
	if (!rc)
		rc = page_put(out, &(struct page){ p->title, picture, data }, e);
	free(picture);
	json_decref(data);
	return rc;
}

static int picture_write(FILE *out, const struct plot *p, struct err *e)
{
	int rc = picture_file_begin(out, WIDTH, HEIGHT, e);

	plot_draw(out, p);
	fputs("</svg>\n", out);
	return rc;
}

/* Creates and removes a missing file; behind a dangling link, the link's target. */
static int file_try_new(const char *path)
{
	struct stat st;
	char made[PATH_MAX];
	int fd = open(path, O_WRONLY | O_CREAT | (lstat(path, &st) ? O_EXCL : 0) | O_CLOEXEC,
		      0600);

	if (fd >= 0 && realpath(path, made))
		unlink(made);
	return fd;
}

int plot_try(const char *path, struct err *e)
{
	struct style_palette palette = { 0 };
	struct stat st;
	int fd, rc = style_load(&palette, e);

	style_free(&palette);
	if (rc)
		return rc;
	/* The reader of a FIFO would see it opened and closed, and leave. */
	if (!stat(path, &st) && S_ISFIFO(st.st_mode))
		return access(path, W_OK) ? fail_os(e, "a plot in '%.200s'", path) : 0;
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		fd = file_try_new(path);
	if (fd < 0)
		return fail_os(e, "a plot in '%.200s'", path);
	close(fd);
	return 0;
}

int plot_write(const struct plot *p, const char *path, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int rc, bad;

	if (!out)
		return fail(e, RINGUP_ENOMEM, "no memory for a plot");
	rc = is_page(path) ? page_write(out, p, e) : picture_write(out, p, e);
	bad = ferror(out);
	if ((fclose(out) || bad) && !rc)
		rc = fail(e, RINGUP_ENOMEM, "no memory for a plot");
	if (!rc)
		rc = file_save(path, 0644, text, len, e);
	free(text);
	return rc;
}

void plot_free(struct plot *p)
{
	json_decref(p->rows);
	*p = (struct plot){ 0 };
}
