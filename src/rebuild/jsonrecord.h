/* jsonrecord.h - C structs to and from JSON objects, by a table of their fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_JSONRECORD_H
#define REBUILD_JSONRECORD_H

#include <jansson.h>
#include <stddef.h>

#include "rebuild/textpool.h"

enum jsonrecord_kind { FIELD_END, FIELD_TEXT, FIELD_NUMBER, FIELD_FLAG };

/* A member of a struct: const char * (never NULL; "" is null in JSON), int (@none is null) or
 * bool. */
struct jsonrecord_field {
	const char *key;
	size_t at;
	enum jsonrecord_kind kind;
	int none;
};

#define RECORD_TEXT(type, name)                                   \
	{                                                         \
#name, offsetof(struct type, name), FIELD_TEXT, 0 \
	}
#define RECORD_NUMBER(type, name, none)                                \
	{                                                              \
#name, offsetof(struct type, name), FIELD_NUMBER, none \
	}
#define RECORD_FLAG(type, name)                                   \
	{                                                         \
#name, offsetof(struct type, name), FIELD_FLAG, 0 \
	}

/* jsonrecord_clear - every field of @record is empty, none or false. */
void jsonrecord_clear(const struct jsonrecord_field *fields, void *record);

/* jsonrecord_read - the fields of @record out of @o, texts kept in @pool; what is missing or of
 * another type is as jsonrecord_clear() leaves it. */
void jsonrecord_read(const struct jsonrecord_field *fields, void *record, const json_t *o,
		     struct textpool *pool);

/* jsonrecord_make - the object of @record, in the order of @fields; the caller's. */
json_t *jsonrecord_make(const struct jsonrecord_field *fields, const void *record);

/* jsonrecord_list - the array of @count records of @size bytes at @array. */
json_t *jsonrecord_list(const struct jsonrecord_field *fields, const void *array, int count,
			size_t size);

/* jsonrecord_pairs - [{@name: ..., @text: ...}]; jsonrecord_map - {name: text}. */
json_t *jsonrecord_pairs(const struct textpairs *list, const char *name, const char *text);
json_t *jsonrecord_map(const struct textpairs *list);

#endif
