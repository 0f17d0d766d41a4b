/* cgroup.h - the control group that limits this process, in either version. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>

enum { CGROUP_PATH = 512, CGROUP_TEXT = 4096 };

struct cgroup {
	int version; /* 1: a hierarchy of the controller's own; 2: one for all */
	char controller[16];
	char path[CGROUP_PATH]; /* "" is the root */
};

/* cgroup_find - this process's group for @controller ("cpu", "memory"); false if there is
 * none. */
bool cgroup_find(struct cgroup *g, const char *root, const char *controller);

/* cgroup_read - one of the group's files, whole and as text; false if there is none of that
 * name, for example since a container sees its own group as the root. */
bool cgroup_read(const struct cgroup *g, const char *root, const char *file,
		 char text[CGROUP_TEXT]);

/* cgroup_up - move on to the parent group; false at the root. */
bool cgroup_up(struct cgroup *g);

#endif
