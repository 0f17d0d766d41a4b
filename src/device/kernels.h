/* kernels.h - the device's kernels: names, parameters and launch geometry. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include <stdint.h>

/*
 * kernels.cu defines the kernels, in the common subset of CUDA and C; kernels_ptx.c holds them
 * as PTX for a driver to compile.  All of them move elements from one place to another, and all
 * take one parameter, by value: a struct device_move.  A launch moves up to DEVICE_PIECES
 * pieces, so the tensors of a fused operation need one launch to get into the fusion buffer and
 * one to get out.
 *
 *	copy              elements of .element bytes, unchanged
 *	bool              a byte: any but 0 becomes 1
 *	scale_TYPE        x / .divisor * .factor, in the arithmetic of the host's reductions:
 *	                  integers truncate at either step, f16 and bf16 compute in f32
 *	widen_u16, _i16   x * .factor truncated to that type, stored as a 32-bit integer
 *	narrow_u16, _i16  a 32-bit integer wraps to that type, then / .divisor * .factor
 *	fill              .value's lowest .element bytes; .from is not read
 *
 * A scale_TYPE of one piece whose from equals its to works in place, as do bool and copy; other
 * overlaps are undefined.  Pointers are aligned to the element.  Kernels use no shared memory.
 */
#define DEVICE_KERNELS(X)                \
	X(COPY, ringup_copy)             \
	X(BOOL, ringup_bool)             \
	X(SCALE_U8, ringup_scale_u8)     \
	X(SCALE_I8, ringup_scale_i8)     \
	X(SCALE_U16, ringup_scale_u16)   \
	X(SCALE_I16, ringup_scale_i16)   \
	X(SCALE_I32, ringup_scale_i32)   \
	X(SCALE_I64, ringup_scale_i64)   \
	X(SCALE_F16, ringup_scale_f16)   \
	X(SCALE_BF16, ringup_scale_bf16) \
	X(SCALE_F32, ringup_scale_f32)   \
	X(SCALE_F64, ringup_scale_f64)   \
	X(WIDEN_U16, ringup_widen_u16)   \
	X(WIDEN_I16, ringup_widen_i16)   \
	X(NARROW_U16, ringup_narrow_u16) \
	X(NARROW_I16, ringup_narrow_i16) \
	X(FILL, ringup_fill)

enum device_kernel {
#define X(name, symbol) DEVICE_##name,
	DEVICE_KERNELS(X)
#undef X
		DEVICE_KERNEL_COUNT
};

enum {
	DEVICE_PIECES = 160,      /* of one launch                                 */
	DEVICE_THREADS = 256,     /* of a block                                    */
	DEVICE_TILE = 4096,       /* elements that a block moves                   */
	DEVICE_PARAMETERS = 4096, /* the most bytes of parameters that CUDA 10 to 12 allow */
};

/* Elements of one piece: whole tiles, so that kernel_move_add() splits a longer one. */
#define DEVICE_PIECE_MAX (UINT32_C(0) - DEVICE_TILE)

struct device_piece {
	const void *from;
	void *to;
	uint32_t count;    /* elements */
	uint32_t tile_end; /* tiles of this piece and of those before it */
};

struct device_move {
	struct device_piece piece[DEVICE_PIECES];
	double factor;    /* 1: nothing to do */
	int64_t divisor;  /* 1: nothing to do; never 0 */
	uint64_t value;   /* fill only */
	uint32_t pieces;  /* at least 1 */
	uint32_t element; /* copy and fill only: 1, 2, 4 or 8 bytes */
};

#ifndef __CUDACC__

#include "base/kinds.h"
#include "ringup.h"

_Static_assert(sizeof(struct device_move) <= DEVICE_PARAMETERS, "a launch's parameters fit");
_Static_assert(sizeof(void *) == 8, "the device and the host have pointers of one size");

/* The PTX of all kernels, for cuModuleLoadDataEx(): sm_70 and later, CUDA 10 and later. */
extern const char device_kernels_ptx[];

/* kernel_symbol - the name for cuModuleGetFunction(). */
static inline const char *kernel_symbol(enum device_kernel k)
{
	static const char *const symbols[DEVICE_KERNEL_COUNT] = {
#define X(name, symbol) #symbol,
		DEVICE_KERNELS(X)
#undef X
	};

	return symbols[k];
}

/* kernel_scale - the kernel that scales elements of @t in place or on their way; a bool,
 * which is not scaled, becomes 0 or 1. */
static inline enum device_kernel kernel_scale(enum ringup_dtype t)
{
	static const unsigned char kernels[DTYPE_COUNT] = {
		[RINGUP_U8] = DEVICE_SCALE_U8,   [RINGUP_I8] = DEVICE_SCALE_I8,
		[RINGUP_U16] = DEVICE_SCALE_U16, [RINGUP_I16] = DEVICE_SCALE_I16,
		[RINGUP_I32] = DEVICE_SCALE_I32, [RINGUP_I64] = DEVICE_SCALE_I64,
		[RINGUP_F16] = DEVICE_SCALE_F16, [RINGUP_BF16] = DEVICE_SCALE_BF16,
		[RINGUP_F32] = DEVICE_SCALE_F32, [RINGUP_F64] = DEVICE_SCALE_F64,
		[RINGUP_BOOL] = DEVICE_BOOL,
	};

	return (enum device_kernel)kernels[t];
}

/* kernel_move_begin - no pieces yet, and nothing to scale; @element as in the struct. */
static inline void kernel_move_begin(struct device_move *m, uint32_t element)
{
	m->factor = 1;
	m->divisor = 1;
	m->value = 0;
	m->pieces = 0;
	m->element = element;
}

/* kernel_move_grid - blocks of the launch, along x; 0: there is nothing to launch. */
static inline uint32_t kernel_move_grid(const struct device_move *m)
{
	return m->pieces ? m->piece[m->pieces - 1].tile_end : 0;
}

/*
 * kernel_move_add - add @count elements to @m.
 *
 * Returns the number that this launch moves: less than @count, and possibly 0, if @m is full or
 * the piece is longer than DEVICE_PIECE_MAX.  The caller then goes on with the rest: in the
 * same launch if it moved some, in the next one if it moved none.
 */
static inline uint64_t kernel_move_add(struct device_move *m, const void *from, void *to,
				       uint64_t count)
{
	uint32_t n = count < DEVICE_PIECE_MAX ? (uint32_t)count : DEVICE_PIECE_MAX;
	uint32_t tiles = (n + DEVICE_TILE - 1) / DEVICE_TILE, before = kernel_move_grid(m);

	if (!n || m->pieces == DEVICE_PIECES)
		return 0;
	m->piece[m->pieces++] = (struct device_piece){ from, to, n, before + tiles };
	return n;
}

#endif

#endif
