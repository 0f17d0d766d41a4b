/* conf.c - parse settings; the only file that reads the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/log.h"
#include "ringup.h"

const struct setting settings[] = {
#define SETTING(name, kind, def, alias, help) \
	{ #name, "RINGUP_" #name, #kind, def, alias, help, offsetof(struct conf, name) },
#include "base/conf.def"
#undef SETTING
	{ 0 },
};

extern char **environ;

static int parse_int(const char *s, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(s, &end, 10);
	return (errno || end == s || *end) ? -1 : 0;
}

static int parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *u;
	char *end;
	unsigned shift = 0;

	errno = 0;
	*out = strtoull(s, &end, 10);
	if (errno || end == s || strchr(s, '-'))
		return -1;
	if (*end) {
		u = strchr(units, toupper((unsigned char)*end));
		if (!u || end[1])
			return -1;
		shift = 10 * (unsigned)(u - units + 1);
	}
	if (*out > UINT64_MAX >> shift)
		return -1;
	*out <<= shift;
	return 0;
}

static int parse_bool(const char *s, int *out)
{
	static const char *const yes[] = { "1", "yes", "true", "on", NULL };
	static const char *const no[] = { "0", "no", "false", "off", "", NULL };
	int i;

	for (i = 0; yes[i]; i++)
		if (!strcasecmp(s, yes[i])) {
			*out = 1;
			return 0;
		}
	for (i = 0; no[i]; i++)
		if (!strcasecmp(s, no[i])) {
			*out = 0;
			return 0;
		}
	return -1;
}

static const char *meaning(const char *kind)
{
	if (!strcmp(kind, "SIZE"))
		return "a size such as 4096, 64K or 2M";
	if (!strcmp(kind, "MS"))
		return "a number of milliseconds";
	if (!strcmp(kind, "BOOL"))
		return "1 or 0";
	return "a whole number";
}

static int parse(const struct setting *s, const char *var, const char *value, struct conf *c,
		 struct err *e)
{
	void *field = (char *)c + s->offset;
	int bad = 0;

	if (!strcmp(s->kind, "STR"))
		*(const char **)field = value;
	else if (!strcmp(s->kind, "SIZE"))
		bad = parse_size(value, field);
	else if (!strcmp(s->kind, "BOOL"))
		bad = parse_bool(value, field);
	else
		bad = parse_int(value, field);
	if (!bad && !strcmp(s->kind, "MS") && *(int64_t *)field < 0)
		bad = -1;
	if (bad)
		return fail(e, RINGUP_EINVAL, "%s=%s: not %s", var, value, meaning(s->kind));
	return 0;
}

/* The environment spells names in capitals, and only in capitals. */
static bool is_named(const struct setting *s, const char *var, size_t len)
{
	size_t i;

	if (strlen(s->env) != len)
		return false;
	for (i = 0; i < len; i++)
		if (toupper((unsigned char)s->env[i]) != var[i])
			return false;
	return true;
}

static const struct setting *find(const char *var, size_t len)
{
	const struct setting *s;

	for (s = settings; s->name; s++)
		if (is_named(s, var, len))
			return s;
	return NULL;
}

const char *conf_value(const struct setting *s, const char **from)
{
	const char *value;
	char **p;

	for (p = environ; p && *p; p++) {
		size_t len = strcspn(*p, "=");

		if ((*p)[len] && is_named(s, *p, len)) {
			*from = s->env;
			return *p + len + 1;
		}
	}
	value = *s->alias ? getenv(s->alias) : NULL;
	*from = value ? s->alias : NULL;
	return value ? value : s->def;
}

static int check_names(enum conf_unknown unknown, struct err *e)
{
	char **p;

	for (p = environ; p && *p; p++) {
		size_t len = strcspn(*p, "=");

		if (strncmp(*p, "RINGUP_", 7) || find(*p, len))
			continue;
		if (unknown == CONF_FORBID)
			return fail(e, RINGUP_EINVAL, "%.*s is not a setting; see `ringup env`",
				    (int)len, *p);
		log_warn("%.*s is not a setting of this version and is ignored", (int)len, *p);
	}
	return 0;
}

int conf_load(struct conf *c, enum conf_unknown unknown, struct err *e)
{
	const struct setting *s;
	const char *value, *from;
	int rc;

	for (s = settings; s->name; s++) {
		value = conf_value(s, &from);
		rc = parse(s, from ? from : "built-in default", value, c, e);
		if (rc)
			return rc;
	}
	rc = log_set_level(c->log_level, e);
	return rc ? rc : check_names(unknown, e);
}

const char *conf_env(const char *name)
{
	return getenv(name);
}

char **conf_environ(void)
{
	return environ;
}
