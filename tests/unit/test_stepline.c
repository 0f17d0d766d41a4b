/* test_stepline.c - steps in lines of training runs and simulations. */
#include "diagnose/stepline.h"

#include <string.h>

#include "tap.h"

static void check(const char *line, long step)
{
	long found = stepline_read(line, line + strlen(line));

	ok(found == step, "'%s': step %ld", line, step);
	if (found != step)
		printf("# %ld\n", found);
}

static void check_within(const char *line, long within)
{
	long found = stepline_within(line, line + strlen(line));

	ok(found == within, "'%s': %ld within", line, within);
	if (found != within)
		printf("# %ld\n", found);
}

/* The steps that a line says the job has: in its step, or announced before. */
static void check_totals(void)
{
	static const struct {
		const char *line;
		long total, plan;
	} cases[] = {
		{ "step 240/1000 loss 1.0", 1000, 0 },
		{ "Epoch [3/10] loss 0.2", 10, 0 },
		{ "Epoch: [3][  80/260]\tTime 0.5", 260, 0 },
		{ "[rank0] 09:13:21 e0  600/1251 loss 5.515", 1251, 0 },
		{ " iteration     1600/  500000 | lm loss: 3.1E+00 |", 500000, 0 },
		{ "step 240 of /data/240/1000", 0, 0 },
		{ "step 3 on 2026/03/11", 0, 0 },
		{ "step 240 loss 1/2", 0, 0 },
		{ "step 240", 0, 0 },
		{ "Trainer is initialized with total steps 1000 (warmup 200)", 0, 1000 },
		{ "+ torchrun train.py --train-iters 5000 --lr 1e-4", 0, 5000 },
		{ "+ train.py --max_steps=700", 0, 700 },
		{ "  Total optimization steps = 750", 0, 750 },
		{ "warmup_steps=30, decay", 0, 0 },
		{ "subtotal steps 30", 0, 0 },
		{ "total steps", 0, 0 },
		{ "", 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *line = cases[i].line, *end = line + strlen(line);

		ok(stepline_total(line, end) == cases[i].total &&
			   stepline_plan(line, end) == cases[i].plan,
		   "'%s': %ld steps, %ld announced", line, cases[i].total, cases[i].plan);
	}
}

static bool counts(const char *line)
{
	return stepline_counts(line, line + strlen(line));
}

static bool is_drawn(const char *line)
{
	return stepline_is_drawn(line, line + strlen(line));
}

int main(void)
{
	static const char waits[] = "rank 0 waits";
	static const char one[] = "{'loss': 0.41, 'learning_rate': 1e-05, 'epoch': 0.0}";
	static const char two[] = "{'loss': 0.39, 'learning_rate': 1e-05, 'epoch': 0.0}";

	check("step 120 loss 1.0", 120);
	check("[1,3]<stdout>:Step: 7 loss 1.0", 7);
	check("Epoch [3/10] loss 0.2", 3);
	check("{'loss': 0.4, 'grad_norm': 1.0, 'epoch': 1.22}", 1);
	check("global_step=900, loss=2", 900);
	check("Epoch 10:  93%|####| 18626/20000 [5:43:21<25:19,  0.90it/s, v_num=0]", 18626);
	check("26/03/11 10:00:00 INFO TaskSetManager: Finished task 3.1 in stage 2.1 (TID 31) "
	      "in 9 ms",
	      3);
	check("26/03/11 10:00:00 INFO DAGScheduler: Job 2 finished: collect, took 2 s", 2);
	check("cycle 5 dt 1.8e-05", 5);
	check(" iteration     1600/  500000 | lm loss: 3.1E+00 |", 1600);
	check("[1,0]<stdout>:41\timages/sec: 847.5 +/- 0.6 (jitter = 1.9)\t9.227", 41);
	check("total images/sec: 3371.84", -1);
	check("steps: 120 loss: 2.1063 iter time (s): 0.3 samples/sec: 90.1", 120);
	check("warmup steps: 120", -1);
	check("120/938 [==>...........................] - ETA: 4s - loss: 0.5", 120);
	check("938/938 \xe2\x94\x81\xe2\x94\x81 5s 5ms/step - loss: 0.3", 938);
	check("{'loss': 0.4, 'rewards/compile_fail_rate': 0.5, 'epoch': 0.02}", 0);
	check("{'eval_loss': 0.4, 'eval_runtime': 9.1, 'epoch': 2.0}", 2);
	check("[batch=120/4800]:", 120);
	check("[rank0] 09:13:21 e0  600/1251 loss 5.515 top1 12.70", 600);
	check("e3 | 20/900 | lr 1e-4", 20);
	check("3/4 lost", -1);
	check("12/31 at noon", -1);
	check("/data/600/1251 loss 5.5", -1);
	check("still waiting at step 121", -1);
	check("ERROR: step 5 went wrong", -1);
	check("step 5 failed, trying again", -1);
	check("loss 0.5 accuracy 0.9", -1);
	check("INFO DAGScheduler: Executor lost: 0 (epoch 1)", -1);
	check("stepping on", -1);
	check("batch_size 32", -1);
	check("", -1);
	check_within("epoch 4 batch 20 loss 1.0", 20);
	check_within("INFO | train_inner | epoch 001:    50 / 900 loss=2.1", 50);
	check_within("Epoch 3: loss 2.0", 0);
	check_within("loss 1/2", 0);
	ok(stepline_within(one, one + strlen(one)) != stepline_within(two, two + strlen(two)),
	   "two lines with one epoch are two steps");
	check_totals();
	ok(counts("step 3 loss 1") && counts("iteration 3") && !counts("Epoch 3 step 20"),
	   "steps and epochs");
	ok(is_drawn("Epoch 10:  93%|####| 18626/20000 [5:43:21<25:19,  0.90it/s]") &&
		   !is_drawn("step 240/1000 loss 1.0") && !is_drawn(""),
	   "bars");
	ok(stepline_waits(waits, waits + sizeof(waits) - 1), "a line that waits");
	return tap_done();
}
