/* writer.c - an agent's orders to write network settings, with undo. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "settle/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "detect/netfacts.h"
#include "nicpick/outcome.h"
#include "ringup.h"
#include "settle/change.h"
#include "settle/pinlib.h"

void writer_open(struct writer *w, const char *root)
{
	memset(w, 0, sizeof(*w));
	w->root = root;
}

static bool is_order(const char *op)
{
	return !strcmp(op, "stage") || !strcmp(op, "commit") || !strcmp(op, "keep");
}

/* Plans for the current state of this node, and predicts the libraries' choices. */
static int writer_plan(struct writer *w, struct fix *p, struct outcome *o, struct err *e)
{
	struct netfacts_from here = { .root = w->root };
	const char **names = netfacts_names();
	struct snapshot s = { 0 };
	int rc = names ? 0 : fail(e, RINGUP_ENOMEM, "no memory for settings");

	o->n = o->strays = 0;
	if (!rc)
		rc = fix_plan(p, w->root, &w->want, e);
	if (!rc && w->want.interface)
		rc = netfacts_read(&s, &here, e);
	if (!rc && w->want.interface)
		rc = outcome_of(o, p, &s, w->want.interface, names, e);
	snapshot_free(&s);
	free(names);
	return rc;
}

static int reply_make(json_t **replyp, const char *op, const struct fix *p, const char *root,
		      const struct outcome *o, struct err *e)
{
	struct change d = { 0 };
	int rc = change_make(&d, p, root, o, e);

	if (!rc)
		*replyp = json_pack("{ss so}", "op", op, "change", change_json(&d));
	change_free(&d);
	return rc;
}

/* Copies a text or null from @msg to @room; false if it is neither or too long. */
static bool message_name(const json_t *msg, const char *key, char *room, size_t size,
			 const char **namep)
{
	const json_t *j = json_object_get(msg, key);
	const char *s = json_string_value(j);

	*namep = s ? room : NULL;
	return (s && (size_t)snprintf(room, size, "%s", s) < size) || json_is_null(j);
}

static int writer_stage(struct writer *w, const json_t *msg, json_t **replyp, struct err *e)
{
	bool dry_run = json_is_true(json_object_get(msg, "dry_run"));
	struct outcome o;
	int rc;

	w->want.force = json_is_true(json_object_get(msg, "force"));
	if (w->state != WRITER_IDLE ||
	    !message_name(msg, "interface", w->interface, sizeof(w->interface),
			  &w->want.interface) ||
	    !message_name(msg, "network", w->network, sizeof(w->network), &w->want.network))
		return fail(e, RINGUP_EINVAL, "invalid change");
	w->want.pin = NULL;
	if (json_is_true(json_object_get(msg, "pin")) && w->want.interface) {
		rc = pinlib_find(w->root, w->pin, e);
		if (rc)
			return rc;
		w->want.pin = w->pin;
	}
	w->state = WRITER_PLANNED;
	rc = writer_plan(w, &w->plan, &o, e);
	if (!rc && !dry_run && !w->plan.nconflicts) {
		rc = fix_stage(&w->plan, w->root, &w->batch, e);
		w->state = WRITER_STAGED;
	}
	return rc ? rc : reply_make(replyp, "staged", &w->plan, w->root, &o, e);
}

/* Are the settings in place, and what is their outcome? */
static int writer_verify(struct writer *w, json_t **replyp, struct err *e)
{
	struct fix again = { 0 };
	struct outcome o;
	int i, rc = writer_plan(w, &again, &o, e);

	for (i = 0; !rc && i < again.n; i++)
		if (fixfile_changes(&again.file[i]))
			rc = fail(e, RINGUP_ESYSTEM, "%s differs from what was written",
				  again.file[i].path);
	fix_free(&again);
	return rc ? rc : reply_make(replyp, "committed", &w->plan, w->root, &o, e);
}

static int writer_commit(struct writer *w, json_t **replyp, struct err *e)
{
	int rc = batch_commit(&w->batch, e);

	if (!rc)
		w->state = WRITER_COMMITTED;
	batch_end(&w->batch);
	return rc ? rc : writer_verify(w, replyp, e);
}

static int writer_obey(void *self, const json_t *msg, json_t **replyp, struct err *e)
{
	struct writer *w = self;
	const char *op = json_string_value(json_object_get(msg, "op"));

	if (!strcmp(op, "stage"))
		return writer_stage(w, msg, replyp, e);
	if (!strcmp(op, "commit") && w->state == WRITER_STAGED)
		return writer_commit(w, replyp, e);
	if (!strcmp(op, "keep") && w->state == WRITER_COMMITTED) {
		w->state = WRITER_KEPT;
		*replyp = json_pack("{ss}", "op", "kept");
		return 0;
	}
	return fail(e, RINGUP_EINVAL, "unexpected message \"%.40s\"", op);
}

struct agent_orders writer_orders(struct writer *w)
{
	return (struct agent_orders){ is_order, writer_obey, w };
}

int writer_close(struct writer *w, struct err *e)
{
	struct batch back = { 0 };
	int rc = 0;

	batch_end(&w->batch);
	if (w->state == WRITER_COMMITTED) {
		rc = fix_stage_back(&w->plan, w->root, &back, e);
		if (!rc)
			rc = batch_commit(&back, e);
		batch_end(&back);
	}
	fix_free(&w->plan);
	writer_open(w, w->root);
	return rc;
}
