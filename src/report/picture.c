/* picture.c - shared parts of all pictures: file head, frame, title. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/picture.h"

#include "base/xml.h"
#include "report/style.h"

int picture_file_begin(FILE *out, int width, int height, struct err *e)
{
	int rc;

	fprintf(out,
		"<?xml version='1.0' encoding='UTF-8'?>\n"
		"<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 "
		"%d %d'>\n<style>\n",
		width, height, width, height);
	rc = style_put(out, "picture.css", e);
	fprintf(out, "</style>\n<rect class='paper' width='%d' height='%d'/>\n", width, height);
	return rc;
}

void picture_begin(FILE *out, int x, int y, int width, int height, const char *title,
		   const char *about)
{
	fprintf(out,
		"<svg xmlns='http://www.w3.org/2000/svg' role='img' x='%d' y='%d' width='%d' "
		"height='%d' viewBox='0 0 %d %d'>\n<title>",
		x, y, width, height, width, height);
	xml_text(out, title);
	fputs("</title><desc>", out);
	xml_text(out, about);
	fputs("</desc>\n<text class='title' x='6' y='18'>", out);
	xml_text(out, title);
	fputs("</text>\n", out);
}
