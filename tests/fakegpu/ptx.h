/* ptx.h - for tests: run PTX on the processor, as a GPU would. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PTX_H
#define TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An interpreter of PTX 6.3 for sm_70, the text that a driver compiles.  It knows the
 * instructions that NVRTC made of src/device/kernels.cu, with the meaning of NVIDIA's PTX ISA,
 * and refuses everything else: an unknown instruction, a register of another type, a label that
 * does not exist.  A kernel has one parameter, a struct, and its threads run one by one, so it
 * must not depend on another thread.
 *
 * What the ISA leaves open gives POISON here: a register that was never written, and a division
 * by zero.
 */
#define PTX_POISON UINT64_C(0xfafafafafafafafa)

struct ptx;
struct ptx_kernel;

/* The numbers of CUDA's errors. */
enum {
	PTX_OK,
	PTX_INVALID_VALUE = 1,
	PTX_ILLEGAL_ADDRESS = 700,
	PTX_MISALIGNED_ADDRESS = 716,
};

/* Memory at the addresses [@at, @at + @bytes) of the device. */
struct ptx_range {
	uint64_t at;
	size_t bytes;
	unsigned char *host;
};

/* ptx_find - set *@r to memory that contains @at; false: a kernel may not read or write there.
 * Asked once for a range, not for every access. */
typedef bool ptx_find(void *arg, uint64_t at, bool writes, struct ptx_range *r);

/* ptx_load - parse @text.  NULL: @why says in which line what is wrong. */
struct ptx *ptx_load(const char *text, char *why, size_t room);

/* ptx_unload - free what ptx_load() returned, which may be NULL. */
void ptx_unload(struct ptx *p);

/* ptx_kernel - the kernel of that name, or NULL. */
const struct ptx_kernel *ptx_kernel(const struct ptx *p, const char *name);

/* ptx_parameter_bytes - the size of its parameter. */
size_t ptx_parameter_bytes(const struct ptx_kernel *k);

/* ptx_block_most - the most threads that a block may have. */
unsigned int ptx_block_most(const struct ptx_kernel *k);

/* ptx_run - run @grid blocks of @block threads, along x, with the parameter at @parameter.
 * Returns PTX_OK, or the error of the first thread that had one, which is the last that ran.
 * Callable from several threads at a time. */
int ptx_run(const struct ptx_kernel *k, unsigned int grid, unsigned int block,
	    const void *parameter, ptx_find *find, void *arg);

#endif
