/* cache.c - the shared build cache: entries addressed by a key, signed, checked before use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/cache.h"

#include <dirent.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/folder.h"
#include "rebuild/entry.h"
#include "rebuild/lease.h"
#include "ringup.h"

enum { SHORTEST_NAP_MS = 20, LONGEST_NAP_MS = 1000 };

/* An open cache. */
struct cache {
	const struct cache_how *how;
	struct keyring ring;
	struct shelf shelf;
};

void cache_conf(struct cache_how *how, const struct conf *c)
{
	*how = (struct cache_how){ .dir = c->cache,
				   .key = c->cache_key,
				   .trust = c->cache_trust,
				   .wait_ms = c->cache_wait_ms,
				   .yield_ms = c->cache_yield_ms };
}

void cache_key(char out[MANIFEST_KEY_BYTES], const char *text)
{
	unsigned char sum[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(sum, (const unsigned char *)text, strlen(text));
	sodium_bin2hex(out, MANIFEST_KEY_BYTES, sum, sizeof(sum));
}

static int cache_open(struct cache *c, const struct cache_how *how, struct err *e)
{
	*c = (struct cache){ .how = how, .shelf = { how->dir, &c->ring } };
	return keyring_open(&c->ring, how->key, how->trust, e);
}

/* The same for the entry @key; clears @said. */
static int cache_open_for(struct cache *c, const struct cache_how *how, const char *key,
			  struct cache_said *said, struct err *e)
{
	*said = (struct cache_said){ 0 };
	if (!manifest_is_key(key))
		return fail(e, RINGUP_EINVAL,
			    "not a key of the cache (64 hexadecimal digits): %.80s", key);
	return cache_open(c, how, e);
}

static void cache_close(struct cache *c)
{
	keyring_close(&c->ring);
}

static void note(struct cache_said *said, const char *text)
{
	if (!*said->note)
		snprintf(said->note, sizeof(said->note), "%s", text);
}

/* entry_fetch(), with a note on why the cache was not used. */
static int cache_fetch(const struct cache *c, const char *key, const char *into,
		       enum entry_found *found, struct cache_said *said, struct err *e)
{
	struct err why = { 0 };
	int rc = entry_fetch(&c->shelf, key, into, found, &why, e);

	if (!rc && *found == ENTRY_GOOD)
		said->from = CACHE_HIT;
	else if (!rc && *found != ENTRY_MISSING)
		note(said, why.text);
	return rc;
}

/* Arguments of cache_provide(). */
struct want {
	const struct cache *c;
	const char *key, *into;
	cache_make *make;
	void *arg;
	struct cache_said *said;
};

static int build(const struct want *w, struct err *e)
{
	int rc = folder_claim(w->into, e);

	if (!rc)
		rc = w->make(w->arg, w->into, e);
	if (rc)
		folder_remove(w->into, NULL);
	else
		w->said->from = CACHE_BUILT;
	return rc;
}

/* Builds, and publishes if possible. */
static int build_for_all(const struct want *w, struct err *e)
{
	struct err why = { 0 };
	int rc = build(w, e);

	if (!rc && w->c->ring.can_sign &&
	    entry_publish(&w->c->shelf, w->key, w->into, &w->said->is_published, &why)) {
		fail_in(&why, "not published");
		note(w->said, why.text);
	}
	return rc;
}

/* Runs with the lock held: the entry may have come while we waited for it. */
static int fetch_or_build(const struct want *w, struct err *e)
{
	enum entry_found found;
	int rc = cache_fetch(w->c, w->key, w->into, &found, w->said, e);

	if (rc || found == ENTRY_GOOD)
		return rc;
	entry_sweep(&w->c->shelf, w->key);
	return build_for_all(w, e);
}

/* Makes the cache folder itself, but nothing above it, so that an unmounted volume shows. */
static void make_dir(const char *dir)
{
	mkdir(dir, 0755); /* on failure the next step says why */
}

/* Tries the lock once: 1 if another process has it. */
static int build_alone(const struct want *w, const char *lock, struct err *e)
{
	int64_t life = w->c->how->lease_ms ? w->c->how->lease_ms : LEASE_MS;
	struct lease lease = { 0 };
	struct err why = { 0 };
	int rc;

	make_dir(w->c->how->dir);
	rc = lease_take(&lease, lock, life, &why);
	if (rc == LEASE_BUSY)
		return 1;
	if (rc) {
		/* The folder is read-only, full or missing; existing entries are still good. */
		fail_in(&why, "not published");
		note(w->said, why.text);
		return build(w, e);
	}
	rc = fetch_or_build(w, e);
	lease_give(&lease);
	return rc;
}

/* Sleeps a little, longer each time, while another process builds or is expected to. */
static void nap(const struct want *w, const struct lease_watch *watch, bool is_held,
		int64_t *ms, bool *told)
{
	if (!*told && w->c->how->waits)
		w->c->how->waits(w->c->how->arg, is_held ? watch->who : "whoever builds it");
	*told = true;
	clock_sleep_ms(*ms);
	*ms = *ms * 3 / 2 < LONGEST_NAP_MS ? *ms * 3 / 2 : LONGEST_NAP_MS;
}

/* Waits until the entry is there, or we may build, or the time is over. */
static int provide(const struct want *w, struct err *e)
{
	const struct cache_how *how = w->c->how;
	int64_t begin = clock_ns(), end = clock_deadline(how->wait_ms), ms = SHORTEST_NAP_MS;
	int64_t yield = clock_deadline(how->yield_ms);
	struct lease_watch watch = { 0 };
	enum lease_state state;
	char lock[PATH_MAX];
	enum entry_found found;
	bool told = false;
	int rc = 0;

	if (snprintf(lock, sizeof(lock), "%s/%s.lock", how->dir, w->key) >= (int)sizeof(lock))
		rc = fail(e, RINGUP_EINVAL, "%.80s...: path too long", how->dir);
	while (!rc) {
		/* The lock comes first: its holder publishes before giving it back. */
		state = lease_look(&watch, lock);
		rc = cache_fetch(w->c, w->key, w->into, &found, w->said, e);
		w->said->waited_ms = told ? (clock_ns() - begin) / 1000000 : 0;
		if (rc || found == ENTRY_GOOD)
			return rc;
		if (found == ENTRY_FOREIGN)
			return build(w, e);
		if (!clock_left_ms(end) && (state == LEASE_HELD || told))
			return build_for_all(w, e);
		if (state == LEASE_DEAD && w->c->ring.can_sign) {
			if (!lease_break(&watch, lock))
				return build(w, e);
		} else if (state == LEASE_HELD || clock_left_ms(yield)) {
			nap(w, &watch, state == LEASE_HELD, &ms, &told);
		} else if (!w->c->ring.can_sign) {
			return build(w, e);
		} else {
			rc = build_alone(w, lock, e);
			if (rc != 1)
				return rc;
			rc = 0;
		}
	}
	return rc;
}

int cache_provide(const struct cache_how *how, const char *key, const char *into,
		  cache_make *make, void *arg, struct cache_said *said, struct err *e)
{
	struct cache c = { .how = how };
	struct want w = { &c, key, into, make, arg, said };
	int rc;

	*said = (struct cache_said){ 0 };
	if (!how || !how->dir || !*how->dir)
		return build(&w, e);
	rc = cache_open_for(&c, how, key, said, e);
	if (!rc)
		rc = provide(&w, e);
	cache_close(&c);
	return rc;
}

int cache_get(const struct cache_how *how, const char *key, const char *into,
	      struct cache_said *said, struct err *e)
{
	enum entry_found found = ENTRY_MISSING;
	struct cache c;
	int rc = cache_open_for(&c, how, key, said, e);

	if (rc)
		return rc;
	rc = cache_fetch(&c, key, into, &found, said, e);
	cache_close(&c);
	if (!rc && found != ENTRY_GOOD) {
		note(said, "it is not in the cache");
		rc = 1;
	}
	return rc;
}

int cache_put(const struct cache_how *how, const char *key, const char *from,
	      struct cache_said *said, struct err *e)
{
	struct cache c;
	int rc = cache_open_for(&c, how, key, said, e);

	if (rc)
		return rc;
	if (!c.ring.can_sign)
		rc = fail(e, RINGUP_EINVAL,
			  "publishing takes the private key: RINGUP_CACHE_KEY names it");
	make_dir(how->dir);
	if (!rc)
		rc = entry_publish(&c.shelf, key, from, &said->is_published, e);
	cache_close(&c);
	return rc;
}

static bool is_lock(const char *name)
{
	char key[MANIFEST_KEY_BYTES];

	return strlen(name) == 69 && !strcmp(name + 64, ".lock") &&
	       snprintf(key, sizeof(key), "%.64s", name) == 64 && manifest_is_key(key);
}

static int is_ours(const struct dirent *d)
{
	return manifest_is_key(d->d_name) || is_lock(d->d_name);
}

static void cache_look_at(const struct cache *c, const char *name, bool all,
			  struct cache_entry *out)
{
	struct manifest m = { 0 };
	struct err why = { 0 };
	char path[PATH_MAX];
	struct stat st;

	*out = (struct cache_entry){ .is_building = is_lock(name) };
	snprintf(out->key, sizeof(out->key), "%.64s", name);
	if (snprintf(path, sizeof(path), "%s/%s", c->how->dir, name) < (int)sizeof(path) &&
	    !stat(path, &st))
		out->made = st.st_mtime;
	if (out->is_building)
		return;
	if (entry_check(&c->shelf, name, all, &m, &why) != ENTRY_GOOD)
		snprintf(out->wrong, sizeof(out->wrong), "%s", why.text);
	out->files = m.items;
	out->bytes = m.total;
	manifest_free(&m);
}

int cache_each(const struct cache_how *how, bool all, cache_see *see, void *arg, struct err *e)
{
	struct cache_entry entry;
	struct dirent **names;
	struct cache c;
	int n, i, rc = cache_open(&c, how, e);

	if (rc)
		return rc;
	n = scandir(how->dir, &names, is_ours, alphasort);
	if (n < 0)
		rc = fail_os(e, "%s", how->dir);
	for (i = 0; i < n; i++) {
		if (!rc) {
			cache_look_at(&c, names[i]->d_name, all, &entry);
			rc = see(arg, &entry, e);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	cache_close(&c);
	return rc;
}
