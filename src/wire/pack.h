/* pack.h - numbers on the wire: little-endian, at any alignment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_PACK_H
#define WIRE_PACK_H

#include <stdint.h>

static inline void pack_put16(unsigned char *p, uint16_t v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

static inline void pack_put32(unsigned char *p, uint32_t v)
{
	pack_put16(p, (uint16_t)v);
	pack_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void pack_put64(unsigned char *p, uint64_t v)
{
	pack_put32(p, (uint32_t)v);
	pack_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t pack_get16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t pack_get32(const unsigned char *p)
{
	return pack_get16(p) | (uint32_t)pack_get16(p + 2) << 16;
}

static inline uint64_t pack_get64(const unsigned char *p)
{
	return pack_get32(p) | (uint64_t)pack_get32(p + 4) << 32;
}

#endif
