/* test_picker.c - answers have room, and know their bounds. */
#include <string.h>

#include "base/err.h"
#include "nicpick/picker.h"
#include "tap.h"

static const char *const roles[] = { "one", "two", NULL };

static void test_room(void)
{
	struct iface_list l = { 0 };
	struct picked p;
	struct iface_ip ip;
	struct err e = { 0 };
	int i;

	iface_add(&l);
	ok(picker_init(&p, &l, roles, &e) == 0 && p.nroles == 2 && p.nfates == 1, "two roles");
	iface_parse(&ip, "10.0.0.5");
	for (i = 0; i < 1000; i++)
		picker_add(&p, &p.roles[0], "a-name-longer-than-fits", &ip);
	ok(p.roles[0].npicks == p.room, "what does not fit is left out");
	ok(strlen(p.roles[0].picks[0].interface) < IFACE_NAME, "names are cut");
	picker_refuse(&p.roles[0], "because");
	ok(!p.roles[0].npicks && !strcmp(p.roles[0].error, "because"),
	   "a refusal has no picks");
	picker_free(&p);
	picker_free(&p);
	iface_free(&l);
}

static void test_words(void)
{
	struct iface_list l = { 0 };
	struct picked p;
	struct err e = { 0 };
	int i;

	iface_add(&l);
	ok(picker_init(&p, &l, roles, &e) == 0, "init");
	picker_rule(&p, 0, true, "first %d", 1);
	picker_rule(&p, 0, false, "second");
	ok(!strcmp(p.fates[0].rule, "first 1; second") && p.fates[0].used,
	   "rules add up, and used once is used");
	picker_note(&p.roles[1], "a");
	picker_note(&p.roles[1], "b");
	ok(!strcmp(p.roles[1].note, "a; b"), "so do notes");
	for (i = 0; i < 1000; i++) {
		picker_rule(&p, 0, false, "and so on");
		picker_note(&p.roles[1], "and so on");
	}
	ok(strlen(p.fates[0].rule) == PICKER_RULE - 1 &&
		   strlen(p.roles[1].note) == PICKER_RULE - 1,
	   "as far as there is room");
	picker_free(&p);
	iface_free(&l);
}

int main(void)
{
	test_room();
	test_words();
	return tap_done();
}
