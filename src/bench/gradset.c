/* gradset.c - the gradient tensors of well-known models: names and sizes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gradset.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void gradset_add(struct gradset *s, uint64_t count, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void gradset_add(struct gradset *s, uint64_t count, const char *fmt, ...)
{
	struct gradset_tensor *t = &s->tensor[s->count++];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->name, sizeof(t->name), fmt, ap);
	va_end(ap);
	t->count = count;
	s->elements += count;
}

/* Adds a convolution without bias, and the normalisation after it. */
static void add_conv(struct gradset *s, const char *where, const char *conv, const char *norm,
		     uint64_t in, uint64_t out, uint64_t side)
{
	gradset_add(s, in * out * side * side, "%s%s.weight", where, conv);
	gradset_add(s, out, "%s%s.weight", where, norm);
	gradset_add(s, out, "%s%s.bias", where, norm);
}

/* Residual network with 50 layers (He et al., 2015): bottlenecks of 1x1, 3x3 and 1x1. */
static void make_resnet50(struct gradset *s)
{
	static const int depth[] = { 3, 4, 6, 3 };
	uint64_t in = 64, width = 64;
	char at[GRADSET_NAME / 2];

	add_conv(s, "", "conv1", "bn1", 3, 64, 7);
	for (int stage = 0; stage < 4; stage++, width *= 2)
		for (int i = 0; i < depth[stage]; i++) {
			snprintf(at, sizeof(at), "layer%d.%d.", stage + 1, i);
			add_conv(s, at, "conv1", "bn1", in, width, 1);
			add_conv(s, at, "conv2", "bn2", width, width, 3);
			add_conv(s, at, "conv3", "bn3", width, width * 4, 1);
			if (i == 0)
				add_conv(s, at, "downsample.0", "downsample.1", in, width * 4,
					 1);
			in = width * 4;
		}
	gradset_add(s, 2048 * 1000, "fc.weight");
	gradset_add(s, 1000, "fc.bias");
}

static void add_linear(struct gradset *s, const char *name, uint64_t in, uint64_t out)
{
	gradset_add(s, in * out, "%s.weight", name);
	gradset_add(s, out, "%s.bias", name);
}

static void add_norm(struct gradset *s, const char *name, uint64_t width)
{
	gradset_add(s, width, "%s.weight", name);
	gradset_add(s, width, "%s.bias", name);
}

/* BERT-base (Devlin et al., 2018): 12 layers 768 wide, 30,522 words, 512 places. */
static void make_bert(struct gradset *s)
{
	static const char *const square[] = { "attention.query", "attention.key",
					      "attention.value", "attention.output" };
	enum { WIDE = 768, INNER = 3072 };
	char at[GRADSET_NAME / 2];

	gradset_add(s, 30522 * WIDE, "embeddings.word.weight");
	gradset_add(s, 512 * WIDE, "embeddings.position.weight");
	gradset_add(s, 2 * WIDE, "embeddings.token_type.weight");
	add_norm(s, "embeddings.norm", WIDE);
	for (int i = 0; i < 12; i++) {
		for (size_t j = 0; j < 4; j++) {
			snprintf(at, sizeof(at), "layer.%d.%s", i, square[j]);
			add_linear(s, at, WIDE, WIDE);
		}
		snprintf(at, sizeof(at), "layer.%d.attention.norm", i);
		add_norm(s, at, WIDE);
		snprintf(at, sizeof(at), "layer.%d.inner", i);
		add_linear(s, at, WIDE, INNER);
		snprintf(at, sizeof(at), "layer.%d.outer", i);
		add_linear(s, at, INNER, WIDE);
		snprintf(at, sizeof(at), "layer.%d.norm", i);
		add_norm(s, at, WIDE);
	}
	add_linear(s, "pooler", WIDE, WIDE);
}

static const struct {
	const char *name;
	void (*make)(struct gradset *s);
} makers[] = {
	{ "resnet50", make_resnet50 },
	{ "bert", make_bert },
};

enum { SETS = sizeof(makers) / sizeof(makers[0]) };

/* The last layer's gradient is ready first. */
static void reverse(struct gradset *s)
{
	for (int i = 0; i < s->count / 2; i++) {
		struct gradset_tensor t = s->tensor[i];

		s->tensor[i] = s->tensor[s->count - 1 - i];
		s->tensor[s->count - 1 - i] = t;
	}
}

const struct gradset *gradset_find(const char *name)
{
	static struct gradset sets[SETS];

	for (int i = 0; i < SETS; i++) {
		if (strcmp(name, makers[i].name) != 0)
			continue;
		if (!sets[i].name) {
			makers[i].make(&sets[i]);
			reverse(&sets[i]);
			sets[i].name = makers[i].name;
		}
		return &sets[i];
	}
	return NULL;
}

const char *gradset_name(int i)
{
	return i < SETS ? makers[i].name : NULL;
}
