/* jsonio.c - write any text as JSON, and read checked values from untrusted JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonio.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/utf8.h"
#include "ringup.h"

json_t *jsonio_text(const char *s)
{
	json_t *j = s ? json_string(s) : json_null();
	char *plain = j ? NULL : strdup(s), *p;
	uint32_t c;
	size_t n;

	for (p = plain; p && *p; p += n) {
		n = utf8_decode(p, UTF8_MOST, &c);
		if (!n) {
			*p = '?';
			n = 1;
		}
	}
	if (plain)
		j = json_string(plain);
	free(plain);
	return j;
}

bool jsonio_is_absent(const json_t *j)
{
	return !j || json_is_null(j);
}

const char *jsonio_string(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

bool jsonio_get_text(const json_t *j, const char *key, char *out, size_t size)
{
	const json_t *v = json_object_get(j, key);
	const char *s = json_string_value(v);

	*out = 0;
	if (jsonio_is_absent(v))
		return true;
	if (!s || strlen(s) >= size)
		return false;
	memcpy(out, s, strlen(s) + 1);
	return true;
}

bool jsonio_get_int(const json_t *j, const char *key, int least, int most, int otherwise,
		    int *out)
{
	const json_t *v = json_object_get(j, key);

	*out = otherwise;
	if (jsonio_is_absent(v))
		return true;
	if (!json_is_integer(v) || json_integer_value(v) < least ||
	    json_integer_value(v) > most)
		return false;
	*out = (int)json_integer_value(v);
	return true;
}

json_t *jsonio_read(const char *path, size_t cap, struct err *e)
{
	json_error_t why;
	json_t *json;
	char *data;
	size_t len;

	if (file_read(NULL, path, cap, &data, &len, e))
		return NULL;
	json = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
	free(data);
	if (!json)
		fail(e, RINGUP_EINVAL, "%s: line %d: %s", path, why.line, why.text);
	return json;
}
