/* cache.h - what one node has built, for the others: addressed by content, signed, shared. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_CACHE_H
#define REBUILD_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "rebuild/manifest.h"

struct conf;
struct err;

/*
 * The cache is a folder that nodes share: NFS, a volume of the platform, or on one node just
 * a folder.
 *
 *	KEY/MANIFEST        what it holds (manifest.h)
 *	KEY/MANIFEST.sig    Ed25519 over that, by a key that the reader trusts
 *	KEY/files/...       plain files; modes and links stand in the manifest only, and
 *	                    folders without files nowhere
 *	KEY.lock/           somebody builds it (lease.h)
 *	quarantine/         entries that were not what their manifest says
 *
 * KEY says all that matters to what is built, so an entry never changes.  It appears whole, by
 * a rename that replaces nothing, and is used only after its signature and the SHA-256 of
 * each file have been checked on the copy that was made of it.
 *
 * Whatever is wrong with the folder (not there, read-only, full, damaged) costs a build and is
 * no error; what was wrong stands in cache_said.
 */
struct cache_how {
	const char *dir;   /* NULL or "": no cache                                    */
	const char *key;   /* private key: a file or its line; NULL or "": only reads */
	const char *trust; /* public keys that are believed, blanks between; the builder's
			    * own is always                                           */
	int64_t wait_ms;   /* for somebody else who builds; then build here           */
	int64_t yield_ms;  /* for somebody else to begin, before beginning            */
	int64_t lease_ms;  /* 0: LEASE_MS                                             */
	void (*waits)(void *arg, const char *who); /* once, when it waits; may be NULL     */
	void *arg;
};

enum cache_from { CACHE_NONE, CACHE_BUILT, CACHE_HIT };

/* What came of it, for a report. */
struct cache_said {
	enum cache_from from;
	bool is_published; /* what was built is in the cache now                      */
	int64_t waited_ms;
	char note[256]; /* why the cache was not used, or not filled; or ""        */
};

/* cache_conf - what RINGUP_CACHE and the settings beside it say; points into @c. */
void cache_conf(struct cache_how *how, const struct conf *c);

/* cache_key - the key for @text, which names all that matters; canonical JSON for instance. */
void cache_key(char out[MANIFEST_KEY_BYTES], const char *text);

/*
 * cache_provide - have the artefact @key in the folder @into: from the cache, or from whoever
 * builds it now, or by @make.
 *
 * @into: not there, or empty; its parent exists.
 * @make: fills the empty folder it is given.  Called at most once.
 * Several call this with one key at the same time, on several nodes: one of them builds, as
 *   long as it lives and the cache can be written, and the others wait for it.
 *
 * Returns 0; what make() returned; RINGUP_EINVAL if a key is missing or is none; RINGUP_ESYSTEM
 * if @into cannot be written.  After a failure @into is not there.
 */
typedef int cache_make(void *arg, const char *into, struct err *e);
int cache_provide(const struct cache_how *how, const char *key, const char *into,
		  cache_make *make, void *arg, struct cache_said *said, struct err *e);

/* cache_get - only from the cache, without waiting; 1: it is not there, and said->note says
 * why. */
int cache_get(const struct cache_how *how, const char *key, const char *into,
	      struct cache_said *said, struct err *e);

/* cache_put - publish the folder @from; here what cannot be done is an error.  An entry that is
 * there already stays: then said->is_published is false. */
int cache_put(const struct cache_how *how, const char *key, const char *from,
	      struct cache_said *said, struct err *e);

/* One entry, for `ringup cache list`. */
struct cache_entry {
	char key[MANIFEST_KEY_BYTES];
	int files;
	uint64_t bytes;
	int64_t made;     /* seconds since 1970     */
	bool is_building; /* there is only a lock   */
	char wrong[256];  /* why it cannot be used; or "" */
};

/* cache_each - call @see for every entry, ordered by key; with @all also the content of its
 * files is checked.  Entries that are damaged stay where they are. */
typedef int cache_see(void *arg, const struct cache_entry *entry, struct err *e);
int cache_each(const struct cache_how *how, bool all, cache_see *see, void *arg, struct err *e);

#endif
