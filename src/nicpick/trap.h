/* trap.h - shared code of the checks in traps.def: settings rows, machine facts, findings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_TRAP_H
#define NICPICK_TRAP_H

#include <stdbool.h>

#include "nicpick/envplugin.h"
#include "nicpick/lint.h"
#include "nicpick/picker.h"

/* One line that sets a variable, as its library reads it. */
struct trap_row {
	enum sources_grammar grammar;
	const char *path;
	int number;
	const char *line; /* as it is written                                   */
	char *name;       /* as the library reads it: blanks, quotes and all    */
	char *meant;      /* the variable that it was meant for                 */
	char *value;
	bool unknown;  /* only a shell could evaluate it; the value is empty      */
	bool in_force; /* no stronger line has that name                     */
	bool broken;   /* a fault of its form was found: its meaning is moot */
};

/* State of one check run. */
struct trap_case {
	const struct snapshot *s;
	struct trap_row *rows;
	int nrows;
	struct picked nccl, ompi, gloo, ucx; /* the choice of each */
	char good[IFACE_NAME];               /* the interface to name instead, or "" */
	enum envplugin_kind plugin;          /* the source of NCCL's settings */
	char plugin_what[NETCONF_PLUGIN];

	struct lint_report *report;
	const struct trap *trap; /* the running check */
	bool no_memory;
};

struct trap {
	const char *code;
	enum lint_severity severity;
	void (*check)(struct trap_case *t);
	const char *why;
};

extern const struct trap traps[]; /* of traps.def; ends with code == NULL */

/* trap_begin, trap_end - make, free the rows and picks of @s. */
int trap_begin(struct trap_case *t, const struct snapshot *s, struct lint_report *r,
	       struct err *e);
void trap_end(struct trap_case *t);

/* trap_get - the row in force for a variable, or NULL; trap_sound - NULL as well if its form is
 * broken or it is empty. */
struct trap_row *trap_get(struct trap_case *t, const char *name);
struct trap_row *trap_sound(struct trap_case *t, const char *name);

/* trap_pin - the value that ringup's env plug-in pins @name to; NULL: none is in force. */
const char *trap_pin(const struct trap_case *t, const char *name);

/* trap_names - does the variable name an interface, for libraries that ignore a single
 * character? */
bool trap_names(struct trap_case *t, const char *name);

/*
 * trap_found - report; @fix is the value to set instead, NULL if unknown.
 *
 * @name, if not NULL, is set instead of the row's variable.  The line is written in the grammar
 * of the row's file.
 */
void trap_found(struct trap_case *t, struct trap_row *row, const char *name, const char *fix,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* trap_remove - report; the remedy is to remove the line. */
void trap_remove(struct trap_case *t, struct trap_row *row, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* trap_machine - report a fault without a line; @name and @fix as above, for @grammar. */
void trap_machine(struct trap_case *t, enum sources_grammar grammar, const char *name,
		  const char *fix, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* trap_is - is the list entry exactly @text?  trap_begins - does @text begin with it? */
bool trap_is(const struct picker_item *x, const char *text);
bool trap_begins(const char *text, const struct picker_item *x);

/* trap_label - does an address or an interface have exactly that name? */
bool trap_label(const struct trap_case *t, const struct picker_item *x);

/* trap_also - another name with an address that also begins with @x, or NULL. */
const char *trap_also(const struct trap_case *t, const struct picker_item *x);

/* trap_near - the interface with an address whose name is the most similar, or NULL. */
const char *trap_near(const struct trap_case *t, const struct picker_item *x);

/* trap_is_foreign - would a job's traffic fail on it: a bridge, a tunnel, an address that is
 * the same on every node, and not this machine's way out? */
bool trap_is_foreign(const struct trap_case *t, const struct iface_addr *a);

/* trap_is_link_local - is it of 169.254.0.0/16, which a card has without a network behind it,
 * or which is the same on every node, as that of a BMC? */
bool trap_is_link_local(const struct iface_addr *a);

/* trap_has_network - does any interface lead to other hosts? */
bool trap_has_network(const struct trap_case *t);

/* trap_address - the address of a pick, or NULL. */
const struct iface_addr *trap_address(const struct trap_case *t, const struct pick *p);

/* trap_net - "10.0.0.0/24" of the good interface, or "". */
const char *trap_net(const struct trap_case *t, char out[IFACE_TEXT]);

#define TRAP(id, code, severity, why) void trap_##id(struct trap_case *t);
#include "nicpick/traps.def"
#undef TRAP

#endif
