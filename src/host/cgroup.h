/* cgroup.h - the control group that limits this process, in either version. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CGROUP_H
#define HOST_CGROUP_H

#include <stdbool.h>

enum { CGROUP_PATH = 512, CGROUP_TEXT = 4096 };

struct cgroup {
	int version; /* 1: a hierarchy of the controller's own; 2: one for all */
	char controller[16];
	char path[CGROUP_PATH]; /* "" is the root */
};

/* cgroup_find - that of this process, for @controller ("cpu", "memory"); false if there is
 * none. */
bool cgroup_find(struct cgroup *g, const char *root, const char *controller);

/* cgroup_read - one of its files, whole and as text; false if it has none of that name,
 * maybe because a container sees no group but its own, which it takes for the root. */
bool cgroup_read(const struct cgroup *g, const char *root, const char *file,
		 char text[CGROUP_TEXT]);

/* cgroup_up - on to the group that it is in; false if it is the root. */
bool cgroup_up(struct cgroup *g);

#endif
