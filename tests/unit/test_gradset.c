/* test_gradset.c - the sets are as large as the models are, and no name stands twice. */
#include <string.h>

#include "bench/gradset.h"
#include "tap.h"

static int twice(const struct gradset *s)
{
	int i, j, n = 0;

	for (i = 0; i < s->count; i++)
		for (j = 0; j < i; j++)
			n += !strcmp(s->tensor[i].name, s->tensor[j].name);
	return n;
}

static void check(const char *name, int count, uint64_t elements, const char *first,
		  uint64_t first_count, const char *last)
{
	const struct gradset *s = gradset_find(name);
	uint64_t sum = 0;
	int i;

	ok(s && !strcmp(s->name, name), "%s", name);
	ok(s->count == count, "%s: %d tensors", name, s->count);
	ok(s->elements == elements, "%s: %llu elements", name, (unsigned long long)s->elements);
	for (i = 0; i < s->count; i++)
		sum += s->tensor[i].count;
	ok(sum == elements, "%s: the tensors add up", name);
	ok(twice(s) == 0, "%s: all names differ", name);
	ok(!strcmp(s->tensor[0].name, first) && s->tensor[0].count == first_count,
	   "%s begins at the end: %s", name, s->tensor[0].name);
	ok(!strcmp(s->tensor[count - 1].name, last), "%s ends with %s", name,
	   s->tensor[count - 1].name);
	ok(gradset_find(name) == s, "%s is made once", name);
}

int main(void)
{
	/* As the papers and everybody's implementations count them. */
	check("resnet50", 161, 25557032, "fc.bias", 1000, "conv1.weight");
	check("bert", 199, 109482240, "pooler.bias", 768, "embeddings.word.weight");
	ok(!gradset_find("resnet") && !gradset_find(""), "nothing else");
	ok(!strcmp(gradset_name(0), "resnet50") && !gradset_name(2), "two names");
	return tap_done();
}
