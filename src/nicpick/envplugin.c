/* envplugin.c - find the env plug-in that NCCL would load and ask for its settings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/envplugin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/release.h"

/* Versions whose rules changed, found by asking real libraries and in NCCL's history. */
static const char knows_plugins[] = "2.28.7", knows_v2[] = "2.30.7";

static const char setting[] = "NCCL_ENV_PLUGIN", usual[] = "libnccl-env.so";

/* NCCL keeps this number of bytes of a name, including the terminator. */
enum { NAME = 255 };

bool envplugin_since(const char *version)
{
	return release_compare(version, knows_plugins) >= 0;
}

/* True for a complete file name, which NCCL does not extend to libnccl-env-NAME.so. */
static bool is_whole(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') ||
	       (len >= 3 && !strncmp(name, "lib", 3) && !strcmp(name + len - 3, ".so"));
}

/* The kind of the library @name: UNKNOWN also means a foreign one that is used. */
static enum envplugin_kind try_name(struct envplugin *out, const struct netconf *c,
				    const char *name, const char *version)
{
	const struct netconf_plugin *p = netconf_plugin_find(c, name);
	unsigned wants = NETCONF_ENV_V1;

	if (release_compare(version, knows_v2) >= 0)
		wants |= NETCONF_ENV_V2;
	if (!p)
		return strcmp(name, usual) ? ENVPLUGIN_UNKNOWN : ENVPLUGIN_NONE;
	/* A relative path depends on the job's working folder, which is unknown here. */
	if (strchr(name, '/') && *name != '/')
		return ENVPLUGIN_UNKNOWN;
	if (!*p->path)
		return ENVPLUGIN_NONE;
	out->what = p->path;
	/* NCCL tries the next name if the loader refuses this one. */
	if (!p->loads)
		return ENVPLUGIN_MISSING;
	if (!(p->takes & wants))
		return ENVPLUGIN_UNFIT;
	return p->is_ours ? ENVPLUGIN_OURS : ENVPLUGIN_UNKNOWN;
}

static enum envplugin_kind try_names(struct envplugin *out, const struct netconf *c,
				     const char *asked, const char *version)
{
	char name[NAME], part[NAME + 20];
	enum envplugin_kind kind;

	snprintf(name, sizeof(name), "%s", asked);
	out->what = out->asked;
	kind = try_name(out, c, name, version);
	if ((kind != ENVPLUGIN_NONE && kind != ENVPLUGIN_MISSING) || is_whole(name))
		return kind;
	snprintf(part, sizeof(part), "libnccl-env-%s.so", name);
	return try_name(out, c, part, version);
}

void envplugin_find(struct envplugin *out, const struct netconf *c, const char *version)
{
	static const char program[] = "STATIC_PLUGIN";
	const char *asked = netconf_value(c, setting);

	*out = (struct envplugin){ .kind = ENVPLUGIN_NONE };
	if (!envplugin_since(version))
		return;
	out->asked = asked;
	if (!asked || !*asked) {
		out->kind = try_name(out, c, usual, version);
		return;
	}
	if (!strcasecmp(asked, "none"))
		return;
	/* NCCL accepts any prefix of that word. */
	if (!strncasecmp(asked, program, strlen(asked))) {
		out->kind = ENVPLUGIN_UNKNOWN;
		out->what = "the program itself";
		return;
	}
	out->kind = try_names(out, c, asked, version);
	if (out->kind == ENVPLUGIN_NONE)
		out->kind = ENVPLUGIN_MISSING;
}
