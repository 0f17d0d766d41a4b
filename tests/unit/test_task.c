/* test_task.c - names, sizes and orders mean what they say, and strange orders nothing. */
#include <string.h>

#include "base/err.h"
#include "bench/gradset.h"
#include "bench/task.h"
#include "tap.h"

static void names(void)
{
	struct task t = { 0 };
	int i;

	for (i = 0; task_names(i); i++)
		ok(task_find(&t, task_names(i)) && !strcmp(task_name(&t), task_names(i)), "%s",
		   task_names(i));
	ok(i == TASK_SET + 2, "%d names, two of them sets", i);
	ok(!task_find(&t, "") && !task_find(&t, "allreduces"), "and nothing else");
	ok(task_dtype("bf16") == RINGUP_BF16 && task_dtype("f8") == -1, "element types");
	ok(task_redop("max") == RINGUP_MAX && task_redop("mean") == -1, "operations");
}

static void sizes(void)
{
	struct task t = { .dtype = RINGUP_F32 };

	task_find(&t, "allreduce");
	task_resize(&t, 10, 4);
	ok(t.count == 2 && t.bytes == 8, "whole elements");
	task_resize(&t, 1, 4);
	ok(t.count == 1 && t.bytes == 4, "at least one");
	ok(task_share(&t, 4) == 1.5, "an allreduce carries 2(n-1)/n");
	task_find(&t, "allgather");
	task_resize(&t, 1 << 10, 4);
	ok(t.count == 64 && t.bytes == 1 << 10, "an allgather's size is that of all blocks");
	ok(task_share(&t, 4) == .75, "and carries (n-1)/n");
	task_find(&t, "alltoall");
	task_resize(&t, 1 << 10, 4);
	ok(t.count == 64 && task_gives(&t, 4, 3) == 256 && task_takes(&t, 4, 3) == 256,
	   "an alltoall's, too");
	ok(!task_combines(&t), "it only moves data");
	task_find(&t, "reducescatter");
	ok(task_gives(&t, 4, 1) == 256 && task_takes(&t, 4, 1) == 64 && task_combines(&t),
	   "a reducescatter gives all and takes a share");
	task_find(&t, "barrier");
	task_resize(&t, 1 << 10, 4);
	ok(t.count == 0 && t.bytes == 0, "a barrier has no size");
	task_find(&t, "bert");
	task_resize(&t, 8, 4);
	ok(t.bytes == 4 * gradset_find("bert")->elements, "a set has its own");
}

/* Do the blocks of @elements elements among @ranks add up, and never grow? */
static bool adds_up(struct task *t, uint64_t elements, int ranks)
{
	uint64_t sum = 0, last = UINT64_MAX, n;
	int i;

	task_resize(t, elements * 4, ranks);
	for (i = 0; i < ranks; i++, last = n) {
		n = task_block(t, ranks, i);
		sum += n;
		if (n > last)
			return false;
	}
	return sum == t->count && t->bytes == sum * 4 && sum <= elements &&
	       elements - sum < 3 * (uint64_t)ranks / 2;
}

static void uneven(void)
{
	struct task t = { .dtype = RINGUP_F32, .uneven = true };
	uint64_t elements;
	int ranks, good = 1;

	task_find(&t, "allgather");
	for (ranks = 1; ranks < 10; ranks++)
		for (elements = 1; elements < 40; elements++)
			good &= adds_up(&t, elements, ranks);
	ok(good, "uneven blocks add up, of 1 to 39 elements among 1 to 9 ranks");
	task_resize(&t, 600 * 4, 4);
	ok(task_before(&t, 4, 0) == 0 && task_before(&t, 4, 3) == 500 &&
		   task_before(&t, 4, 4) == 600,
	   "what comes before a block");
	ok(task_block(&t, 4, 0) == 200 && task_block(&t, 4, 1) == 200 &&
		   task_block(&t, 4, 2) == 100 && task_block(&t, 4, 3) == 100,
	   "the first half of the ranks has twice as much");
	ok(task_gives(&t, 4, 3) == 100 && task_takes(&t, 4, 3) == 600,
	   "brought to an allgather");
	ok(task_share(&t, 4) == 500 / 600., "of which most ranks lack all but the least");
	t.what = TASK_REDUCESCATTER;
	ok(task_gives(&t, 4, 3) == 600 && task_takes(&t, 4, 3) == 100 && task_rows(&t, 4) == 6,
	   "left after a reducescatter, of six rows");
	t.what = TASK_ALLTOALL;
	ok(task_gives(&t, 4, 0) == 600 && task_takes(&t, 4, 0) == 800 &&
		   task_takes(&t, 4, 3) == 400,
	   "sent to each rank in an alltoall");
	ok(task_share(&t, 4) == 1, "where the first ones receive most");
	task_resize(&t, 1, 3);
	ok(task_block(&t, 3, 0) == 1 && task_block(&t, 3, 1) == 0 && task_block(&t, 3, 2) == 0,
	   "one element is the first rank's");
}

static void together(void)
{
	struct task t = { .dtype = RINGUP_F32 };
	char form[TASK_FORM];
	int i, many = 0;

	task_find(&t, "allreduce");
	ok(task_members(&t) == 1, "a tensor is alone");
	task_form(&t, form);
	ok(!*form, "which is nothing special");
	t.members = 8;
	task_resize(&t, 4096, 4);
	ok(t.count == 128 && t.bytes == 4096, "the size is that of all tensors together");
	task_resize(&t, 4, 4);
	ok(t.count == 1 && t.bytes == 32, "an element in each");
	task_find(&t, "reducescatter");
	task_resize(&t, 4096, 4);
	ok(t.count == 32 && t.bytes == 4096 && task_gives(&t, 4, 0) == 128,
	   "and that of all their blocks");
	t.uneven = true;
	task_form(&t, form);
	ok(!strcmp(form, ", uneven blocks, 8 tensors together"), "both are said%s", form);
	for (i = 0; task_names(i); i++)
		many += task_find(&t, task_names(i)) && task_has_many(&t);
	ok(many == 3, "three collectives can");
}

static void refused(void)
{
	struct task t = { .dtype = RINGUP_BOOL, .redop = RINGUP_AVERAGE };

	task_find(&t, "allreduce");
	ok(task_cannot(&t) != NULL, "no bool has an average: %s", task_cannot(&t));
	task_find(&t, "broadcast");
	ok(!task_cannot(&t), "but can be sent");
	task_find(&t, "bert");
	t.redop = RINGUP_ADASUM;
	ok(task_cannot(&t) != NULL, "nor an Adasum: %s", task_cannot(&t));
	t.dtype = RINGUP_BF16;
	ok(!task_cannot(&t), "bf16 has one");
	task_find(&t, "reducescatter");
	ok(task_cannot(&t) != NULL, "but not in parts: %s", task_cannot(&t));
}

int main(void)
{
	names();
	sizes();
	uneven();
	together();
	refused();
	return tap_done();
}
