/* plot.c - times over sizes as a picture that any browser shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/xml.h"
#include "ringup.h"

/* In pixels: the picture, and the frame in it. */
enum { WIDTH = 900, HEIGHT = 560, LEFT = 90, RIGHT = 700, TOP = 60, BOTTOM = 490 };

/* Okabe and Ito's colours, which people who see few colours can tell apart. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
				       "#e69f00", "#56b4e9", "#555555", "#b8a800" };

/* What the axes show: powers of 2 and of 10. */
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

static struct frame frame_of(const struct plot *p)
{
	struct frame f = { INFINITY, -INFINITY, INFINITY, -INFINITY };
	int i, j;

	for (i = 0; i < p->curves; i++)
		for (j = 0; j < p->curve[i].points; j++) {
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

static double x_of(const struct frame *f, double log2_bytes)
{
	return LEFT + (log2_bytes - f->x0) / (f->x1 - f->x0) * (RIGHT - LEFT);
}

static double y_of(const struct frame *f, double log10_us)
{
	return BOTTOM - (log10_us - f->y0) / (f->y1 - f->y0) * (BOTTOM - TOP);
}

static void put_size(FILE *out, double log2_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	int unit = (int)(log2_bytes / 10);

	if (unit > 4)
		unit = 4;
	fprintf(out, "%.0f %s", exp2(log2_bytes - unit * 10), units[unit]);
}

static void put_time(FILE *out, double log10_us)
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

static void put_head(FILE *out, const struct plot *p)
{
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n"
		"<style>\n"
		".paper { fill: #fff } .ink { fill: #222 } .line { stroke: #ccc }\n"
		".frame { stroke: #222; fill: none }\n"
		"@media (prefers-color-scheme: dark) {\n"
		"  .paper { fill: #181818 } .ink { fill: #eee } .line { stroke: #444 }\n"
		"  .frame { stroke: #eee }\n"
		"}\n"
		"</style>\n"
		"<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n"
		"<text class=\"ink\" x=\"%d\" y=\"%d\" font-size=\"17\" font-weight=\"bold\">",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, TOP - 24);
	xml_text(out, p->title);
	fprintf(out, "</text>\n");
}

static void put_axes(FILE *out, const struct frame *f)
{
	double at, step = f->x1 - f->x0 > 14 ? 4 : f->x1 - f->x0 > 7 ? 2 : 1;

	for (at = f->x0; at <= f->x1; at += step) {
		fprintf(out,
			"<line class=\"line\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n"
			"<text class=\"ink\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
			x_of(f, at), TOP, x_of(f, at), BOTTOM, x_of(f, at), BOTTOM + 20);
		put_size(out, at);
		fprintf(out, "</text>\n");
	}
	for (at = f->y0; at <= f->y1; at++) {
		fprintf(out,
			"<line class=\"line\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n"
			"<text class=\"ink\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
			LEFT, y_of(f, at), RIGHT, y_of(f, at), LEFT - 8, y_of(f, at) + 4);
		put_time(out, at);
		fprintf(out, "</text>\n");
	}
	fprintf(out,
		"<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n"
		"<text class=\"ink\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">size</text>\n"
		"<text class=\"ink\" x=\"%d\" y=\"%d\" text-anchor=\"middle\" "
		"transform=\"rotate(-90 %d %d)\">time of one call, slowest rank</text>\n",
		LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, (LEFT + RIGHT) / 2, BOTTOM + 48, 22,
		(TOP + BOTTOM) / 2, 22, (TOP + BOTTOM) / 2);
}

static void put_curve(FILE *out, const struct frame *f, const struct plot_curve *c, int n)
{
	size_t most = sizeof(colours) / sizeof(colours[0]);
	const char *colour = colours[(size_t)n % most];
	const char *dash = (size_t)n < most ? "" : " stroke-dasharray=\"6 4\"";
	int i, y = TOP + 14 + n * 22;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%d\"%s points=\"",
		colour, n ? 2 : 3, dash);
	for (i = 0; i < c->points; i++)
		fprintf(out, "%s%.1f,%.1f", i ? " " : "", x_of(f, log2(c->point[i].bytes)),
			y_of(f, log10(c->point[i].us)));
	fprintf(out, "\"/>\n");
	for (i = 0; i < c->points; i++) {
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>",
			x_of(f, log2(c->point[i].bytes)), y_of(f, log10(c->point[i].us)),
			colour);
		xml_text(out, c->name);
		fprintf(out, ", %.0f bytes: %.4g us</title></circle>\n", c->point[i].bytes,
			c->point[i].us);
	}
	fprintf(out,
		"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" "
		"stroke-width=\"3\"%s/>\n<text class=\"ink\" x=\"%d\" y=\"%d\">",
		RIGHT + 16, y - 4, RIGHT + 44, y - 4, colour, dash, RIGHT + 52, y);
	xml_text(out, c->name);
	fprintf(out, "</text>\n");
}

/* Make and remove what is not there; behind a link to nothing, what that names. */
static int try_new(const char *path)
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
	struct stat st;
	int fd;

	/* Who reads a FIFO would see it opened and closed, and leave. */
	if (!stat(path, &st) && S_ISFIFO(st.st_mode))
		return access(path, W_OK) ? fail_os(e, "a plot in \"%.200s\"", path) : 0;
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		fd = try_new(path);
	if (fd < 0)
		return fail_os(e, "a plot in \"%.200s\"", path);
	close(fd);
	return 0;
}

int plot_write(const struct plot *p, const char *path, struct err *e)
{
	struct frame f = frame_of(p);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int i, rc;

	if (!out)
		return fail(e, RINGUP_ENOMEM, "no memory for a plot");
	put_head(out, p);
	put_axes(out, &f);
	for (i = 0; i < p->curves; i++)
		put_curve(out, &f, &p->curve[i], i);
	fprintf(out, "</svg>\n");
	rc = ferror(out);
	rc = fclose(out) || rc ? fail(e, RINGUP_ENOMEM, "no memory for a plot")
			       : file_save(path, 0644, text, len, e);
	free(text);
	return rc;
}
