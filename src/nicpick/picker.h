/* picker.h - how a library chooses its interfaces: a pure function of recorded facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_PICKER_H
#define NICPICK_PICKER_H

#include <stdbool.h>

#include "host/iface.h"

struct err;
struct netconf;

enum { PICKER_ROLES = 2, PICKER_RULE = 320 };

/* One interface, by the name the library knows it under, and one address. */
struct pick {
	char interface[IFACE_NAME]; /* "" if the address is of none of them */
	char address[IFACE_TEXT];
};

/* What a library does with one kind of traffic. */
struct pick_role {
	const char *name;
	struct pick *picks; /* in the library's order */
	int npicks;
	char error[PICKER_RULE]; /* why the library would refuse, or "" */
	char note[PICKER_RULE];  /* what decided, or what to beware of; or "" */
};

/* What becomes of one interface, and by which rule. */
struct pick_fate {
	bool used;
	char rule[PICKER_RULE];
};

struct picked {
	struct pick_role roles[PICKER_ROLES];
	int nroles;
	struct pick_fate *fates; /* one for each interface of the list */
	int nfates;
	int room; /* of each role's picks */
};

struct picker {
	const char *name;            /* as in --lib and in JSON              */
	const char *title;           /* for people                           */
	const char *version;         /* whose rules these are                */
	const char *const *settings; /* what it listens to; ends with NULL   */
	const char *const *roles;    /* ends with NULL; at most PICKER_ROLES */

	/* Fill @p, whose roles and fates are empty, from @l and @c alone.
	 * Cannot fail: a refusal of the library is an answer. */
	void (*pick)(const struct iface_list *l, const struct netconf *c, struct picked *p);
};

extern const struct picker *const pickers[]; /* ends with NULL */

const struct picker *picker_find(const char *name);

/*
 * picker_run - what would @k do on this machine?
 *
 * Ownership: the contents of @p are the caller's until picker_free(), which is
 * also safe after a failure.
 */
int picker_run(const struct picker *k, const struct iface_list *l, const struct netconf *c,
	       struct picked *p, struct err *e);
void picker_free(struct picked *p);

/* picker_init - empty roles called @roles, and a fate for each interface. */
int picker_init(struct picked *p, const struct iface_list *l, const char *const *roles,
		struct err *e);

/* For pickers: add a pick to @r unless it is full; say what became of interface
 * @i, after what was said before; refuse, or remark. */
void picker_add(struct picked *p, struct pick_role *r, const char *interface,
		const struct iface_ip *ip);
void picker_rule(struct picked *p, int i, bool used, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void picker_refuse(struct pick_role *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void picker_note(struct pick_role *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
