/* netpage.h - the results of a network check as an HTML page or an SVG picture. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_NETPAGE_H
#define REPORT_NETPAGE_H

#include <stddef.h>

struct err;
struct probe_facts;

enum netpage_kind { NETPAGE_HTML, NETPAGE_SVG };

/*
 * netpage_make - draw verdict, findings with their commands, networks and heat maps of @f,
 * which verdict_find() has judged.
 *
 * Both forms refer to no external resource and follow the preference of light or dark.  Foreign
 * text never becomes markup.  The page contains the shown part of the check's JSON, and no
 * settings, rules or single paths.
 *
 * Ownership: *@datap is the caller's to free().
 */
int netpage_make(const struct probe_facts *f, enum netpage_kind kind, char **datap,
		 size_t *lenp, struct err *e);

/* netpage_write - the same to a file, wholly or not at all. */
int netpage_write(const struct probe_facts *f, enum netpage_kind kind, const char *path,
		  struct err *e);

#endif
