/* test_ptx.c - the interpreter of PTX computes as NVIDIA's ISA says, and refuses the rest. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/ptx.h"

#include <string.h>

#include "device/kernels.h"
#include "tap.h"

#define HEAD  ".version 6.3\n.target sm_70\n.address_size 64\n"
#define ENTRY ".visible .entry k( .param .align 8 .b8 k_param_0[40] ) .maxntid 2, 1, 1 {\n"
#define REGISTERS                                              \
	".reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<4>;" \
	".reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %fd<4>;\n"
/* Number 1, 2 and 3 of the registers are the parameter's x; %rd0 becomes its address. */
#define PARAMETERS(n, at)                                                                     \
	"ld.param.u16 %rs" #n ", [k_param_0+" #at "]; ld.param.u32 %r" #n ", [k_param_0+" #at \
	"]; ld.param.u64 %rd" #n ", [k_param_0+" #at "]; ld.param.f32 %f" #n                  \
	", [k_param_0+" #at "]; ld.param.f64 %fd" #n ", [k_param_0+" #at                      \
	"]; setp.ne.s16 %p" #n ", %rs" #n ", 0;\n"
#define BEGIN HEAD ENTRY REGISTERS PARAMETERS(1, 8) PARAMETERS(2, 16) PARAMETERS(3, 24)
/* Number 0 of each type is what comes out. */
#define END                                                          \
	"\nld.param.u64 %rd3, [k_param_0]; selp.b32 %r3, 1, 0, %p0;" \
	"st.global.u32 [%rd3], %r3; st.global.u16 [%rd3+2], %rs0;"   \
	"st.global.u32 [%rd3+4], %r0; st.global.u64 [%rd3+8], %rd0;" \
	"st.global.f32 [%rd3+16], %f0; st.global.f64 [%rd3+24], %fd0; ret; }\n"

struct parameter {
	uint64_t to, x[3], unused;
};

struct outcome {
	uint16_t p, h;
	uint32_t w;
	uint64_t l;
	uint32_t f, unused;
	uint64_t d;
};

enum { AT = 1 << 20 };

static _Alignas(16) unsigned char memory[64], constants[16];

/* Memory from AT on, which ends in the midst of a page, and 16 bytes to read behind a hole. */
static bool memory_find(void *arg, uint64_t at, bool writes, struct ptx_range *r)
{
	bool is_constant = at >= AT + 128;

	(void)arg;
	*r = (struct ptx_range){ is_constant ? AT + 128 : AT,
				 is_constant ? sizeof(constants) : sizeof(memory),
				 is_constant ? constants : memory };
	return at >= r->at && at - r->at < r->bytes && !(is_constant && writes);
}

/* Runs @instruction with x in the registers. */
static int instruction_run(const char *instruction, const uint64_t x[3], struct outcome *out)
{
	struct parameter parameter = { .to = AT, .x = { x[0], x[1], x[2] } };
	char text[4096], why[200] = "";
	struct ptx *p;
	int error;

	snprintf(text, sizeof(text), "%s%s;%s", BEGIN, instruction, END);
	p = ptx_load(text, why, sizeof(why));
	if (!p) {
		printf("# %s: %s\n", instruction, why);
		return -1;
	}
	error = ptx_run(ptx_kernel(p, "k"), 1, 1, &parameter, memory_find, NULL);
	ptx_unload(p);
	memcpy(out, memory, sizeof(*out));
	return error;
}

#define F64_NAN  UINT64_C(0x7ff8000000000000)
#define F64_INF  UINT64_C(0x7ff0000000000000)
#define F64_MINF UINT64_C(0xfff0000000000000)
#define F64_1    UINT64_C(0x3ff0000000000000)
#define TOP      UINT64_C(0x8000000000000000)

static const struct {
	const char *instruction;
	uint64_t x[3];
	char type; /* of the result */
	uint64_t want;
} facts[] = {
	/* Integers wrap; 16 bits stay 16 bits. */
	{ "add.s32 %r0, %r1, %r2", { 0xffffffff, 2 }, 'w', 1 },
	{ "add.s32 %r0, %r1, -3", { 1 }, 'w', 0xfffffffe },
	{ "add.s64 %rd0, %rd1, %rd2", { UINT64_MAX, 2 }, 'l', 1 },
	{ "sub.s32 %r0, %r1, %r2", { 1, 2 }, 'w', 0xffffffff },
	{ "mul.lo.s32 %r0, %r1, %r2", { 0x10001, 0x10001 }, 'w', 0x20001 },
	{ "mul.wide.u32 %rd0, %r1, %r2", { 0xffffffff, 0xffffffff }, 'l', 0xfffffffe00000001 },
	{ "mul.wide.u32 %rd0, %r1, 24", { UINT64_C(0x100000002) }, 'l', 48 },
	{ "and.b16 %rs0, %rs1, 255", { 0x1234 }, 'h', 0x34 },
	{ "and.b32 %r0, %r1, -16", { 0x12345678 }, 'w', 0x12345670 },
	{ "or.b64 %rd0, %rd1, %rd2", { TOP, 1 }, 'l', TOP | 1 },
	{ "min.u32 %r0, %r1, 4096", { 0xffffffff }, 'w', 4096 },
	{ "min.u32 %r0, %r1, 4096", { 7 }, 'w', 7 },
	/* A quotient is truncated; by zero it is anything. */
	{ "div.u32 %r0, %r1, %r2", { 0xffffffff, 10 }, 'w', 0x19999999 },
	{ "div.u32 %r0, %r1, %r2", { 7, 0 }, 'w', (uint32_t)PTX_POISON },
	{ "div.s64 %rd0, %rd1, %rd2", { (uint64_t)-7, 2 }, 'l', (uint64_t)-3 },
	{ "div.s64 %rd0, %rd1, %rd2", { TOP, UINT64_MAX }, 'l', TOP },
	{ "div.s64 %rd0, %rd1, %rd2", { 7, 0 }, 'l', PTX_POISON },
	/* Shifts end at the width. */
	{ "shl.b32 %r0, %r1, 31", { 3 }, 'w', 0x80000000 },
	{ "shl.b32 %r0, %r1, %r2", { 3, 32 }, 'w', 0 },
	{ "shl.b32 %r0, %r1, %r2", { 3, 0xffffffff }, 'w', 0 },
	{ "shl.b64 %rd0, %rd1, 63", { 3 }, 'l', TOP },
	{ "shl.b64 %rd0, %rd1, %r2", { 3, 64 }, 'l', 0 },
	{ "shr.u32 %r0, %r1, 31", { 0x80000000 }, 'w', 1 },
	{ "shr.u32 %r0, %r1, %r2", { 0xffffffff, 32 }, 'w', 0 },
	/* Signed or not. */
	{ "setp.lt.u32 %p0, %r1, %r2", { 1, 0xffffffff }, 'p', 1 },
	{ "setp.ge.u32 %p0, %r1, %r2", { 1, 0xffffffff }, 'p', 0 },
	{ "setp.gt.u16 %p0, %rs1, 32767", { 0x8000 }, 'p', 1 },
	{ "setp.eq.s16 %p0, %rs1, -1", { 0x1ffff }, 'p', 1 },
	{ "setp.eq.s32 %p0, %r1, -1", { 0xffffffff }, 'p', 1 },
	{ "setp.eq.s64 %p0, %rd1, 1", { UINT64_C(0x100000001) }, 'p', 0 },
	{ "not.pred %p0, %p1", { 1 }, 'p', 0 },
	{ "xor.pred %p0, %p1, %p2", { 1, 1 }, 'p', 0 },
	{ "and.pred %p0, %p1, %p2", { 1, 0 }, 'p', 0 },
	{ "selp.b16 %rs0, -1, %rs2, %p3", { 0, 5, 1 }, 'h', 0xffff },
	{ "selp.b64 %rd0, %rd1, %rd2, %p3", { 4, 5, 0 }, 'l', 5 },
	/* Nothing compares with a NaN; zeros have no sign. */
	{ "setp.eq.f64 %p0, %fd1, %fd1", { F64_NAN }, 'p', 0 },
	{ "setp.lt.f64 %p0, %fd1, 0d3FF0000000000000", { F64_NAN }, 'p', 0 },
	{ "setp.gt.f64 %p0, %fd1, 0d3FF0000000000000", { F64_NAN }, 'p', 0 },
	{ "setp.ge.f64 %p0, %fd1, 0dFFF0000000000000", { F64_NAN }, 'p', 0 },
	{ "setp.eq.f64 %p0, %fd1, 0d0000000000000000", { TOP }, 'p', 1 },
	{ "setp.ge.f64 %p0, %fd1, %fd2", { F64_1, F64_1 }, 'p', 1 },
	/* Integers are cut, or get their sign or zeros in front. */
	{ "cvt.u16.u64 %rs0, %rd1", { 0x12345678 }, 'h', 0x5678 },
	{ "cvt.u32.u64 %r0, %rd1", { UINT64_MAX }, 'w', 0xffffffff },
	{ "cvt.u64.u32 %rd0, %r1", { 0xffffffff }, 'l', 0xffffffff },
	{ "cvt.s16.s8 %rs0, %rs1", { 0x1280 }, 'h', 0xff80 },
	{ "cvt.s32.s16 %r0, %r1", { 0x18000 }, 'w', 0xffff8000 },
	/* To integers: towards zero, to the nearest that there is; a NaN to the highest bit. */
	{ "cvt.rzi.s32.f64 %r0, %fd1", { UINT64_C(0xbffe000000000000) }, 'w', 0xffffffff },
	{ "cvt.rzi.s32.f64 %r0, %fd1", { F64_INF }, 'w', 0x7fffffff },
	{ "cvt.rzi.s32.f64 %r0, %fd1", { F64_MINF }, 'w', 0x80000000 },
	{ "cvt.rzi.s32.f64 %r0, %fd1", { UINT64_C(0x41dfffffffc00000) }, 'w', 0x7fffffff },
	{ "cvt.rzi.s32.f64 %r0, %fd1", { UINT64_C(0x41e0000000000000) }, 'w', 0x7fffffff },
	{ "cvt.rzi.s32.f64 %r0, %fd1", { F64_NAN }, 'w', 0x80000000 },
	{ "cvt.rzi.u32.f64 %r0, %fd1", { UINT64_C(0xbff0000000000000) }, 'w', 0 },
	{ "cvt.rzi.u32.f64 %r0, %fd1", { UINT64_C(0x41efffffffe00000) }, 'w', 0xffffffff },
	{ "cvt.rzi.u32.f64 %r0, %fd1", { F64_INF }, 'w', 0xffffffff },
	{ "cvt.rzi.u32.f64 %r0, %fd1", { F64_NAN }, 'w', 0x80000000 },
	{ "cvt.rzi.s64.f64 %rd0, %fd1", { UINT64_C(0x43e0000000000000) }, 'l', TOP - 1 },
	{ "cvt.rzi.s64.f64 %rd0, %fd1", { UINT64_C(0xc3e0000000000000) }, 'l', TOP },
	{ "cvt.rzi.s64.f64 %rd0, %fd1", { F64_NAN }, 'l', TOP },
	/* To floating numbers: to the nearest, even if two are; once. */
	{ "cvt.rn.f32.f64 %f0, %fd1", { UINT64_C(0x3ff0000010000000) }, 'f', 0x3f800000 },
	{ "cvt.rn.f32.f64 %f0, %fd1", { UINT64_C(0x3ff0000010000001) }, 'f', 0x3f800001 },
	{ "cvt.rn.f32.f64 %f0, %fd1", { UINT64_C(0x36a0000000000000) }, 'f', 1 },
	{ "cvt.rn.f32.f64 %f0, %fd1", { UINT64_C(0x47efffffffffffff) }, 'f', 0x7f800000 },
	{ "cvt.rn.f32.f64 %f0, %fd1", { F64_NAN | TOP | 1 }, 'f', 0x7fffffff },
	{ "cvt.rn.f32.s64 %f0, %rd1", { UINT64_C(0x20000020000001) }, 'f', 0x5a000001 },
	{ "cvt.rn.f32.u16 %f0, %rs1", { 0xffff }, 'f', 0x477fff00 },
	{ "cvt.rn.f64.s16 %fd0, %rs1", { 0xffff }, 'd', F64_1 | TOP },
	{ "cvt.rn.f64.u16 %fd0, %rs1", { 0xffff }, 'd', UINT64_C(0x40efffe000000000) },
	{ "cvt.rn.f64.s32 %fd0, %r1", { 0xffffffff }, 'd', F64_1 | TOP },
	{ "cvt.rn.f64.s64 %fd0, %rd1", { TOP - 1 }, 'd', UINT64_C(0x43e0000000000000) },
	/* Denormal numbers are numbers; a NaN of .f32 has lost what it was. */
	{ "mul.rn.f32 %f0, %f1, 0f3F000000", { 0x00800000 }, 'f', 0x00400000 },
	{ "mul.rn.f32 %f0, %f1, %f2", { 0x00000001, 0x3f000000 }, 'f', 0 },
	{ "mul.rn.f32 %f0, %f1, %f2", { 0x7f800000, 0 }, 'f', 0x7fffffff },
	{ "add.rn.f32 %f0, %f1, 0f3F800000", { 0x33800000 }, 'f', 0x3f800000 },
	{ "add.rn.f32 %f0, %f1, %f2", { 0x7fa00001, 0 }, 'f', 0x7fffffff },
	{ "div.rn.f32 %f0, %f1, %f2", { 0x3f800000, 0x40400000 }, 'f', 0x3eaaaaab },
	{ "div.rn.f64 %fd0, %fd1, %fd2", { F64_1, 0 }, 'd', F64_INF },
	{ "mul.rn.f64 %fd0, %fd1, %fd2", { 1, F64_1 }, 'd', 1 },
	/* Bits move as they are. */
	{ "mov.b32 %r0, %f1", { 0x7fa00001 }, 'w', 0x7fa00001 },
	{ "mov.b32 %f0, %r1", { 0x7fa00001 }, 'f', 0x7fa00001 },
	{ "mov.u32 %r0, %tid.x", { 0 }, 'w', 0 },
	{ "mov.pred %p0, 1", { 0 }, 'p', 1 },
	{ "cvta.to.global.u64 %rd0, %rd1", { AT }, 'l', AT },
	{ "ld.param.s8 %rs0, [k_param_0+8]", { 0x80 }, 'h', 0xff80 },
	{ "ld.param.s16 %rd0, [k_param_0+8]", { 0x8000 }, 'l', (uint64_t)INT16_MIN },
	{ "ld.param.u8 %r0, [k_param_0+8]", { 0x1ff }, 'w', 0xff },
	{ "mov.b64 %rd3, k_param_0; add.s64 %rd3, %rd3, 24; ld.param.u32 %r0, [%rd3+-8]",
	  { 0, 9 },
	  'w',
	  9 },
	/* What nobody wrote. */
	{ "mov.b64 %rd3, %rd0", { 0 }, 'l', PTX_POISON },
	/* Branches, and what is done only if. */
	{ "mov.u32 %r0, 1; bra $on; mov.u32 %r0, 2; $on: add.s32 %r0, %r0, 4", { 0 }, 'w', 5 },
	{ "mov.u32 %r0, 1; @%p1 bra $on; mov.u32 %r0, 2; $on: @!%p2 add.s32 %r0, %r0, 4",
	  { 1, 0 },
	  'w',
	  5 },
	{ "mov.u32 %r0, 1; @!%p1 bra $on; mov.u32 %r0, 2; $on: @%p2 add.s32 %r0, %r0, 4",
	  { 1, 0 },
	  'w',
	  2 },
};

static uint64_t outcome_of(const struct outcome *o, char type)
{
	return type == 'p'   ? o->p
	       : type == 'h' ? o->h
	       : type == 'w' ? o->w
	       : type == 'l' ? o->l
	       : type == 'f' ? o->f
			     : o->d;
}

static void semantics(void)
{
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		struct outcome out = { 0 };
		int error = instruction_run(facts[i].instruction, facts[i].x, &out);
		uint64_t got = outcome_of(&out, facts[i].type);

		if (error || got != facts[i].want)
			printf("# error %d, got %#llx\n", error, (unsigned long long)got);
		ok(!error && got == facts[i].want, "%s: %#llx", facts[i].instruction,
		   (unsigned long long)facts[i].want);
	}
}

/* ---- what is refused ---- */

static void refused(const char *text, const char *words)
{
	char why[200] = "";
	struct ptx *p = ptx_load(text, why, sizeof(why));

	if (p || !strstr(why, words))
		printf("# %s\n", p ? "it was taken" : why);
	ok(!p && strstr(why, words), "%s", words);
	ptx_unload(p);
}

static void refusals(void)
{
	static const struct {
		const char *body, *words;
	} bodies[] = {
		{ "add.s33 %r0, %r1, %r2;", "line 6: there is no instruction \"add.s33\"" },
		{ "add.s %r0, %r1, %r2;", "no instruction \"add.s\"" },
		{ "fma.rn.f32 %f0, %f1, %f2, %f3;", "no instruction \"fma.rn.f32\"" },
		{ "mul.ftz.f32 %f0, %f1, %f2;", "no instruction \"mul.ftz.f32\"" },
		{ "ld.shared.u32 %r0, [%rd1];", "no instruction \"ld.shared.u32\"" },
		{ "add.s32 %r0, %r1, %r4;", "there is no register \"%r4\"" },
		{ "add.s32 %r0, %r1, %q1;", "there is no register \"%q1\"" },
		{ "add.s32 %r0, %r1, %r;", "there is no register \"%r\"" },
		{ "add.s32 %r0, %r1, %tid.x;", "there is no register \"%tid.x\"" },
		{ "add.s32 %r0, %r1, %rd1;", "%rd1 is of another type" },
		{ "add.s32 %rd0, %r1, %r1;", "%rd0 is of another type" },
		{ "add.s32 %r0, %r1, %f1;", "%f1 is of another type" },
		{ "and.b16 %rs0, %rs1, %r1;", "%r1 is of another type" },
		{ "ld.global.u32 %rs0, [%rd1];", "%rs0 is of another type" },
		{ "ld.global.u32 %r0, [%r1];", "%r1 is of another type" },
		{ "ld.global.f32 %fd0, [%rd1];", "%fd0 is of another type" },
		{ "@%r1 bra $l; $l: ret;", "%r1 is of another type" },
		{ "add.s32 1, %r1, %r1;", "there is no register \"1\"" },
		{ "st.global.u32 [%rd1], 1;", "there is no register \"1\"" },
		{ "add.s32 %r0, %r1, 4294967296;", "no number of 32 bits" },
		{ "and.b16 %rs0, %rs1, -32769;", "no number of 16 bits" },
		{ "mov.pred %p0, 2;", "no number of 1 bits" },
		{ "mul.rn.f32 %f0, %f1, 1;", "no number of .f32" },
		{ "mul.rn.f32 %f0, %f1, 0d3FF0000000000000;", "no number of .f32" },
		{ "mul.rn.f32 %f0, %f1, 0f3F80000G;", "no number of 32 bits" },
		{ "add.s32 %r0, %r1;", "\",\" expected before \";\"" },
		{ "add.s32 %r0, %r1, %r2, %r3;", "\";\" expected before \",\"" },
		{ "add.s32 %r0, %r1, %r2 add.s32 %r0, %r1, %r2;",
		  "\";\" expected before \"add.s32\"" },
		{ "ld.global.v4.u32 {%r0, %r1, %r2}, [%rd1];", "\",\" expected" },
		{ "bra $l;", "there is no label $l in k" },
		{ "bra l; l: ret;", "\"l\" is no label" },
		{ "$l: ret; $l: ret;", "$l exists twice" },
		{ ".reg .b8 %x<2>;", "\".b8\" is no type of registers" },
		{ ".reg .b32 %x;", "\"<\" expected before \";\"" },
		{ ".reg .b32 %x<70000>;", "too many registers" },
		{ "ld.param.u32 %r0, [l_param_0];", "there is no register \"l_param_0\"" },
	};
	char text[4096];
	size_t i;

	for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		snprintf(text, sizeof(text), "%s%s ret; }", HEAD ENTRY REGISTERS,
			 bodies[i].body);
		refused(text, bodies[i].words);
	}
	refused("", "\".version\" expected");
	refused(".version 8.8", "\"6.3\" expected before \"8.8\"");
	refused(HEAD ENTRY "}", "k does not end with ret");
	refused(HEAD ENTRY REGISTERS "@%p0 ret; }", "k does not end with ret");
	refused(HEAD ENTRY REGISTERS "bra $l; $l: }", "there is no label $l");
	refused(HEAD ENTRY "ret;", "there is no instruction \"\"");
	refused(HEAD ".visible .func k()", "\".entry\" expected");
	refused(HEAD ".global .u32 x;", "\".visible\" expected");
}

/* The library's text is taken whole, but not if it is cut anywhere. */
static void library(void)
{
	size_t len = strlen(device_kernels_ptx), at;
	char *cut = malloc(len + 1), why[200] = "";
	struct ptx *p = ptx_load(device_kernels_ptx, why, sizeof(why));
	bool whole = p != NULL, none = true;
	int i;

	for (i = 0; whole && i < DEVICE_KERNEL_COUNT; i++) {
		const struct ptx_kernel *k =
			ptx_kernel(p, kernel_symbol((enum device_kernel)i));

		whole = k && ptx_parameter_bytes(k) == sizeof(struct device_move);
	}
	ok(whole && !ptx_kernel(p, "ringup_none"), "the library's text is taken%s%s",
	   *why ? ": " : "", why);
	ptx_unload(p);
	for (at = 1; at < len; at += 1009) {
		memcpy(cut, device_kernels_ptx, at);
		cut[at] = 0;
		p = ptx_load(cut, why, sizeof(why));
		/* Between two kernels it is a text, too. */
		none = none && (!p || !strncmp(device_kernels_ptx + at - 1, "}", 1));
		ptx_unload(p);
	}
	ok(none, "and is refused if it is cut");
	free(cut);
}

/* ---- memory ---- */

static int access_run(const char *instruction, uint64_t at)
{
	struct outcome out;

	return instruction_run(instruction, (uint64_t[]){ at, 0, 0 }, &out);
}

static void accesses(void)
{
	static const struct {
		const char *instruction;
		uint64_t at;
		int error;
	} cases[] = {
		{ "ld.global.u8 %rs0, [%rd1+63]", AT, PTX_OK },
		{ "ld.global.u8 %rs0, [%rd1]", AT + 64, PTX_ILLEGAL_ADDRESS },
		{ "ld.global.u8 %rs0, [%rd1+-1]", AT, PTX_ILLEGAL_ADDRESS },
		{ "ld.global.u16 %rs0, [%rd1]", AT + 1, PTX_MISALIGNED_ADDRESS },
		{ "ld.global.u32 %r0, [%rd1+2]", AT, PTX_MISALIGNED_ADDRESS },
		{ "ld.global.u64 %rd0, [%rd1+4]", AT, PTX_MISALIGNED_ADDRESS },
		{ "st.global.f64 [%rd1+4], %fd0", AT, PTX_MISALIGNED_ADDRESS },
		{ "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1]", AT + 48, PTX_OK },
		{ "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1]", AT + 8,
		  PTX_MISALIGNED_ADDRESS },
		{ "st.global.v4.u32 [%rd1], {%r0, %r1, %r2, %r3}", AT + 64,
		  PTX_ILLEGAL_ADDRESS },
		{ "ld.global.u64 %rd0, [%rd1]", AT + 128, PTX_OK },
		{ "st.global.u8 [%rd1], %rs0", AT + 128, PTX_ILLEGAL_ADDRESS },
		{ "ld.global.u8 %rs0, [%rd1]", 0, PTX_ILLEGAL_ADDRESS },
		{ "ld.global.u64 %rd0, [%rd1]", UINT64_MAX - 7, PTX_ILLEGAL_ADDRESS },
		{ "ld.param.u64 %rd0, [k_param_0+36]", 0, PTX_MISALIGNED_ADDRESS },
		{ "ld.param.u64 %rd0, [k_param_0+40]", 0, PTX_ILLEGAL_ADDRESS },
		{ "mov.b64 %rd1, k_param_0; ld.global.u64 %rd0, [%rd1]", 0,
		  PTX_ILLEGAL_ADDRESS },
		{ "ld.param.u64 %rd0, [%rd1]", AT, PTX_ILLEGAL_ADDRESS },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(access_run(cases[i].instruction, cases[i].at) == cases[i].error,
		   "%s at %#llx: error %d", cases[i].instruction,
		   (unsigned long long)cases[i].at, cases[i].error);
}

/* Each thread of each block adds 1 + 10 %tid.x + 100 %ctaid.x. */
static void threads(void)
{
	static const char text[] = HEAD ENTRY REGISTERS
		"mov.u32 %r0, %tid.x; mul.lo.s32 %r0, %r0, 10; mov.u32 %r1, %ctaid.x;"
		"mul.lo.s32 %r1, %r1, 100; add.s32 %r0, %r0, %r1; ld.param.u64 %rd0, "
		"[k_param_0]; ld.global.u32 %r1, [%rd0]; add.s32 %r1, %r1, %r0;"
		"add.s32 %r1, %r1, 1; st.global.u32 [%rd0], %r1; ret; }";
	struct parameter parameter = { .to = AT };
	char why[200];
	struct ptx *p = ptx_load(text, why, sizeof(why));
	const struct ptx_kernel *k = ptx_kernel(p, "k");
	uint32_t sum = 0;

	memset(memory, 0, sizeof(memory));
	ok(!ptx_run(k, 3, 2, &parameter, memory_find, NULL) &&
		   memcpy(&sum, memory, sizeof(sum)) && sum == 6 + 3 * 10 + 2 * 300,
	   "every thread of every block runs once");
	ok(ptx_run(k, 1, 3, &parameter, memory_find, NULL) == PTX_INVALID_VALUE &&
		   ptx_run(k, 0, 2, &parameter, memory_find, NULL) == PTX_INVALID_VALUE,
	   "a block has no more than .maxntid, and a grid some");
	parameter.to = AT + 60;
	ok(ptx_run(k, 1, 2, &parameter, memory_find, NULL) == PTX_OK, "the last word");
	parameter.to = AT + 64;
	ok(ptx_run(k, 3, 2, &parameter, memory_find, NULL) == PTX_ILLEGAL_ADDRESS,
	   "and none behind it");
	ptx_unload(p);
}

int main(void)
{
	semantics();
	refusals();
	library();
	accesses();
	threads();
	return tap_done();
}
