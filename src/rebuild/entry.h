/* entry.h - one entry of the cache: published whole, checked before it is used, set aside. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_ENTRY_H
#define REBUILD_ENTRY_H

#include <stdbool.h>

#include "rebuild/keyring.h"
#include "rebuild/manifest.h"

struct err;

/* Where entries stand, and the keys to them; see cache.h. */
struct shelf {
	const char *dir;
	const struct keyring *ring;
};

/*
 * GOOD: all of it is what a trusted key has signed.  MISSING: not there, or cannot be read at
 * the moment.  DAMAGED: not what its manifest says, or there is none.  FOREIGN: signed by
 * somebody who is not trusted here.
 */
enum entry_found { ENTRY_GOOD, ENTRY_MISSING, ENTRY_DAMAGED, ENTRY_FOREIGN };

/*
 * entry_fetch - copy the entry @key to the folder @into, if it is good.
 *
 * What is not, is not used, *@why says why, and what is damaged goes to quarantine.
 * @into: not there, or empty; made for a good entry only.
 * Returns 0 with *@found, or a code if @into could not be written.
 */
int entry_fetch(const struct shelf *s, const char *key, const char *into,
		enum entry_found *found, struct err *why, struct err *e);

/* entry_check - its manifest into *@m, for manifest_free(); with @all its files as well. */
enum entry_found entry_check(const struct shelf *s, const char *key, bool all,
			     struct manifest *m, struct err *why);

/* entry_publish - sign the folder @from and put it there as @key; *@is_new is false if there
 * is one already, which stays. */
int entry_publish(const struct shelf *s, const char *key, const char *from, bool *is_new,
		  struct err *e);

/* entry_sweep - remove halves of @key that the killed have left; for who holds its lock. */
void entry_sweep(const struct shelf *s, const char *key);

#endif
