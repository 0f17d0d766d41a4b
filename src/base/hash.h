/* hash.h - a hash for tables; not cryptographic, and not for keys that an attacker picks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* hash_bytes - 64 bits; the same in all processes of one machine. */
uint64_t hash_bytes(const void *data, size_t len);

#endif
