/* envplugin.h - find the env plug-in that NCCL would load and ask for its settings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_ENVPLUGIN_H
#define NICPICK_ENVPLUGIN_H

#include "host/netconf.h"

enum envplugin_kind {
	ENVPLUGIN_NONE,    /* the environment answers                               */
	ENVPLUGIN_MISSING, /* one is set but not found: the environment answers */
	ENVPLUGIN_UNFIT,   /* one is found that NCCL rejects: the same              */
	ENVPLUGIN_OURS,    /* ringup's, which answers the pinned settings           */
	ENVPLUGIN_UNKNOWN, /* a foreign one, whose answers are unknown              */
};

struct envplugin {
	enum envplugin_kind kind;
	const char *asked; /* NCCL_ENV_PLUGIN's value, or NULL      */
	const char *what;  /* the library's path, or what is loaded */
};

/* envplugin_find - by the rules of NCCL @version; @c has the settings that it reads, or all. */
void envplugin_find(struct envplugin *out, const struct netconf *c, const char *version);

/* envplugin_since - does that version load env plug-ins at all? */
bool envplugin_since(const char *version);

#endif
