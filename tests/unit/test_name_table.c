/* test_name_table.c - names and numbers find the same entry. */
#include <string.h>

#include "engine/name_table.h"
#include "tap.h"

int main(void)
{
	struct name_table t = { 0 };
	struct name_entry *x, *y;
	char name[32];
	int i, good = 1;

	name_table_free(&t);
	ok(name_table_by_id(&t, 0) == NULL, "empty");
	x = name_table_get(&t, "a", 1);
	y = name_table_get(&t, "\0a", 2);
	ok(x && y && x != y, "names may contain any byte");
	ok(x->id == UINT32_MAX, "a new one has no number");
	ok(name_table_number(&t, x, 5000) == 0 && name_table_by_id(&t, 5000) == x,
	   "then it has");
	ok(name_table_by_id(&t, 4999) == NULL && name_table_by_id(&t, 99999) == NULL,
	   "others are free");
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		y = name_table_get(&t, name, strlen(name));
		good &= y && !name_table_number(&t, y, (uint32_t)i);
	}
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		good &= name_table_get(&t, name, strlen(name)) ==
			name_table_by_id(&t, (uint32_t)i);
	}
	ok(good && name_table_get(&t, "a", 1) == x, "five thousand are found again");
	y = name_table_get(&t, "newcomer", 8);
	good = !name_table_number(&t, y, 77);
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layer.%d.weight", i);
		if (i != 77)
			good &= name_table_get(&t, name, strlen(name)) ==
				name_table_by_id(&t, (uint32_t)i);
	}
	ok(good && name_table_by_id(&t, 77) == y, "who takes a number over, takes it alone");
	snprintf(name, sizeof(name), "layer.%d.weight", 77);
	ok(name_table_get(&t, name, strlen(name))->id == UINT32_MAX,
	   "and the other starts anew");
	y = name_table_get(&t, name, strlen(name));
	ok(name_table_again(&t, name) == y, "found by the address of its name");
	name[0] = 'L';
	ok(name_table_again(&t, name) == NULL, "unless another name stands there now");
	name[0] = 'l';
	good = !name_table_number(&t, y, 4000);
	x = name_table_get(&t, "newcomer", 8);
	ok(good && !name_table_number(&t, x, 4000) && !name_table_again(&t, name),
	   "or it has been forgotten");
	x = name_table_unnamed(&t, 3);
	ok(x && x == name_table_get(&t, "\0#3", 3),
	   "one without a name has a number for a name");
	ok(x == name_table_unnamed(&t, 3 + NAME_TABLE_UNNAMED) &&
		   x != name_table_unnamed(&t, 4),
	   "and is the same when its turn comes again");
	y = name_table_get(&t, "thief", 5);
	good = !name_table_number(&t, x, 4001) && !name_table_number(&t, y, 4001);
	x = name_table_unnamed(&t, 3);
	ok(good && x && x->id == UINT32_MAX && x == name_table_get(&t, "\0#3", 3),
	   "a new one, if it has been forgotten");
	name_table_free(&t);
	return tap_done();
}
