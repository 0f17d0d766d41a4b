/* kernels_cpu.c - for tests: the device's kernels, compiled for the processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/kernels_cpu.h"

#include <string.h>

static _Thread_local struct {
	unsigned int x;
} blockIdx, threadIdx;

#define KERNEL(name) static void name(struct device_move m)
#include "device/kernels.cu"

kernel_cpu *kernels_cpu_find(const char *symbol)
{
	static kernel_cpu *const kernels[] = {
#define X(name, symbol) symbol,
		DEVICE_KERNELS(X)
#undef X
	};
	unsigned int i;

	for (i = 0; i < DEVICE_KERNEL_COUNT; i++)
		if (!strcmp(kernel_symbol((enum device_kernel)i), symbol))
			return kernels[i];
	return NULL;
}

void kernels_cpu_run(kernel_cpu *kernel, const struct device_move *m, unsigned int grid,
		     unsigned int block)
{
	for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++)
			kernel(*m);
}
