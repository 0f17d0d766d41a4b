/* jsonrecord.c - convert C structs to and from JSON objects with a table of their fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/jsonrecord.h"

#include <limits.h>
#include <string.h>

#include "base/jsonio.h"

void jsonrecord_clear(const struct jsonrecord_field *f, void *record)
{
	struct textpool none = { 0 };

	jsonrecord_read(f, record, NULL, &none);
}

void jsonrecord_read(const struct jsonrecord_field *f, void *record, const json_t *o,
		     struct textpool *pool)
{
	for (; f->kind; f++) {
		void *to = (char *)record + f->at;

		if (f->kind == FIELD_TEXT)
			*(const char **)to = textpool_keep(pool, jsonio_string(o, f->key));
		else if (f->kind == FIELD_FLAG)
			*(bool *)to = json_is_true(json_object_get(o, f->key));
		else
			(void)jsonio_get_int(o, f->key, INT_MIN, INT_MAX, f->none, to);
	}
}

static json_t *field_json(const struct jsonrecord_field *f, const void *record)
{
	const void *from = (const char *)record + f->at;
	const char *text;
	int number;

	switch (f->kind) {
	case FIELD_TEXT:
		text = *(const char *const *)from;
		return *text ? jsonio_text(text) : json_null();
	case FIELD_FLAG:
		return json_boolean(*(const bool *)from);
	default:
		number = *(const int *)from;
		return number == f->none ? json_null() : json_integer(number);
	}
}

json_t *jsonrecord_make(const struct jsonrecord_field *f, const void *record)
{
	json_t *o = json_object();

	for (; f->kind; f++)
		json_object_set_new(o, f->key, field_json(f, record));
	return o;
}

json_t *jsonrecord_list(const struct jsonrecord_field *f, const void *array, int count,
			size_t size)
{
	json_t *list = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(
			list, jsonrecord_make(f, (const char *)array + (size_t)i * size));
	return list;
}

json_t *jsonrecord_find(const json_t *list, const char *key, const char *value)
{
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
		if (!strcmp(jsonio_string(o, key), value))
			return o;
	return NULL;
}

json_t *jsonrecord_pairs(const struct textpairs *list, const char *name, const char *text)
{
	json_t *out = json_array();

	for (int i = 0; i < list->count; i++)
		json_array_append_new(out,
				      json_pack("{so so}", name, jsonio_text(list->at[i].name),
						text, jsonio_text(list->at[i].text)));
	return out;
}

json_t *jsonrecord_map(const struct textpairs *list)
{
	json_t *out = json_object();

	for (int i = 0; i < list->count; i++)
		json_object_set_new(out, list->at[i].name, jsonio_text(list->at[i].text));
	return out;
}
