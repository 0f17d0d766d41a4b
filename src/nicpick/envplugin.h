/* envplugin.h - the env plug-in that NCCL would load: who answers its questions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_ENVPLUGIN_H
#define NICPICK_ENVPLUGIN_H

#include "host/netconf.h"

enum envplugin_kind {
	ENVPLUGIN_NONE,    /* the environment answers                               */
	ENVPLUGIN_MISSING, /* one is asked for and not found: the environment answers */
	ENVPLUGIN_UNFIT,   /* one is found that NCCL passes over: the same          */
	ENVPLUGIN_OURS,    /* ringup's, which answers what is pinned                */
	ENVPLUGIN_UNKNOWN, /* another: nobody knows but it                          */
};

struct envplugin {
	enum envplugin_kind kind;
	const char *asked; /* NCCL_ENV_PLUGIN's value, or NULL      */
	const char *what;  /* the library's path, or what is loaded */
};

/* envplugin_find - by the rules of @version of NCCL; @c is what that version hears, or all. */
void envplugin_find(struct envplugin *out, const struct netconf *c, const char *version);

/* envplugin_since - does that version know env plug-ins at all? */
bool envplugin_since(const char *version);

#endif
