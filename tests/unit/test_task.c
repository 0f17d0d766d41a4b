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

static void orders(void)
{
	static const char *const bad[] = {
		"",
		"do",
		"do allreduce f32 sum 0 0 1 1 5 7 1",
		"do allreduce f32 sum 0 0 1 1 5 7 1 ",
		"do allreduce f32 sum 0 0 1 1 5 7 1 -8",
		"do allreduce f32 sum 0 0 1 1 5 7 1 8,",
		"do allreduce f32 sum 0 0 1 1 5 7 1 8x",
		"do allreduce f33 sum 0 0 1 1 5 7 1 8",
		"do allreduce f32 total 0 0 1 1 5 7 1 8",
		"do dance f32 sum 0 0 1 1 5 7 1 8",
		"do allreduce f32 sum 0 0 1 1 0 7 1 8",
		"do allreduce f32 sum 0 0 1 1 5 0 1 8",
		"do allreduce f32 sum 0 0 1 -1 5 1 1 8",
		"do allreduce f32 sum 0 1 1 1 5 7 1 8,4",
		"do alltoall f32 sum 0 1 1 1 5 7 1 0,0",
		"do alltoall f32 sum 0 0 2 1 5 7 1 8",
		"do allreduce f32 sum 0 0 0 1 5 7 1 8",
		"do allreduce f32 sum 0 0 257 1 5 7 1 8",
		"do alltoall f32 sum 0 1 1 1 5 7 1 18446744073709551615,1",
	};
	struct task t = { .dtype = RINGUP_F16, .redop = RINGUP_MIN, .in_place = true }, back;
	struct dose d = { 1, 5, 7, true }, again;
	char line[TASK_LINE_BYTES];
	struct err e = { 0 };
	size_t i;

	task_find(&t, "allreduce");
	task_resize(&t, 6000, 2);
	ok(task_write(&t, &d, line, &e) == 0 &&
		   !strcmp(line, "do allreduce f16 min 1 0 1 1 5 7 1 3000\n"),
	   "an order: %s", strtok(line, "\n"));
	ok(task_read(&back, &again, line, &e) == 0 && back.what == t.what &&
		   back.dtype == t.dtype && back.redop == t.redop && back.in_place &&
		   back.count == t.count,
	   "is read back: the task");
	ok(again.warm == 1 && again.samples == 5 && again.calls == 7 && again.check,
	   "and how often");
	t.uneven = true;
	task_find(&t, "alltoall");
	task_resize(&t, 1800, 3);
	ok(task_write(&t, &d, line, &e) == 0 && strstr(line, " 450,225,225\n"),
	   "uneven blocks: %s", strtok(line, "\n"));
	ok(task_read(&back, &again, line, &e) == 0 && back.uneven && back.count == 900 &&
		   back.ranks == 3,
	   "are read back");
	t.uneven = false;
	t.members = 8;
	task_find(&t, "allgather");
	task_resize(&t, 1600, 2);
	ok(task_write(&t, &d, line, &e) == 0 && task_read(&back, &again, line, &e) == 0 &&
		   back.members == 8 && back.count == 50,
	   "and so are several tensors");
	t.members = 1;
	task_find(&t, "bert");
	task_resize(&t, 0, 2);
	ok(task_write(&t, &d, line, &e) == 0 && strlen(line) > 199 * 4, "199 tensors fit");
	ok(task_read(&back, &again, line, &e) == 0 && back.set == t.set, "and come back");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(task_read(&back, &again, bad[i], &e) < 0, "refused: \"%s\"", bad[i]);
}

int main(void)
{
	names();
	sizes();
	uneven();
	together();
	refused();
	orders();
	return tap_done();
}
