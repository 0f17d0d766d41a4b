/* template.h - data files with @fields@ in them, and their substitution. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_TEMPLATE_H
#define REPORT_TEMPLATE_H

#include <stdio.h>

struct err;

struct template_field {
	const char *name; /* letters and digits */
	const char *text; /* inserted unchanged */
};

/* template_load - read the data file report/@name to *@textp, for free(). */
int template_load(char **textp, const char *name, struct err *e);

/*
 * template_put - write @text, each "@name@" in it replaced by the text of that field.
 *
 * Inserted text is not scanned again.  An unknown name is RINGUP_EINVAL; an '@' that begins no
 * name stays as it is.
 */
int template_put(FILE *out, const char *text, const struct template_field *fields, int n,
		 struct err *e);

#endif
