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
	ok(t.count == 64 && task_gives(&t, 4) == 4 && task_takes(&t, 4) == 4,
	   "an alltoall's, too");
	ok(!task_combines(&t), "it only moves data");
	task_find(&t, "reducescatter");
	ok(task_gives(&t, 4) == 4 && task_takes(&t, 4) == 1 && task_combines(&t),
	   "a reducescatter gives all and takes a share");
	task_find(&t, "barrier");
	task_resize(&t, 1 << 10, 4);
	ok(t.count == 0 && t.bytes == 0, "a barrier has no size");
	task_find(&t, "bert");
	task_resize(&t, 8, 4);
	ok(t.bytes == 4 * gradset_find("bert")->elements, "a set has its own");
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
		"do allreduce f32 sum 0 1 5 7 1",
		"do allreduce f33 sum 0 1 5 7 1 8",
		"do allreduce f32 total 0 1 5 7 1 8",
		"do dance f32 sum 0 1 5 7 1 8",
		"do allreduce f32 sum 0 1 0 7 1 8",
		"do allreduce f32 sum 0 1 5 0 1 8",
		"do allreduce f32 sum 0 -1 5 1 1 8",
	};
	struct task t = { .dtype = RINGUP_F16, .redop = RINGUP_MIN, .in_place = true }, back;
	struct dose d = { 1, 5, 7, true }, again;
	char line[TASK_LINE_BYTES];
	struct err e = { 0 };
	size_t i;

	task_find(&t, "allreduce");
	task_resize(&t, 6000, 2);
	ok(task_write(&t, &d, line, &e) == 0 &&
		   !strcmp(line, "do allreduce f16 min 1 1 5 7 1 3000\n"),
	   "an order: %s", strtok(line, "\n"));
	ok(task_read(&back, &again, line, &e) == 0 && back.what == t.what &&
		   back.dtype == t.dtype && back.redop == t.redop && back.in_place &&
		   back.count == t.count,
	   "is read back: the task");
	ok(again.warm == 1 && again.samples == 5 && again.calls == 7 && again.check,
	   "and how often");
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
	refused();
	orders();
	return tap_done();
}
