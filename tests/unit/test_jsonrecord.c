/* test_jsonrecord.c - structs to JSON and back; what is foreign is not taken. */
#include "rebuild/jsonrecord.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define PART(T, N, F, S) T(S, name) N(S, abi, -1) N(S, standard, 0) F(S, here)
RECORD_STRUCT(part, PART);
static RECORD_FIELDS(fields, part, PART);

/* What @text is read as, written again. */
static const char *again(const char *text)
{
	static char out[256];
	struct textpool pool = { 0 };
	json_t *o = json_loads(text, 0, NULL), *made;
	struct part part;
	char *dump;

	jsonrecord_read(fields, &part, o, &pool);
	json_decref(o);
	made = jsonrecord_make(fields, &part);
	dump = json_dumps(made, JSON_COMPACT);
	snprintf(out, sizeof(out), "%s", dump);
	free(dump);
	json_decref(made);
	textpool_free(&pool);
	return out;
}

int main(void)
{
	static const char full[] = "{\"name\":\"a\",\"abi\":0,\"standard\":17,\"here\":true}";
	static const char none[] =
		"{\"name\":null,\"abi\":null,\"standard\":null,\"here\":false}";
	struct part parts[2];

	ok(!strcmp(again(full), full), "all fields: %s", again(full));
	ok(!strcmp(again("{}"), none), "what is missing is null: %s", again("{}"));
	ok(!strcmp(again(none), none), "and so is null");
	ok(!strcmp(again("[]"), none), "an array has none of it");
	ok(!strcmp(again("{\"name\":5,\"abi\":\"1\",\"standard\":99999999999,\"here\":1}"),
		   none),
	   "what is of another type, or does not fit, is not taken");
	jsonrecord_clear(fields, &parts[0]);
	jsonrecord_clear(fields, &parts[1]);
	ok(!*parts[0].name && parts[0].abi == -1 && !parts[0].standard && !parts[0].here,
	   "a clear one has no NULL");
	parts[1].name = "\xff";
	json_t *list = jsonrecord_list(fields, parts, 2, sizeof(parts[0]));
	ok(json_array_size(list) == 2 &&
		   !strcmp(json_string_value(json_object_get(json_array_get(list, 1), "name")),
			   "?"),
	   "a list, whose texts are UTF-8");
	json_decref(list);
	return tap_done();
}
