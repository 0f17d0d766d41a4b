/* test_plot.c - a picture has its curves, and is well-formed whatever they are called. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "report/plot.h"
#include "tap.h"

static char text[1 << 20];

/* Draw @p and read it back. */
static int draw(const struct plot *p)
{
	char path[] = "/tmp/ringup-plot.XXXXXX";
	int fd = mkstemp(path), rc;
	struct err e = { 0 };
	FILE *f;

	close(fd);
	rc = plot_write(p, path, &e);
	f = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	unlink(path);
	return rc;
}

static int count(const char *what)
{
	const char *at = text;
	int n = 0;

	for (; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* Every element is closed, in the right order; attributes are in pairs of quotes. */
static int is_well_formed(void)
{
	char open[64][32], *at = strstr(text, "?>"), *end, name[32];
	int depth = 0, quotes;

	while (at && (at = strchr(at, '<'))) {
		char *p;

		end = strchr(at, '>');
		if (!end || sscanf(at, "<%31[a-zA-Z/]", name) != 1)
			return 0;
		for (quotes = 0, p = at; p < end; p++) {
			quotes += *p == '\'';
			if (p > at && *p == '<')
				return 0;
		}
		if (quotes % 2)
			return 0;
		if (*name == '/') {
			if (!depth || strcmp(open[--depth], name + 1) != 0)
				return 0;
		} else if (end[-1] != '/') {
			snprintf(open[depth++], sizeof(open[0]), "%s", name);
		}
		at = end;
	}
	return depth == 0;
}

/* Asked whether it could be written, a file stays as it is, or away. */
static void try(void)
{
	char path[] = "/tmp/ringup-plot.XXXXXX", byte = 'x';
	int fd = mkstemp(path);
	struct err e = { 0 };

	ok(write(fd, &byte, 1) == 1 && plot_try(path, &e) == 0 && lseek(fd, 0, SEEK_END) == 1,
	   "a file that is there can be replaced, and is still there");
	close(fd);
	unlink(path);
	ok(plot_try(path, &e) == 0 && access(path, F_OK), "one that is not can be made");
	ok(plot_try("/tmp", &e) < 0 && plot_try("/nonexistent/plot.svg", &e) < 0 &&
		   plot_try("", &e) < 0,
	   "nowhere: %s", e.text);
}

/* So do a link to nothing and a FIFO, whose reader does not see it opened. */
static void try_others(void)
{
	char dir[] = "/tmp/ringup-plot.XXXXXX", link[64], made[64], fifo[64];
	struct err e = { 0 };
	struct pollfd p;

	if (!mkdtemp(dir))
		return;
	snprintf(link, sizeof(link), "%s/link", dir);
	snprintf(made, sizeof(made), "%s/made", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	ok(!symlink("made", link) && plot_try(link, &e) == 0 && access(made, F_OK) &&
		   unlink(link) == 0,
	   "what a link names can be made: %s", e.text);
	ok(!mkfifo(fifo, 0600), "a FIFO");
	p = (struct pollfd){ open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC), POLLIN, 0 };
	ok(plot_try(fifo, &e) == 0 && poll(&p, 1, 0) == 0, "its reader goes on to wait: %s",
	   e.text);
	close(p.fd);
	unlink(fifo);
	ok(!rmdir(dir), "nothing is left");
}

/* Where the name says so, it is a page with the rows. */
static void test_page(struct plot *p)
{
	char path[] = "/tmp/ringup-plot.XXXXXX.html";
	int fd = mkstemps(path, 5);
	struct err e = { 0 };
	FILE *f;

	plot_add_row(p, json_pack("{ss}", "place", "</script>"));
	ok(!plot_write(p, path, &e), "a page: %s", e.text);
	f = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	ok(!strncmp(text, "<!DOCTYPE html>", 15) && count("<polyline") == PLOT_CURVES &&
		   count("\\u003c/script\\u003e") == 1 && count("</script>") == 2 &&
		   count("ringup.bench/1\"") == 2,
	   "it has the picture and the rows");
	fclose(f);
	close(fd);
	unlink(path);
}

int main(void)
{
	static struct plot p;
	struct err e = { 0 };
	char name[16];
	int i;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	ok(draw(&p) == 0 && is_well_formed(), "an empty picture is a picture");
	snprintf(p.title, sizeof(p.title), "1 < 2 & \"so on\"\033");
	for (i = 3; i <= 26; i++) {
		plot_add(&p, "ringup", 1 << i, 0.1 * (1 << i) / 8);
		plot_add(&p, "<&>", 1 << i, 0.3 * (1 << i) / 8);
	}
	plot_add(&p, "nothing", 0, 1);
	plot_add(&p, "nothing", 8, 0);
	ok(p.curves == 2 && p.curve[0].points == 24, "what is not above zero is not drawn");
	ok(draw(&p) == 0 && is_well_formed(), "well-formed, whatever names are");
	ok(count("<polyline") == 2 && count("<circle") == 48 && count("<desc>") == 1,
	   "two curves, all points");
	ok(count("1 &lt; 2 &amp; &quot;so on&quot;?") == 2, "the title, to see and to hear");
	ok(count(">8 B<") == 1 && count(">100 ms<") + count(">1000 ms<") + count(">1 s<") >= 1,
	   "the axes");
	ok(!strstr(text, "href") && !strstr(text, "url("), "refers to nothing outside");
	for (i = 0; i < PLOT_CURVES + 5; i++) {
		snprintf(name, sizeof(name), "%d", i);
		plot_add(&p, name, 8, 1);
	}
	for (i = 0; i < PLOT_POINTS + 5; i++)
		plot_add(&p, "ringup", 8, 1);
	ok(p.curves == PLOT_CURVES && p.curve[0].points == PLOT_POINTS, "full is full");
	ok(draw(&p) == 0 && is_well_formed(), "and can be drawn");
	test_page(&p);
	try();
	try_others();
	ok(plot_write(&p, "/proc/self/plot.svg", &e) < 0 && strstr(e.text, "/proc/self"),
	   "nowhere to write: %s", e.text);
	plot_free(&p);
	return tap_done();
}
