/* test_pickle.c - pickles of flight recorders are read, and those that run code refused. */
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "hang/pickle.h"

#include "tap.h"

#define BYTES(text) text, sizeof(text) - 1

static bool reads(const char *data, size_t len, const char *json)
{
	struct err e;
	json_t *j = pickle_load(data, len, &e);
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	bool same = text && !strcmp(text, json);

	if (!same)
		printf("# %s\n", text ? text : e.text);
	free(text);
	json_decref(j);
	return same;
}

static bool refuses(const char *data, size_t len, const char *why)
{
	struct err e = { 0 };
	json_t *j = pickle_load(data, len, &e);
	bool good = !j && strstr(e.text, why);

	if (!good)
		printf("# %s\n", j ? "it was read" : e.text);
	json_decref(j);
	return good;
}

/* Tuples in tuples; after every ten the last is kept and recalled, which hides no depth. */
static bool refuses_depth(void)
{
	static char data[4096];
	size_t n = 4;

	memcpy(data, "\x80\x02(]", 4);
	for (int i = 0; i < 100; i++) {
		data[n++] = '\x85';
		if (i % 10 != 9)
			continue;
		data[n++] = 'q';
		data[n++] = (char)(i / 10);
		data[n++] = 'h';
		data[n++] = (char)(i / 10);
	}
	data[n++] = 't';
	data[n++] = '.';
	return refuses(data, n, "deep");
}

int main(void)
{
	ok(reads(BYTES("\x80\x02}q\x00(X\x01\x00\x00\x00"
		       "aK\x01X\x01\x00\x00\x00"
		       "b](K\x02M\x00\x01J\xff\xff\xff\xff\x65u."),
		 "{\"a\":1,\"b\":[2,256,-1]}"),
	   "dicts, lists, strings and numbers");
	ok(reads(BYTES("\x80\x02("
		       "N\x88\x89\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40G\x3f\xe0\x00\x00"
		       "\x00\x00\x00\x00t."),
		 "[null,true,false,4611686018427387904,0.5]"),
	   "a tuple of the rest");
	ok(reads(BYTES("\x80\x02]q\x05(X\x01\x00\x00\x00xq\x06h\x06h\x06\x65."),
		 "[\"x\",\"x\",\"x\"]"),
	   "strings are recalled from the memo");
	ok(reads(BYTES("\x80\x02](}q\x01h\x01\x65."), "[{},{}]"), "so are whole dicts");
	ok(reads(BYTES("\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01k\x94K\x07s."),
		 "{\"k\":7}"),
	   "protocol 4");
	ok(reads(BYTES("\x80\x02}K\x03K\x04s."), "{\"3\":4}"), "a number as a key");
	ok(refuses(BYTES("\x80\x02"
			 "cos\nsystem\nX\x02\x00\x00\x00"
			 "ls\x85R."),
		   "call functions"),
	   "a call of os.system() is refused");
	ok(refuses(BYTES("\x80\x02]q\x00h\x00\x61."), "container of its own"),
	   "a list that contains itself");
	ok(refuses(BYTES("\x80\x02(]q\x00\x30]q\x01h\x00\x61h\x01\x61."), ""),
	   "two that contain each other");
	ok(refuses_depth(), "lists that are deeper than the stack");
	ok(refuses(BYTES("\x80\x02X\xff\xff\xff\x7f."), "cut off"),
	   "a text longer than the file");
	ok(refuses(BYTES("\x80\x02K"), "cut off") && refuses(BYTES("\x80\x02K\x01"), "cut off"),
	   "a file that is cut off");
	ok(refuses(BYTES("\x80\x02h\x07."), "not kept") &&
		   refuses(BYTES("\x80\x02\x65."), "mark") &&
		   refuses(BYTES("\x80\x02K\x01K\x02."), "several"),
	   "what is not there");
	ok(refuses(BYTES(""), "cut off"), "an empty file");
	return tap_done();
}
