/* test_nccl_unordered.c - without turns.c groups in random order stand still on the GPU. */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/orders.h"

struct comm;

/* Instead of turns_take(), by the linker's --wrap: each plan begins at once. */
int __wrap_turns_take(struct comm *c, struct err *e);

int __wrap_turns_take(struct comm *c, struct err *e)
{
	(void)c;
	(void)e;
	return 1;
}

/* The fake GPU would not show a deadlock that a real one has, if it did not show this one. */
int main(int argc, char **argv)
{
	int bad;

	(void)argc;
	gpu_main(argv);
	setenv("RINGUP_DEVICE_MS", "500", 1);
	setenv("RINGUP_START_TIMEOUT_MS", "2000", 1);
	alarm(100);
	order_rounds = 20000;
	bad = ranks_run(3, orders);
	ok(!bad && wrong, "without an order the groups wait for each other");
	return tap_done();
}
