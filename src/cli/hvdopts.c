/* hvdopts.c - the options of horovodrun, from the command line and from a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hvdopts.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/file.h"
#include "base/yaml.h"
#include "cli/out.h"
#include "ringup.h"

const struct hvdopt_row hvdopt_rows[HVDOPTS] = {
#define HVDOPT(name, kind, variable, section, key) \
	{ #name, HVD_##kind, variable, section, key },
#include "cli/hvdopts.def"
#undef HVDOPT
};

/* The values that the table of options writes. */
static struct hvdopts got;
static struct opt_list nics;
static int on[HVDOPTS], off[HVDOPTS];

#define TEXT(name, dest, arg, help)                                 \
	{                                                           \
		OPT_STR, 0, name, arg, &got.value[HVD_##dest], help \
	}
#define ON(name, dest, help)                                   \
	{                                                      \
		OPT_FLAG, 0, name, NULL, &on[HVD_##dest], help \
	}
#define OFF(name, dest, help)                                   \
	{                                                       \
		OPT_FLAG, 0, name, NULL, &off[HVD_##dest], help \
	}
#define HEAD(text)                                \
	{                                         \
		OPT_HEAD, 0, "", NULL, NULL, text \
	}

/* In the order of `horovodrun --help`. */
static const struct opt opts[] = {
	HEAD("job"),
	TEXT("np", num_proc, "N", "number of ranks to start"),
	TEXT("num-proc", num_proc, "N", "the same"),
	{ OPT_STR, 'H', "hosts", "HOST:N,...", &got.value[HVD_hosts],
	  "hosts, and the number of ranks on each (all on this host)" },
	TEXT("hostfile", hostfile, "FILE", "file of hosts, one \"HOST slots=N\" per line"),
	{ OPT_STR, 'p', "ssh-port", "PORT", &got.value[HVD_ssh_port],
	  "port of sshd on other hosts" },
	{ OPT_STR, 'i', "ssh-identity-file", "FILE", &got.value[HVD_ssh_identity_file],
	  "private key for ssh" },
	TEXT("start-timeout", start_timeout, "SECONDS",
	     "limit for hosts to answer and ranks to connect (60)"),
	{ OPT_LIST, 0, "network-interfaces", "NAME,...", &nics,
	  "interface between hosts (one that all hosts share)" },
	{ OPT_LIST, 0, "network-interface", "NAME", &nics,
	  "the same, with one name per option" },
	TEXT("config-file", config_file, "FILE", "read options from a YAML file"),

	HEAD("output"),
	TEXT("output-filename", output_filename, "DIR",
	     "also write DIR/rank.N/stdout and stderr"),
	{ OPT_FLAG, 0, "prefix-output-with-timestamp", NULL, &got.timestamps,
	  "prefix lines with the time" },
	{ OPT_FLAG, 0, "prefix-timestamp", NULL, &got.timestamps, "the same" },
	{ OPT_FLAG, 0, "verbose", NULL, &got.verbose, "print each command before it runs" },
	TEXT("log-level", log_level, "LEVEL", "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"),
	ON("log-with-timestamp", log_with_timestamp, "add the time to ringup's own messages"),
	OFF("log-without-timestamp", log_with_timestamp, "the opposite"),
	OFF("log-hide-timestamp", log_with_timestamp, "the same (an older name)"),
	ON("no-log-hide-timestamp", log_with_timestamp, "its opposite (an older name)"),
	{ OPT_FLAG, 0, "check-build", NULL, &got.check_build,
	  "list the installed frameworks and libraries" },
	{ OPT_FLAG, 0, "cb", NULL, &got.check_build, "the same" },
	{ OPT_FLAG, 0, "dry-run", NULL, &got.dry_run, "print the command without running it" },
	{ OPT_FLAG, 0, "json", NULL, &got.json,
	  "print these options as JSON without starting a job" },
	{ OPT_FLAG, 'v', "version", NULL, &got.version,
	  "print the compatible version of Horovod" },

	HEAD("timeline"),
	TEXT("timeline-filename", timeline_filename, "FILE",
	     "record all operations, for chrome://tracing"),
	ON("timeline-mark-cycles", timeline_mark_cycles, "also mark the start of each batch"),
	OFF("no-timeline-mark-cycles", timeline_mark_cycles, "the opposite"),

	HEAD("stalls"),
	OFF("stall-check", no_stall_check, "detect tensors that some ranks do not submit"),
	ON("no-stall-check", no_stall_check, "the opposite"),
	TEXT("stall-check-warning-time-seconds", stall_check_warning_time_seconds, "SECONDS",
	     "warn after this time (30)"),
	TEXT("stall-check-shutdown-time-seconds", stall_check_shutdown_time_seconds, "SECONDS",
	     "end the job after this time (0: never)"),

	HEAD("elastic jobs"),
	TEXT("min-np", min_num_proc, "N", "run elastically, with at least this many ranks"),
	TEXT("min-num-proc", min_num_proc, "N", "the same"),
	TEXT("max-np", max_num_proc, "N", "run with at most this many ranks"),
	TEXT("max-num-proc", max_num_proc, "N", "the same"),
	TEXT("host-discovery-script", host_discovery_script, "PROGRAM",
	     "program that prints HOST:N, one per line; runs every second"),
	TEXT("slots-per-host", slots, "N", "number of ranks on hosts printed without N (1)"),
	TEXT("elastic-timeout", elastic_timeout, "SECONDS",
	     "wait this long for enough ranks (600)"),
	TEXT("reset-limit", reset_limit, "N", "end the job after this many new rendezvous"),
	{ OPT_PAIR, 0, "blacklist-cooldown-range", "MIN MAX", got.cooldown,
	  "seconds before a failed host is used again" },

	HEAD("launcher"),
	{ OPT_FLAG, 0, "gloo", NULL, &got.gloo, "ringup starts the ranks (the default)" },
	{ OPT_FLAG, 0, "mpi", NULL, &got.mpi,
	  "start the ranks with mpirun, if it is installed" },
	{ OPT_FLAG, 0, "jsrun", NULL, &got.jsrun, "start the ranks with jsrun, in an LSF job" },
	TEXT("mpi-args", mpi_args, "WORDS", "more arguments for mpirun or jsrun"),
	TEXT("binding-args", binding_args, "WORDS",
	     "arguments for mpirun that bind ranks to cores"),
	{ OPT_FLAG, 0, "tcp", NULL, &got.tcp, "keep NCCL from using InfiniBand" },

	HEAD("accepted for compatibility; only --fusion-threshold-mb has an effect"),
	TEXT("fusion-threshold-mb", fusion_threshold_mb, "N", "fuse tensors up to this size"),
	TEXT("cycle-time-ms", cycle_time_ms, "MS", "time between two cycles"),
	TEXT("cache-capacity", cache_capacity, "N", "number of tensor names to cache"),
	ON("hierarchical-allreduce", hierarchical_allreduce,
	   "reduce first within hosts, then between them"),
	OFF("no-hierarchical-allreduce", hierarchical_allreduce, "the opposite"),
	ON("hierarchical-allgather", hierarchical_allgather,
	   "gather first within hosts, then between them"),
	OFF("no-hierarchical-allgather", hierarchical_allgather, "the opposite"),
	ON("torus-allreduce", torus_allreduce, "reduce on a two-dimensional torus"),
	OFF("no-torus-allreduce", torus_allreduce, "the opposite"),
	ON("autotune", autotune, "find the best settings while the job runs"),
	OFF("no-autotune", autotune, "the opposite"),
	TEXT("autotune-log-file", autotune_log_file, "FILE", "log file of the search"),
	TEXT("autotune-warmup-samples", autotune_warmup_samples, "N",
	     "number of samples to skip"),
	TEXT("autotune-steps-per-sample", autotune_steps_per_sample, "N", "steps per sample"),
	TEXT("autotune-bayes-opt-max-samples", autotune_bayes_opt_max_samples, "N",
	     "maximum number of samples"),
	TEXT("autotune-gaussian-process-noise", autotune_gaussian_process_noise, "X",
	     "how much samples vary, from 0 to 1"),
	ON("mpi-threads-disable", mpi_threads_disable, "use MPI from one thread"),
	OFF("no-mpi-threads-disable", mpi_threads_disable, "the opposite"),
	TEXT("num-nccl-streams", num_nccl_streams, "N", "number of NCCL streams"),
	TEXT("thread-affinity", thread_affinity, "CORE", "core that runs Horovod's thread"),
	TEXT("gloo-timeout-seconds", gloo_timeout_seconds, "SECONDS",
	     "time limit for a Gloo step"),
	{ OPT_FLAG, 0, "disable-cache", NULL, &got.disable_cache,
	  "check hosts again each time" },
	{ 0 },
};

void hvdopts_usage(FILE *f)
{
	opt_usage(opts, f);
}

/* -- checks --------------------------------------------------------------- */

const char *hvdopts_say(const struct hvdopts *o, enum hvdopt i, char out[HVDOPTS_SAY])
{
	const struct hvdopt_row *row = &hvdopt_rows[i];
	bool is_no = row->kind == HVD_BOOL && o->value[i] && *o->value[i] == '0';
	const char *key = row->key + (*row->key == '!');
	char *p;

	if (o->is_from_file[i]) {
		snprintf(out, HVDOPTS_SAY, "%s.%s", row->section, key);
		return out;
	}
	if (i == HVD_log_with_timestamp && is_no)
		snprintf(out, HVDOPTS_SAY, "--log-without-timestamp");
	else if (i == HVD_no_stall_check && is_no)
		snprintf(out, HVDOPTS_SAY, "--stall-check");
	else
		snprintf(out, HVDOPTS_SAY, "--%s%s", is_no ? "no-" : "",
			 i == HVD_slots ? "slots_per_host" : row->name);
	for (p = out; *p; p++)
		if (*p == '_')
			*p = '-';
	return out;
}

static int wrong(const struct hvdopts *o, enum hvdopt i, const char *why, struct err *e)
{
	char where[HVDOPTS_SAY];

	return fail(e, RINGUP_EINVAL, "%.120s%s%s: %.80s: %s",
		    o->is_from_file[i] ? o->value[HVD_config_file] : "",
		    o->is_from_file[i] ? ": " : "", hvdopts_say(o, i, where), o->value[i], why);
}

static int count_check(const struct hvdopts *o, enum hvdopt i, struct err *e)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(o->value[i], &end, 10);
	if (end == o->value[i] || *end)
		return wrong(o, i, "not a whole number", e);
	if (errno || n > INT_MAX)
		return wrong(o, i, "too large", e);
	if (n < 0)
		return wrong(o, i, "must be 0 or more", e);
	return 0;
}

static int number_check(const struct hvdopts *o, enum hvdopt i, double most, struct err *e)
{
	const char *v = o->value[i];
	char *end;
	double x;

	/* strtod() would accept inf, nan and 0x10 as well. */
	if (!*v || v[strspn(v, "0123456789.eE+-")])
		return wrong(o, i, "not a number", e);
	x = strtod(v, &end);
	if (end == v || *end || !isfinite(x))
		return wrong(o, i, "not a number", e);
	if (x < 0 || x > most)
		return wrong(o, i, most < 2 ? "must be from 0 to 1" : "must be 0 or more", e);
	return 0;
}

static int level_check(const struct hvdopts *o, enum hvdopt i, struct err *e)
{
	static const char *const levels[] = { "TRACE",   "DEBUG", "INFO",
					      "WARNING", "ERROR", "FATAL" };

	for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++)
		if (!strcmp(o->value[i], levels[k]))
			return 0;
	return wrong(o, i, "not TRACE, DEBUG, INFO, WARNING, ERROR or FATAL", e);
}

static int value_check(const struct hvdopts *o, enum hvdopt i, struct err *e)
{
	switch (hvdopt_rows[i].kind) {
	case HVD_COUNT:
		return count_check(o, i, e);
	case HVD_NUMBER:
		return number_check(o, i, HUGE_VAL, e);
	case HVD_UNIT:
		return number_check(o, i, 1, e);
	case HVD_LEVEL:
		return level_check(o, i, e);
	case HVD_BOOL:
	case HVD_TEXT:
		break;
	}
	if (!*o->value[i] && i != HVD_mpi_args && i != HVD_binding_args)
		return wrong(o, i, "is empty", e);
	return 0;
}

static int cooldown_check(const struct hvdopts *o, struct err *e)
{
	long s[2] = { 0 };
	char *end;

	for (int i = 0; i < 2 && o->cooldown[0]; i++) {
		errno = 0;
		s[i] = strtol(o->cooldown[i], &end, 10);
		if (errno || end == o->cooldown[i] || *end || s[i] < 1 || s[i] > 3600)
			return fail(e, RINGUP_EINVAL,
				    "--blacklist-cooldown-range: %.80s: not seconds from 1 to "
				    "3600",
				    o->cooldown[i]);
	}
	if (s[0] > s[1])
		return fail(e, RINGUP_EINVAL,
			    "--blacklist-cooldown-range %.40s %.40s: MIN is more than MAX",
			    o->cooldown[0], o->cooldown[1]);
	return 0;
}

/* Checks each value, and options that exclude each other. */
static int all_check(const struct hvdopts *o, struct err *e)
{
	int rc;

	for (int i = 0; i < HVDOPTS; i++) {
		rc = o->value[i] ? value_check(o, (enum hvdopt)i, e) : 0;
		if (rc)
			return rc;
	}
	if (o->gloo + o->mpi + o->jsrun > 1)
		return fail(e, RINGUP_EINVAL,
			    "--gloo, --mpi and --jsrun exclude each other: name one");
	if (!!o->value[HVD_hosts] + !!o->value[HVD_hostfile] +
		    !!o->value[HVD_host_discovery_script] >
	    1)
		return fail(e, RINGUP_EINVAL,
			    "--hosts, --hostfile and --host-discovery-script exclude each "
			    "other: name one");
	return cooldown_check(o, e);
}

/* -- the file ------------------------------------------------------------- */

/* A truth value of YAML: 1, 0, or -1 if @text is none. */
static int truth_read(const char *text)
{
	static const char *const words[] = { "false", "true", "no", "yes", "off", "on" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(text, words[i]))
			return (int)(i % 2);
	return -1;
}

static int file_wrong(const struct yaml_item *item, const char *why, struct err *e)
{
	return fail(e, RINGUP_EINVAL, "line %d: %s%s%s: %.80s: %s", item->line, item->section,
		    *item->section ? "." : "", item->key, item->value, why);
}

static int controller_take(struct hvdopts *o, const struct yaml_item *item, struct err *e)
{
	bool is_gloo = !strcasecmp(item->value, "gloo"),
	     is_mpi = !strcasecmp(item->value, "mpi");

	if (!is_gloo && !is_mpi)
		return file_wrong(item, "not gloo or mpi", e);
	if (!o->gloo && !o->mpi && !o->jsrun) {
		o->gloo = is_gloo;
		o->mpi = is_mpi;
	}
	return 0;
}

static int item_take(void *ctx, const struct yaml_item *item, struct err *e)
{
	struct hvdopts *o = ctx;
	bool is_opposite;
	int i, truth;

	if (!*item->section && !strcmp(item->key, "controller"))
		return controller_take(o, item, e);
	for (i = 0; i < HVDOPTS; i++)
		if (*hvdopt_rows[i].key && !strcmp(hvdopt_rows[i].section, item->section) &&
		    !strcmp(hvdopt_rows[i].key + (*hvdopt_rows[i].key == '!'), item->key))
			break;
	/* Upstream ignores unknown keys silently, so that a misspelt one has no effect. */
	if (i == HVDOPTS) {
		out_note("horovodrun: %s: line %d: %s%s%s is unknown and ignored\n",
			 o->value[HVD_config_file], item->line, item->section,
			 *item->section ? "." : "", item->key);
		return 0;
	}
	if (o->value[i] && !o->is_from_file[i])
		return 0;
	is_opposite = *hvdopt_rows[i].key == '!';
	truth = hvdopt_rows[i].kind == HVD_BOOL ? truth_read(item->value) : 0;
	if (truth < 0 || (hvdopt_rows[i].kind == HVD_BOOL && item->is_quoted))
		return file_wrong(item, "not true or false", e);
	free(o->own[i]);
	o->own[i] = strdup(hvdopt_rows[i].kind != HVD_BOOL ? item->value
			   : truth != is_opposite          ? "1"
							   : "0");
	if (!o->own[i])
		return fail(e, RINGUP_ENOMEM, "no memory for options");
	o->value[i] = o->own[i];
	o->is_from_file[i] = true;
	return 0;
}

static int file_take(struct hvdopts *o, struct err *e)
{
	const char *path = o->value[HVD_config_file];
	struct err why = { 0 };
	char *text = NULL;
	size_t len;
	int rc;

	rc = file_read("", path, YAML_FILE_BYTES, &text, &len, e);
	if (rc)
		return rc;
	rc = yaml_read(text, len, item_take, o, &why);
	free(text);
	return rc ? fail(e, rc, "%.120s: %s", path, why.text) : 0;
}

/* -- the whole ------------------------------------------------------------ */

/* Takes options with an opposite: --autotune and --no-autotune. */
static int flags_take(struct err *e)
{
	for (int i = 0; i < HVDOPTS; i++) {
		if (on[i] && off[i])
			return fail(e, RINGUP_EINVAL, "%s and its opposite are both given",
				    hvdopt_rows[i].name);
		if (on[i] || off[i])
			got.value[i] = on[i] ? "1" : "0";
	}
	return 0;
}

static bool has_name(const char *list, const char *name, size_t len)
{
	for (; *list; list += strcspn(list, ",") + !!strchr(list, ','))
		if (strcspn(list, ",") == len && !memcmp(list, name, len))
			return true;
	return false;
}

/* Joins the names of interfaces, each once, with commas. */
static int nics_take(struct err *e)
{
	size_t len = 1, n;
	const char *p;

	for (int i = 0; i < nics.count; i++)
		len += strlen(nics.item[i]) + 1;
	got.nics = nics.count ? calloc(1, len) : NULL;
	if (nics.count && !got.nics)
		return fail(e, RINGUP_ENOMEM, "no memory for options");
	for (int i = 0; i < nics.count; i++)
		for (p = nics.item[i]; *p; p += n + (p[n] == ',')) {
			size_t used = strlen(got.nics);

			n = strcspn(p, ",");
			if (n && !has_name(got.nics, p, n))
				snprintf(got.nics + used, len - used, "%s%.*s", used ? "," : "",
					 (int)n, p);
		}
	if (got.nics && !*got.nics)
		return fail(e, RINGUP_EINVAL, "--network-interfaces needs a name");
	return 0;
}

int hvdopts_read(int argc, char **argv, struct hvdopts *o, struct err *e)
{
	int rest = 0, rc;

	rc = opt_parse(opts, true, argc, argv, &rest, e);
	got.command = argv + rest;
	if (!rc)
		rc = flags_take(e);
	if (!rc)
		rc = nics_take(e);
	if (!rc && got.value[HVD_config_file])
		rc = file_take(&got, e);
	if (!rc)
		rc = all_check(&got, e);
	*o = got;
	free(nics.item);
	return rc;
}

void hvdopts_free(struct hvdopts *o)
{
	for (int i = 0; i < HVDOPTS; i++)
		free(o->own[i]);
	free(o->nics);
}

/* -- as JSON -------------------------------------------------------------- */

static json_t *value_json(const struct hvdopts *o, int i)
{
	const char *v = o->value[i];

	if (!v)
		return json_null();
	switch (hvdopt_rows[i].kind) {
	case HVD_COUNT:
		return json_integer(strtol(v, NULL, 10));
	case HVD_NUMBER:
	case HVD_UNIT:
		return json_real(strtod(v, NULL));
	case HVD_BOOL:
		return json_boolean(*v == '1');
	default:
		return out_string(v);
	}
}

static json_t *nics_json(const char *names)
{
	json_t *list = names ? json_array() : json_null();
	char name[64];

	while (names && *names) {
		size_t n = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		json_array_append_new(list, out_string(name));
		names += n + (names[n] == ',');
	}
	return list;
}

json_t *hvdopts_json(const struct hvdopts *o)
{
	json_t *all = json_object(), *words = json_array();
	char **p;

	for (int i = 0; i < HVDOPTS; i++)
		json_object_set_new(all, hvdopt_rows[i].name, value_json(o, i));
	for (p = o->command; *p; p++)
		json_array_append_new(words, out_string(*p));
	json_object_set_new(
		all, "cooldown_range",
		o->cooldown[0] ? json_pack("[ii]", atoi(o->cooldown[0]), atoi(o->cooldown[1]))
			       : json_null());
	json_object_set_new(all, "nics", nics_json(o->nics));
	json_object_set_new(all, "verbose", json_boolean(o->verbose));
	json_object_set_new(all, "check_build", json_boolean(o->check_build));
	json_object_set_new(all, "disable_cache", json_boolean(o->disable_cache));
	json_object_set_new(all, "tcp_flag", json_boolean(o->tcp));
	json_object_set_new(all, "prefix_output_with_timestamp", json_boolean(o->timestamps));
	json_object_set_new(all, "use_gloo", json_boolean(o->gloo));
	json_object_set_new(all, "use_mpi", json_boolean(o->mpi));
	json_object_set_new(all, "use_jsrun", json_boolean(o->jsrun));
	json_object_set_new(all, "command", words);
	return all;
}
