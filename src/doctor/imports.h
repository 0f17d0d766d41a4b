/* imports.h - report what importing each framework says, as the last proof. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_IMPORTS_H
#define DOCTOR_IMPORTS_H

#include <jansson.h>

struct err;
struct exam;

/*
 * imports_add - import torch, TensorFlow, JAX and a Horovod that is no copy of ringup's, each
 * in the Python that has it, and add a finding for each that does not work.
 *
 * Only those without a bad finding in @reported (see misfits_add()), which gets those that
 * fail. The results also go to x->imports: [{python, name, result, text}].
 */
int imports_add(struct exam *x, const json_t *list, json_t *reported, struct err *e);

#endif
