/* horovod.c - the environment variables of Horovod, and their meaning for ringup. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/horovod.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"

const struct horovod horovods[] = {
#define HOROVOD(name, kind, quiet, meaning) { #name, HOROVOD_##kind, quiet, meaning },
#include "base/horovod.def"
#undef HOROVOD
	{ 0 },
};

const struct horovod *horovod_find(const char *name, size_t len)
{
	const struct horovod *h;

	for (h = horovods; h->name; h++)
		if (strlen(h->name) == len && !memcmp(h->name, name, len))
			return h;
	return NULL;
}

const char *horovod_kind(const struct horovod *h)
{
	static const char *const words[] = {
		[HOROVOD_ALIAS] = "setting",     [HOROVOD_LAUNCHER] = "launcher",
		[HOROVOD_UNNEEDED] = "unneeded", [HOROVOD_UNSUPPORTED] = "unsupported",
		[HOROVOD_BUILD] = "build",
	};

	return words[h->kind];
}

const char *horovod_meaning(const struct horovod *h, char out[HOROVOD_TEXT])
{
	const struct setting *s;
	char name[CONF_NAME_BYTES];

	snprintf(out, HOROVOD_TEXT, "%s", h->meaning);
	for (s = settings; s->name && h->kind == HOROVOD_ALIAS; s++) {
		if (strcmp(conf_alias(s), h->name))
			continue;
		conf_name(s, name);
		snprintf(out, HOROVOD_TEXT, "%s%s: %s", *s->alias == '!' ? "not " : "", name,
			 s->help);
	}
	return out;
}

int horovod_is(const char *var, size_t *len)
{
	*len = strcspn(var, "=");
	return !strncmp(var, "HOROVOD_", 8) || !strncmp(var, "_HOROVOD_", 9);
}

void horovod_tell(void)
{
	static int reported;
	char **p = conf_environ(), text[HOROVOD_TEXT];
	size_t len;

	if (__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
		return;
	for (; p && *p; p++) {
		const struct horovod *h;

		if (!horovod_is(*p, &len))
			continue;
		h = horovod_find(*p, len);
		if (!h)
			log_info("%.*s is not a Horovod 0.28 variable and is ignored", (int)len,
				 *p);
		else if (h->kind == HOROVOD_UNSUPPORTED &&
			 strcmp(*p + len + !!(*p)[len], h->quiet))
			log_warn("%s has no effect: %s", h->name, h->meaning);
		else if (h->kind == HOROVOD_UNNEEDED || h->kind == HOROVOD_UNSUPPORTED)
			log_info("%s: %s", h->name, horovod_meaning(h, text));
	}
}
