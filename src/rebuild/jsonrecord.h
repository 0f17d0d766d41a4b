/* jsonrecord.h - convert C structs to and from JSON objects with a table of their fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_JSONRECORD_H
#define REBUILD_JSONRECORD_H

#include <jansson.h>
#include <stdbool.h>
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

/*
 * A struct and its table are declared once, as a list in the order of the JSON:
 *
 *	#define PART(T, N, F, S) T(S, name) N(S, abi, -1) F(S, installed)
 *	RECORD_STRUCT(part, PART);
 *	static RECORD_FIELDS(part_fields, part, PART);
 *
 * T is a text, N a number with its value for "none", F a flag.
 */
#define RECORD_STRUCT(tag, LIST)                                            \
	struct tag {                                                        \
		LIST(RECORD_TEXT_IN, RECORD_NUMBER_IN, RECORD_FLAG_IN, tag) \
	}
#define RECORD_TEXT_IN(tag, name)         const char *name;
#define RECORD_NUMBER_IN(tag, name, none) int name;
#define RECORD_FLAG_IN(tag, name)         bool name;

#define RECORD_FIELDS(table, tag, LIST)                                            \
	const struct jsonrecord_field table[] = { LIST(RECORD_TEXT, RECORD_NUMBER, \
						       RECORD_FLAG, tag){ 0 } }
#define RECORD_FIELD(tag, name, kind, none) { #name, offsetof(struct tag, name), kind, none },
#define RECORD_TEXT(tag, name)              RECORD_FIELD(tag, name, FIELD_TEXT, 0)
#define RECORD_NUMBER(tag, name, none)      RECORD_FIELD(tag, name, FIELD_NUMBER, none)
#define RECORD_FLAG(tag, name)              RECORD_FIELD(tag, name, FIELD_FLAG, 0)

/* jsonrecord_clear - set every field of @record to empty, none or false. */
void jsonrecord_clear(const struct jsonrecord_field *fields, void *record);

/* jsonrecord_read - fill @record from @o, texts kept in @pool; fields that are missing or of
 * another type are as jsonrecord_clear() leaves them. */
void jsonrecord_read(const struct jsonrecord_field *fields, void *record, const json_t *o,
		     struct textpool *pool);

/* jsonrecord_make - the object of @record, in the order of @fields; the caller's. */
json_t *jsonrecord_make(const struct jsonrecord_field *fields, const void *record);

/* jsonrecord_list - the array of @count records of @size bytes at @array. */
json_t *jsonrecord_list(const struct jsonrecord_field *fields, const void *array, int count,
			size_t size);

/* jsonrecord_find - the first object of @list whose member @key is @value, or NULL. */
json_t *jsonrecord_find(const json_t *list, const char *key, const char *value);

/* jsonrecord_pairs - [{@name: ..., @text: ...}]; jsonrecord_map - {name: text}. */
json_t *jsonrecord_pairs(const struct textpairs *list, const char *name, const char *text);
json_t *jsonrecord_map(const struct textpairs *list);

#endif
