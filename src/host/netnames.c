/* netnames.c - the environment variables that configure libraries' use of the network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/netnames.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

static const struct {
	const char *name;
	enum netnames_use use;
} names[] = {
#define NETNAME(name) { #name, NETNAMES_NETWORK },
#define OTHER(name)   { #name, NETNAMES_OTHER },
#include "host/netnames.def"
#undef OTHER
#undef NETNAME
};

enum { NAMES = sizeof(names) / sizeof(names[0]), FOREIGN_SHORTEST = 15, FEW_WRONG = 2 };

/* Prefixes of one library alone: a variable that begins so was meant for it. */
static const char *const families[] = { "NCCL_",    "OMPI_MCA_btl_tcp_", "OMPI_MCA_oob_tcp_",
					"GLOO_",    "HOROVOD_GLOO_",     "TP_",
					"PRTE_MCA_" };

enum netnames_use netnames_find(const char *name)
{
	for (size_t i = 0; i < NAMES; i++)
		if (!strcmp(names[i].name, name))
			return names[i].use;
	return NETNAMES_UNKNOWN;
}

static size_t family_length(const char *name)
{
	size_t len;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		len = strlen(families[i]);
		if (!strncmp(name, families[i], len))
			return len;
	}
	return 0;
}

/* Frameworks of Open MPI have short names that resemble each other. */
static bool is_distinct(const char *known)
{
	return strlen(known) >= FOREIGN_SHORTEST &&
	       (strncmp(known, "OMPI_MCA_", 9) != 0 || strstr(known, "_tcp_if_"));
}

/* Offers @known, compared behind the common prefix of @family bytes. */
static void offer(struct near *n, const char *typed, size_t family, const char *known)
{
	long apart = (long)strlen(typed) - (long)strlen(known);

	/* The distance is at least the difference of the lengths. */
	if (family && !strncmp(typed, known, family))
		near_offer(n, typed + family, known + family);
	else if (!family && labs(apart) <= FEW_WRONG && is_distinct(known))
		near_offer(n, typed, known);
}

/* Newer versions know more names, so only names about interfaces may differ in many letters. */
static int most_wrong(const char *best, size_t family)
{
	return family && (strstr(best, "IFNAME") || strstr(best, "if_") ||
			  strstr(best, "IFACE"))
		       ? INT_MAX
		       : FEW_WRONG;
}

const char *netnames_near(const char *name)
{
	size_t family = family_length(name), i;
	struct near n = { 0 };

	if (netnames_find(name) != NETNAMES_UNKNOWN)
		return NULL;
	for (i = 0; i < NAMES; i++)
		if (names[i].use == NETNAMES_NETWORK)
			offer(&n, name, family, names[i].name);
	if (!n.best || n.distance > most_wrong(n.best, family))
		return NULL;
	/* n.best points behind the prefix of a name in the table. */
	return n.best - family;
}
