/* test_tensor.c - names and numbers find the same tensor. */
#include <string.h>

#include "engine/tensor.h"
#include "tap.h"

int main(void)
{
	struct tensors t = { 0 };
	struct tensor *x, *y;
	char name[32];
	int i, good = 1;

	tensors_free(&t);
	ok(tensors_by_id(&t, 0) == NULL, "empty");
	x = tensors_get(&t, "a", 1);
	y = tensors_get(&t, "\0a", 2);
	ok(x && y && x != y, "names may contain any byte");
	ok(x->id == UINT32_MAX, "a new one has no number");
	ok(tensors_number(&t, x, 5000) == 0 && tensors_by_id(&t, 5000) == x, "then it has");
	ok(tensors_by_id(&t, 4999) == NULL && tensors_by_id(&t, 99999) == NULL,
	   "others are free");
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		y = tensors_get(&t, name, strlen(name));
		good &= y && !tensors_number(&t, y, (uint32_t)i);
	}
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		good &= tensors_get(&t, name, strlen(name)) == tensors_by_id(&t, (uint32_t)i);
	}
	ok(good && tensors_get(&t, "a", 1) == x, "five thousand are found again");
	y = tensors_get(&t, "newcomer", 8);
	good = !tensors_number(&t, y, 77);
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		if (i != 77)
			good &= tensors_get(&t, name, strlen(name)) ==
				tensors_by_id(&t, (uint32_t)i);
	}
	ok(good && tensors_by_id(&t, 77) == y, "who takes a number over, takes it alone");
	snprintf(name, sizeof(name), "layer.%d.weight", 77);
	ok(tensors_get(&t, name, strlen(name))->id == UINT32_MAX, "and the other starts anew");
	y = tensors_get(&t, name, strlen(name));
	ok(tensors_again(&t, name) == y, "found by the address of its name");
	name[0] = 'L';
	ok(tensors_again(&t, name) == NULL, "unless another name stands there now");
	name[0] = 'l';
	good = !tensors_number(&t, y, 4000);
	x = tensors_get(&t, "newcomer", 8);
	ok(good && !tensors_number(&t, x, 4000) && !tensors_again(&t, name),
	   "or it has been forgotten");
	x = tensors_unnamed(&t, 3);
	ok(x && x == tensors_get(&t, "\0#3", 3), "one without a name has a number for a name");
	ok(x == tensors_unnamed(&t, 3 + TENSORS_UNNAMED) && x != tensors_unnamed(&t, 4),
	   "and is the same when its turn comes again");
	y = tensors_get(&t, "thief", 5);
	good = !tensors_number(&t, x, 4001) && !tensors_number(&t, y, 4001);
	x = tensors_unnamed(&t, 3);
	ok(good && x && x->id == UINT32_MAX && x == tensors_get(&t, "\0#3", 3),
	   "a new one, if it has been forgotten");
	tensors_free(&t);
	return tap_done();
}
