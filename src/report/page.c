/* page.c - an HTML page of pictures, and of JSON that its script turns into text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/xml.h"
#include "report/style.h"
#include "report/template.h"
#include "ringup.h"

enum { SOURCE_MOST = 80 }; /* "sha256-" and the hash in base64 */

/* The name of @template's script in the page's content security policy. */
static int script_name(char out[SOURCE_MOST], const char *template, struct err *e)
{
	static const char kind[] = "sha256-", begin[] = "\n<script>",
			  end[] = "</script>\n</body>";
	unsigned char hash[crypto_hash_sha256_BYTES];
	const char *from = strstr(template, begin), *to = from ? strstr(from, end) : NULL;

	if (!to)
		return fail(e, RINGUP_EINVAL, "page.html has no script");
	from += strlen(begin);
	crypto_hash_sha256(hash, (const unsigned char *)from, (unsigned long long)(to - from));
	snprintf(out, SOURCE_MOST, "%s", kind);
	sodium_bin2base64(out + strlen(kind), SOURCE_MOST - strlen(kind), hash, sizeof(hash),
			  sodium_base64_VARIANT_ORIGINAL);
	return 0;
}

/* In JSON these three occur only in strings; escaped, they cannot form markup. */
static void data_put(FILE *out, const char *json)
{
	size_t n;

	for (; *json; json++) {
		n = strcspn(json, "<>&");
		fwrite(json, 1, n, out);
		json += n;
		if (!*json)
			break;
		fprintf(out, "\\u%04x", (unsigned)*json);
	}
}

static char *data_text(const json_t *data)
{
	char *json =
		json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	char *text = NULL;
	size_t len;
	FILE *out = json ? open_memstream(&text, &len) : NULL;

	if (out)
		data_put(out, json);
	if (out && fclose(out)) {
		free(text);
		text = NULL;
	}
	free(json);
	return text;
}

static char *title_text(const char *title)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (out)
		xml_text(out, title);
	return out && !fclose(out) ? text : NULL;
}

static int style_text(char **textp, struct err *e)
{
	size_t len;
	FILE *out = open_memstream(textp, &len);
	int rc = out ? style_put(out, "page.css", e) : 0;

	if (out && !rc)
		rc = style_put(out, "picture.css", e);
	if (!out || fclose(out))
		return fail(e, RINGUP_ENOMEM, "no memory for the page");
	return rc;
}

int page_put(FILE *out, const struct page *p, struct err *e)
{
	char *template = NULL, *style = NULL, *title = title_text(p->title);
	char *data = data_text(p->data), script[SOURCE_MOST];
	int rc = title && data ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the page");

	if (!rc)
		rc = template_load(&template, "page.html", e);
	if (!rc)
		rc = script_name(script, template, e);
	if (!rc)
		rc = style_text(&style, e);
	if (!rc) {
		const struct template_field fields[] = { { "title", title },
							 { "script", script },
							 { "style", style },
							 { "pictures", p->pictures },
							 { "data", data } };

		rc = template_put(out, template, fields, sizeof(fields) / sizeof(fields[0]), e);
	}
	free(template);
	free(style);
	free(title);
	free(data);
	return rc;
}

void page_panel_begin(FILE *out)
{
	fputs("<div class='panel'>\n", out);
}

void page_panel_end(FILE *out)
{
	fputs("</div>\n", out);
}
