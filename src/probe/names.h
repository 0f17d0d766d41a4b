/* names.h - resolve many names at once, with a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_NAMES_H
#define PROBE_NAMES_H

#include <stdint.h>

struct err;
struct netconf_host;

/*
 * names_resolve - resolve @n @names at once; the answers that come within @ms go to @out, which
 * has room for all.
 *
 * Some name servers never answer, and a resolver cannot be interrupted: a thread that is late
 * is left behind and ends with the process.  Returns the number of answers, or RINGUP_ENOMEM.
 */
int names_resolve(struct netconf_host *out, const char *const *names, int n, int64_t ms,
		  struct err *e);

#endif
