/* pattern.c - data for collectives, generated as one repeated period. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pattern.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "coll/copy.h"
#include "coll/reduce.h"

enum { PERIOD = 1021, WIDEST = 8 };

/* The part that is equal on all ranks. */
static uint32_t common(const struct pattern *p, uint32_t i)
{
	return (i * 3 + p->iteration * 5) % 8;
}

/* 0 to ranks - 1, each on one rank. */
static uint32_t own(const struct pattern *p, int rank, uint32_t i)
{
	return ((uint32_t)rank + i + p->iteration) % (uint32_t)p->ranks;
}

/* For bools, "or" and "and" give the common part of all ranks; a rank without a part of its own
 * contributes the neutral value. */
static double truth(const struct pattern *p, int rank, uint32_t i)
{
	bool all = p->redop == RINGUP_MIN || p->redop == RINGUP_PRODUCT;

	return own(p, rank, i) == 0 ? common(p, i) & 1 : all;
}

static double element(const struct pattern *p, int rank, uint32_t i)
{
	if (p->dtype == RINGUP_BOOL)
		return truth(p, rank, i);
	/* Orthogonal to the other ranks' data, so that Adasum is an exact sum. */
	if (p->redop == RINGUP_ADASUM)
		return own(p, rank, i) == 0 ? common(p, i) + 1 : 0;
	/* A product with more than one 2 would soon overflow some type. */
	if (p->redop == RINGUP_PRODUCT)
		return own(p, rank, i) == 0 ? 2 : 1;
	return common(p, i) + own(p, rank, i);
}

/* Narrow integers wrap, also before a division. */
static double wrapped(enum ringup_dtype dtype, double x)
{
	if (dtype == RINGUP_U8)
		return (uint8_t)(int64_t)x;
	if (dtype == RINGUP_U16)
		return (uint16_t)(int64_t)x;
	if (dtype == RINGUP_I16)
		return (int16_t)(int64_t)x;
	return dtype == RINGUP_I8 ? (int8_t)(int64_t)x : x;
}

static double result(const struct pattern *p, uint32_t i)
{
	double n = p->ranks, c = common(p, i), sum = n * c + n * (n - 1) / 2;

	if (p->dtype == RINGUP_BOOL)
		return common(p, i) & 1;
	switch (p->redop) {
	case RINGUP_MIN:
		return c;
	case RINGUP_MAX:
		return c + n - 1;
	case RINGUP_PRODUCT:
		return 2;
	case RINGUP_ADASUM:
		return c + 1;
	case RINGUP_AVERAGE:
		return p->dtype <= RINGUP_I64 ? trunc(wrapped(p->dtype, sum) / n) : sum / n;
	default:
		return sum;
	}
}

static void pattern_put(enum ringup_dtype dtype, void *to, uint32_t i, double x)
{
	float f = (float)x;

	switch (dtype) {
	case RINGUP_U8:
	case RINGUP_BOOL:
		((uint8_t *)to)[i] = (uint8_t)(int64_t)x;
		break;
	case RINGUP_I8:
		((int8_t *)to)[i] = (int8_t)(int64_t)x;
		break;
	case RINGUP_U16:
		((uint16_t *)to)[i] = (uint16_t)(int64_t)x;
		break;
	case RINGUP_I16:
		((int16_t *)to)[i] = (int16_t)(int64_t)x;
		break;
	case RINGUP_I32:
		((int32_t *)to)[i] = (int32_t)x;
		break;
	case RINGUP_I64:
		((int64_t *)to)[i] = (int64_t)x;
		break;
	case RINGUP_F32:
		((float *)to)[i] = f;
		break;
	case RINGUP_F64:
		((double *)to)[i] = x;
		break;
	default:
		reduce_narrow(dtype, (uint16_t *)to + i, &f, 1);
	}
}

static void one_period(const struct pattern *p, int rank, void *to)
{
	for (uint32_t i = 0; i < PERIOD; i++)
		pattern_put(p->dtype, to, i, element(p, rank, i));
}

static void one_period_of_result(const struct pattern *p, void *to)
{
	for (uint32_t i = 0; i < PERIOD; i++)
		pattern_put(p->dtype, to, i, result(p, i));
}

void pattern_fill(const struct pattern *p, int rank, void *to, uint64_t count)
{
	_Alignas(WIDEST) unsigned char period[PERIOD * WIDEST], *at = to;
	size_t size = reduce_dtype_bytes(p->dtype);
	uint64_t n;

	one_period(p, rank, period);
	for (uint64_t left = count; left; left -= n, at += n * size) {
		n = left < PERIOD ? left : PERIOD;
		copy_bytes(at, period, n * size);
	}
}

static uint64_t differing(const unsigned char *a, const unsigned char *b, uint64_t n,
			  size_t size)
{
	uint64_t wrong = 0;

	if (!memcmp(a, b, n * size))
		return 0;
	for (uint64_t i = 0; i < n; i++)
		wrong += memcmp(a + i * size, b + i * size, size) != 0;
	return wrong;
}

static uint64_t pattern_compare(const void *period, size_t size, const void *got,
				uint64_t count)
{
	const unsigned char *at = got;
	uint64_t n, wrong = 0;

	for (uint64_t left = count; left; left -= n, at += n * size) {
		n = left < PERIOD ? left : PERIOD;
		wrong += differing(at, period, n, size);
	}
	return wrong;
}

uint64_t pattern_wrong(const struct pattern *p, int rank, const void *got, uint64_t count)
{
	_Alignas(WIDEST) unsigned char period[PERIOD * WIDEST];

	one_period(p, rank, period);
	return pattern_compare(period, reduce_dtype_bytes(p->dtype), got, count);
}

uint64_t pattern_wrong_result(const struct pattern *p, const void *got, uint64_t count)
{
	_Alignas(WIDEST) unsigned char period[PERIOD * WIDEST];

	one_period_of_result(p, period);
	return pattern_compare(period, reduce_dtype_bytes(p->dtype), got, count);
}
