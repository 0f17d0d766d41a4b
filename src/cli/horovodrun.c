/* horovodrun.c - Horovod's launcher: the program `ringup` under another name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argv.h"
#include "base/conf.h"
#include "base/data.h"
#include "base/err.h"
#include "base/horovod.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/shell.h"
#include "cli/cmd.h"
#include "cli/horovodrun.h"
#include "cli/hvdbuild.h"
#include "cli/hvdopts.h"
#include "cli/out.h"
#include "ringup.h"

enum { MPIRUN_ASK_MS = 10000 };

/* The command that starts the ranks, and the variables that are set for them. */
struct plan_words {
	struct argv argv;
	char *name[HVDOPTS + 8], *value[HVDOPTS + 8]; /* variables to set */
	int variables;
};

static int misuse(const struct err *e)
{
	out_note("horovodrun: %s\n", e->text);
	out_note("try: horovodrun --help\n");
	return CMD_USAGE;
}

static int failed(const struct err *e)
{
	out_note("horovodrun: %s\n", e->text);
	return CMD_FAIL;
}

static void usage(FILE *f)
{
	fputs("usage: horovodrun -np N [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	      "start a program as the ranks of a job, as Horovod's launcher does\n\n",
	      f);
	hvdopts_usage(f);
	fputs("\nexamples:\n"
	      "  horovodrun -np 4 python train.py\n"
	      "  horovodrun -np 8 -H a.example:4,b.example:4 python train.py\n"
	      "  horovodrun --check-build\n"
	      "\nexit status: that of the first rank that failed, else 0; 2 usage error, 3 "
	      "failure\n"
	      "manual:      man horovodrun, man ringup-run\n",
	      f);
}

/* -- words and variables -------------------------------------------------- */

static void variable_add(struct plan_words *w, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void variable_add(struct plan_words *w, const char *name, const char *fmt, ...)
{
	char *value = NULL, *copy = strdup(name);
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&value, fmt, ap) < 0)
		value = NULL;
	va_end(ap);
	if (!value || !copy) {
		w->argv.failed = true;
		free(value);
		free(copy);
		return;
	}
	w->name[w->variables] = copy;
	w->value[w->variables++] = value;
}

static void words_free(struct plan_words *w)
{
	argv_free(&w->argv);
	for (int k = 0; k < w->variables; k++) {
		free(w->name[k]);
		free(w->value[k]);
	}
}

/* Adds the value in the units of the variable: bytes for MiB, and "hide" for "with". */
static void value_add(struct plan_words *w, const struct hvdopts *o, enum hvdopt i)
{
	const char *name = hvdopt_rows[i].variable, *value = o->value[i];

	if (i == HVD_fusion_threshold_mb)
		variable_add(w, name, "%lld", strtoll(value, NULL, 10) * 1024 * 1024);
	else if (i == HVD_log_with_timestamp)
		variable_add(w, name, "%d", *value == '0');
	else
		variable_add(w, name, "%s", value);
}

/* Is a variable set for @i?  Options of autotuning and of the timeline need their main
 * option. */
static bool horovodrun_is_set(const struct hvdopts *o, enum hvdopt i)
{
	if (!o->value[i] || !*hvdopt_rows[i].variable)
		return false;
	if (i >= HVD_autotune && i <= HVD_autotune_gaussian_process_noise)
		return o->value[HVD_autotune] && *o->value[HVD_autotune] == '1';
	if (i == HVD_timeline_mark_cycles)
		return o->value[HVD_timeline_filename];
	return true;
}

static void variables_add(struct plan_words *w, const struct hvdopts *o)
{
	for (int i = 0; i < HVDOPTS; i++)
		if (horovodrun_is_set(o, (enum hvdopt)i))
			value_add(w, o, (enum hvdopt)i);
	if (o->tcp)
		variable_add(w, "NCCL_IB_DISABLE", "1");
	if (!o->nics)
		return;
	/* NCCL may use all of them; for ringup itself each host takes the first that it has. */
	variable_add(w, "HOROVOD_GLOO_IFACE", "%s", o->nics);
	variable_add(w, "NCCL_SOCKET_IFNAME", "%s", o->nics);
}

/* -- options that have no effect ------------------------------------------ */

/* The reason why @i has no effect here, or NULL. */
static const char *needless(const struct hvdopts *o, enum hvdopt i)
{
	const char *variable = hvdopt_rows[i].variable;
	const struct horovod *h;

	if (!o->value[i] || !*variable)
		return NULL;
	h = horovod_find(variable, strlen(variable));
	if (!h || (h->kind != HOROVOD_UNNEEDED && h->kind != HOROVOD_UNSUPPORTED))
		return NULL;
	/* "--no-torus-allreduce" disables a feature that is never enabled. */
	return hvdopt_rows[i].kind == HVD_BOOL && *o->value[i] == '0' ? NULL : h->meaning;
}

static void note_one(const char *what, const char *why)
{
	out_note("horovodrun: %s: %s\n", what, why);
}

static bool is_elastic(const struct hvdopts *o)
{
	return o->value[HVD_host_discovery_script] || o->value[HVD_min_num_proc];
}

/* As in upstream, these options alone do not make a job elastic. */
static void elastic_note(const struct hvdopts *o)
{
	static const enum hvdopt needs[] = { HVD_max_num_proc, HVD_elastic_timeout,
					     HVD_reset_limit };
	static const char why[] =
		"no effect: only elastic jobs use it (--min-np or --host-discovery-script)";
	char where[HVDOPTS_SAY];

	if (is_elastic(o))
		return;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (o->value[needs[i]])
			note_one(hvdopts_say(o, needs[i], where), why);
	if (o->cooldown[0])
		note_one("--blacklist-cooldown-range", why);
}

/* Prints one line for each reason, with all its options. */
static void notes_print(const struct hvdopts *o)
{
	bool is_done[HVDOPTS] = { false };
	char where[HVDOPTS_SAY], list[1024];
	size_t n;
	int k;

	for (int i = 0; i < HVDOPTS; i++) {
		const char *why = needless(o, (enum hvdopt)i), *other;

		if (!why || is_done[i])
			continue;
		for (n = 0, k = i; k < HVDOPTS; k++) {
			other = needless(o, (enum hvdopt)k);
			if (!other || strcmp(other, why) || n > sizeof(list) - HVDOPTS_SAY - 4)
				continue;
			is_done[k] = true;
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
					      hvdopts_say(o, (enum hvdopt)k, where));
		}
		note_one(list, why);
	}
	if (o->disable_cache)
		note_one("--disable-cache", "no effect: ringup caches nothing between runs");
	elastic_note(o);
	if (!o->mpi && !o->jsrun && o->value[HVD_mpi_args])
		note_one("--mpi-args", "no effect: only --mpi and --jsrun use it; ringup "
				       "starts the ranks itself");
	if (!o->mpi && !o->jsrun && o->value[HVD_binding_args])
		note_one("--binding-args", "no effect: only --mpi and --jsrun use it; ringup "
					   "starts the ranks itself");
}

/* -- ringup run ----------------------------------------------------------- */

/* Is @name, @len bytes long, a name of this host that needs no resolver? */
static bool is_here(const char *name, size_t len)
{
	char host[HOST_NAME_MAX + 1] = "";

	if (gethostname(host, sizeof(host) - 1))
		*host = 0;
	return (len == 9 && !memcmp(name, "localhost", 9)) ||
	       (len > 4 && !memcmp(name, "127.", 4) && strspn(name, "0123456789.") >= len) ||
	       (*host && strlen(host) == len && !memcmp(name, host, len));
}

/* Are all hosts of "HOST:N,HOST:N" this one?  *@slots becomes the sum of N.  False also for a
 * malformed list, which `ringup run` then refuses. */
static bool is_all_here(const char *hosts, long *slots)
{
	const char *p = hosts, *colon;
	char *end;
	long n;

	for (*slots = 0; *p; p = *end == ',' ? end + 1 : end) {
		colon = strchr(p, ':');
		if (!colon || !is_here(p, (size_t)(colon - p)))
			return false;
		n = strtol(colon + 1, &end, 10);
		if (end == colon + 1 || n < 1 || n > INT_MAX || (*end && *end != ','))
			return false;
		*slots += n;
	}
	return *slots > 0;
}

/* Adds the option of `ringup run` for a given value. */
static void option_add(struct plan_words *w, const struct hvdopts *o, enum hvdopt i,
		       const char *option)
{
	if (o->value[i])
		argv_add(&w->argv, "--%s=%s", option, o->value[i]);
}

static int hosts_add(struct plan_words *w, const struct hvdopts *o, struct err *e)
{
	long slots, np = strtol(o->value[HVD_num_proc], NULL, 10);

	if (o->value[HVD_hosts] && !is_elastic(o) && is_all_here(o->value[HVD_hosts], &slots)) {
		if (np > slots)
			return fail(e, RINGUP_EINVAL,
				    "Requested more processes (%ld) than there are available "
				    "slots (%ld): raise the numbers in -H %.120s",
				    np, slots, o->value[HVD_hosts]);
		return 0;
	}
	option_add(w, o, HVD_hosts, "hosts");
	option_add(w, o, HVD_hostfile, "hostfile");
	if (o->value[HVD_hosts] || o->value[HVD_hostfile] || is_elastic(o)) {
		option_add(w, o, HVD_ssh_port, "ssh-port");
		option_add(w, o, HVD_ssh_identity_file, "ssh-identity-file");
	}
	return 0;
}

static void elastic_add(struct plan_words *w, const struct hvdopts *o)
{
	option_add(w, o, HVD_min_num_proc, "min-np");
	option_add(w, o, HVD_max_num_proc, "max-np");
	option_add(w, o, HVD_host_discovery_script, "host-discovery-script");
	option_add(w, o, HVD_slots, "slots-per-host");
	option_add(w, o, HVD_elastic_timeout, "elastic-timeout");
	option_add(w, o, HVD_reset_limit, "reset-limit");
	if (o->cooldown[0])
		argv_add(&w->argv, "--blacklist-cooldown-range=%s,%s", o->cooldown[0],
			 o->cooldown[1]);
}

static void command_add(struct plan_words *w, const struct hvdopts *o)
{
	char **p;

	for (p = o->command; *p; p++)
		argv_put(&w->argv, *p, NULL);
}

static int run_plan(struct plan_words *w, const struct hvdopts *o, struct err *e)
{
	int rc;

	argv_put(&w->argv, "ringup", "run", "-np", o->value[HVD_num_proc], NULL);
	rc = hosts_add(w, o, e);
	if (is_elastic(o))
		elastic_add(w, o);
	if (o->value[HVD_output_filename])
		argv_add(&w->argv, "--output-dir=%s", o->value[HVD_output_filename]);
	argv_put(&w->argv, "--tag-output", NULL);
	if (o->timestamps)
		argv_put(&w->argv, "--timestamp-output", NULL);
	argv_put(&w->argv, "--", NULL);
	command_add(w, o);
	return rc;
}

/* -- mpirun and jsrun ----------------------------------------------------- */

/* Is mpirun Open MPI's or a derivative's, rather than MPICH's? */
static bool is_openmpi(void)
{
	char *argv[] = { (char[]){ "mpirun" }, (char[]){ "--version" }, NULL };
	struct err none;
	char *text = NULL;
	bool is = true;
	int status;

	if (!proc_capture(argv, 65536, MPIRUN_ASK_MS, &text, &status, &none))
		is = !strstr(text, "HYDRA") && !strstr(text, "MPICH") &&
		     !strstr(text, "Intel(R) MPI");
	free(text);
	return is;
}

/* Splits words at blanks; quotes keep blanks. */
static void split_add(struct plan_words *w, const char *text)
{
	char word[4096], quote = 0;
	bool is_word = false;
	size_t n = 0;

	for (; text && (*text || is_word); text += *text != 0) {
		if (!*text || (!quote && (*text == ' ' || *text == '\t'))) {
			if (is_word)
				argv_add(&w->argv, "%.*s", (int)n, word);
			n = 0;
			is_word = false;
			continue;
		}
		is_word = true;
		if (quote ? *text == quote : *text == '\'' || *text == '"')
			quote = quote ? 0 : *text;
		else if (n < sizeof(word))
			word[n++] = *text;
	}
}

static bool is_exported(const char *var)
{
	static const char *const ours[] = { "RINGUP_",          "HOROVOD_",    "NCCL_",
					    "PYTHONPATH=",      "PYTHONHOME=", "PATH=",
					    "LD_LIBRARY_PATH=", NULL };

	for (int i = 0; ours[i]; i++)
		if (!strncmp(var, ours[i], strlen(ours[i])) && !strstr(var, "SECRET"))
			return true;
	return false;
}

static void openmpi_add(struct plan_words *w, const struct hvdopts *o)
{
	char **p;

	if (!geteuid())
		argv_put(&w->argv, "--allow-run-as-root", NULL);
	argv_put(&w->argv, "--tag-output", NULL);
	if (o->timestamps)
		argv_put(&w->argv, "--timestamp-output", NULL);
	if (o->value[HVD_output_filename]) {
		argv_put(&w->argv, "--output-filename", o->value[HVD_output_filename], NULL);
	}
	if (o->value[HVD_hostfile]) {
		argv_put(&w->argv, "--hostfile", o->value[HVD_hostfile], NULL);
	} else {
		argv_put(&w->argv, "-H", NULL);
		if (o->value[HVD_hosts])
			argv_put(&w->argv, o->value[HVD_hosts], NULL);
		else
			argv_add(&w->argv, "localhost:%s", o->value[HVD_num_proc]);
	}
	if (o->value[HVD_ssh_port] || o->value[HVD_ssh_identity_file]) {
		argv_put(&w->argv, "-mca", "plm_rsh_args", NULL);
		argv_add(&w->argv, "%s%s%s%s", o->value[HVD_ssh_port] ? "-p " : "",
			 o->value[HVD_ssh_port] ? o->value[HVD_ssh_port] : "",
			 o->value[HVD_ssh_identity_file] ? " -i " : "",
			 o->value[HVD_ssh_identity_file] ? o->value[HVD_ssh_identity_file]
							 : "");
	}
	if (o->nics) {
		argv_put(&w->argv, "-mca", "btl_tcp_if_include", o->nics, NULL);
	}
	if (o->value[HVD_binding_args]) {
		split_add(w, o->value[HVD_binding_args]);
	} else {
		argv_put(&w->argv, "-bind-to", "none", NULL);
	}
	/* mpirun passes only named variables on to other hosts. */
	for (int i = 0; i < w->variables; i++) {
		argv_put(&w->argv, "-x", w->name[i], NULL);
	}
	for (p = conf_environ(); *p; p++)
		if (is_exported(*p)) {
			argv_put(&w->argv, "-x", NULL);
			argv_add(&w->argv, "%.*s", (int)strcspn(*p, "="), *p);
		}
}

static void mpich_add(struct plan_words *w, const struct hvdopts *o)
{
	argv_put(&w->argv, "-prepend-rank", NULL);
	if (o->value[HVD_hostfile]) {
		argv_put(&w->argv, "-f", o->value[HVD_hostfile], NULL);
	} else if (o->value[HVD_hosts]) {
		argv_put(&w->argv, "-hosts", o->value[HVD_hosts], NULL);
	}
	if (o->value[HVD_output_filename]) {
		argv_put(&w->argv, "-outfile-pattern", o->value[HVD_output_filename], NULL);
	}
	if (o->nics) {
		argv_put(&w->argv, "-iface", NULL);
		argv_add(&w->argv, "%.*s", (int)strcspn(o->nics, ","), o->nics);
	}
}

static void mpirun_plan(struct plan_words *w, const struct hvdopts *o)
{
	argv_put(&w->argv, "mpirun", "-np", o->value[HVD_num_proc], NULL);
	if (is_openmpi())
		openmpi_add(w, o);
	else
		mpich_add(w, o);
	split_add(w, o->value[HVD_mpi_args]);
	command_add(w, o);
}

static void jsrun_plan(struct plan_words *w, const struct hvdopts *o)
{
	argv_put(&w->argv, "jsrun", "--np", o->value[HVD_num_proc], NULL);
	if (o->value[HVD_output_filename]) {
		argv_put(&w->argv, "--stdio_stdout", o->value[HVD_output_filename],
			 "--stdio_stderr", o->value[HVD_output_filename], NULL);
	}
	split_add(w, o->value[HVD_binding_args]);
	if (o->value[HVD_mpi_args]) {
		argv_put(&w->argv, "--smpiargs", o->value[HVD_mpi_args], NULL);
	}
	command_add(w, o);
}

/* Chooses the program that starts the ranks: "mpirun", "jsrun" or "ringup". */
static const char *starter_choose(const struct hvdopts *o)
{
	const char *asked = o->mpi ? "mpirun" : o->jsrun ? "jsrun" : "ringup";
	char path[PATH_MAX];

	if (!o->mpi && !o->jsrun)
		return asked;
	if (is_elastic(o)) {
		note_one(o->mpi ? "--mpi" : "--jsrun",
			 "cannot start elastic jobs; ringup starts the ranks itself");
		return "ringup";
	}
	if (path_program(asked, path))
		return asked;
	out_note("horovodrun: --%s: no %s in PATH; ringup starts the ranks itself\n",
		 o->mpi ? "mpi" : "jsrun", asked);
	return "ringup";
}

/* -- the whole ------------------------------------------------------------ */

/* Prints "env NAME=VALUE ringup run ...", for a shell. */
static void plan_print(const struct plan_words *w, FILE *f)
{
	char *out;
	size_t room;

	if (w->variables)
		fputs("env ", f);
	for (int k = 0; k < w->variables; k++) {
		room = SHELL_ROOM(strlen(w->value[k]));
		out = malloc(room);
		if (out)
			fprintf(f, "%s=%s ", w->name[k], shell_word(w->value[k], out, room));
		free(out);
	}
	for (int i = 0; i < w->argv.count; i++) {
		room = SHELL_ROOM(strlen(w->argv.word[i]));
		out = malloc(room);
		if (out)
			fprintf(f, "%s%s", i ? " " : "",
				shell_word(w->argv.word[i], out, room));
		free(out);
	}
	fputc('\n', f);
}

/* Sets @out to the path of the program ringup beside this one, or "". */
static void ringup_find(char out[PATH_MAX])
{
	char *slash;

	(void)data_program(out, NULL);
	slash = strrchr(out, '/');
	if (slash && slash - out < (ptrdiff_t)(PATH_MAX - sizeof("ringup")))
		memcpy(slash + 1, "ringup", sizeof("ringup"));
	if (!slash || access(out, X_OK))
		*out = 0;
}

/* Starts `ringup run`, a separate program.  If it is not installed beside this one, its code
 * runs in this process, with this program as the rank daemons: see main(). */
static int ringup_start(struct plan_words *w, struct err *e)
{
	char path[PATH_MAX];

	ringup_find(path);
	if (!*path)
		return cmd_main(w->argv.count, w->argv.word);
	if (out_end(e))
		return RINGUP_ESYSTEM;
	execv(path, w->argv.word);
	return fail_os(e, "%s", path);
}

static int horovodrun_start(struct plan_words *w, struct err *e)
{
	for (int k = 0; k < w->variables; k++)
		if (setenv(w->name[k], w->value[k], 1))
			return fail_os(e, "%s", w->name[k]);
	if (!strcmp(w->argv.word[0], "ringup"))
		return ringup_start(w, e);
	execvp(w->argv.word[0], w->argv.word);
	return fail_os(e, "%s", w->argv.word[0]);
}

static int horovodrun_run(const struct hvdopts *o)
{
	struct plan_words w = { 0 };
	struct err e = { 0 };
	const char *starter;
	int rc = 0;

	if (!o->value[HVD_num_proc])
		rc = fail(&e, RINGUP_EINVAL,
			  "-np is missing: give the number of ranks, as in -np 4");
	else if (!strtol(o->value[HVD_num_proc], NULL, 10))
		rc = fail(&e, RINGUP_EINVAL, "-np 0: a job has at least 1 rank");
	else if (!*o->command)
		rc = fail(&e, RINGUP_EINVAL,
			  "the command is missing, as in `horovodrun -np 2 python train.py`");
	if (rc)
		return misuse(&e);
	notes_print(o);
	variables_add(&w, o);
	starter = starter_choose(o);
	if (!strcmp(starter, "mpirun"))
		mpirun_plan(&w, o);
	else if (!strcmp(starter, "jsrun"))
		jsrun_plan(&w, o);
	else
		rc = run_plan(&w, o, &e);
	if (!rc && w.argv.failed)
		rc = fail(&e, RINGUP_ENOMEM, "no memory for a command");
	if (rc) {
		words_free(&w);
		return rc == RINGUP_EINVAL ? misuse(&e) : failed(&e);
	}
	if (o->dry_run || o->verbose)
		plan_print(&w, o->dry_run ? stdout : stderr);
	rc = o->dry_run ? 0 : horovodrun_start(&w, &e);
	words_free(&w);
	return rc < 0 ? failed(&e) : rc;
}

static int act(const struct hvdopts *o)
{
	struct err e = { 0 };
	int rc = 0;

	if (o->version) {
		out_text("%s\n", HVDBUILD_VERSION);
		return 0;
	}
	if (o->json)
		rc = out_json(hvdopts_json(o), &e);
	else if (o->check_build)
		rc = hvdbuild_print(conf_env("RINGUP_PYTHON"), &e);
	else
		return horovodrun_run(o);
	return rc ? failed(&e) : 0;
}

int horovodrun_main(int argc, char **argv)
{
	struct hvdopts o;
	struct err e = { 0 };
	int rc, status;

	out_start();
	if (argc < 2) {
		usage(stderr);
		return CMD_USAGE;
	}
	rc = hvdopts_read(argc, argv, &o, &e);
	if (rc == OPT_HELP) {
		usage(stdout);
		status = CMD_YES;
	} else {
		status = rc ? misuse(&e) : act(&o);
	}
	hvdopts_free(&o);
	return out_end(&e) ? failed(&e) : status;
}
