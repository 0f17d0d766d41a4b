/* names.h - what names mean on this machine, as far as its resolver says in time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_NAMES_H
#define PROBE_NAMES_H

#include <stdint.h>

struct err;
struct netconf_host;

/*
 * names_resolve - ask about @names, @n of them, at once; the answers that come within @ms go
 * to @out, which has room for all.
 *
 * Some name servers never answer, and a resolver cannot be interrupted: who is not back in
 * time is left behind and ends with the process.  Returns how many answers there are, or
 * RINGUP_ENOMEM.
 */
int names_resolve(struct netconf_host *out, const char *const *names, int n, int64_t ms,
		  struct err *e);

#endif
