/* fuzz_talk.c - whatever an agent says: messages, noise or an error; the same in any pieces. */
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "probe/talk.h"

/* How many messages; the first error, if any, in *@rc. */
static int listen_to(const uint8_t *data, size_t len, size_t step, int *rc)
{
	struct err e = { 0 };
	size_t at, n, i;
	int count = 0;
	struct talk t;
	json_t *j;

	*rc = 0;
	talk_open(&t, -1, -1);
	for (at = 0; *rc >= 0 && at < len; at += n) {
		n = len - at < step ? len - at : step;
		*rc = talk_feed(&t, data + at, n, &e);
		while (!*rc && (*rc = talk_next(&t, &j, &e)) > 0) {
			fuzz_require(json_is_object(j));
			json_decref(j);
			*rc = 0;
			count++;
		}
	}
	fuzz_require(*rc >= 0 || *e.text);
	for (i = 0; t.noise[i]; i++)
		fuzz_require((unsigned char)t.noise[i] >= ' ');
	talk_close(&t);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int whole, parts, n;

	if (len > 65536)
		return 0;
	n = listen_to(data, len, len + 1, &whole);
	fuzz_require(listen_to(data, len, 7, &parts) == n && parts == whole);
	return 0;
}
