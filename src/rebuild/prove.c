/* prove.c - test an engine by training: two ranks, different data, averaged weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/prove.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"

enum { PROVE_BYTES = 1 << 16, PROVE_MS = 120000, PROVE_ARGS = PROVE_LAUNCH + 4 };

/* Single precision and five steps: right weights differ by at most 1e-6, wrong by 1e-2. */
static const double tolerance = 1e-4;

static int script_of(char out[PATH_MAX], const char *framework, struct err *e)
{
	char name[64];

	snprintf(name, sizeof(name), "proofs/prove_%.40s.py", framework);
	return data_find(out, name, e);
}

int prove_exists(const char *framework)
{
	char path[PATH_MAX];

	return !script_of(path, framework, NULL);
}

static double prove_number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_number(v) ? json_number_value(v) : 1e300;
}

int prove_judge(const json_t *told, char *why, size_t size)
{
	const json_t *first = json_array_get(told, 0), *one;
	const char *weights = json_string_value(json_object_get(first, "weights"));
	size_t i;

	*why = 0;
	json_array_foreach(told, i, one) {
		const char *its = json_string_value(json_object_get(one, "weights"));

		if (prove_number(one, "size") != PROVE_RANKS)
			snprintf(why, size, "rank %zu is in a separate job", i);
		else if (!weights || !its || strcmp(its, weights) != 0)
			snprintf(why, size, "ranks have different weights after training");
		if (*why)
			return 1;
	}
	json_array_foreach(told, i, one) {
		if (!(prove_number(one, "off") <= tolerance))
			snprintf(why, size, "weights differ from the expected average by %.3g",
				 prove_number(one, "off"));
		else if (!(prove_number(one, "alone") > 10 * tolerance))
			snprintf(why, size,
				 "the data cannot show whether gradients were averaged");
		if (*why)
			return 1;
	}
	return 0;
}

/* The ranks' reports, or NULL if one is missing. */
static json_t *read_ranks(const char *dir)
{
	json_t *told = json_array();
	char path[PATH_MAX];

	for (int i = 0; i < PROVE_RANKS; i++) {
		json_t *one;

		snprintf(path, sizeof(path), "%s/rank-%d.json", dir, i);
		one = jsonio_read(path, PROVE_BYTES, NULL);
		if (!json_is_object(one)) {
			json_decref(one);
			json_decref(told);
			return NULL;
		}
		json_array_append_new(told, one);
	}
	return told;
}

/* Keeps the first line that names an error; later ones are its echo. */
struct first {
	char text[200];
};

static void note_line(void *arg, const char *line)
{
	struct first *l = arg;

	if (*l->text)
		return;
	if (strstr(line, "Error: ") || strstr(line, "error:") ||
	    strstr(line, "terminate called"))
		snprintf(l->text, sizeof(l->text), "%s", line);
}

int prove_run(const struct prove_how *how, json_t **out, struct err *e)
{
	char script[PATH_MAX], why[256] = "";
	const char *argv[PROVE_ARGS];
	struct first heard = { "" };
	struct job job = { .argv = argv,
			   .env = how->env,
			   .dir = how->dir,
			   .user = how->user,
			   .log_fd = how->log_fd,
			   .limit_ms = how->limit_ms ? how->limit_ms : PROVE_MS,
			   .line = note_line,
			   .arg = &heard };
	int status, n = 0, i, rc = script_of(script, how->framework, e);
	json_t *told = NULL;
	const json_t *first;

	if (rc)
		return rc;
	for (i = 0; i < PROVE_LAUNCH && how->launch[i]; i++)
		argv[n++] = how->launch[i];
	argv[n++] = how->python;
	argv[n++] = script;
	argv[n++] = how->dir;
	argv[n] = NULL;
	rc = job_run(&job, &status, e);
	if (rc)
		return rc;
	if (status == -1)
		snprintf(why, sizeof(why),
			 "not finished after %d s; RINGUP_PROVE_MS sets this limit",
			 (int)(job.limit_ms / 1000));
	told = read_ranks(how->dir);
	if (!*why && !told)
		snprintf(why, sizeof(why), "%s",
			 *heard.text ? heard.text : "a rank ended without a word");
	else if (!*why && !prove_judge(told, why, sizeof(why)) && status)
		snprintf(why, sizeof(why), "the ranks ended with status %d", status);
	first = json_array_get(told, 0);
	*out = json_pack("{ss ss si sO? sO? so}", "framework", how->framework, "way", how->way,
			 "ranks", PROVE_RANKS, "version", json_object_get(first, "version"),
			 "off", json_object_get(first, "off"), "error",
			 *why ? jsonio_text(why) : json_null());
	json_decref(told);
	return *out ? 0 : fail(e, RINGUP_ENOMEM, "no memory for a proof");
}
