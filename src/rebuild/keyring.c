/* keyring.c - the keys of a cache: the private key that signs, and the trusted public keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/keyring.h"

#include <limits.h>
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* False if there is no room for another key. */
static bool trust(struct keyring *r, const struct signkey_public *k, int room)
{
	for (int i = 0; i < r->trusts; i++)
		if (!sodium_memcmp(r->trust[i].key, k->key, SIGNKEY_BYTES))
			return true;
	if (r->trusts >= room)
		return false;
	r->trust[r->trusts++] = *k;
	return true;
}

/* Any failure to get a key is a wrong setting. */
static int no_key(const char *setting, struct err *e)
{
	fail_in(e, "%s", setting);
	e->code = RINGUP_EINVAL;
	return e->code;
}

/* Reads each key of @list; one place stays free for our own. */
static int read_trust(struct keyring *r, const char *list, struct err *e)
{
	static const char between[] = " ,\t\r\n";
	struct signkey_public k;
	char one[PATH_MAX];
	size_t len;
	int rc;

	for (; list && *(list += strspn(list, between)); list += len) {
		len = strcspn(list, between);
		if (len >= sizeof(one))
			return fail(e, RINGUP_EINVAL,
				    "RINGUP_CACHE_TRUST: a name of %zu bytes is too long", len);
		memcpy(one, list, len);
		one[len] = 0;
		rc = signkey_read_public(&k, one, e);
		if (rc)
			return no_key("RINGUP_CACHE_TRUST", e);
		if (!trust(r, &k, KEYRING_MOST - 1))
			return fail(e, RINGUP_EINVAL,
				    "RINGUP_CACHE_TRUST: more than %d different keys",
				    KEYRING_MOST - 1);
	}
	return 0;
}

void keyring_close(struct keyring *r)
{
	signkey_wipe(&r->key);
}

int keyring_open(struct keyring *r, const char *key, const char *trusted, struct err *e)
{
	struct signkey_public own;
	int rc;

	*r = (struct keyring){ 0 };
	rc = read_trust(r, trusted, e);
	if (!rc && key && *key) {
		rc = signkey_read_private(&r->key, key, e);
		if (rc)
			return no_key("RINGUP_CACHE_KEY", e);
		r->can_sign = true;
		signkey_public_of(&r->key, &own);
		trust(r, &own, KEYRING_MOST);
	}
	if (!rc && !r->trusts)
		rc = fail(
			e, RINGUP_EINVAL,
			"no trusted key, so no entry of the cache can be verified: run `ringup "
			"cache keygen`, then set RINGUP_CACHE_KEY and RINGUP_CACHE_TRUST");
	return rc;
}
