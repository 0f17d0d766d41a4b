/* gradset.h - the gradient tensors of well-known models: names and sizes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_GRADSET_H
#define BENCH_GRADSET_H

#include <stdint.h>

enum { GRADSET_TENSORS = 256, GRADSET_NAME = 64 };

struct gradset {
	const char *name;
	uint64_t elements; /* of all tensors */
	int count;
	struct gradset_tensor {
		char name[GRADSET_NAME];
		uint64_t count;
	} tensor[GRADSET_TENSORS]; /* in the order in which a backward pass yields them */
};

/*
 * gradset_find - the set called @name, or NULL: "resnet50" (161 tensors, 25.6
 * million elements), "bert" (BERT-base, 199 tensors, 109.5 million).
 *
 * Built from the models' structure at the first call, by one thread.
 */
const struct gradset *gradset_find(const char *name);

/* gradset_name - the name of set @i, or NULL after the last. */
const char *gradset_name(int i);

#endif
