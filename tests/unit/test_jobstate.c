/* test_jobstate.c - records and tables of schedulers that say how a job ended. */
#include "diagnose/jobstate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* What is said by the word in the log, which has no byte before or behind it. */
static void check(const char *log, const char *word, enum jobstate want)
{
	size_t n = strlen(log), looked = 0;
	char *copy = malloc(n);
	const char *at;
	enum jobstate found;

	memcpy(copy, log, n);
	at = memmem(copy, n, word, strlen(word));
	found = at ? jobstate_read(copy, at + strlen(word) / 2, copy + n, &looked)
		   : JOBSTATE_NONE;
	ok(found == want && looked > 0, "%.60s: %d", log, want);
	free(copy);
}

static void check_records(void)
{
	check("   JobState=COMPLETED Reason=None Dependency=(null)", "COMPLETED",
	      JOBSTATE_SCRIPT);
	check("State: COMPLETED (exit code 0)", "COMPLETED", JOBSTATE_SCRIPT);
	check("26/03/11 10:00:00 INFO Client: Application report for app_1 (state: FINISHED)\n"
	      "\t final status: SUCCEEDED\n",
	      "SUCCEEDED", JOBSTATE_JOB);
	check("\tFinal-State : SUCCEEDED", "SUCCEEDED", JOBSTATE_JOB);
	check("Job finished (status: SUCCEEDED).", "SUCCEEDED", JOBSTATE_JOB);
	check("\"TrainingJobStatus\": \"Completed\",", "Completed", JOBSTATE_JOB);
	check("runStatus: Completed", "Completed", JOBSTATE_JOB);
	check("Status:           Succeeded", "Succeeded", JOBSTATE_NONE);
	check("upload of step 300: status=Completed", "Completed", JOBSTATE_NONE);
	check("JobState=COMPLETING Reason=None", "COMPLETING", JOBSTATE_NONE);
	check("Completed: 12 files", "Completed", JOBSTATE_NONE);
	check("stated Completed", "Completed", JOBSTATE_NONE);
	check("subprocess.CompletedProcess(args=1, status=0)", "Completed", JOBSTATE_NONE);
	check("Reason: Completed", "Completed", JOBSTATE_NONE);
}

static void check_commands(void)
{
	check("$ kubectl get pytorchjob yak -o "
	      "jsonpath={.status.conditions[-1:].type}\nSucceeded",
	      "Succeeded", JOBSTATE_JOB);
	check("$ kubectl get pod yak-1 -o jsonpath={.status.phase}\nSucceeded\n", "Succeeded",
	      JOBSTATE_NONE);
	check("$ kubectl get mpijob yak -o jsonpath={.status}\nSucceeded: 1\n", "Succeeded",
	      JOBSTATE_NONE);
	check("Succeeded\n", "Succeeded", JOBSTATE_NONE);
	ok(jobstate_is_zero("torchrun rc=0", "") && jobstate_is_zero("exit code: 0", "") &&
		   jobstate_is_zero("[launch.sh] mpirun returned 0", "") &&
		   jobstate_is_zero("+ exit 0", "") && jobstate_is_zero("rc=0", "") &&
		   jobstate_is_zero("0", "$ echo $?"),
	   "a script says that its command ended with status 0");
	ok(!jobstate_is_zero("+ echo torchrun rc=0", "") && !jobstate_is_zero("rc=10", "") &&
		   !jobstate_is_zero("rc=1", "") && !jobstate_is_zero("arc=0", "") &&
		   !jobstate_is_zero("loss 0", "") && !jobstate_is_zero("0", "$ echo") &&
		   !jobstate_is_zero("", "") && !jobstate_is_zero("=0", ""),
	   "other lines do not");
}

static void check_slurm(void)
{
	check("JobID           State ExitCode\n4711        COMPLETED      0:0\n", "COMPLETED",
	      JOBSTATE_SCRIPT);
	check("sacct: 4711_3 COMPLETED 0:0", "COMPLETED", JOBSTATE_SCRIPT);
	check("JobID|State|ExitCode\n4711|COMPLETED|0:0\n4711.batch|COMPLETED|0:0", "COMPLETED",
	      JOBSTATE_SCRIPT);
	check("4711         train        gpu       acct          8  COMPLETED      0:0 \n",
	      "COMPLETED", JOBSTATE_SCRIPT);
	check("JobID           State ExitCode\n------------ ---------- --------\n"
	      "4711           FAILED      1:0\n4711.extern COMPLETED      0:0\n",
	      "COMPLETED", JOBSTATE_NONE);
	check("JobID           State ExitCode\n4711        COMPLETED      0:0\n"
	      "4711.0         FAILED      1:0\n",
	      "COMPLETED", JOBSTATE_NONE);
	check("4711 FAILED 1:0\n4711.extern COMPLETED 0:0\n", "COMPLETED", JOBSTATE_NONE);
	check("4711.extern COMPLETED 0:0\n", "COMPLETED", JOBSTATE_NONE);
	check("JobID         State ExitCode\n4711      NODE_FAIL      0:0\n"
	      "4711      COMPLETED      0:0\n",
	      "COMPLETED", JOBSTATE_SCRIPT);
	check("JobID         State ExitCode\n4711        RUNNING      0:0\n"
	      "4711.0    COMPLETED      0:0\n",
	      "COMPLETED", JOBSTATE_NONE);
	check("JobID         State ExitCode\n4711      COMPLETED      0:0\n"
	      "done at node 7, elapsed 0:44\n",
	      "COMPLETED", JOBSTATE_SCRIPT);
}

static void check_kubernetes(void)
{
	check("NAME      AGE   STATUS\nbench-1   9m    Succeeded", "Succeeded", JOBSTATE_JOB);
	check("NAME    STATE       AGE\nbert    Succeeded   2h\n", "Succeeded", JOBSTATE_JOB);
	check("NAME    STATUS     COMPLETIONS   DURATION   AGE\nbert    Complete   2/2         "
	      "  9m"
	      "         9m\n",
	      "COMPLETIONS", JOBSTATE_JOB);
	check("NAME    COMPLETIONS   DURATION   AGE\nbert    2/2           9m         9m\n",
	      "COMPLETIONS", JOBSTATE_JOB);
	check("NAME    COMPLETIONS   DURATION   AGE\nbert    0/2           9m         9m\n",
	      "COMPLETIONS", JOBSTATE_NONE);
	check("NAME      READY   STATUS      RESTARTS   AGE\nbert-0    0/1     Completed   0"
	      "          9m\nbert-1    0/1     Completed   0          9m\n",
	      "Completed", JOBSTATE_JOB);
	check("NAME      READY   STATUS      RESTARTS   AGE\nbert-0    0/1     Completed   0"
	      "          9m\nbert-1    0/1     Error       0          9m\n",
	      "Completed", JOBSTATE_NONE);
	check("NAME             READY   STATUS      RESTARTS   AGE\n"
	      "bench-launcher   0/1     Completed   0          9m\n"
	      "bench-worker-0   1/1     Running     0          9m\n",
	      "Completed", JOBSTATE_JOB);
	check("NAME             READY   STATUS      RESTARTS   AGE\n"
	      "bert-worker-0    0/1     Completed   0          9m\n"
	      "bert-worker-1    1/1     Running     0          9m\n",
	      "Completed", JOBSTATE_NONE);
	check("JOBID   USER    STAT  QUEUE  FROM_HOST  EXEC_HOST  JOB_NAME\n"
	      "4711    ann     DONE  gpu    login1     n7         train\n",
	      "EXEC_HOST", JOBSTATE_SCRIPT);
	check("JOBID   USER    STAT  QUEUE  FROM_HOST  EXEC_HOST  JOB_NAME\n"
	      "4711    ann     EXIT  gpu    login1     n7         train\n",
	      "EXEC_HOST", JOBSTATE_NONE);
	check("the EXEC_HOST of the job", "EXEC_HOST", JOBSTATE_NONE);
}

/* A table of pods, the last of which failed, is longer than what is read of it. */
static void check_long(void)
{
	static char log[16 << 10];
	size_t n =
		(size_t)snprintf(log, sizeof(log), "NAME     READY   STATUS      RESTARTS\n");

	for (int i = 0; i < 200; i++)
		n += (size_t)snprintf(log + n, sizeof(log) - n, "p-%-5d  0/1     %-9s   0\n", i,
				      i == 199 ? "Error" : "Completed");
	check(log, "Completed", JOBSTATE_NONE);
}

static void check_rows(int rows, enum jobstate want)
{
	char log[4096];
	size_t n = (size_t)snprintf(log, sizeof(log), "NAME     STATUS\n");

	for (int i = 0; i < rows; i++)
		n += (size_t)snprintf(log + n, sizeof(log) - n, "p-%-5d  Completed  9m\n", i);
	check(log, "Completed", want);
}

int main(void)
{
	check_rows(JOBSTATE_ROWS - 1, JOBSTATE_JOB);
	check_rows(JOBSTATE_ROWS, JOBSTATE_JOB);
	check_rows(JOBSTATE_ROWS + 1, JOBSTATE_NONE);
	check_long();
	check_records();
	check_commands();
	check_slurm();
	check_kubernetes();
	return tap_done();
}
