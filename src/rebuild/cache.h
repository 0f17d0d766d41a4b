/* cache.h - the shared build cache: signed archives addressed by a key, checked before use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_CACHE_H
#define REBUILD_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct conf;
struct err;

/*
 * The cache is a folder that nodes share: NFS, a volume of the platform, or on one node just
 * a folder.  An entry is one file, called KEY, which init-scripts/lib/cache.bash reads, too:
 *
 *	ringup-cache/2 KEY SUM SIGNER
 *	SIGNATURE
 *	the archive, as tar writes it, not compressed
 *
 * SUM is the SHA-256 of the archive, in hexadecimal; SIGNATURE is Ed25519's over the first
 * line, with its newline, in base64.  SIGNER is the base64 line of a public key, which the
 * reader has to trust (signkey.h).  KEY covers all inputs of the build, so an entry never has
 * to change.  It appears whole, by a rename.  Nodes that build the same at the same time each
 * publish, and the last one stays.  A reader copies an entry, checks the copy, and unpacks
 * that.
 *
 * A fault of the folder (missing, read-only, full, damaged) costs a build and is no error;
 * struct cache_said reports it.
 */
enum { CACHE_KEY_BYTES = 65 /* 64 hexadecimal digits and the NUL */ };

struct cache_how {
	const char *dir;   /* NULL or "": no cache                                    */
	const char *key;   /* private key: a file or its line; NULL or "": only reads */
	const char *trust; /* trusted public keys, blanks between; the builder's own always
			    * is */
	int64_t wait_ms;   /* wait for another node's entry, then build here          */
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
void cache_key(char out[CACHE_KEY_BYTES], const char *text);

/* cache_copy_hash - copy the rest of @in to @out, unless that is -1, and write its SHA-256 to
 * @sum; -1 with errno: a failure, or more than 4 GiB. */
int cache_copy_hash(int in, int out, char sum[CACHE_KEY_BYTES]);

/*
 * cache_provide - provide the artefact @key in the folder @into: from the cache, or by @make.
 *
 * @into: missing, or empty; its parent exists.
 * @make: fills the empty folder it is given.  Called at most once.
 * Several callers, on several nodes, may share a key at the same time.
 *
 * Returns 0; the result of make(); RINGUP_EINVAL if a key is missing or malformed;
 * RINGUP_ESYSTEM if @into cannot be written.  After a failure @into does not exist.
 */
typedef int cache_make(void *arg, const char *into, struct err *e);
int cache_provide(const struct cache_how *how, const char *key, const char *into,
		  cache_make *make, void *arg, struct cache_said *said, struct err *e);

/* cache_get - only from the cache, without waiting; 1: missing, and said->note has the reason.
 */
int cache_get(const struct cache_how *how, const char *key, const char *into,
	      struct cache_said *said, struct err *e);

/* cache_put - publish the folder @from; here a fault of the cache is an error.  An existing
 * entry stays, unless it is damaged: then said->is_published is false. */
int cache_put(const struct cache_how *how, const char *key, const char *from,
	      struct cache_said *said, struct err *e);

/* One entry, for `ringup cache list`. */
struct cache_entry {
	char key[CACHE_KEY_BYTES];
	uint64_t bytes;
	int64_t made;    /* seconds since 1970              */
	char wrong[256]; /* why it cannot be used; or ""    */
};

/* cache_each - call @see for every entry, ordered by key; with @all the archives are checked as
 * well. */
typedef int cache_see(void *arg, const struct cache_entry *entry, struct err *e);
int cache_each(const struct cache_how *how, bool all, cache_see *see, void *arg, struct err *e);

#endif
