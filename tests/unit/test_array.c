/* test_array.c - lists grow, keep what is in them and survive a lack of memory. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tap.h"

struct pair {
	int a, b;
	char text[20];
};

int main(void)
{
	struct pair *list = NULL, *one = NULL, *before;
	int n = 0, i, dirty = 0, wrong = 0;

	for (i = 0; i < 1000; i++) {
		one = array_more(&list, &n, sizeof(*one));
		dirty += !one || one->a || one->b || *one->text || one != &list[i];
		*one = (struct pair){ i, -i, "text" };
	}
	for (i = 0; i < n; i++)
		wrong += list[i].a != i || list[i].b != -i || strcmp(list[i].text, "text") != 0;
	ok(n == 1000 && !dirty, "each new element is the last one, and zeroed");
	ok(!wrong, "those before it stay");

	one = array_room(&list, n, sizeof(*one));
	ok(one == &list[1000] && n == 1000, "room for one more is not counted yet");
	one->a = 7;
	one = array_more(&list, &n, sizeof(*one));
	ok(n == 1001 && one == &list[1000] && !one->a, "and is zeroed again when it is taken");

	before = list;
	n = 1 << 20;
	ok(!array_more(&list, &n, (size_t)1 << 50) && n == 1 << 20 && list == before,
	   "without memory nothing changes");
	free(list);
	return tap_done();
}
