/* ldcache.h - the loader's list of libraries, /etc/ld.so.cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LDCACHE_H
#define DETECT_LDCACHE_H

#include <stddef.h>

#define LDCACHE_FILE "/etc/ld.so.cache"

/*
 * ldcache_find - the path for the library @name in the cache @data of @len bytes.
 *
 * Only libraries for this kind of machine count, as for the loader.  Returns a text within
 * @data, or NULL: not listed, or these bytes are no cache.
 */
const char *ldcache_find(const void *data, size_t len, const char *name);

#endif
