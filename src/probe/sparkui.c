/* sparkui.c - ask the web interface of a Spark job or cluster for its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sparkui.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/proc.h"
#include "probe/roster.h"
#include "ringup.h"

enum { ANSWER_CAP = 1 << 20, ANSWER_MS = 12000, ID = 128 };

bool sparkui_is_url(const char *text)
{
	return !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);
}

/* Fetches @path below @url; the text is the caller's to free(). */
static int sparkui_fetch(const char *url, const char *path, char **textp, struct err *e)
{
	char where[PATH_MAX];
	const char *const argv[] = { "curl",       "--silent",     "--fail",
				     "--location", "--max-redirs", "3",
				     "--proto",    "=http,https",  "--max-time",
				     "10",         "--",           where,
				     NULL };
	size_t len = strlen(url);
	int status = 0, code, rc;

	while (len && url[len - 1] == '/')
		len--;
	if ((size_t)snprintf(where, sizeof(where), "%.*s%s", (int)len, url, path) >=
	    sizeof(where))
		return fail(e, RINGUP_EINVAL, "%.60s...: too long", url);
	rc = proc_capture((char *const *)argv, ANSWER_CAP, ANSWER_MS, textp, &status, e);
	if (rc)
		return fail_in(e, "%.200s", where);
	code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (!code)
		return 0;
	free(*textp);
	return fail(e, RINGUP_ESYSTEM, "%.200s: %s (curl: %d)", where,
		    code == 22   ? "there is no such page"
		    : code == 28 ? "no answer within 10 seconds"
				 : "nobody answers",
		    code);
}

/* True for a valid id, since it becomes part of a path. */
static bool is_id(const char *s)
{
	return s && *s && strlen(s) < ID &&
	       !s[strspn(s,
			 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")];
}

/* The id of the first application that Spark lists in @text. */
static int application_read(const char *url, const char *text, char id[ID], struct err *e)
{
	json_t *list = json_loads(text, 0, NULL);
	const char *s = json_string_value(json_object_get(json_array_get(list, 0), "id"));
	int rc = 0;

	if (!json_is_array(list))
		rc = fail(e, RINGUP_EINVAL, "%.200s: this is no Spark", url);
	else if (!json_array_size(list))
		rc = fail(e, RINGUP_ESYSTEM, "%.200s: no application is running there", url);
	else if (!is_id(s))
		rc = fail(e, RINGUP_EINVAL, "%.200s: the application has no id", url);
	else
		snprintf(id, ID, "%s", s);
	json_decref(list);
	return rc;
}

static int first_application(const char *url, char id[ID], struct err *e)
{
	char *text;
	int rc = sparkui_fetch(url, "/api/v1/applications", &text, e);

	if (rc)
		return rc;
	rc = application_read(url, text, id, e);
	free(text);
	return rc;
}

static int sparkui_take(struct roster *r, const char *url, const char *path, struct err *e)
{
	char *text;
	int rc = sparkui_fetch(url, path, &text, e);

	if (rc)
		return rc;
	rc = roster_spark(r, text, e);
	free(text);
	return rc ? fail_in(e, "%.200s", url) : 0;
}

int sparkui_ask(struct roster *r, const char *url, struct err *e)
{
	char id[ID], path[ID + 64];
	struct err no_master = { 0 };
	int rc = first_application(url, id, e);

	if (!rc) {
		snprintf(path, sizeof(path), "/api/v1/applications/%s/executors", id);
		return sparkui_take(r, url, path, e);
	}
	/* A master has its own format; on failure the first error is reported. */
	return sparkui_take(r, url, "/json/", &no_master) ? rc : 0;
}
