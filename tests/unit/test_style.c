/* test_style.c - colours are far enough from what is behind them, on light and on dark. */
#include "report/style.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

/* Relative luminance and contrast as WCAG 2 defines them. */
static double luminance(const char *colour)
{
	static const double weight[] = { 0.2126, 0.7152, 0.0722 };
	unsigned part[3] = { 0 };
	double sum = 0, c;
	int i;

	sscanf(colour, "#%2x%2x%2x", &part[0], &part[1], &part[2]);
	for (i = 0; i < 3; i++) {
		c = part[i] / 255.0;
		sum += weight[i] * (c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
	}
	return sum;
}

static double contrast(const char *a, const char *b)
{
	double x = luminance(a) + 0.05, y = luminance(b) + 0.05;

	return x > y ? x / y : y / x;
}

static const char *colour_of(const struct style_palette *p, const char *name, int is_dark)
{
	int i;

	for (i = 0; i < p->n; i++)
		if (!strcmp(p->colour[i].name, name))
			return is_dark ? p->colour[i].dark : p->colour[i].light;
	return "?";
}

/* 4.5 for text, 3 for shapes. */
static const struct {
	const char *front, *behind;
	double least;
} pairs[] = {
	{ "ink", "paper", 4.5 },  { "ink", "panel", 4.5 }, { "dim", "paper", 4.5 },
	{ "dim", "panel", 4.5 },  { "ink", "badbg", 4.5 }, { "ink", "goodbg", 4.5 },
	{ "ink", "warnbg", 4.5 }, { "bad", "badbg", 4.5 }, { "warn", "warnbg", 4.5 },
	{ "ink", "line", 4.5 },   { "sign", "bad", 4.5 },  { "low", "h0", 4.5 },
	{ "low", "h1", 4.5 },     { "low", "h2", 4.5 },    { "low", "h3", 4.5 },
	{ "high", "h4", 4.5 },    { "high", "h5", 4.5 },   { "high", "h6", 4.5 },
	{ "good", "panel", 3 },   { "warn", "panel", 3 },  { "bad", "panel", 3 },
	{ "c0", "panel", 3 },     { "c1", "panel", 3 },    { "c2", "panel", 3 },
	{ "c3", "panel", 3 },     { "c4", "panel", 3 },    { "c5", "panel", 3 },
	{ "c6", "panel", 3 },     { "c7", "panel", 3 },    { "c0", "paper", 3 },
	{ "c5", "paper", 3 },     { "c3", "paper", 3 },    { "c7", "paper", 3 },
};

static void test_palette(void)
{
	struct style_palette p = { 0 };
	struct err e = { 0 };
	size_t i;
	int dark;

	ok(!style_load(&p, &e) && p.n > 20, "the palette: %s", e.text);
	for (dark = 0; dark < 2; dark++)
		for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
			ok(contrast(colour_of(&p, pairs[i].front, dark),
				    colour_of(&p, pairs[i].behind, dark)) >= pairs[i].least,
			   "%s on %s, %s: %.2f", pairs[i].front, pairs[i].behind,
			   dark ? "dark" : "light",
			   contrast(colour_of(&p, pairs[i].front, dark),
				    colour_of(&p, pairs[i].behind, dark)));
	style_free(&p);
}

static void test_sheet(const char *sheet)
{
	struct err e = { 0 };
	char *css = NULL;
	size_t len;
	FILE *out = open_memstream(&css, &len);
	int rc = style_put(out, sheet, &e);

	fclose(out);
	ok(!rc, "%s: %s", sheet, e.text);
	ok(!strstr(css, "var(") && !strpbrk(css, "<&") && strchr(css, '#') &&
		   strstr(css, "\n@media (prefers-color-scheme: dark) {\n"),
	   "it has colours and no names of them, and can stand in XML");
	free(css);
}

int main(void)
{
	struct err e = { 0 };

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	test_palette();
	test_sheet("page.css");
	test_sheet("picture.css");
	ok(style_put(stdout, "nothing.css", &e) < 0 &&
		   !strncmp(e.text, "report/nothing.css is", 21),
	   "none: %s", e.text);
	return tap_done();
}
