/* picker.h - models of how each library chooses its interfaces, from recorded facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_PICKER_H
#define NICPICK_PICKER_H

#include <ctype.h>
#include <stdbool.h>

#include "host/iface.h"

struct err;
struct netconf;
struct netconf_row;

enum { PICKER_ROLES = 2, PICKER_RULE = 320 };

/* One interface, by the library's name for it, and one address. */
struct pick {
	char interface[IFACE_NAME]; /* "" if no interface has the address */
	char address[IFACE_TEXT];
};

/* A library's choice for one kind of traffic. */
struct pick_role {
	const char *name;
	struct pick *picks; /* in the library's order */
	int npicks;
	char error[PICKER_RULE]; /* why the library would refuse, or "" */
	bool has_result;         /* the library returns or exits with a number; */
	int result;              /* that number; message: its own words            */
	char message[PICKER_RULE];
	char note[PICKER_RULE]; /* the rule that decided, or a warning; or "" */
	/* Why the choice is unknown, or ""; then the rest is the choice unless an unknown fact
	 * contradicts. */
	char unknown[PICKER_RULE];
};

/* The outcome for one interface, and its rule. */
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
	char version[32]; /* the version whose rules these are */
};

struct picker {
	const char *name;            /* as in --lib and in JSON              */
	const char *title;           /* for messages                         */
	const char *oldest, *newest; /* versions whose rules are known       */
	const char *const *settings; /* names that it reads; ends with NULL  */
	const char *const *roles;    /* ends with NULL; at most PICKER_ROLES */

	/* Does @version read @row, a copy of one of @all, whose value this may change to the
	 * one that it reads?  NULL: every version reads all. */
	bool (*hears)(const struct netconf *all, struct netconf_row *row, const char *version);

	/* Fills in @p, whose version is set and whose roles and fates are empty, from @l and
	 * the settings @c that this version reads.  Cannot fail: a refusal of the library is an
	 * answer. */
	void (*pick)(const struct iface_list *l, const struct netconf *c, struct picked *p);
};

extern const struct picker *const pickers[]; /* ends with NULL */

/* picker_find - NULL if there is none; picker_title - @name itself then. */
const struct picker *picker_find(const char *name);
const char *picker_title(const char *name);

/* picker_version - the installed version according to @c, else the newest known. */
const char *picker_version(const struct picker *k, const struct netconf *c);

/* picker_hear - the settings of @c that picker_version() reads, for the caller to give to
 * netconf_free(), also after a failure. */
int picker_hear(const struct picker *k, const struct netconf *c, struct netconf *heard,
		struct err *e);

/* picker_since - are the rules of @p those of @version or a later one? */
bool picker_since(const struct picked *p, const char *version);

/*
 * picker_run - the choice of picker_version() of @k on this machine.
 *
 * Ownership: the contents of @p are the caller's until picker_free(), which is also safe after
 * a failure.
 */
int picker_run(const struct picker *k, const struct iface_list *l, const struct netconf *c,
	       struct picked *p, struct err *e);
void picker_free(struct picked *p);

/* picker_init - make empty roles named @roles, and a fate for each interface. */
int picker_init(struct picked *p, const struct iface_list *l, const char *const *roles,
		struct err *e);

/* For pickers: find the pick under a name of interface @i (-1: none); add a pick to @r unless
 * it is full; the same unless @r has it; append a rule about interface @i; refuse, with an
 * error text; set the library's own number and words, or only its words; append a note; say of
 * every role why it is unknown. */
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

/* One entry of a comma-separated setting, with its blanks.
 * picker_next - take the next one that is not empty, or return false.
 * picker_item_is_name - does Open MPI take it for the name of an interface, not for a network?
 */
struct picker_item {
	const char *text;
	int len;
};
bool picker_next(const char **list, struct picker_item *x);

static inline bool picker_item_is_name(const struct picker_item *x)
{
	return isalpha((unsigned char)*x->text);
}

#endif
