/* picker.h - how a library chooses its interfaces: a pure function of recorded facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_PICKER_H
#define NICPICK_PICKER_H

#include <stdbool.h>

#include "host/iface.h"

struct err;
struct netconf;
struct netconf_row;

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
	bool has_result;         /* and the number it returns or exits with, if it */
	int result;              /* has one, and what it says itself               */
	char message[PICKER_RULE];
	char note[PICKER_RULE]; /* what decided, or what to beware of; or "" */
	/* Why nobody can tell, or ""; then the rest is what it would do if nothing that is
	 * not known here said otherwise. */
	char unknown[PICKER_RULE];
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
	int room;         /* of each role's picks */
	char version[32]; /* whose rules these are */
};

struct picker {
	const char *name;            /* as in --lib and in JSON              */
	const char *title;           /* for people                           */
	const char *oldest, *newest; /* versions whose rules are known       */
	const char *const *settings; /* what it listens to; ends with NULL   */
	const char *const *roles;    /* ends with NULL; at most PICKER_ROLES */

	/* Does @version read @row, of which it may see another value?  It is a copy
	 * of one of @all.  NULL: every version reads all. */
	bool (*hears)(const struct netconf *all, struct netconf_row *row, const char *version);

	/* Fill @p, whose version is set and whose roles and fates are empty, from @l and
	 * @c alone: what that version hears.  Cannot fail: a refusal of the library is
	 * an answer. */
	void (*pick)(const struct iface_list *l, const struct netconf *c, struct picked *p);
};

extern const struct picker *const pickers[]; /* ends with NULL */

/* picker_find - NULL if there is none; picker_title - the name itself then. */
const struct picker *picker_find(const char *name);
const char *picker_title(const char *name);

/* picker_version - the one that @c knows to be installed, else the newest known. */
const char *picker_version(const struct picker *k, const struct netconf *c);

/* picker_hear - those settings of @c that picker_version() reads, for the caller to
 * give to netconf_free(), also after a failure. */
int picker_hear(const struct picker *k, const struct netconf *c, struct netconf *heard,
		struct err *e);

/* picker_since - are these the rules of @version or of a later one? */
bool picker_since(const struct picked *p, const char *version);

/*
 * picker_run - what would picker_version() of @k do on this machine?
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

/* For pickers: which pick is under a name of interface @i, -1: none; add a pick to @r unless
 * it is full; the same unless @r has it already; say what became of interface @i, after what
 * was said before; refuse, with the library's own number and words, or its words only;
 * remark; say of every role why it is not known. */
int picker_which(const struct pick_role *r, const struct iface_list *l, int i);
void picker_add(struct picked *p, struct pick_role *r, const char *interface,
		const struct iface_ip *ip);
void picker_add_new(struct picked *p, struct pick_role *r, const char *interface,
		    const struct iface_ip *ip);
void picker_rule(struct picked *p, int i, bool used, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void picker_refuse(struct pick_role *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void picker_result(struct pick_role *r, int result, const char *message);
void picker_message(struct pick_role *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void picker_note(struct pick_role *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void picker_unknown(struct picked *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A piece of a comma-separated setting, blanks and all; picker_next - the next one that is
 * not empty, or false. */
struct picker_item {
	const char *text;
	int len;
};
bool picker_next(const char **list, struct picker_item *x);

#endif
