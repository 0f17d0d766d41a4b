/* asks.h - descriptions of collectives for tests: the usual fields, then others by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ASKS_H
#define TEST_ASKS_H

#include "ringup.h"

#define ASK_REDUCE(n, from, to, elements, ...)                                                 \
	{                                                                                      \
		.bytes = sizeof(struct ringup_reduce), .name = (n), .in = (from), .out = (to), \
		.count = (elements), __VA_ARGS__                                               \
	}

#define ASK_BCAST(n, from, to, elements, ...)                                                 \
	{                                                                                     \
		.bytes = sizeof(struct ringup_bcast), .name = (n), .in = (from), .out = (to), \
		.count = (elements), __VA_ARGS__                                              \
	}

#define ASK_GATHER(n, from, number, width, to, got, ...)                                    \
	{                                                                                   \
		.bytes = sizeof(struct ringup_gather), .name = (n), .in = (from),           \
		.rows = (number), .row = (width), .out = (to), .counts = (got), __VA_ARGS__ \
	}

#define ASK_EXCHANGE(n, from, number, width, to, got, ...)                                  \
	{                                                                                   \
		.bytes = sizeof(struct ringup_exchange), .name = (n), .in = (from),         \
		.rows = (number), .row = (width), .out = (to), .counts = (got), __VA_ARGS__ \
	}

#define ASK_SCATTER(n, from, number, width, to, ...)                               \
	{                                                                          \
		.bytes = sizeof(struct ringup_scatter), .name = (n), .in = (from), \
		.rows = (number), .row = (width), .out = (to), __VA_ARGS__         \
	}

#endif
