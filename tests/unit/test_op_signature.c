/* test_op_signature.c - what ranks ask for, compared and told. */
#include <string.h>

#include "base/err.h"
#include "base/kinds.h"
#include "engine/agree.h"
#include "engine/op_signature.h"
#include "tap.h"

/* Both sides' values are there, however long the name is. */
static void long_names(void)
{
	struct op_signature a = { .count = 40320,
				  .pre = 0.25,
				  .post = 0.5,
				  .dtype = RINGUP_BF16 },
			    b;
	const struct op_signature *of[2] = { &a, &b };
	char name[NAME_BYTES + 1], text[600];
	size_t n;
	int bad = 0;

	op_signature_shape(&a, (uint64_t[]){ 2, 3, 4, 5, 6, 7, 8 }, 7);
	b = a;
	b.shape[6] = 9;
	for (n = 1; n <= NAME_BYTES; n++) {
		memset(name, 'n', n);
		name[0] = 'A';
		name[n - 1] = 'Z';
		name[n] = 0;
		op_signature_disagree(name, of, 2, NULL, text, sizeof(text));
		bad += text[0] != (n > 1 ? 'A' : 'Z') ||
		       !strstr(text, "Z: rank 0 wants an allreduce (sum)") ||
		       !strstr(text, ",8] scaled by 0.25") ||
		       !strstr(text, ",9] scaled by 0.25") ||
		       !strstr(text, "0.5 after, rank 1") ||
		       strlen(text) >= sizeof(((struct err *)NULL)->text);
	}
	ok(!bad, "names of any length: %s", text);
}

/* Of many ranks' signatures the lowest is kept, and the lowest that differs from it. */
static void sets(void)
{
	struct op_signature a = { .count = 1, .pre = 1, .post = 1, .dtype = RINGUP_F32 }, b = a,
			    c = a;
	struct op_signatures x = { 0 }, y = { 0 };
	char text[256];

	b.count = 2;
	c.count = 3;
	op_signatures_add(&x, 4, &b);
	op_signatures_add(&x, 3, &b);
	ok(x.count == 1 && x.rank[0] == 3, "equal signatures are one");
	op_signatures_add(&y, 5, &a);
	op_signatures_add(&y, 2, &c);
	ok(y.count == 2 && y.rank[0] == 2 && y.rank[1] == 5, "others are two");
	op_signatures_merge(&x, &y);
	ok(x.count == 2 && x.rank[0] == 2 && x.rank[1] == 3 && x.signature[1].count == 2,
	   "the lowest that differs");
	op_signatures_text(&x, "t", NULL, text, sizeof(text));
	ok(!strcmp(text, "t: rank 2 wants an allreduce (sum) of 3 f32, rank 3 an allreduce "
			 "(sum) of 2 f32"),
	   "%s", text);
	op_signatures_text(&x, "t", (const int[]){ 1, 2, 5, 7, 8, 9 }, text, sizeof(text));
	ok(!strcmp(text, "t: rank 5 wants an allreduce (sum) of 3 f32, rank 7 an allreduce "
			 "(sum) of 2 f32"),
	   "%s", text);
}

/* Another kind of memory is known as such, and hides no other difference, in any order. */
static void mixed(void)
{
	struct op_signature a, far, other, one[2];
	struct op_signatures x, y;
	int wrong = 0;

	op_signature_init(&a, PLAN_ALLREDUCE, RINGUP_F32, 10);
	far = other = a;
	far.memory = RINGUP_CUDA;
	other.count = 11;
	ok(op_signature_is_mixed(&a, &far) && !op_signature_is_mixed(&a, &a) &&
		   !op_signature_is_mixed(&far, &other),
	   "the kind of memory, and nothing else");
	for (int i = 0; i < 64; i++) {
		const struct op_signature *of[] = { &a, &far, &other };
		bool differ = false;

		x = y = (struct op_signatures){ 0 };
		for (int r = 0; r < 3; r++) {
			int which = i >> 2 * r & 3;

			differ |= which == 2;
			op_signatures_add(r % 2 ? &y : &x, r, of[which % 3]);
		}
		differ &= (i & 3) != 2 || (i >> 2 & 3) != 2 || (i >> 4 & 3) != 2;
		op_signatures_merge(&x, &y);
		wrong += x.count == 2 &&
			 differ == op_signature_is_mixed(&x.signature[0], &x.signature[1]);
		wrong += x.count < 2 && differ;
	}
	ok(!wrong, "the sets of three ranks");
	for (int i = 0; i < 2; i++) {
		op_signature_init(&one[i], OP_BUNDLE, RINGUP_U8, 0);
		op_signature_member(&one[i], &a);
		op_signature_member(&one[i], i ? &far : &a);
	}
	ok(op_signature_is_mixed(&one[0], &one[1]), "of a member of a bundle");
	op_signature_member(&one[0], &other);
	op_signature_member(&one[1], &a);
	ok(!op_signature_is_mixed(&one[0], &one[1]), "beside another member");
}

int main(void)
{
	struct op_signature a = { .count = 10, .pre = 1, .post = 1, .dtype = RINGUP_F32 },
			    b = a, c = a;
	const struct op_signature *of[3] = { &a, &b, &c };
	unsigned char wire[OP_SIGNATURE_WIRE];
	char text[600];

	ok(op_signature_equal(&a, &b), "equal");
	b.post = 0.5;
	ok(!op_signature_equal(&a, &b), "a scale makes a difference");
	op_signature_text(&b, NULL, text, sizeof(text));
	ok(!strcmp(text, "allreduce (sum) of 10 f32 scaled by 1 before and 0.5 after"), "%s",
	   text);
	b.post = 1 + 0x1p-40;
	op_signature_text(&b, NULL, text, sizeof(text));
	ok(strstr(text, " and 1.000000000000909"), "what differs by little reads so: %s", text);
	b = a;
	c.count = 12;
	op_signature_disagree("grad/fc1", of, 3, NULL, text, sizeof(text));
	ok(!strcmp(text, "grad/fc1: rank 0 wants an allreduce (sum) of 10 f32, rank 2 an "
			 "allreduce (sum) of 12 f32"),
	   "%s", text);
	b.kind = PLAN_BROADCAST;
	b.root = 1;
	op_signature_disagree("x", of, 3, NULL, text, sizeof(text));
	ok(strstr(text, "rank 1 a broadcast from rank 1 of 10 f32; 1 more differ") != NULL,
	   "%s", text);
	op_signature_disagree("x", of, 3, (const int[]){ 4, 6, 7 }, text, sizeof(text));
	ok(!strncmp(text, "x: rank 4 wants", 15) &&
		   strstr(text, "rank 6 a broadcast from rank 6 of 10 f32; 1 more differ from "
				"rank 4"),
	   "in a group, as the world counts: %s", text);
	ok(op_signature_bytes(&a) == 40, "bytes");
	ok(op_signature_valid(&a, 3), "valid");
	b.root = 3;
	ok(!op_signature_valid(&b, 3), "a root that is no rank is not");
	b.root = -1;
	ok(!op_signature_valid(&b, 3), "nor a negative one");
	b = a;
	b.dtype = DTYPE_COUNT;
	ok(!op_signature_valid(&b, 3), "nor an unknown type");
	b = a;
	b.count = UINT64_MAX / 2;
	ok(!op_signature_valid(&b, 3), "nor what fits nowhere");
	b = c = a;
	op_signature_shape(&b, (uint64_t[]){ 5, 2 }, 2);
	op_signature_shape(&c, (uint64_t[]){ 2, 5 }, 2);
	op_signature_disagree("m", (const struct op_signature *[]){ &b, &c }, 2, NULL, text,
			      sizeof(text));
	ok(!strcmp(text, "m: rank 0 wants an allreduce (sum) of 10 f32, shape [5,2], rank 1 an "
			 "allreduce (sum) of 10 f32, shape [2,5]"),
	   "%s", text);
	op_signature_shape(&b, (uint64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 5, 2 }, 10);
	ok(b.dims == OP_SIGNATURE_DIMS && b.shape[OP_SIGNATURE_DIMS - 1] == 10,
	   "more dimensions than we keep");
	op_signature_shape(&c, (uint64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 2, 5 }, 10);
	op_signature_put(wire, &c);
	op_signature_get(wire, &a);
	ok(!op_signature_equal(&b, &c) && op_signature_equal(&a, &c), "are compared, too");
	a = b = c;
	b.memory = RINGUP_CUDA;
	op_signature_put(wire, &b);
	op_signature_get(wire, &c);
	ok(!op_signature_equal(&a, &b) && op_signature_equal(&b, &c) && b.redop == a.redop,
	   "and so are kinds of memory");
	op_signature_text(&b, NULL, text, sizeof(text));
	ok(strstr(text, "in more dimensions] in CUDA memory"), "%s", text);
	b.memory = MEMORY_COUNT;
	ok(!op_signature_valid(&b, 3), "an unknown one is not valid");
	sets();
	mixed();
	long_names();
	return tap_done();
}
