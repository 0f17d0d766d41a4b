/* keyring.c - the keys of a cache: the private key that signs, and the trusted public keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/keyring.h"

#include <limits.h>
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

static void trust(struct keyring *r, const struct signkey_public *k)
{
	for (int i = 0; i < r->trusts; i++)
		if (!sodium_memcmp(r->trust[i].key, k->key, SIGNKEY_BYTES))
			return;
	r->trust[r->trusts++] = *k;
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
	struct signkey_public k;
	char one[PATH_MAX];
	size_t len;
	int rc;

	for (; list && *(list += strspn(list, " ,")); list += len) {
		len = strcspn(list, " ,");
		if (len >= sizeof(one) || r->trusts == KEYRING_MOST - 1)
			return fail(e, RINGUP_EINVAL,
				    "RINGUP_CACHE_TRUST: too long, or more than %d keys",
				    KEYRING_MOST - 1);
		memcpy(one, list, len);
		one[len] = 0;
		rc = signkey_read_public(&k, one, e);
		if (rc)
			return no_key("RINGUP_CACHE_TRUST", e);
		trust(r, &k);
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
		trust(r, &own);
	}
	if (!rc && !r->trusts)
		rc = fail(e, RINGUP_EINVAL,
			  "the cache has no keys, so nothing in it can be believed; `ringup "
			  "cache "
			  "keygen` makes them, RINGUP_CACHE_KEY and RINGUP_CACHE_TRUST name "
			  "them");
	return rc;
}
