/* test_stamp.c - what a build was made for is noted, read back, and compared. */
#include "rebuild/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "tap.h"

static const char node[] =
	"{'pythons':[{'path':'/v/bin/python3.11','version':'3.11.7'},"
	"            {'path':'/usr/bin/python3.11','version':'3.11.2'}],"
	" 'frameworks':[{'name':'torch','version':'1.13.1','python':'/usr/bin/python3.11',"
	"                'cxx11_abi':1},"
	"               {'name':'torch','version':'2.13.0+cpu','python':'/v/bin/python3.11',"
	"                'cxx11_abi':1},"
	"               {'name':'tensorflow','version':'2.15.1','python':'/v/bin/python3.11',"
	"                'cxx11_abi':null}],"
	" 'compilers':[{'family':'gcc','version':'12.2.0'}],"
	" 'cuda':{'toolkits':[{'version':'12.6'},{'version':'13.0'}],"
	"         'driver':{'version':'550.54'},'gpu_count':1},"
	" 'nccl':[{'version':'2.21.5'}],"
	" 'mpi':[{'flavour':'openmpi','version':'4.1.4','library':'/usr/lib/libmpi.so'},"
	"        {'flavour':'openmpi','version':'5.0.6','library':'/opt/ompi/lib/libmpi.so'},"
	"        {'flavour':'mpich','version':'4.0.2','library':'/usr/lib/libmpich.so'}]}";

static json_t *facts_of(const char *text)
{
	char *s = strdup(text), *p;
	json_t *j;

	for (p = s; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	j = json_loads(s, 0, NULL);
	free(s);
	return j;
}

static json_t *make(const json_t *facts)
{
	static const char *const names[] = { "torch", "tensorflow", "mxnet", NULL };
	struct textpair flaw = { "CVE-1", "a flaw" };
	const struct textpairs advisories = { &flaw, 1 };
	const struct stamp_of of = { .engine = "horovod",
				     .version = "0.28.1",
				     .python = "/v/bin/python3.11",
				     .frameworks = names,
				     .mpi = json_object_get(facts, "mpi"),
				     .cuda = "13.0",
				     .nccl = "2.21.5",
				     .compiler = "gcc 12.2.0",
				     .key = "0123",
				     .advisories = &advisories,
				     .built = 1700000000 };

	return stamp_make(&of, facts);
}

static char *shown(json_t *j)
{
	char *s = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	return s;
}

static void test_make(void)
{
	json_t *facts = facts_of(node), *s = make(facts);
	char *text = json_dumps(json_object_get(s, "frameworks"), JSON_COMPACT);

	ok(!strcmp(text, "{\"torch\":\"2.13.0+cpu\",\"tensorflow\":\"2.15.1\"}"),
	   "the frameworks of that Python, and only those there are");
	free(text);
	text = json_dumps(json_object_get(s, "accepted"), JSON_COMPACT);
	ok(!strcmp(text, "[\"CVE-1\"]"), "in spite of what: %s", text);
	free(text);
	ok(!strcmp(json_string_value(json_object_get(s, "built")), "2023-11-14T22:13:20Z"),
	   "the time is UTC");
	ok(!strcmp(json_string_value(json_object_get(s, "driver")), "550.54"),
	   "with CUDA, the driver");
	json_decref(s);
	json_decref(facts);
}

static void test_diff(void)
{
	static const struct {
		const char *from, *to, *want, *what;
	} rows[] = {
		{ "", "", "[]", "nothing has changed" },
		{ "2.13.0+cpu", "2.12.0",
		  "[{\"what\":\"torch\",\"was\":\"2.13.0+cpu\",\"is\":\"2.12.0\"}]",
		  "another torch" },
		{ "2.13.0+cpu", "2.13.0+cu126",
		  "[{\"what\":\"torch\",\"was\":\"2.13.0+cpu\",\"is\":\"2.13.0+cu126\"}]",
		  "another build of it" },
		{ "'1.13.1'", "'9.9'", "[]", "the torch of another Python" },
		{ "'tensorflow'", "'keras'",
		  "[{\"what\":\"tensorflow\",\"was\":\"2.15.1\",\"is\":null}]", "one is gone" },
		{ "2.13.0+cpu','python':'/v/bin/python3.11',                'cxx11_abi':1",
		  "2.13.0+cpu','python':'/v/bin/python3.11',                'cxx11_abi':0",
		  "[{\"what\":\"torch ABI\",\"was\":\"1\",\"is\":\"0\"}]",
		  "the same version with the other ABI" },
		{ "3.11.7", "3.11.9", "[]", "a repaired Python" },
		{ "3.11.7", "3.12.1",
		  "[{\"what\":\"python\",\"was\":\"3.11.7\",\"is\":\"3.12.1\"}]",
		  "another Python" },
		{ "'4.1.4'", "'4.1.6'",
		  "[{\"what\":\"openmpi\",\"was\":\"4.1.4\",\"is\":\"4.1.6\"}]",
		  "of two Open MPIs the one whose library it is" },
		{ "/opt/ompi/", "/opt/other/", "[]", "one that has moved" },
		{ "12.6", "12.8", "[]", "a CUDA that the build does not use" },
		{ "'13.0'", "'13.1'", "[{\"what\":\"cuda\",\"was\":\"13.0\",\"is\":\"12.6\"}]",
		  "a CUDA that it does use" },
		{ "2.21.5", "2.22.3",
		  "[{\"what\":\"nccl\",\"was\":\"2.21.5\",\"is\":\"2.22.3\"}]",
		  "another NCCL" },
		{ "550.54", "560.28",
		  "[{\"what\":\"driver\",\"was\":\"550.54\",\"is\":\"560.28\"}]",
		  "another driver" },
		{ "'driver':{'version':'550.54'}", "'driver':null",
		  "[{\"what\":\"driver\",\"was\":\"550.54\",\"is\":null}]", "no driver" },
	};
	json_t *before = facts_of(node), *s = make(before);
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *at = strstr(node, rows[i].from);
		char *changed = NULL, *got;
		json_t *facts;

		ok(at, "%s: the row fits", rows[i].what);
		if (!at || asprintf(&changed, "%.*s%s%s", (int)(at - node), node, rows[i].to,
				    at + strlen(rows[i].from)) < 0)
			return;
		facts = facts_of(changed);
		got = shown(stamp_diff(s, facts, ""));
		ok(facts && !strcmp(got, rows[i].want), "%s: %s", rows[i].what, got);
		free(got);
		free(changed);
		json_decref(facts);
	}
	json_decref(s);
	json_decref(before);
}

/* One Python has several names, and none of them is another Python. */
static void test_names(void)
{
#define PYTHON(path, version) "{'path':'" path "','version':'" version "'}"
#define GONE                  "[{\"what\":\"python\",\"was\":\"3.11.7\",\"is\":null}"
	static const struct {
		const char *pythons, *frameworks_of, *here, *want, *what;
	} rows[] = {
		{ PYTHON("/v/bin/python3", "3.11.7"), "/v/bin/python3", "", "[]", "its name" },
		{ PYTHON("/v/bin/python3.11", "3.11.7"), "/v/bin/python3.11", "", "[]",
		  "python3.11 beside it" },
		{ PYTHON("/v/bin/python", "3.12.1") "," PYTHON("/v/bin/python3.11", "3.11.9"),
		  "/v/bin/python3.11", "", "[]", "of two neighbours the one of its series" },
		{ PYTHON("/link/bin/python3", "3.11"), "/link/bin/python3", "/link/bin/python3",
		  "[]", "through a link, where the build was found" },
		{ PYTHON("/v/bin/python3.12", "3.12.1"), "/v/bin/python3.12", "",
		  "[{\"what\":\"python\",\"was\":\"3.11.7\",\"is\":\"3.12.1\"}]",
		  "another series in its place" },
		{ PYTHON("/w/bin/python3", "3.11.7"), "/w/bin/python3", "",
		  GONE ",{\"what\":\"torch\",\"was\":\"2.13.0\",\"is\":null}]",
		  "another environment" },
		{ PYTHON("/w/bin/python3", "3.12.1"), "/w/bin/python3", "/w/bin/python3",
		  GONE ",{\"what\":\"torch\",\"was\":\"2.13.0\",\"is\":null}]",
		  "found in one of another series, which shares the folder" },
	};
	const char *text =
		"{'schema':1,'engine':'ringup','version':'1','frameworks':"
		"{'torch':'2.13.0'},'python':" PYTHON("/v/bin/python3", "3.11.7") "}";
	json_t *s = facts_of(text);
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *facts_text = NULL, *got;
		json_t *facts;

		if (asprintf(&facts_text,
			     "{'pythons':[%s],'frameworks':[{'name':'torch',"
			     "'version':'2.13.0','python':'%s'}]}",
			     rows[i].pythons, rows[i].frameworks_of) < 0)
			abort();
		facts = facts_of(facts_text);
		got = shown(stamp_diff(s, facts, rows[i].here));
		ok(facts && !strcmp(got, rows[i].want), "%s: %s", rows[i].what, got);
		free(got);
		free(facts_text);
		json_decref(facts);
	}
	json_decref(s);
}

static void test_parse(void)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "not JSON: line 1" },
		{ "[]", "not a build stamp" },
		{ "{}", "not a build stamp" },
		{ "{'schema':2,'engine':'ringup','version':'9'}", "schema 2" },
		{ "{'schema':'1','engine':'ringup','version':'1'}", "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','engine':'x','version':'1'}", "duplicate" },
		{ "{'schema':1,'engine':'ringup','version':7}", "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','mpi':{}}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','mpi':[1]}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','accepted':'x'}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','accepted':[1]}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','python':3}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','frameworks':[]}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','frameworks':{'torch':1}}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1\\u001b[2J'}",
		  "not a build stamp" },
		{ "{'schema':1,'engine':'ringup','version':'1','frameworks':{'\\n':'1'}}",
		  "not a build stamp" },
	};
	struct err e = { 0 };
	json_t *s = NULL;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *t = strdup(rows[i].text), *p;
		int rc;

		for (p = t; *p; p++)
			*p = *p == '\'' ? '"' : *p;
		rc = stamp_parse(t, strlen(t), &s, &e);
		ok(rc == RINGUP_EINVAL && !s && strstr(e.text, rows[i].want), "%s: %s", t,
		   e.text);
		free(t);
	}
	ok(!stamp_parse("{\"schema\":1,\"engine\":\"ringup\",\"version\":\"0.1\"}", 46, &s, &e),
	   "what a build does not depend on may be absent");
	json_decref(s);
}

static void test_file(void)
{
	char dir[] = "/tmp/ringup-stamp.XXXXXX", path[64];
	json_t *facts = facts_of(node), *s = make(facts), *back = NULL;
	struct err e = { 0 };
	struct stat st;

	if (!mkdtemp(dir))
		return;
	ok(!stamp_read(dir, "/site/ringup/build.json", &back, &e) && !back,
	   "no stamp is no error");
	ok(!stamp_write(dir, "/site/ringup/build.json", s, &e), "written: %s", e.text);
	ok(!stamp_read(dir, "/site/ringup/build.json", &back, &e) && json_equal(s, back),
	   "and read back: %s", e.text);
	json_decref(back);
	snprintf(path, sizeof(path), "%s/site/ringup/build.json", dir);
	ok(!stat(path, &st) && (st.st_mode & 0777) == 0644, "everybody may read it");
	ok(!truncate(path, 20) &&
		   stamp_read(dir, "/site/ringup/build.json", &back, &e) == RINGUP_EINVAL &&
		   !back,
	   "half of one is refused: %s", e.text);
	ok(!truncate(path, 1 << 20) &&
		   stamp_read(dir, "/site/ringup/build.json", &back, &e) == RINGUP_EINVAL,
	   "so is a huge one: %s", e.text);
	unlink(path);
	snprintf(path, sizeof(path), "%s/site/ringup", dir);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/site", dir);
	rmdir(path);
	ok(!rmdir(dir), "nothing else was left");
	json_decref(s);
	json_decref(facts);
}

int main(void)
{
	test_make();
	test_diff();
	test_names();
	test_parse();
	test_file();
	return tap_done();
}
