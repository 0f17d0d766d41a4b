/* sparkui.h - ask the web interface of a Spark job or cluster for its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_SPARKUI_H
#define PROBE_SPARKUI_H

#include <stdbool.h>

struct err;
struct roster;

/* sparkui_is_url - does @text begin like a URL? */
bool sparkui_is_url(const char *text);

/*
 * sparkui_ask - the hosts of the driver and its executors, in the application at @url, the
 * first of them where there are several; or the workers of a standalone cluster whose master
 * is at @url.
 *
 * Blocking: three requests, made by curl(1), of ten seconds each at most.
 * Returns 0, or
 *   RINGUP_ESYSTEM	no curl, no answer, or there is no job
 *   RINGUP_EINVAL	the answer is not Spark's
 * Source: Spark's "Monitoring and Instrumentation", REST API.
 */
int sparkui_ask(struct roster *r, const char *url, struct err *e);

#endif
