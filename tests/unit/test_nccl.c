/* test_nccl.c - the model agrees with every recorded case of the real libraries. */
#include "base/release.h"
#include "net/cases.h"

/* What the library of @version did, by the entries for the versions where that changed. */
static const json_t *entry_for(const json_t *entries, const char *version)
{
	const json_t *one, *found = NULL;
	size_t i;

	json_array_foreach(entries, i, one) {
		if (release_compare(version, json_string_value(json_object_get(one, "from"))) >=
		    0)
			found = one;
	}
	return found;
}

/* A result alone, if it is 0, says that there was a pick, but not which. */
static int agrees(const struct pick_role *r, const json_t *entry)
{
	const char *interface = json_string_value(json_object_get(entry, "interface"));
	const char *address = json_string_value(json_object_get(entry, "address"));
	json_int_t result = json_integer_value(json_object_get(entry, "result"));

	if (result)
		return !r->npicks && r->has_result && r->result == result;
	return r->npicks == 1 && !*r->error &&
	       (!interface || !strcmp(interface, r->picks[0].interface)) &&
	       (!address || !strcmp(address, r->picks[0].address));
}

static void test_version(const struct picker *k, const json_t *c, const json_t *entries,
			 const char *version)
{
	const json_t *entry = entry_for(entries, version);
	const char *id = json_string_value(json_object_get(c, "id"));
	struct snapshot s = { 0 };
	struct picked p = { 0 };
	struct err e = { 0 };
	int rc;

	if (!entry)
		return;
	rc = cases_machine(&s, k, c, version, netconf_nccl, &e);
	if (!rc)
		rc = picker_run(k, &s.ifaces, &s.settings, &p, &e);
	ok(!rc && agrees(&p.roles[0], entry), "%s by %s: %s %s(%d %s)", id, version,
	   p.roles[0].npicks ? p.roles[0].picks[0].interface : "",
	   p.roles[0].npicks ? p.roles[0].picks[0].address : "", p.roles[0].result,
	   p.roles[0].error);
	picker_free(&p);
	snapshot_free(&s);
}

static void test_versions(const struct picker *k)
{
	json_t *machines = cases_load("nccl.json"), *all = cases_load("nccl_versions.json");
	const json_t *versions = json_object_get(all, "versions"), *c, *v;
	size_t i, n;

	ok(json_array_size(versions) == 19, "19 versions");
	json_array_foreach(json_object_get(machines, "cases"), i, c) {
		const char *id = json_string_value(json_object_get(c, "id"));
		const json_t *entries = json_object_get(json_object_get(all, "cases"), id);

		ok(json_array_size(entries) > 0, "%s is recorded", id);
		json_array_foreach(versions, n, v)
			test_version(k, c, entries, json_string_value(v));
	}
	json_decref(machines);
	json_decref(all);
}

int main(void)
{
	const struct picker *k = picker_find("nccl");

	ok(k != NULL, "nccl is a picker");
	ok(cases_run(k, "nccl.json", netconf_nccl) >= 69, "no case was lost");
	test_versions(k);
	return tap_done();
}
