/* conf.h - settings, read once from the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct conf {
#define CONF_BOOL                             int
#define CONF_AUTO                             int
#define CONF_INT                              int64_t
#define CONF_SIZE                             uint64_t
#define CONF_MS                               int64_t
#define CONF_STR                              const char *
#define CONF_SECRET                           const char *
#define SETTING(name, kind, def, alias, help) CONF_##kind name;
#define PROFILE(chooser, choice, name, value)
#include "base/conf.def"
#undef PROFILE
#undef SETTING
#undef CONF_BOOL
#undef CONF_AUTO
#undef CONF_INT
#undef CONF_SIZE
#undef CONF_MS
#undef CONF_STR
#undef CONF_SECRET
};

/* One row of the table, for `ringup env`, the manual and the tests. */
struct setting {
	const char *name, *env, *kind, *def, *alias, *help;
	size_t offset;
};
extern const struct setting settings[]; /* ends with name == NULL */

/* The reaction to a RINGUP_ variable that is not a setting: in a command it is a
 * misspelling; in a training job it may be a newer launcher's. */
enum conf_unknown { CONF_FORBID, CONF_WARN };

/*
 * conf_load - fill @c from the environment, whose strings it then points to.
 *
 * A value that does not parse is an error, since silence would hide a mistake.
 * RINGUP_TEST_* belongs to the tests and is not checked.
 */
int conf_load(struct conf *c, enum conf_unknown unknown, struct err *e);

/* Where a value came from: ringup's variable, its alias, a profile that another
 * setting chooses, or conf.def. */
enum conf_from { CONF_OWN, CONF_ALIAS, CONF_PROFILE, CONF_DEFAULT };

/* conf_value - the text in force for @s, perhaps in @buf, and in *@from where it
 * came from. */
enum { CONF_VALUE_BYTES = 32 };
const char *conf_value(const struct setting *s, enum conf_from *from,
		       char buf[CONF_VALUE_BYTES]);

/* conf_alias - Horovod's variable for @s, or "". */
const char *conf_alias(const struct setting *s);

/* conf_name - write the variable of @s, as the environment spells it, to @out. */
enum { CONF_NAME_BYTES = 64 };
void conf_name(const struct setting *s, char out[CONF_NAME_BYTES]);

/* conf_size - parse "4096", "64K", "2M", "1G" or "1T"; 0, or -1 if it is none of them. */
int conf_size(const char *text, uint64_t *out);

/* conf_env - a variable that is not ringup's (OMPI_COMM_WORLD_RANK, HOME), or NULL.
 * The only way to the environment outside conf.c. */
const char *conf_env(const char *name);

/* conf_environ - the whole environment, for a child's. */
char **conf_environ(void);

#endif
