/* cache.h - the shared build cache: entries addressed by a key, signed, checked before use. */
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
 *	KEY/MANIFEST        the list of its files (manifest.h)
 *	KEY/MANIFEST.sig    Ed25519 over the list, by a key that the reader trusts
 *	KEY/files/...       plain files; modes and links stand in the manifest only, and
 *	                    folders without files nowhere
 *	KEY.lock/           a process is building it (lease.h)
 *	quarantine/         entries that differ from their manifest
 *
 * KEY covers all inputs of the build, so an entry never changes.  It appears whole, by a
 * rename that replaces nothing, and is used only after its signature and the SHA-256 of each
 * file have been checked on the private copy of it.
 *
 * A fault of the folder (missing, read-only, full, damaged) costs a build and is no error;
 * struct cache_said reports it.
 */
struct cache_how {
	const char *dir;   /* NULL or "": no cache                                    */
	const char *key;   /* private key: a file or its line; NULL or "": only reads */
	const char *trust; /* trusted public keys, blanks between; the builder's own always
			    * is */
	int64_t wait_ms;   /* wait for another builder, then build here               */
	int64_t yield_ms;  /* wait for another builder to begin                       */
	int64_t lease_ms;  /* 0: LEASE_MS                                             */
	void (*waits)(void *arg, const char *who); /* once, when it waits; may be NULL     */
	void *arg;
};

enum cache_from { CACHE_NONE, CACHE_BUILT, CACHE_HIT };

/* The result, for a report. */
struct cache_said {
	enum cache_from from;
	bool is_published; /* the new build is in the cache now                       */
	int64_t waited_ms;
	char note[256]; /* why the cache was not used, or not filled; or ""        */
};

/* cache_conf - take RINGUP_CACHE and related settings from @c, into which @how then points. */
void cache_conf(struct cache_how *how, const struct conf *c);

/* cache_key - the key for @text, which lists all inputs, for instance as canonical JSON. */
void cache_key(char out[MANIFEST_KEY_BYTES], const char *text);

/*
 * cache_provide - provide the artefact @key in the folder @into: from the cache, by waiting for
 * another builder, or by @make.
 *
 * @into: missing, or empty; its parent exists.
 * @make: fills the empty folder it is given.  Called at most once.
 * Several callers, on several nodes, may share a key at the same time: one of them builds, as
 * long as it lives and the cache can be written, and the others wait for it.
 *
 * Returns 0; the result of make(); RINGUP_EINVAL if a key is missing or malformed;
 * RINGUP_ESYSTEM if @into cannot be written.  After a failure @into does not exist.
 */
typedef int cache_make(void *arg, const char *into, struct err *e);
int cache_provide(const struct cache_how *how, const char *key, const char *into,
		  cache_make *make, void *arg, struct cache_said *said, struct err *e);

/* cache_get - only from the cache, without waiting; 1: not there, and said->note says why. */
int cache_get(const struct cache_how *how, const char *key, const char *into,
	      struct cache_said *said, struct err *e);

/* cache_put - publish the folder @from; here a fault of the cache is an error.  An existing
 * entry stays: then said->is_published is false. */
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

/* cache_each - call @see for every entry, ordered by key; with @all the content of its files is
 * checked as well.  Damaged entries stay in their place. */
typedef int cache_see(void *arg, const struct cache_entry *entry, struct err *e);
int cache_each(const struct cache_how *how, bool all, cache_see *see, void *arg, struct err *e);

#endif
