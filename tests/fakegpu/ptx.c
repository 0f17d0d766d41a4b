/* ptx.c - for tests: run PTX on the processor, as a GPU would; see ptx.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/ptx.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Everything that an instruction reads or writes is a slot of 64 bits: registers, constants and
 * %tid.x alike.  A value narrower than its slot has zeros above it.
 */
enum { SLOT_TRUE, SLOT_TID, SLOT_CTAID, SLOT_PARAMETER, SLOTS_FIXED };

/* Where a kernel finds its parameter: in the space .param, so no memory has this address. */
#define PARAMETER_AT UINT64_C(0x160)

/* ---- instructions ---- */

/*
 * X(operation, "instruction operands;...", value of the first operand).  The operands are
 *
 *	p h w l f d   a register of 1, 16, 32 or 64 bits, of .f32 or .f64; or a constant
 *	x y           a register of any type of 32 or 64 bits, or a constant
 *	H W L F D     a register, H and W of at least 16 or 32 bits
 *	s n           as w or y, or a special register or the parameter's name
 *	a v t         an address, {four w}, a label
 */
/* clang-format off */
#define OPERATIONS(X) \
	X(MOV,     "mov.pred pp;mov.u32 ws;mov.b32 xx;mov.b64 yn", A) \
	X(ADD,     "add.s32 www;add.s64 lll", A + B) \
	X(SUB,     "sub.s32 www", A - B) \
	X(MUL,     "mul.lo.s32 www;mul.wide.u32 lww", A * B) \
	X(DIV_U,   "div.u32 www", B ? A / B : PTX_POISON) \
	X(DIV_S64, "div.s64 lll", quotient(A, B)) \
	X(MIN_U,   "min.u32 www", A < B ? A : B) \
	X(AND,     "and.pred ppp;and.b16 hhh;and.b32 www;and.b64 lll", A & B) \
	X(OR,      "or.b32 www;or.b64 lll", A | B) \
	X(XOR,     "xor.pred ppp", A ^ B) \
	X(NOT,     "not.pred pp", ~A) \
	X(SHL_32,  "shl.b32 www", B < 32 ? A << B : 0) \
	X(SHL_64,  "shl.b64 llw", B < 64 ? A << B : 0) \
	X(SHR_U,   "shr.u32 www", B < 32 ? A >> B : 0) \
	X(SELP,    "selp.b16 hhhp;selp.u16 hhhp;selp.b32 xxxp;selp.b64 yyyp", C ? A : B) \
	X(EQ,      "setp.eq.s16 phh;setp.eq.b32 pww;setp.eq.s32 pww;setp.eq.s64 pll", A == B) \
	X(NE,      "setp.ne.s16 phh", A != B) \
	X(LT_U,    "setp.lt.u32 pww", A < B) \
	X(GT_U,    "setp.gt.u16 phh;setp.gt.u32 pww", A > B) \
	X(GE_U,    "setp.ge.u32 pww", A >= B) \
	X(EQ_F64,  "setp.eq.f64 pdd", f64(A) == f64(B)) \
	X(LT_F64,  "setp.lt.f64 pdd", f64(A) < f64(B)) \
	X(GT_F64,  "setp.gt.f64 pdd", f64(A) > f64(B)) \
	X(GE_F64,  "setp.ge.f64 pdd", f64(A) >= f64(B)) \
	X(ADD_F32, "add.rn.f32 fff", of_f32(f32(A) + f32(B))) \
	X(MUL_F32, "mul.rn.f32 fff", of_f32(f32(A) * f32(B))) \
	X(DIV_F32, "div.rn.f32 fff", of_f32(f32(A) / f32(B))) \
	X(MUL_F64, "mul.rn.f64 ddd", of_f64(f64(A) * f64(B))) \
	X(DIV_F64, "div.rn.f64 ddd", of_f64(f64(A) / f64(B))) \
	X(CVT_U,   "cvt.u16.u32 hw;cvt.u16.u64 hl;cvt.u32.u16 wh;cvt.u32.u64 wl;cvt.u64.u32 lw", A) \
	X(CVT_S8,  "cvt.s16.s8 hH", (int8_t)A) \
	X(CVT_S16, "cvt.s32.s16 wH", (int16_t)A) \
	X(F32_F64, "cvt.rn.f32.f64 fd", of_f32((float)f64(A))) \
	X(F32_S64, "cvt.rn.f32.s64 fl", of_f32((float)(int64_t)A)) \
	X(F32_U,   "cvt.rn.f32.u16 fh", of_f32((float)A)) \
	X(F64_S16, "cvt.rn.f64.s16 dh", of_f64((double)(int16_t)A)) \
	X(F64_S32, "cvt.rn.f64.s32 dw", of_f64((double)(int32_t)A)) \
	X(F64_S64, "cvt.rn.f64.s64 dl", of_f64((double)(int64_t)A)) \
	X(F64_U,   "cvt.rn.f64.u16 dh", of_f64((double)A)) \
	X(S32_F64, "cvt.rzi.s32.f64 wd", truncated(f64(A), -0x1p31, 0x1p31, 32)) \
	X(S64_F64, "cvt.rzi.s64.f64 ld", truncated(f64(A), -0x1p63, 0x1p63, 64)) \
	X(U32_F64, "cvt.rzi.u32.f64 wd", truncated(f64(A), 0, 0x1p32, 32)) \
	X(CVTA,    "cvta.to.global.u64 ll", A)
/* clang-format on */

/* X(type, as C's, register). */
#define TYPES(X)              \
	X(u8, uint8_t, "H")   \
	X(s8, int8_t, "H")    \
	X(u16, uint16_t, "H") \
	X(s16, int16_t, "H")  \
	X(u32, uint32_t, "W") \
	X(s32, int32_t, "W")  \
	X(u64, uint64_t, "L") \
	X(f32, uint32_t, "F") \
	X(f64, uint64_t, "D")

enum operation {
#define X(name, forms, value) OP_##name,
	OPERATIONS(X)
#undef X
#define X(type, as_c, kind) OP_PARAM_##type, OP_LOAD_##type, OP_STORE_##type,
		TYPES(X)
#undef X
			OP_LOAD_V4,
	OP_STORE_V4,
	OP_SKIP,
	OP_BRA,
	OP_RET,
	OP_COUNT
};

/* Each instruction stands between a semicolon and a space; those of one operation begin with
 * the same two letters. */
static const char *const forms_of[OP_COUNT] = {
#define X(name, forms, value) [OP_##name] = ";" forms,
	OPERATIONS(X)
#undef X
#define X(type, as_c, kind)                                  \
	[OP_PARAM_##type] = ";ld.param." #type " " kind "a", \
	[OP_LOAD_##type] = ";ld.global." #type " " kind "a", \
	[OP_STORE_##type] = ";st.global." #type " a" kind,
		TYPES(X)
#undef X
			[OP_LOAD_V4] = ";ld.global.v4.u32 va",
	[OP_STORE_V4] = ";st.global.v4.u32 av",
	[OP_SKIP] = ";", /* of this program: leave out the next one */
	[OP_BRA] = ";bra t;bra.uni t",
	[OP_RET] = ";ret ",
};

/* An operand's letter; the registers that it may be, by the letters of their types; its bits.
 */
static const struct kind {
	char letter, registers[4];
	int bits;
} kinds[] = {
	{ 'p', "p", 1 },   { 'h', "h", 16 },  { 'w', "w", 32 },   { 'l', "l", 64 },
	{ 'f', "fw", 32 }, { 'd', "dl", 64 }, { 'x', "wf", 32 },  { 'y', "ld", 64 },
	{ 's', "w", 32 },  { 'n', "ld", 64 }, { 'H', "hwl", 16 }, { 'W', "wl", 32 },
	{ 'L', "l", 64 },  { 'F', "fw", 32 }, { 'D', "dl", 64 },
};

struct instruction {
	uint16_t operation, slot[5];
	uint16_t guard, unless; /* branches and OP_SKIP: the slot and its value for "no" */
	int64_t number;         /* added to the address; or where to go on */
	uint64_t mask;          /* bits of the first operand */
};

struct ptx_kernel {
	char name[64], parameter[80];
	size_t parameter_bytes;
	unsigned int threads; /* of a block, at most */
	struct instruction *code;
	uint64_t *slots; /* as a thread finds them */
	size_t code_count, slot_count, register_end;
};

struct ptx {
	struct ptx_kernel *kernels;
	size_t count;
};

/* ---- the parser ---- */

enum { TYPE_COUNT = 6, NAME_COUNT = 8, LABEL_COUNT = 200 };

/* After an error the text has no more words, so that every caller comes to its end. */
struct parser {
	const char *at;
	int line;
	char word[96];
	char *why;
	size_t room;
	bool failed;
	struct ptx_kernel *kernel;
	struct {
		char prefix[8], type;
		size_t first, count;
	} registers[NAME_COUNT];
	struct {
		char name[32];
		size_t at; /* 0: not seen yet, or one more than its instruction's number */
	} labels[LABEL_COUNT];
	int type_count, label_count;
};

__attribute__((format(printf, 2, 3))) static void refuse(struct parser *p, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	if (p->failed)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(p->why, p->room, "line %d: %s", p->line, text);
	p->failed = true;
	p->word[0] = 0;
}

/* Of names and numbers; anything else is a word by itself. */
static bool is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '%' || c == '$';
}

static void word_next(struct parser *p)
{
	size_t len = 0;

	if (p->failed)
		return;
	for (; *p->at == ' ' || *p->at == '\t' || *p->at == '\n'; p->at++)
		p->line += *p->at == '\n';
	while (is_letter(p->at[len]))
		len++;
	len = len || !*p->at ? len : 1;
	if (len >= sizeof(p->word)) {
		refuse(p, "%.20s... is too long", p->at);
		return;
	}
	memcpy(p->word, p->at, len);
	p->word[len] = 0;
	p->at += len;
}

static bool word_is(struct parser *p, const char *text)
{
	if (p->failed || strcmp(p->word, text) != 0)
		return false;
	word_next(p);
	return true;
}

/* Words with a space between. */
static void words_expect(struct parser *p, const char *words)
{
	size_t len;

	for (; *words; words += len) {
		words += *words == ' ';
		len = strcspn(words, " ");
		if (strlen(p->word) != len || memcmp(words, p->word, len) != 0)
			refuse(p, "\"%.*s\" expected before \"%s\"", (int)len, words, p->word);
		word_next(p);
	}
}

static void word_copy(struct parser *p, char *to, size_t room)
{
	if (snprintf(to, room, "%s", p->word) >= (int)room || !*to)
		refuse(p, "no name: \"%s\"", p->word);
	word_next(p);
}

/* A number of @bits, signed or not; or an 0f or 0d, if it is of that kind. */
static uint64_t number_read(struct parser *p, char kind, int bits)
{
	uint64_t mask = UINT64_MAX >> (64 - bits), value;
	bool real = strchr("fFdD", kind), negative = !real && word_is(p, "-");
	const char *digits = p->word + (real ? 2 : 0);
	char *end;

	if (real && (p->word[0] != '0' || p->word[1] != (bits == 32 ? 'f' : 'd') ||
		     strlen(digits) != (size_t)bits / 4))
		refuse(p, "\"%s\" is no number of .f%d", p->word, bits);
	value = strtoull(digits, &end, real ? 16 : 0);
	if (end == digits || *end || value > mask || (negative && value > mask / 2 + 1))
		refuse(p, "\"%s\" is no number of %d bits", p->word, bits);
	word_next(p);
	return (negative ? -value : value) & mask;
}

static unsigned int integer_read(struct parser *p)
{
	return (unsigned int)number_read(p, 'w', 32);
}

/* Room for one more element of @size: arrays grow whenever their count is a power of 2. */
static void *room_for(void *array, size_t count, size_t size)
{
	return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * size);
}

static size_t slot_new(struct parser *p, uint64_t value)
{
	struct ptx_kernel *k = p->kernel;

	if (k->slot_count > UINT16_MAX)
		refuse(p, "too many registers");
	k->slots = room_for(k->slots, k->slot_count, sizeof(*k->slots));
	k->slots[k->slot_count] = value;
	return k->slot_count++;
}

static size_t label_find(struct parser *p, const char *name)
{
	int i;

	for (i = 0; i < p->label_count; i++)
		if (!strcmp(p->labels[i].name, name))
			return (size_t)i;
	if (i == LABEL_COUNT || name[0] != '$' || strlen(name) >= sizeof(p->labels[0].name)) {
		refuse(p, "\"%s\" is no label, or one too many", name);
		return 0;
	}
	strcpy(p->labels[i].name, name);
	p->labels[i].at = 0;
	p->label_count++;
	return (size_t)i;
}

/* The slot of a register that an operand of this kind may be. */
static size_t register_read(struct parser *p, const struct kind *kind)
{
	size_t prefix = strcspn(p->word, "0123456789"), number;
	char *end;
	int i;

	for (i = 0; i < p->type_count; i++)
		if (strlen(p->registers[i].prefix) == prefix &&
		    !strncmp(p->registers[i].prefix, p->word, prefix))
			break;
	number = strtoul(p->word + prefix, &end, 10);
	if (i == p->type_count || !p->word[prefix] || *end || number >= p->registers[i].count) {
		refuse(p, "there is no register \"%s\"", p->word);
		return 0;
	}
	if (!strchr(kind->registers, p->registers[i].type))
		refuse(p, "%s is of another type than the instruction", p->word);
	word_next(p);
	return p->registers[i].first + number;
}

static const struct kind *kind_of(char letter)
{
	const struct kind *k = kinds;

	while (k->letter != letter)
		k++;
	return k;
}

static bool is_parameter(struct parser *p)
{
	return word_is(p, p->kernel->parameter);
}

/* The slot of an operand that is a value; only a register is ever written. */
static size_t value_read(struct parser *p, char letter, bool written)
{
	const struct kind *kind = kind_of(letter);

	if (letter == 's' && word_is(p, "%tid.x"))
		return SLOT_TID;
	if (letter == 's' && word_is(p, "%ctaid.x"))
		return SLOT_CTAID;
	if (letter == 'n' && is_parameter(p))
		return SLOT_PARAMETER;
	if (p->word[0] == '%' || written || strchr("HWLFD", letter))
		return register_read(p, kind);
	return slot_new(p, number_read(p, letter, kind->bits));
}

static void address_read(struct parser *p, uint16_t *slot, struct instruction *i)
{
	words_expect(p, "[");
	*slot = (uint16_t)(is_parameter(p) ? SLOT_PARAMETER : register_read(p, kind_of('l')));
	if (word_is(p, "+"))
		i->number = (int32_t)number_read(p, 'w', 32);
	words_expect(p, "]");
}

/* Returns the number of slots that the operand takes. */
static int operand_read(struct parser *p, char letter, int n, struct instruction *i)
{
	int j;

	if (letter == 'a') {
		address_read(p, &i->slot[n], i);
		return 1;
	}
	if (letter == 't') {
		i->number = (int64_t)label_find(p, p->word);
		word_next(p);
		return 1;
	}
	if (letter != 'v') {
		i->slot[n] = (uint16_t)value_read(p, letter, n == 0);
		return 1;
	}
	for (j = 0; j < 4; j++) {
		words_expect(p, j ? "," : "{");
		i->slot[n + j] = (uint16_t)register_read(p, kind_of('w'));
	}
	words_expect(p, "}");
	return 4;
}

static uint64_t mask_of(const struct parser *p, size_t slot)
{
	int i;

	for (i = 0; i < p->type_count; i++)
		if (slot - p->registers[i].first < p->registers[i].count)
			return UINT64_MAX >> (64 - kind_of(p->registers[i].type)->bits);
	return 0;
}

/* The operands of the instruction in p->word, or NULL. */
static const char *form_find(struct parser *p, uint16_t *operation)
{
	char wanted[sizeof(p->word) + 2];
	const char *at;
	int i;

	snprintf(wanted, sizeof(wanted), ";%s ", p->word);
	for (i = 0; i < OP_COUNT; i++) {
		/* strstr() alone would take milliseconds for the whole text. */
		at = forms_of[i][1] == wanted[1] && forms_of[i][2] == wanted[2]
			     ? strstr(forms_of[i], wanted)
			     : NULL;
		if (at) {
			*operation = (uint16_t)i;
			return at + strlen(wanted);
		}
	}
	refuse(p, "there is no instruction \"%s\"", p->word);
	return NULL;
}

static void instruction_add(struct ptx_kernel *k, struct instruction i)
{
	k->code = room_for(k->code, k->code_count, sizeof(*k->code));
	k->code[k->code_count++] = i;
}

static void instruction_read(struct parser *p)
{
	struct instruction i = { .guard = SLOT_TRUE };
	const char *form;
	int n = 0;

	if (word_is(p, "@")) {
		i.unless = word_is(p, "!");
		i.guard = (uint16_t)register_read(p, kind_of('p'));
	}
	form = form_find(p, &i.operation);
	if (!form)
		return;
	word_next(p);
	for (; *form && *form != ';'; form++) {
		if (n)
			words_expect(p, ",");
		n += operand_read(p, *form, n, &i);
	}
	words_expect(p, ";");
	i.mask = mask_of(p, i.slot[0]);
	if (i.guard != SLOT_TRUE && i.operation < OP_SKIP)
		instruction_add(p->kernel, (struct instruction){ .operation = OP_SKIP,
								 .guard = i.guard,
								 .unless = i.unless });
	instruction_add(p->kernel, i);
}

/* .reg .b32 %r<94>; */
static void registers_read(struct parser *p)
{
	static const struct {
		const char *name;
		char letter;
	} types[TYPE_COUNT] = {
		{ ".pred", 'p' }, { ".b16", 'h' }, { ".b32", 'w' },
		{ ".b64", 'l' },  { ".f32", 'f' }, { ".f64", 'd' },
	};
	int n = p->type_count, i = 0;
	uint64_t poison;
	size_t count;

	while (i < TYPE_COUNT && !word_is(p, types[i].name))
		i++;
	if (i == TYPE_COUNT || n == NAME_COUNT) {
		refuse(p, "\"%s\" is no type of registers, or one too many", p->word);
		return;
	}
	p->registers[n].type = types[i].letter;
	word_copy(p, p->registers[n].prefix, sizeof(p->registers[n].prefix));
	words_expect(p, "<");
	count = integer_read(p);
	words_expect(p, ">");
	words_expect(p, ";");
	p->registers[n].first = p->kernel->slot_count;
	p->registers[n].count = count;
	p->type_count++;
	poison = PTX_POISON >> (64 - kind_of(types[i].letter)->bits);
	while (count-- && !p->failed)
		slot_new(p, poison);
	p->kernel->register_end = p->kernel->slot_count;
}

static void label_read(struct parser *p)
{
	size_t label = label_find(p, p->word);

	if (p->labels[label].at)
		refuse(p, "%s exists twice", p->word);
	p->labels[label].at = p->kernel->code_count + 1;
	word_next(p);
	words_expect(p, ":");
}

/* Branches go to instructions, and none goes, nor comes, past the last one. */
static void branches_end(struct parser *p)
{
	struct ptx_kernel *k = p->kernel;
	const struct instruction *last = k->code_count ? &k->code[k->code_count - 1] : NULL;
	size_t i, at;

	if (!last || last->guard != SLOT_TRUE || last->operation < OP_BRA)
		refuse(p, "%s does not end with ret", k->name);
	for (i = 0; i < k->code_count && !p->failed; i++) {
		if (k->code[i].operation != OP_BRA)
			continue;
		at = p->labels[k->code[i].number].at;
		if (!at || at > k->code_count)
			refuse(p, "there is no label %s in %s",
			       p->labels[k->code[i].number].name, k->name);
		k->code[i].number = (int64_t)at - 1;
	}
}

static void body_read(struct parser *p)
{
	static const uint64_t fixed[SLOTS_FIXED] = {
		[SLOT_TRUE] = 1, [SLOT_PARAMETER] = PARAMETER_AT
	};
	int i;

	p->type_count = p->label_count = 0;
	for (i = 0; i < SLOTS_FIXED; i++)
		slot_new(p, fixed[i]);
	while (!p->failed && !word_is(p, "}")) {
		if (p->word[0] == '$')
			label_read(p);
		else if (word_is(p, ".reg"))
			registers_read(p);
		else
			instruction_read(p);
	}
	if (!p->failed)
		branches_end(p);
}

static void kernel_read(struct parser *p)
{
	struct ptx_kernel *k = p->kernel;

	words_expect(p, ".visible .entry");
	word_copy(p, k->name, sizeof(k->name));
	words_expect(p, "( .param .align 8 .b8");
	word_copy(p, k->parameter, sizeof(k->parameter));
	words_expect(p, "[");
	k->parameter_bytes = integer_read(p);
	words_expect(p, "] ) .maxntid");
	k->threads = integer_read(p);
	words_expect(p, ", 1 , 1 {");
	body_read(p);
}

struct ptx *ptx_load(const char *text, char *why, size_t room)
{
	struct parser *p = calloc(1, sizeof(*p));
	struct ptx *ptx = calloc(1, sizeof(*ptx));
	bool failed;

	*p = (struct parser){ .at = text, .line = 1, .why = why, .room = room };
	word_next(p);
	words_expect(p, ".version 6.3 .target sm_70 .address_size 64");
	while (!p->failed && p->word[0]) {
		ptx->kernels = room_for(ptx->kernels, ptx->count, sizeof(*ptx->kernels));
		p->kernel = &ptx->kernels[ptx->count++];
		*p->kernel = (struct ptx_kernel){ 0 };
		kernel_read(p);
	}
	failed = p->failed;
	free(p);
	if (!failed)
		return ptx;
	ptx_unload(ptx);
	return NULL;
}

void ptx_unload(struct ptx *p)
{
	size_t i;

	for (i = 0; p && i < p->count; i++) {
		free(p->kernels[i].code);
		free(p->kernels[i].slots);
	}
	if (p)
		free(p->kernels);
	free(p);
}

const struct ptx_kernel *ptx_kernel(const struct ptx *p, const char *name)
{
	size_t i;

	for (i = 0; i < p->count; i++)
		if (!strcmp(p->kernels[i].name, name))
			return &p->kernels[i];
	return NULL;
}

size_t ptx_parameter_bytes(const struct ptx_kernel *k)
{
	return k->parameter_bytes;
}

unsigned int ptx_block_most(const struct ptx_kernel *k)
{
	return k->threads;
}

/* ---- arithmetic ---- */

/* Slots are nobody else's, and ThreadSanitizer would take most of the time for them. */
#define UNSEEN __attribute__((no_sanitize("thread"))) static

UNSEEN float f32(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

UNSEEN double f64(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/* Arithmetic of .f32 gives one NaN only; that of .f64 keeps what it had. */
UNSEEN uint64_t of_f32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return f != f ? 0x7fffffff : bits;
}

UNSEEN uint64_t of_f64(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

/* cvt.rzi to an integer of @bits in [@low, @high): towards zero, or the nearest that there is;
 * a NaN of .f64 gives the highest bit alone (PTX ISA, cvt). */
UNSEEN uint64_t truncated(double x, double low, double high, int bits)
{
	uint64_t top = UINT64_C(1) << (bits - 1);

	if (x != x)
		return top;
	if (x >= high)
		return low < 0 ? top - 1 : 2 * top - 1;
	if (x <= low)
		return low < 0 ? top : 0;
	return (uint64_t)(int64_t)x;
}

/* div.s64 */
UNSEEN uint64_t quotient(uint64_t a, uint64_t b)
{
	if (!b)
		return PTX_POISON;
	return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

/* ---- running ---- */

enum space { READ, WRITTEN, PARAMETER, SPACES };

struct run {
	const struct ptx_kernel *kernel;
	ptx_find *find;
	void *arg;
	struct ptx_range range[SPACES]; /* where the last access was */
	int error;
};

UNSEEN bool range_has(const struct ptx_range *r, uint64_t at, size_t bytes)
{
	return at - r->at < r->bytes && r->bytes - (at - r->at) >= bytes;
}

/* Where the host has that memory; NULL: run->error says why not. */
UNSEEN void *memory_at(struct run *run, enum space space, uint64_t at, size_t bytes)
{
	struct ptx_range *r = &run->range[space];

	if (at & (bytes - 1))
		run->error = PTX_MISALIGNED_ADDRESS;
	else if (range_has(r, at, bytes) ||
		 (space != PARAMETER && run->find(run->arg, at, space == WRITTEN, r) &&
		  range_has(r, at, bytes)))
		return r->host + (at - r->at);
	else
		run->error = PTX_ILLEGAL_ADDRESS;
	return NULL;
}

/* What ThreadSanitizer sees. */
static void bytes_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#define A slot[i->slot[1]]
#define B slot[i->slot[2]]
#define C slot[i->slot[3]]

/* One thread, to its end or to an error.  Its slots are nobody else's, and ThreadSanitizer
 * would take most of the time for them; memory_move() is what it shall see. */
__attribute__((no_sanitize("thread"))) static void thread_run(struct run *run, uint64_t *slot)
{
	const struct instruction *i, *next = run->kernel->code;
	uint32_t word[4];
	void *at;
	int j;

	for (;;) {
		i = next++;
		switch (i->operation) {
#define X(name, forms, value)                                 \
	case OP_##name:                                       \
		slot[i->slot[0]] = (uint64_t)(value)&i->mask; \
		break;
			OPERATIONS(X)
#undef X
#define AT(space, address, own) \
	(at = memory_at(run, space, slot[i->slot[address]] + (uint64_t)i->number, sizeof(own)))
#define X(name, type, kind)                               \
	case OP_PARAM_##name: {                           \
		type x;                                   \
                                                          \
		if (!AT(PARAMETER, 1, x))                 \
			return;                           \
		memcpy(&x, at, sizeof(x));                \
		slot[i->slot[0]] = (uint64_t)x & i->mask; \
		break;                                    \
	}                                                 \
	case OP_LOAD_##name: {                            \
		type x;                                   \
                                                          \
		if (!AT(READ, 1, x))                      \
			return;                           \
		bytes_copy(&x, at, sizeof(x));            \
		slot[i->slot[0]] = (uint64_t)x & i->mask; \
		break;                                    \
	}                                                 \
	case OP_STORE_##name: {                           \
		type x = (type)A;                         \
                                                          \
		if (!AT(WRITTEN, 0, x))                   \
			return;                           \
		bytes_copy(at, &x, sizeof(x));            \
		break;                                    \
	}
			TYPES(X)
#undef X
		case OP_LOAD_V4:
			if (!AT(READ, 4, word))
				return;
			bytes_copy(word, at, sizeof(word));
			for (j = 0; j < 4; j++)
				slot[i->slot[j]] = word[j];
			break;
		case OP_STORE_V4:
			if (!AT(WRITTEN, 0, word))
				return;
			for (j = 0; j < 4; j++)
				word[j] = (uint32_t)slot[i->slot[1 + j]];
			bytes_copy(at, word, sizeof(word));
			break;
		case OP_SKIP:
			next += slot[i->guard] == i->unless;
			break;
		case OP_BRA:
			if (slot[i->guard] != i->unless)
				next = run->kernel->code + i->number;
			break;
		case OP_RET:
			if (slot[i->guard] != i->unless)
				return;
			break;
		}
	}
}

/* Registers are as if never written. */
UNSEEN void slots_begin(const struct ptx_kernel *k, uint64_t *slot)
{
	size_t i;

	for (i = 0; i < k->register_end; i++)
		slot[i] = k->slots[i];
}

int ptx_run(const struct ptx_kernel *k, unsigned int grid, unsigned int block,
	    const void *parameter, ptx_find *find, void *arg)
{
	struct run run = { .kernel = k, .find = find, .arg = arg };
	uint64_t *slot = malloc(k->slot_count * sizeof(*slot));
	unsigned int b, t;

	run.range[PARAMETER] = (struct ptx_range){ PARAMETER_AT, k->parameter_bytes,
						   (unsigned char *)(uintptr_t)parameter };
	if (!grid || !block || block > k->threads)
		run.error = PTX_INVALID_VALUE;
	memcpy(slot, k->slots, k->slot_count * sizeof(*slot));
	for (b = 0; b < grid && !run.error; b++)
		for (t = 0; t < block && !run.error; t++) {
			slots_begin(k, slot);
			slot[SLOT_TID] = t;
			slot[SLOT_CTAID] = b;
			thread_run(&run, slot);
		}
	free(slot);
	return run.error;
}
