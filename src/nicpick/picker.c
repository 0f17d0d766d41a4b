/* picker.c - shared code of all pickers: storage for their answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/picker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* Room for addresses of no interface (a fallback to 127.0.0.1), and for names that a library
 * takes without looking at the machine. */
enum { SPARE = 32 };

int picker_init(struct picked *p, const struct iface_list *l, const char *const *roles,
		struct err *e)
{
	memset(p, 0, sizeof(*p));
	p->room = l->naddrs + SPARE;
	p->nfates = l->nifaces;
	p->fates = calloc((size_t)l->nifaces + 1, sizeof(*p->fates));
	if (!p->fates)
		return fail(e, RINGUP_ENOMEM, "no memory for %d interfaces", l->nifaces);
	for (int i = 0; i < PICKER_ROLES && roles[i]; i++) {
		p->nroles = i + 1;
		p->roles[i].name = roles[i];
		p->roles[i].picks = calloc((size_t)p->room, sizeof(struct pick));
		if (!p->roles[i].picks)
			return fail(e, RINGUP_ENOMEM, "no memory for %d addresses", p->room);
	}
	return 0;
}

void picker_free(struct picked *p)
{
	for (int i = 0; i < PICKER_ROLES; i++)
		free(p->roles[i].picks);
	free(p->fates);
	memset(p, 0, sizeof(*p));
}

void picker_add(struct picked *p, struct pick_role *r, const char *interface,
		const struct iface_ip *ip)
{
	struct pick *k = &r->picks[r->npicks];

	if (r->npicks >= p->room)
		return;
	r->npicks++;
	snprintf(k->interface, sizeof(k->interface), "%s", interface);
	iface_text(ip, k->address);
}

int picker_which(const struct pick_role *r, const struct iface_list *l, int i)
{
	for (int n = 0; n < r->npicks; n++)
		for (int a = 0; a < l->naddrs; a++)
			if (l->addrs[a].iface == i &&
			    !strcmp(l->addrs[a].label, r->picks[n].interface))
				return n;
	return -1;
}

void picker_add_new(struct picked *p, struct pick_role *r, const char *interface,
		    const struct iface_ip *ip)
{
	char text[IFACE_TEXT];

	iface_text(ip, text);
	for (int i = 0; i < r->npicks; i++)
		if (!strcmp(r->picks[i].interface, interface) &&
		    !strcmp(r->picks[i].address, text))
			return;
	picker_add(p, r, interface, ip);
}

void picker_rule(struct picked *p, int i, bool used, const char *fmt, ...)
{
	struct pick_fate *f = &p->fates[i];
	size_t len = strlen(f->rule);
	va_list ap;

	f->used |= used;
	if (len && len + 2 < sizeof(f->rule))
		len += (size_t)snprintf(f->rule + len, sizeof(f->rule) - len, "; ");
	va_start(ap, fmt);
	vsnprintf(f->rule + len, sizeof(f->rule) - len, fmt, ap);
	va_end(ap);
}

void picker_refuse(struct pick_role *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->error, sizeof(r->error), fmt, ap);
	va_end(ap);
	r->npicks = 0;
}

void picker_result(struct pick_role *r, int result, const char *message)
{
	r->has_result = true;
	r->result = result;
	snprintf(r->message, sizeof(r->message), "%s", message);
}

void picker_message(struct pick_role *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->message, sizeof(r->message), fmt, ap);
	va_end(ap);
}

void picker_note(struct pick_role *r, const char *fmt, ...)
{
	size_t len = strlen(r->note);
	va_list ap;

	if (len && len + 2 < sizeof(r->note))
		len += (size_t)snprintf(r->note + len, sizeof(r->note) - len, "; ");
	va_start(ap, fmt);
	vsnprintf(r->note + len, sizeof(r->note) - len, fmt, ap);
	va_end(ap);
}

void picker_unknown(struct picked *p, const char *fmt, ...)
{
	struct pick_role *r;
	va_list ap;

	for (r = p->roles; r < p->roles + p->nroles; r++) {
		va_start(ap, fmt);
		vsnprintf(r->unknown, sizeof(r->unknown), fmt, ap);
		va_end(ap);
	}
}

bool picker_next(const char **list, struct picker_item *x)
{
	while (**list == ',')
		++*list;
	if (!**list)
		return false;
	x->text = *list;
	x->len = (int)strcspn(*list, ",");
	*list += x->len;
	return true;
}
