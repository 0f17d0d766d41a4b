/* cores.h - the processors that this process may use: affinity mask and cgroup quota. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CORES_H
#define HOST_CORES_H

enum { CORES_MASK_BYTES = 128 }; /* 1,024 processors */

/* cores_mask - the affinity mask of this thread, a bit a processor. */
void cores_mask(unsigned char mask[CORES_MASK_BYTES]);

/* cores_count - the bits that are set. */
int cores_count(const unsigned char mask[CORES_MASK_BYTES]);

/* cores_quota - processors that the control group's quota pays for, rounded up,
 * the smallest of all groups up to the root, in either version; 0 if there is no limit. */
int cores_quota(const char *root);

#endif
