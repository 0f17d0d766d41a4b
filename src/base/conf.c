/* conf.c - parse settings; the only file that reads the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/log.h"
#include "base/near.h"
#include "ringup.h"

const struct setting settings[] = {
#define SETTING(name, kind, def, alias, help) \
	{ #name, "RINGUP_" #name, #kind, def, alias, help, offsetof(struct conf, name) },
#define PROFILE(chooser, choice, name, value)
#include "base/conf.def"
#undef PROFILE
#undef SETTING
	{ 0 },
};

static const struct profile {
	const char *chooser, *choice, *name, *value;
} profiles[] = {
#define SETTING(name, kind, def, alias, help)
#define PROFILE(chooser, choice, name, value) { #chooser, choice, #name, value },
#include "base/conf.def"
#undef PROFILE
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

int conf_size(const char *s, uint64_t *out)
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

	for (int i = 0; yes[i]; i++)
		if (!strcasecmp(s, yes[i])) {
			*out = 1;
			return 0;
		}
	for (int i = 0; no[i]; i++)
		if (!strcasecmp(s, no[i])) {
			*out = 0;
			return 0;
		}
	return -1;
}

static int parse_auto(const char *s, int *out)
{
	if (strcasecmp(s, "auto"))
		return parse_bool(s, out);
	*out = -1;
	return 0;
}

static const char *meaning(const char *kind)
{
	if (!strcmp(kind, "SIZE"))
		return "a size such as 4096, 64K or 2M";
	if (!strcmp(kind, "MS"))
		return "a number of milliseconds";
	if (!strcmp(kind, "BOOL"))
		return "1 or 0";
	if (!strcmp(kind, "AUTO"))
		return "auto, 1 or 0";
	return "a whole number";
}

/* Milliseconds are kept as an int, so 24 days stand for any longer time. */
static int limit_ms(int64_t *ms)
{
	if (*ms > INT32_MAX)
		*ms = INT32_MAX;
	return *ms < 0 ? -1 : 0;
}

static int conf_parse(const struct setting *s, const char *var, const char *value,
		      struct conf *c, struct err *e)
{
	void *field = (char *)c + s->offset;
	int bad = 0;

	if (!strcmp(s->kind, "STR") || !strcmp(s->kind, "SECRET"))
		*(const char **)field = value;
	else if (!strcmp(s->kind, "SIZE"))
		bad = conf_size(value, field);
	else if (!strcmp(s->kind, "BOOL"))
		bad = parse_bool(value, field);
	else if (!strcmp(s->kind, "AUTO"))
		bad = parse_auto(value, field);
	else
		bad = parse_int(value, field);
	if (!bad && !strcmp(s->kind, "MS"))
		bad = limit_ms(field);
	if (bad)
		return fail(e, RINGUP_EINVAL, "%s=%s: not %s", var, value, meaning(s->kind));
	return 0;
}

/* The environment spells names in capitals, and only in capitals. */
static bool is_named(const struct setting *s, const char *var, size_t len)
{
	if (strlen(s->env) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (toupper((unsigned char)s->env[i]) != var[i])
			return false;
	return true;
}

static const struct setting *conf_find(const char *var, size_t len)
{
	const struct setting *s;

	for (s = settings; s->name; s++)
		if (is_named(s, var, len))
			return s;
	return NULL;
}

void conf_name(const struct setting *s, char out[CONF_NAME_BYTES])
{
	size_t i;

	for (i = 0; s->env[i] && i < CONF_NAME_BYTES - 1; i++)
		out[i] = (char)toupper((unsigned char)s->env[i]);
	out[i] = 0;
}

const char *conf_alias(const struct setting *s)
{
	return s->alias + (*s->alias == '!');
}

/* The alias's value in the setting's own form; a value that cannot be translated is
 * kept unchanged, and the parser refuses it. */
static const char *translate(const struct setting *s, const char *value, char *buf)
{
	int64_t seconds;
	int on;

	if (*s->alias == '!' && !parse_bool(value, &on))
		return on ? "off" : "on";
	if (strcmp(s->kind, "MS") || parse_int(value, &seconds) || seconds < 0 ||
	    seconds > INT32_MAX)
		return value;
	snprintf(buf, CONF_VALUE_BYTES, "%lld", (long long)seconds * 1000);
	return buf;
}

/* The value of the setting's own variable in the environment, or NULL. */
static const char *set_value(const struct setting *s)
{
	char **p;

	for (p = environ; p && *p; p++) {
		size_t len = strcspn(*p, "=");

		if ((*p)[len] && is_named(s, *p, len))
			return *p + len + 1;
	}
	return NULL;
}

static const struct setting *conf_by_name(const char *name)
{
	const struct setting *s = settings;

	while (strcmp(s->name, name))
		s++;
	return s;
}

/* Profiles are chosen by name only, so a chooser has none itself and no alias. */
static const char *profile_value(const struct setting *s)
{
	const struct profile *p;
	const char *choice;

	for (p = profiles; p->name; p++) {
		if (strcmp(p->name, s->name))
			continue;
		choice = set_value(conf_by_name(p->chooser));
		if (choice && !strcmp(choice, p->choice))
			return p->value;
	}
	return NULL;
}

const char *conf_value(const struct setting *s, enum conf_from *from,
		       char buf[CONF_VALUE_BYTES])
{
	const char *value = set_value(s);

	*from = CONF_OWN;
	if (value)
		return value;
	*from = CONF_ALIAS;
	value = *s->alias ? getenv(conf_alias(s)) : NULL;
	if (value)
		return translate(s, value, buf);
	*from = CONF_PROFILE;
	value = profile_value(s);
	if (value)
		return value;
	*from = CONF_DEFAULT;
	return s->def;
}

/* Refuses a value of a setting that chooses profiles if no profile has that name. */
static int check_choice(const struct setting *s, const char *name, const char *value,
			struct err *e)
{
	bool chooses = false;
	const struct profile *p;

	for (p = profiles; p->name; p++) {
		if (strcmp(p->chooser, s->name))
			continue;
		chooses = true;
		if (!strcmp(p->choice, value))
			return 0;
	}
	if (!chooses || !strcmp(value, s->def))
		return 0;
	return fail(e, RINGUP_EINVAL, "%s=%s: no such profile; `ringup env` lists them", name,
		    value);
}

/* " Did you mean RINGUP_FUSION_BYTES?", or nothing, for a misspelt variable. */
static const char *hint(const char *var, size_t len, char *out, size_t size)
{
	char typed[CONF_NAME_BYTES], name[CONF_NAME_BYTES];
	const struct setting *s, *best = NULL;
	struct near n = { 0 };

	*out = 0;
	if (len >= sizeof(typed))
		return out;
	memcpy(typed, var, len);
	typed[len] = 0;
	/* The prefix is common to all, so it must not count as likeness. */
	for (s = settings; s->name; s++) {
		const char *was = n.best;

		near_offer(&n, typed + 7, s->name);
		if (n.best != was)
			best = s;
	}
	if (best) {
		conf_name(best, name);
		snprintf(out, size, "; did you mean %s?", name);
	}
	return out;
}

static int check_names(enum conf_unknown unknown, struct err *e)
{
	char better[128];
	char **p;

	for (p = environ; p && *p; p++) {
		size_t len = strcspn(*p, "=");

		if (strncmp(*p, "RINGUP_", 7) || !strncmp(*p, "RINGUP_TEST_", 12) ||
		    conf_find(*p, len))
			continue;
		hint(*p, len, better, sizeof(better));
		if (unknown == CONF_FORBID)
			return fail(e, RINGUP_EINVAL, "%.*s is not a setting%s", (int)len, *p,
				    *better ? better
					    : "; unset it, then run `ringup env` for a list");
		log_warn("%.*s is not a setting of this version and is ignored", (int)len, *p);
	}
	return 0;
}

int conf_load(struct conf *c, enum conf_unknown unknown, struct err *e)
{
	const struct setting *s;
	char name[CONF_NAME_BYTES], buf[CONF_VALUE_BYTES];
	enum conf_from from;
	const char *value;
	int rc;

	for (s = settings; s->name; s++) {
		value = conf_value(s, &from, buf);
		conf_name(s, name);
		rc = conf_parse(s, from == CONF_ALIAS ? conf_alias(s) : name, value, c, e);
		if (!rc)
			rc = check_choice(s, name, value, e);
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
