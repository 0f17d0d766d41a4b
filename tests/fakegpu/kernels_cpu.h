/* kernels_cpu.h - for tests: the device's kernels, compiled for the processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNELS_CPU_H
#define TESTS_KERNELS_CPU_H

#include "device/kernels.h"

typedef void kernel_cpu(struct device_move m);

/* kernels_cpu_find - by the name for cuModuleGetFunction(); NULL if there is none. */
kernel_cpu *kernels_cpu_find(const char *symbol);

/* kernels_cpu_run - every thread of every block, one after the other. */
void kernels_cpu_run(kernel_cpu *kernel, const struct device_move *m, unsigned int grid,
		     unsigned int block);

#endif
