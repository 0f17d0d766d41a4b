/* loops.c - half precision where a processor is emulated: test_loops.c with few factors. */
/* SPDX-License-Identifier: Apache-2.0 */
int every_factor(void);

#define main every_factor
#include "unit/test_loops.c"
#undef main

/* One that is exact, one that hits ties, and those of their neighbours. */
static int converts_some(const struct loops *l, enum ringup_dtype t, int exponent, int mantissa)
{
	static const float factors[] = { -1, 1.5f, 0x1.800002p0f, 0x1.7ffffep0f };
	size_t i;
	int good = 1;

	for (i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
		good &= converts(l, t, exponent, mantissa, factors[i]);
	return good;
}

int main(void)
{
	const struct loops *plain = NULL;
	int i;

	for (i = 0; loops_all[i]; i++)
		plain = loops_all[i];
	for (i = 0; loops_all[i]; i++) {
		const struct loops *l = loops_all[i];

		if (!l->runs())
			continue;
		ok(converts_some(l, RINGUP_F16, 5, 10), "%s: f16", l->name);
		ok(converts_some(l, RINGUP_BF16, 8, 7), "%s: bf16", l->name);
		ok(is_inverse(l, 0, 5, 10), "%s: f16 there and back", l->name);
		ok(is_inverse(l, 1, 8, 7), "%s: bf16 there and back", l->name);
		ok(is_like(l, plain), "%s: the same bits as %s", l->name, plain->name);
	}
	return tap_done();
}
