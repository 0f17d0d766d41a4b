/* entry.h - one cache entry: published whole, checked before use, quarantined if damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_ENTRY_H
#define REBUILD_ENTRY_H

#include <stdbool.h>

#include "rebuild/keyring.h"
#include "rebuild/manifest.h"

struct err;

/* The folder of the entries, and the keys to them; see cache.h. */
struct shelf {
	const char *dir;
	const struct keyring *ring;
};

/* GOOD: all of it is signed by a trusted key.  MISSING: not there, or unreadable at the moment.
 * DAMAGED: it differs from its manifest, or has none.  FOREIGN: its signer is not trusted
 * here. */
enum entry_found { ENTRY_GOOD, ENTRY_MISSING, ENTRY_DAMAGED, ENTRY_FOREIGN };

/*
 * entry_fetch - copy the entry @key to the folder @into, if it is good.
 *
 * Otherwise it is not used, *@why says why, and a damaged entry goes to quarantine.
 * @into: missing, or empty; made for a good entry only.
 * Returns 0 with *@found, or a code if @into could not be written.
 */
int entry_fetch(const struct shelf *s, const char *key, const char *into,
		enum entry_found *found, struct err *why, struct err *e);

/* entry_check - read the manifest to *@m, for manifest_free(); with @all check all files. */
enum entry_found entry_check(const struct shelf *s, const char *key, bool all,
			     struct manifest *m, struct err *why);

/* entry_publish - sign the folder @from and publish it as @key; *@is_new is false if an entry
 * exists, which stays. */
int entry_publish(const struct shelf *s, const char *key, const char *from, bool *is_new,
		  struct err *e);

/* entry_sweep - remove partial entries of @key that killed processes left; needs its lock. */
void entry_sweep(const struct shelf *s, const char *key);

#endif
