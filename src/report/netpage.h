/* netpage.h - the results of a network check as an HTML page. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_NETPAGE_H
#define REPORT_NETPAGE_H

#include <stddef.h>

struct err;
struct probe_facts;

enum { NETPAGE_NODES = 96 }; /* shown at most */

/*
 * netpage_make - fill the data file report/page.html with @f, which verdict_find() has judged.
 *
 * The page's script draws verdict, findings with their commands, networks and heat maps.  It is
 * the only one that the page's policy admits, by its hash, and fetches nothing.  The page
 * contains the shown part of the check's JSON, and no settings, rules or single paths.
 *
 * Ownership: *@datap is the caller's to free().
 */
int netpage_make(const struct probe_facts *f, char **datap, size_t *lenp, struct err *e);

/* netpage_write - the same to a file, wholly or not at all. */
int netpage_write(const struct probe_facts *f, const char *path, struct err *e);

#endif
