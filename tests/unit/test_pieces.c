/* test_pieces.c - tensors in a row, taken apart and put together. */
#include <string.h>

#include "backend/pieces.h"
#include "tap.h"

int main(void)
{
	const float a[3] = { 1, 2, 3 }, b[4] = { 4, 5, 6, 7 };
	float x[3] = { 0 }, y[4] = { 0 }, row[8] = { 0 };
	struct piece piece[] = { { .in = NULL, .out = NULL, .count = 0 },
				 { .in = a, .out = x, .count = 3 },
				 { .in = NULL, .out = NULL, .count = 0 },
				 { .in = b, .out = y, .count = 4 } };
	struct plan p = {
		.dtype = RINGUP_F32, .pre = 1, .piece = piece, .pieces = 4, .count = 7
	};
	struct pieces_at put = { 0 }, take = { 0 };

	pieces_put(&p, &put, row, 2);
	ok(row[0] == 1 && row[1] == 2 && row[2] == 0, "the beginning");
	pieces_put(&p, &put, row + 2, 0);
	ok(row[2] == 0, "nothing");
	pieces_put(&p, &put, row + 2, 5);
	ok(row[2] == 3 && row[3] == 4 && row[6] == 7 && row[7] == 0, "across an empty one");
	pieces_take(&p, &take, row, 5, false);
	ok(x[0] == 1 && x[2] == 3 && y[1] == 5 && y[2] == 0, "back");
	pieces_take(&p, &take, row + 5, 2, true);
	ok(!memcmp(x, a, sizeof(a)) && !memcmp(y, b, sizeof(b)), "all the way");
	p.pre = 2;
	put = (struct pieces_at){ 0 };
	pieces_put(&p, &put, row, 7);
	ok(row[0] == 2 && row[6] == 14, "scaled");
	return tap_done();
}
