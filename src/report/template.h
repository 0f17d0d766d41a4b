/* template.h - files of this program's data with @fields@ in them, filled in. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_TEMPLATE_H
#define REPORT_TEMPLATE_H

#include <stdio.h>

struct err;

struct template_field {
	const char *name; /* letters and digits */
	const char *text; /* put as it is       */
};

/* template_load - the data file report/@name into *@textp, for free(). */
int template_load(char **textp, const char *name, struct err *e);

/*
 * template_put - write @text, each "@name@" in it replaced by the text of that field.
 *
 * What is put in is not looked at again.  A name that is no field's is RINGUP_EINVAL; an '@'
 * that begins no name stays as it is.
 */
int template_put(FILE *out, const char *text, const struct template_field *fields, int n,
		 struct err *e);

#endif
