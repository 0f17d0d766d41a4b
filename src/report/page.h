/* page.h - a check as one page or one picture that any browser shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stddef.h>

struct err;
struct probe_facts;

enum page_kind { PAGE_HTML, PAGE_SVG };

/*
 * page_make - verdict, findings with their commands, networks and heat maps of @f, which
 * verdict_find() has judged.
 *
 * The page refers to nothing outside itself and runs nothing; it follows the browser's
 * preference of light or dark.  All foreign text is text.
 *
 * Ownership: *@datap is the caller's to free().
 */
int page_make(const struct probe_facts *f, enum page_kind kind, char **datap, size_t *lenp,
	      struct err *e);

/* page_write - the same into a file, wholly or not at all. */
int page_write(const struct probe_facts *f, enum page_kind kind, const char *path,
	       struct err *e);

#endif
