/* nccl_move.c - queues a plan on the GPU: kernels, NCCL's collectives, kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/nccl_state.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "device/gpu.h"

/* NCCL has one last message in a process, of any communicator's, and keeps it. */
static uint64_t hash_of_last(const struct nccl *n)
{
	const char *last = n->lib->last(NULL);

	return last ? hash_bytes(last, strlen(last)) : 0;
}

void nccl_forget(struct nccl *n)
{
	n->said = hash_of_last(n);
}

int nccl_failed(const struct nccl *n, int rc, const char *what, struct err *e)
{
	bool peer = rc == NCCL_REMOTE || rc == NCCL_SYSTEM || rc == NCCL_LATE ||
		    rc == NCCL_INTERNAL;
	const char *last = "";

	if (rc == NCCL_OK || rc == NCCL_BUSY)
		return 0;
	if (hash_of_last(n) != n->said)
		last = n->lib->last(NULL);
	return fail(
		e, peer ? RINGUP_EPEER : RINGUP_ESYSTEM, "rank %d of %s: %s: %.60s%s%.80s%s",
		n->rank, n->group, what, n->lib->text(rc), *last ? ": " : "", last,
		strstr(last, "driver version")
			? "; run `ringup doctor`: the NVIDIA driver is too old for this NCCL"
			: "");
}

int nccl_fail_over(const struct nccl *n, struct err *e)
{
	return fail(e, RINGUP_EABORTED, "%s ends", n->group);
}

/* The calls of a plan form one NCCL group.  Kernels are queued before the group begins: a call
 * of the driver may take long, and an abort waits only 0.2 s for a thread that is in NCCL. */
static int calls_begin(struct nccl *n, struct err *e)
{
	int rc;

	if (!nccl_enter(n))
		return nccl_fail_over(n, e);
	rc = nccl_failed(n, n->lib->group_start(), "ncclGroupStart", e);
	n->grouped = !rc;
	if (rc)
		nccl_leave(n);
	return rc;
}

/* Ends the group even if a call in it has failed. */
static int calls_end(struct nccl *n, int rc, struct err *e)
{
	struct err why;
	int end;

	if (!n->grouped)
		return rc;
	end = nccl_failed(n, n->lib->group_end(), "ncclGroupEnd", rc ? &why : e);
	n->grouped = false;
	nccl_leave(n);
	return rc ? rc : end;
}

/* How NCCL has a type: as it is, or, in a reduction, wider; and how the kernels get it there.
 */
struct form {
	int type;     /* NCCL's                       */
	size_t bytes; /* of an element in NCCL's hands */
	bool apart;   /* differs from the tensor's: it goes through the room */
	enum device_kernel in, out;
};

static const struct form forms[DTYPE_COUNT] = {
	[RINGUP_U8] = { NCCL_U8, 1, false, DEVICE_SCALE_U8, DEVICE_SCALE_U8 },
	[RINGUP_I8] = { NCCL_I8, 1, false, DEVICE_SCALE_I8, DEVICE_SCALE_I8 },
	[RINGUP_U16] = { NCCL_I32, 4, true, DEVICE_WIDEN_U16, DEVICE_NARROW_U16 },
	[RINGUP_I16] = { NCCL_I32, 4, true, DEVICE_WIDEN_I16, DEVICE_NARROW_I16 },
	[RINGUP_I32] = { NCCL_I32, 4, false, DEVICE_SCALE_I32, DEVICE_SCALE_I32 },
	[RINGUP_I64] = { NCCL_I64, 8, false, DEVICE_SCALE_I64, DEVICE_SCALE_I64 },
	[RINGUP_F16] = { NCCL_F16, 2, false, DEVICE_SCALE_F16, DEVICE_SCALE_F16 },
	[RINGUP_BF16] = { NCCL_BF16, 2, false, DEVICE_SCALE_BF16, DEVICE_SCALE_BF16 },
	[RINGUP_F32] = { NCCL_F32, 4, false, DEVICE_SCALE_F32, DEVICE_SCALE_F32 },
	[RINGUP_F64] = { NCCL_F64, 8, false, DEVICE_SCALE_F64, DEVICE_SCALE_F64 },
	[RINGUP_BOOL] = { NCCL_U8, 1, true, DEVICE_BOOL, DEVICE_BOOL },
};

/* Does NCCL average?  It multiplies by the reciprocal of the number of ranks before it adds up,
 * which is exact for powers of two, but for numbers below the type's normal range.  All ranks
 * find the same, wherever their tensors are: it has to be one call. */
static bool averages(const struct nccl *n, const struct plan *p)
{
	return p->kind == PLAN_ALLREDUCE && p->redop == RINGUP_AVERAGE &&
	       reduce_is_floating(p->dtype) && !(n->size & (n->size - 1));
}

/* NCCL adds f16 up in f16, whose sums may leave its range although their average does not: the
 * ranks divide by this power of two before, which changes no digit of a normal number, and
 * multiply by it after the division by their number, in f32. */
static double spread(const struct nccl *n, const struct plan *p)
{
	double by = 1;

	if (p->redop == RINGUP_AVERAGE && p->dtype == RINGUP_F16 && !averages(n, p))
		while (by < n->size)
			by *= 2;
	return by;
}

static double pre_of(const struct nccl *n, const struct plan *p)
{
	return p->pre / spread(n, p);
}

static int operation_of(const struct nccl *n, const struct plan *p)
{
	bool logical = p->dtype == RINGUP_BOOL;

	if (averages(n, p))
		return NCCL_AVERAGE;
	switch (p->redop) {
	case RINGUP_MIN:
		return NCCL_MIN;
	case RINGUP_MAX:
		return NCCL_MAX;
	case RINGUP_PRODUCT:
		return logical ? NCCL_MIN : NCCL_PRODUCT;
	case RINGUP_SUM:
	case RINGUP_AVERAGE:
	case RINGUP_ADASUM:
		break;
	}
	return logical ? NCCL_MAX : NCCL_SUM;
}

/* What is left to do with the sums: nothing if the two are 1. */
struct after {
	int64_t divisor;
	double factor;
};

static struct after after_of(const struct nccl *n, const struct plan *p)
{
	bool divides = p->redop == RINGUP_AVERAGE && !averages(n, p);

	return (struct after){ divides ? n->size : 1, p->post * spread(n, p) };
}

static bool is_idle(const struct after *a)
{
	return a->divisor == 1 && a->factor == 1;
}

/* ---- launches of one kernel for many pieces ---- */

struct mover {
	struct gpu *gpu;
	enum device_kernel kernel;
	size_t from_bytes, to_bytes; /* of an element */
	struct device_move move;
};

static void mover_begin(struct mover *m, struct gpu *gpu, enum device_kernel kernel,
			size_t from, size_t to)
{
	m->gpu = gpu;
	m->kernel = kernel;
	m->from_bytes = from;
	m->to_bytes = to;
	kernel_move_begin(&m->move, (uint32_t)to);
}

static int mover_flush(struct mover *m, struct err *e)
{
	int rc = gpu_launch(m->gpu, m->kernel, &m->move, e);

	m->move.pieces = 0;
	return rc;
}

static int mover_add(struct mover *m, const void *from, void *to, uint64_t count, struct err *e)
{
	const unsigned char *in = from;
	unsigned char *out = to;

	while (count) {
		uint64_t n = kernel_move_add(&m->move, in, out, count);

		if (!n && mover_flush(m, e))
			return e->code;
		if (in)
			in += n * m->from_bytes;
		out += n * m->to_bytes;
		count -= n;
	}
	return 0;
}

/* ---- a rank that has joined ---- */

/* Its elements are all the same, and lie in the host's memory: the kernel has the value, which
 * is scaled here, as other ranks' elements are on their way into the room. */
static uint64_t neutral_value(const struct nccl *n, const struct plan *p, const struct piece *t)
{
	uint64_t value = 0;
	uint16_t low;

	if (t->count)
		copy_scaled(p->dtype, &value, t->in, 1, pre_of(n, p));
	low = (uint16_t)value;
	if (p->dtype == RINGUP_I16)
		return (uint32_t)(int32_t)(int16_t)low;
	return p->dtype == RINGUP_BOOL ? value != 0 : value;
}

static int fill(struct nccl *n, const struct plan *p, const struct piece *t, size_t bytes,
		void *to, struct err *e)
{
	struct mover m;

	mover_begin(&m, n->gpu, DEVICE_FILL, 0, bytes);
	m.move.value = neutral_value(n, p, t);
	return mover_add(&m, NULL, to, t->count, e) ? e->code : mover_flush(&m, e);
}

/* ---- in and out of the room ---- */

enum { WORD = 16, ROOM_BYTES = 64 << 20 };

/* Each piece begins at a multiple of 16 bytes, so that the kernels move whole words whatever
 * the lengths of those before it. */
static uint64_t placed(uint64_t count, size_t bytes)
{
	uint64_t each = WORD / bytes;

	return (count + each - 1) / each * each;
}

/* Behind a piece, and behind empty ones, comes the next. */
static void place_skip(const struct plan *p, struct nccl_place *place)
{
	while (place->piece < p->pieces && place->at == p->piece[place->piece].count)
		*place = (struct nccl_place){ place->piece + 1, 0 };
}

/* Elements that the next piece, or the part of it that fits, takes behind @used of the room's
 * @most; @place goes behind them.  0: there is no more, or no room.  *@of: the piece. */
static uint64_t place_take(const struct plan *p, struct nccl_place *place, uint64_t used,
			   uint64_t most, struct piece *of)
{
	size_t each = reduce_dtype_bytes(p->dtype);
	uint64_t count, fits = most > used ? most - used : 0;

	place_skip(p, place);
	if (place->piece == p->pieces || !fits)
		return 0;
	*of = p->piece[place->piece];
	count = of->count - place->at < fits ? of->count - place->at : fits;
	if (of->memory == RINGUP_CUDA) {
		of->in = (const unsigned char *)of->in + place->at * each;
		of->out = of->out ? (unsigned char *)of->out + place->at * each : NULL;
	}
	of->count = count;
	place->at += count;
	place_skip(p, place);
	return count;
}

/* Fills the room with up to @most elements from n->place_now on: *@all of them.  What is
 * between the pieces is reduced, too, and not read. */
static int pack_room(struct nccl *n, const struct plan *p, const struct form *f, uint64_t most,
		     uint64_t *all, struct err *e)
{
	double pre = pre_of(n, p);
	bool plain = pre == 1 && !f->apart;
	struct piece t;
	struct mover m;
	uint64_t count;
	int rc = 0;

	mover_begin(&m, n->gpu, plain ? DEVICE_COPY : f->in, reduce_dtype_bytes(p->dtype),
		    f->bytes);
	m.move.factor = pre;
	n->place_next = n->place_now;
	*all = 0;
	while (!rc && (count = place_take(p, &n->place_next, *all, most, &t))) {
		void *to = (unsigned char *)n->room + *all * f->bytes;

		rc = t.memory == RINGUP_CUDA ? mover_add(&m, t.in, to, count, e)
					     : fill(n, p, &t, f->bytes, to, e);
		*all += placed(count, f->bytes);
	}
	*all = *all < most ? *all : most;
	return rc ? rc : mover_flush(&m, e);
}

/* Up to @most elements from @from on to their pieces, from n->place_now on. */
static int unpack_room(struct nccl *n, const struct plan *p, const struct form *f,
		       const struct after *a, const void *from, uint64_t most, struct err *e)
{
	bool plain = is_idle(a) && f->bytes == reduce_dtype_bytes(p->dtype);
	struct nccl_place place = n->place_now;
	uint64_t count, used = 0;
	struct piece t;
	struct mover m;
	int rc = 0;

	mover_begin(&m, n->gpu, plain ? DEVICE_COPY : f->out, f->bytes,
		    reduce_dtype_bytes(p->dtype));
	m.move.factor = a->factor;
	m.move.divisor = a->divisor;
	while (!rc && (count = place_take(p, &place, used, most, &t))) {
		if (t.memory == RINGUP_CUDA)
			rc = mover_add(&m, (const unsigned char *)from + used * f->bytes, t.out,
				       count, e);
		used += placed(count, f->bytes);
	}
	return rc ? rc : mover_flush(&m, e);
}

/* Elements in the tensor's own memory, to itself or elsewhere. */
static int scale(struct nccl *n, const struct form *f, const void *from, void *to,
		 uint64_t count, double factor, int64_t divisor, struct err *e)
{
	struct mover m;

	mover_begin(&m, n->gpu, f->in, f->bytes, f->bytes);
	m.move.factor = factor;
	m.move.divisor = divisor;
	return mover_add(&m, from, to, count, e) ? e->code : mover_flush(&m, e);
}

static int room_for(struct nccl *n, uint64_t count, size_t bytes, struct err *e)
{
	uint64_t all;

	if (__builtin_mul_overflow(count, bytes, &all) || all > SIZE_MAX / 2)
		return fail(e, RINGUP_ENOMEM, "no GPU has memory for %llu elements",
			    (unsigned long long)count);
	return gpu_room(n->gpu, (size_t)all, &n->room, e);
}

int nccl_move_room(struct nccl *n, struct err *e)
{
	return room_for(n, ROOM_BYTES, 1, e);
}

void nccl_move_first(struct nccl *n)
{
	n->place_now = (struct nccl_place){ 0, 0 };
}

/* ---- allreduce ---- */

/* One tensor that NCCL takes as it is needs no room. */
static bool is_direct(const struct plan *p, const struct form *f)
{
	return p->pieces == 1 && p->piece->memory == RINGUP_CUDA && !f->apart;
}

/* Elements of a part.  One tensor that NCCL takes from other ranks as it is, is one part, also
 * on a rank that has joined. */
static uint64_t most_of(const struct plan *p, const struct form *f)
{
	return p->pieces == 1 && !f->apart ? p->count : ROOM_BYTES / f->bytes;
}

static int allreduce_begin(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct form f = forms[p->dtype];
	const void *in = p->piece->in;
	void *out = p->piece->out;
	double pre = pre_of(n, p);
	uint64_t count = p->count;
	int rc;

	if (!p->count)
		return 0;
	if (is_direct(p, &f)) {
		rc = pre != 1 ? scale(n, &f, in, out, p->count, pre, 1, e) : 0;
		in = pre != 1 ? out : in;
	} else {
		rc = room_for(n, most_of(p, &f), f.bytes, e);
		rc = rc ? rc : pack_room(n, p, &f, most_of(p, &f), &count, e);
		in = out = n->room;
	}
	rc = rc ? rc : calls_begin(n, e);
	if (rc)
		return rc;
	return nccl_failed(n,
			   n->lib->allreduce(in, out, count, f.type, operation_of(n, p),
					     nccl_comm_of(n), gpu_stream(n->gpu)),
			   "ncclAllReduce", e);
}

static int allreduce_end(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct form f = forms[p->dtype];
	bool direct = is_direct(p, &f);
	struct after a = after_of(n, p);
	int rc;

	if (!p->count || (direct && is_idle(&a)))
		return 0;
	if (direct)
		return scale(n, &f, p->piece->out, p->piece->out, p->count, a.factor, a.divisor,
			     e);
	rc = unpack_room(n, p, &f, &a, n->room, most_of(p, &f), e);
	n->place_now = n->place_next;
	return rc ? rc : n->place_now.piece < p->pieces;
}

/* ---- reduce-scatter ---- */

static uint64_t before(const uint64_t *counts, int rank)
{
	uint64_t all = 0;

	for (int r = 0; r < rank; r++)
		all += counts[r];
	return all;
}

static bool is_even(const uint64_t *counts, int size)
{
	for (int r = 1; r < size; r++)
		if (counts[r] != counts[0])
			return false;
	return true;
}

/* May NCCL read and write the tensor's own memory?  It writes elsewhere, or to the place of
 * this rank's part. */
static bool scatters_directly(const struct nccl *n, const struct plan *p, const struct form *f)
{
	const struct piece *t = p->piece;
	uintptr_t in = (uintptr_t)t->in, out = (uintptr_t)t->out;
	uint64_t mine = p->counts[n->rank] * f->bytes;

	if (t->memory != RINGUP_CUDA || f->apart || pre_of(n, p) != 1)
		return false;
	return out + mine <= in || out >= in + t->count * f->bytes ||
	       out == in + before(p->counts, n->rank) * f->bytes;
}

/* Each rank's part is reduced to it; NCCL has a call for parts of one size. */
static int scatter(struct nccl *n, const struct plan *p, const struct form *f, const void *in,
		   void *out, struct err *e)
{
	const unsigned char *from = in;
	void *stream = gpu_stream(n->gpu);
	int op = operation_of(n, p), rc = calls_begin(n, e);

	if (rc)
		return rc;
	if (is_even(p->counts, n->size))
		return nccl_failed(n,
				   n->lib->reducescatter(in, out, p->counts[0], f->type, op,
							 nccl_comm_of(n), stream),
				   "ncclReduceScatter", e);
	for (int r = 0; r < n->size && !rc; r++) {
		const void *part = from + before(p->counts, r) * f->bytes;

		if (p->counts[r])
			rc = nccl_failed(n,
					 n->lib->reduce(part, r == n->rank ? out : NULL,
							p->counts[r], f->type, op, r,
							nccl_comm_of(n), stream),
					 "ncclReduce", e);
	}
	return rc;
}

static int reducescatter_begin(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct form f = forms[p->dtype];
	uint64_t all;
	int rc;

	if (!p->count)
		return 0;
	if (scatters_directly(n, p, &f))
		return scatter(n, p, &f, p->piece->in, p->piece->out, e);
	rc = room_for(n, p->count, f.bytes, e);
	rc = rc ? rc : pack_room(n, p, &f, UINT64_MAX, &all, e);
	/* Where this rank's part lies is the place in which NCCL reduces it. */
	return rc ? rc
		  : scatter(n, p, &f, n->room,
			    (unsigned char *)n->room + before(p->counts, n->rank) * f.bytes, e);
}

static int reducescatter_end(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct form f = forms[p->dtype];
	uint64_t mine = p->counts[n->rank];
	bool direct = p->count && scatters_directly(n, p, &f);
	struct after a = after_of(n, p);

	if (!mine || (direct && is_idle(&a)))
		return 0;
	if (direct)
		return scale(n, &f, p->piece->out, p->piece->out, mine, a.factor, a.divisor, e);
	return unpack_room(n, p, &f, &a,
			   (unsigned char *)n->room + before(p->counts, n->rank) * f.bytes,
			   mine, e);
}

/* ---- what only moves bytes ---- */

static int move_broadcast(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct piece *t = p->piece;
	size_t bytes = t->count * reduce_dtype_bytes(p->dtype);
	bool is_root = p->root == n->rank;
	void *out = t->out ? t->out : (void *)(uintptr_t)t->in;
	int rc = 0;

	if (!bytes)
		return 0;
	/* A rank that has joined receives what it does not want. */
	if (t->memory != RINGUP_CUDA) {
		rc = room_for(n, bytes, 1, e);
		out = n->room;
	}
	rc = rc ? rc : calls_begin(n, e);
	return rc ? rc
		  : nccl_failed(n,
				n->lib->broadcast(is_root ? t->in : out, out, bytes, NCCL_U8,
						  p->root, nccl_comm_of(n), gpu_stream(n->gpu)),
				"ncclBroadcast", e);
}

/* One broadcast for each block, since blocks differ in size. */
static int gather_blocks(struct nccl *n, const struct plan *p, const void *in,
			 unsigned char *out, size_t each, struct err *e)
{
	int rc = 0;

	for (int r = 0; r < n->size && !rc; r++) {
		size_t bytes = p->counts[r] * each;
		const void *from = r == n->rank ? in : out;

		if (bytes)
			rc = nccl_failed(n,
					 n->lib->broadcast(from, out, bytes, NCCL_U8, r,
							   nccl_comm_of(n), gpu_stream(n->gpu)),
					 "ncclBroadcast", e);
		out += bytes;
	}
	return rc;
}

static int allgather(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct piece *t = p->piece;
	size_t each = reduce_dtype_bytes(p->dtype);
	void *out = t->out;
	int rc = 0;

	if (t->memory != RINGUP_CUDA) {
		rc = room_for(n, before(p->counts, n->size), each, e);
		out = n->room;
	}
	rc = rc ? rc : calls_begin(n, e);
	if (rc)
		return rc;
	if (!is_even(p->counts, n->size))
		return gather_blocks(n, p, t->in, out, each, e);
	return p->counts[0]
		       ? nccl_failed(n,
				     n->lib->allgather(t->in, out, p->counts[0] * each, NCCL_U8,
						       nccl_comm_of(n), gpu_stream(n->gpu)),
				     "ncclAllGather", e)
		       : 0;
}

static int alltoall(struct nccl *n, const struct plan *p, struct err *e)
{
	const struct piece *t = p->piece;
	size_t each = reduce_dtype_bytes(p->dtype), size = (size_t)n->size;
	const uint64_t *mine = p->matrix + (size_t)n->rank * size;
	const unsigned char *in = t->in;
	unsigned char *out = t->out;
	uint64_t all = 0;
	int rc = 0;

	for (size_t r = 0; r < size; r++)
		all += p->matrix[r * size + (size_t)n->rank];
	if (t->memory != RINGUP_CUDA) {
		rc = room_for(n, all, each, e);
		out = n->room;
	}
	rc = rc ? rc : calls_begin(n, e);
	for (int r = 0; r < n->size && !rc; r++) {
		size_t to = mine[r] * each;
		size_t from = p->matrix[(size_t)r * size + (size_t)n->rank] * each;

		if (to)
			rc = nccl_failed(n,
					 n->lib->put(in, to, NCCL_U8, r, nccl_comm_of(n),
						     gpu_stream(n->gpu)),
					 "ncclSend", e);
		if (from && !rc)
			rc = nccl_failed(n,
					 n->lib->take(out, from, NCCL_U8, r, nccl_comm_of(n),
						      gpu_stream(n->gpu)),
					 "ncclRecv", e);
		in = in ? in + to : in;
		out += from;
	}
	return rc;
}

/* ---- both halves ---- */

static int nccl_move(struct nccl *n, const struct plan *p, struct err *e)
{
	switch (p->kind) {
	case PLAN_ALLREDUCE:
		return allreduce_begin(n, p, e);
	case PLAN_BROADCAST:
		return move_broadcast(n, p, e);
	case PLAN_ALLGATHER:
		return allgather(n, p, e);
	case PLAN_REDUCESCATTER:
		return reducescatter_begin(n, p, e);
	case PLAN_ALLTOALL:
		return alltoall(n, p, e);
	case PLAN_BARRIER:
		break;
	}
	return fail(e, RINGUP_EINVAL, "NCCL has no collective %d", (int)p->kind);
}

int nccl_move_begin(struct nccl *n, const struct plan *p, struct err *e)
{
	return calls_end(n, nccl_move(n, p, e), e);
}

int nccl_move_end(struct nccl *n, const struct plan *p, struct err *e)
{
	if (p->kind == PLAN_ALLREDUCE)
		return allreduce_end(n, p, e);
	return p->kind == PLAN_REDUCESCATTER ? reducescatter_end(n, p, e) : 0;
}
