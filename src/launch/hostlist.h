/* hostlist.h - parse hosts and their slots from -H, a hostfile or a discovery script. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_HOSTLIST_H
#define LAUNCH_HOSTLIST_H

#include <stdbool.h>

struct err;

enum { HOSTLIST_NAME = 256, HOSTLIST_SLOTS = 65536, HOSTLIST_HOSTS = 16384 };

struct hostlist_host {
	char name[HOSTLIST_NAME];
	int slots;
};

/* Caller's storage; zeroed is empty. */
struct hostlist {
	struct hostlist_host *host;
	int count;
};

/* hostlist_option - "h1:2,h2:4"; a host without a number has @slots. */
int hostlist_option(struct hostlist *l, const char *text, int slots, struct err *e);

/* hostlist_file - lines of "h1 slots=2", "h1:2" or "h1"; # begins a comment. */
int hostlist_file(struct hostlist *l, const char *path, int slots, struct err *e);

/* hostlist_script - lines of "h1:2" or "h1", as a discovery script prints them. */
int hostlist_script(struct hostlist *l, const char *text, int slots, struct err *e);

/* hostlist_slots - of all hosts together. */
int hostlist_slots(const struct hostlist *l);

/* hostlist_is_local - is @name this machine: localhost, its host name, or a name of one of its
 * addresses?  May ask a name server. */
bool hostlist_is_local(const char *name);

/* hostlist_is_same - do two names lead to the same host: equal but for case, both this machine,
 * or with an address in common?  Of this machine 127.0.0.1 alone: 127.0.0.2 is another host, as
 * tests have them.  May ask a name server. */
bool hostlist_is_same(const char *a, const char *b);

void hostlist_fini(struct hostlist *l);

#endif
