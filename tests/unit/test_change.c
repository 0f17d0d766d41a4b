/* test_change.c - what is told of a plan arrives as it was, and nonsense is refused. */
#include "settle/change.h"

#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static struct fix a_plan(void)
{
	struct fix p = { .n = 3 };

	p.file[0] = (struct fix_file){ .path = "/etc/a",
				       .before = (char *)"x=1\n",
				       .after = (char *)"x=1\ny=\xff\n" };
	p.file[1] = (struct fix_file){ .path = "/etc/b",
				       .before = (char *)"same",
				       .after = (char *)"same" };
	p.file[2] = (struct fix_file){ .path = "/etc/c",
				       .before = (char *)"secret\n1\n2\n3\n4\nz\n" };
	memcpy(p.conflict[p.nconflicts++], "/etc/a:1: x=1", 14);
	return p;
}

static void test_travel(void)
{
	struct fix plan = a_plan();
	struct outcome o = { .n = 2, .strays = 1 };
	struct change d = { 0 }, again = { 0 };
	struct err e;
	json_t *j;

	o.row[0] = (struct outcome_row){
		.library = pickers[0], .role = "net", .takes = "eth0", .agrees = true
	};
	o.row[1] =
		(struct outcome_row){ .library = pickers[1], .role = "btl", .why = "because" };
	ok(!change_make(&d, &plan, "/root", &o, &e) && d.nfiles == 3 && change_count(&d) == 2,
	   "a plan has its changes");
	ok(!strcmp(d.file[0].change, "changed") && !strcmp(d.file[1].change, "unchanged") &&
		   !strcmp(d.file[2].change, "removed"),
	   "each has its word");
	ok(!strncmp(d.file[0].patch,
		    "--- /root/etc/a\n+++ /root/etc/a\n@@ -1 +1,2 @@\n x=1\n+y=", 51),
	   "a patch says where it belongs");
	j = change_json(&d);
	ok(j && !change_parse(&again, j, &e) && again.nfiles == 3 && change_count(&again) == 2,
	   "it arrives");
	ok(!strcmp(again.file[2].patch, d.file[2].patch) && !again.file[1].patch,
	   "patches are the same");
	ok(again.nconflicts == 1 && !strcmp(again.conflict[0], "/etc/a:1: x=1"),
	   "so are conflicts");
	ok(again.nrows == 2 && change_strays(&again) == 1 &&
		   again.row[1].library == pickers[1] && !strcmp(again.row[0].takes, "eth0") &&
		   !strcmp(again.row[1].why, "because"),
	   "so are libraries");
	json_decref(j);
	change_free(&d);
	change_free(&again);
}

/* Only what is around a change is told. */
static void test_discretion(void)
{
	struct fix plan = { .n = 1 };
	struct outcome o = { 0 };
	struct change d = { 0 };

	plan.file[0] = (struct fix_file){ .path = "/e",
					  .before = (char *)"token\n1\n2\n3\n",
					  .after = (char *)"token\n1\n2\n3\nmine\n" };
	ok(!change_make(&d, &plan, "", &o, NULL) && !strstr(d.file[0].patch, "token") &&
		   strstr(d.file[0].patch, "+mine"),
	   "of a file only the change is told");
	change_free(&d);
}

static bool is_refused(const char *text)
{
	json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
	struct change d = { 0 };
	struct err e = { 0 };
	int rc = change_parse(&d, j, &e);

	json_decref(j);
	return rc == RINGUP_EINVAL && *e.text && !d.nfiles && !d.nrows;
}

static void test_nonsense(void)
{
	struct change d = { 0 };
	json_t *j;

	ok(is_refused("7") && is_refused("{}") && is_refused("[]"),
	   "what is no object is refused");
	ok(is_refused("{\"files\":[],\"conflicts\":[]}"), "so is half of one");
	ok(is_refused("{\"files\":[1,2,3,4,5,6,7,8,9],\"conflicts\":[],\"libraries\":[]}"),
	   "so is too much");
	ok(is_refused("{\"files\":[],\"conflicts\":[],\"libraries\":[{\"library\":\"x\"}]}"),
	   "so is a library that is none");
	ok(is_refused("{\"files\":[{\"patch\":\"p\"}],\"conflicts\":[],\"libraries\":[7]}"),
	   "so is a row that is none");
	j = json_loads("{\"files\":[7,{\"path\":[]}],\"conflicts\":[{}],\"libraries\":[]}", 0,
		       NULL);
	ok(!change_parse(&d, j, NULL) && d.nfiles == 2 && !change_count(&d) && !*d.conflict[0],
	   "odd members are empty");
	json_decref(j);
	change_free(&d);
}

int main(void)
{
	test_travel();
	test_discretion();
	test_nonsense();
	return tap_done();
}
