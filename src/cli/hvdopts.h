/* hvdopts.h - the options of horovodrun, from the command line and from a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HVDOPTS_H
#define CLI_HVDOPTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/opt.h"

struct err;

/* One number for each line of hvdopts.def. */
enum hvdopt {
#define HVDOPT(name, kind, variable, section, key) HVD_##name,
#include "cli/hvdopts.def"
#undef HVDOPT
	HVDOPTS,
};

enum hvdopt_kind { HVD_COUNT, HVD_NUMBER, HVD_UNIT, HVD_BOOL, HVD_TEXT, HVD_LEVEL };

/* One line of hvdopts.def. */
struct hvdopt_row {
	const char *name;
	enum hvdopt_kind kind;
	const char *variable, *section, *key;
};
extern const struct hvdopt_row hvdopt_rows[HVDOPTS];

/* The given options.  The strings belong to argv, or to this struct. */
struct hvdopts {
	const char *value[HVDOPTS]; /* NULL: not given; a BOOL is "1" or "0"      */
	bool is_from_file[HVDOPTS];
	char *own[HVDOPTS]; /* the strings of value that come from the file       */
	char *nics;         /* names with commas between, or NULL                 */
	const char *cooldown[2];
	int version, check_build, verbose, disable_cache, tcp, timestamps;
	int gloo, mpi, jsrun, json, dry_run;
	char **command; /* NULL-terminated, perhaps empty */
};

/*
 * hvdopts_read - parse @argv, and the file that --config-file may name.
 *
 * The command line takes precedence over the file, even before --config-file.  Returns 0,
 * OPT_HELP, or a negative code.  Ownership: hvdopts_free(), in any case.
 */
int hvdopts_read(int argc, char **argv, struct hvdopts *o, struct err *e);
void hvdopts_free(struct hvdopts *o);

/* hvdopts_say - the source of value @i: "--cycle-time-ms" or "params.cycle_time_ms in FILE". */
enum { HVDOPTS_SAY = 256 };
const char *hvdopts_say(const struct hvdopts *o, enum hvdopt i, char out[HVDOPTS_SAY]);

/* hvdopts_json - all options, by the names in upstream's parse_args().  The caller's
 * reference. */
json_t *hvdopts_json(const struct hvdopts *o);

/* hvdopts_usage - print one line for each option, in groups. */
void hvdopts_usage(FILE *f);

#endif
