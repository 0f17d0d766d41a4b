/* buildplan_json.c - a plan as JSON, for printing and for hashing into cache keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonio.h"
#include "rebuild/buildplan.h"

RECORD_FIELDS(buildplan_python_fields, buildplan_python, BUILDPLAN_PYTHON);
RECORD_FIELDS(buildplan_framework_fields, buildplan_framework, BUILDPLAN_FRAMEWORK);
static RECORD_FIELDS(compiler_fields, buildplan_compiler, BUILDPLAN_COMPILER);
RECORD_FIELDS(buildplan_mpi_fields, buildplan_mpi, BUILDPLAN_MPI);
RECORD_FIELDS(buildplan_cuda_fields, buildplan_cuda, BUILDPLAN_CUDA);
RECORD_FIELDS(buildplan_nccl_fields, buildplan_nccl, BUILDPLAN_NCCL);
static RECORD_FIELDS(disagreement_fields, buildplan_disagreement, BUILDPLAN_DISAGREEMENT);

void buildplan_blank(struct buildplan *p, const char *engine)
{
	*p = (struct buildplan){ .engine = engine,
				 .version = "",
				 .manager = "",
				 .cxx11_abi = -1,
				 .possible = true,
				 .why_not = "",
				 .nearest = "" };
	jsonrecord_clear(buildplan_python_fields, &p->python);
	for (int i = 0; i < BUILDPLAN_FRAMEWORKS; i++)
		jsonrecord_clear(buildplan_framework_fields, &p->frameworks[i]);
	jsonrecord_clear(compiler_fields, &p->compiler);
	jsonrecord_clear(buildplan_cuda_fields, &p->cuda);
	jsonrecord_clear(buildplan_nccl_fields, &p->nccl);
}

static json_t *part_json(const struct jsonrecord_field *fields, const void *part,
			 const char *mark)
{
	return *mark ? jsonrecord_make(fields, part) : json_null();
}

json_t *buildplan_json_mpi(const struct buildplan_mpi *mpi)
{
	return jsonrecord_make(buildplan_mpi_fields, mpi);
}

static json_t *edits_json(const struct textpairs *edits)
{
	json_t *list = json_array();

	for (int i = 0; i < edits->count; i++)
		json_array_append_new(list, jsonio_text(edits->at[i].name));
	return list;
}

static json_t *text_json_or_null(const char *s)
{
	return *s ? jsonio_text(s) : json_null();
}

static json_t *number_json_or_null(int n, int none)
{
	return n == none ? json_null() : json_integer(n);
}

json_t *buildplan_json(const struct buildplan *p)
{
	return json_pack(
		"{ss so so so so so so so so so so so so so so so so so sb so so}", "engine",
		p->engine, "version", text_json_or_null(p->version), "python",
		part_json(buildplan_python_fields, &p->python, p->python.path), "frameworks",
		jsonrecord_list(buildplan_framework_fields, p->frameworks, p->framework_count,
				sizeof(p->frameworks[0])),
		"compiler", part_json(compiler_fields, &p->compiler, p->compiler.family),
		"cxx_standard", number_json_or_null(p->cxx_standard, 0), "cxx11_abi",
		number_json_or_null(p->cxx11_abi, -1), "cuda",
		part_json(buildplan_cuda_fields, &p->cuda, p->cuda.nvcc), "nccl",
		part_json(buildplan_nccl_fields, &p->nccl, p->nccl.library), "mpi",
		jsonrecord_list(buildplan_mpi_fields, p->mpi, p->mpi_count, sizeof(*p->mpi)),
		"packages", jsonrecord_pairs(&p->packages, "name", "why"), "build",
		jsonrecord_pairs(&p->build, "what", "why"), "env", jsonrecord_map(&p->env),
		"edits", edits_json(&p->edits), "adds",
		jsonrecord_pairs(&p->adds, "to", "from"), "advisories",
		jsonrecord_pairs(&p->advisories, "id", "text"), "rejected",
		jsonrecord_pairs(&p->rejected, "what", "why"), "disagreements",
		jsonrecord_list(disagreement_fields, p->disagreements, p->disagreement_count,
				sizeof(*p->disagreements)),
		"possible", p->possible, "why_not", text_json_or_null(p->why_not), "nearest",
		text_json_or_null(p->nearest));
}
