/* mpilibs.h - find the MPI implementations on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_MPILIBS_H
#define DETECT_MPILIBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct ldlibs;
struct pythons;
struct rootfs;

/*
 * mpilibs_find - array of {flavour, version, mpicc, mpirun, library, header}.
 *
 * Flavours: openmpi, mpich, mvapich, intelmpi.  mpi.h has flavour and version; without it, the
 * library's number shows the flavour and Open MPI's series.
 */
json_t *mpilibs_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py);

/* mpilibs_program - the flavour of the program at @path, such as mpirun, by its name and by
 * those of its links; NULL: they do not show it. */
const char *mpilibs_program(struct rootfs *fs, const char *path);

/* mpilibs_parse_header - flavour and version of an mpi.h; false if it shows neither. */
bool mpilibs_parse_header(const char *data, size_t len, const char **flavour, char *version,
			  size_t cap);

#endif
