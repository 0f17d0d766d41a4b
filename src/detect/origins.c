/* origins.c - tell from a symbol's name which package should define it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/origins.h"

#include <stddef.h>
#include <string.h>

#define TORCH_WHY  "it was built for another torch"
#define TORCH_TODO "install the build of that package for this torch, or build it again"

/* Longer prefixes come before their beginnings. */
static const struct origin all[] = {
	{ "iJIT_", NULL, "MKL 2024.1 and later lack the symbols iJIT_*",
	  "conda install 'mkl<2024.1'" },
	{ "mkl_", NULL, "the MKL that is installed is not the one it was built with",
	  "install the mkl that the framework's package requires" },
	{ "nccl", "libnccl.so.",
	  "the NCCL that is loaded is older than the one it was built with",
	  "install the nvidia-nccl that the framework requires, and remove an older "
	  "libnccl.so.2 "
	  "from LD_LIBRARY_PATH and LD_PRELOAD" },
	{ "__nvJitLink", "libnvJitLink.so.",
	  "the libnvJitLink that is loaded is older than libcusparse",
	  "install the nvidia-nvjitlink that the framework requires, and remove CUDA's folders "
	  "from LD_LIBRARY_PATH" },
	{ "cupti", "libcupti.so.", "the libcupti that is loaded belongs to another CUDA",
	  "install the nvidia-cuda-cupti that the framework requires, and remove CUDA's "
	  "folders "
	  "from LD_LIBRARY_PATH" },
	{ "cudnn", NULL, "the cuDNN that is loaded is not the one it was built with",
	  "install the nvidia-cudnn that the framework requires, and remove another one from "
	  "LD_LIBRARY_PATH" },
	{ "cublas", NULL, "the cuBLAS that is loaded belongs to another CUDA",
	  "install the nvidia-cublas that the framework requires, and remove CUDA's folders "
	  "from "
	  "LD_LIBRARY_PATH" },
	{ "cusparse", NULL, "the cuSPARSE that is loaded belongs to another CUDA",
	  "install the nvidia-cusparse that the framework requires, and remove CUDA's folders "
	  "from LD_LIBRARY_PATH" },
	{ "cusolver", NULL, "the cuSOLVER that is loaded belongs to another CUDA",
	  "install the nvidia-cusolver that the framework requires, and remove CUDA's folders "
	  "from LD_LIBRARY_PATH" },
	{ "__kmpc_", NULL, "no OpenMP runtime of LLVM or Intel is loaded",
	  "install llvm-openmp or intel-openmp" },
	{ "GOMP_", NULL,
	  "the libgomp that is loaded is older than the compiler it was built with",
	  "install a newer libgomp (conda-forge: libgomp)" },
	{ "omp_", NULL,
	  "the OpenMP runtime that is loaded is older than the one it was built with",
	  "install a newer libgomp, or llvm-openmp" },
	{ "cblas_", NULL, "the BLAS that is loaded is not the one it was built with",
	  "install the BLAS that the package requires (conda: libcblas, mkl or openblas)" },
	{ "ompi_", NULL, "the MPI that is loaded is not the one it was built with",
	  "build the package again with this MPI, or load that one" },
	{ "MPIR_", NULL, "the MPI that is loaded is not the one it was built with",
	  "build the package again with this MPI, or load that one" },
	{ "ucp_", "libucp.so.",
	  "the UCX that is loaded is older than the one it was built with",
	  "install a newer UCX, or remove the older one from LD_LIBRARY_PATH" },
	{ "_ZN3c10", NULL, TORCH_WHY, TORCH_TODO },
	{ "_ZNK3c10", NULL, TORCH_WHY, TORCH_TODO },
	{ "_ZN2at", NULL, TORCH_WHY, TORCH_TODO },
	{ "_ZNK2at", NULL, TORCH_WHY, TORCH_TODO },
	{ "_ZN5torch", NULL, TORCH_WHY, TORCH_TODO },
	{ "_ZNK5torch", NULL, TORCH_WHY, TORCH_TODO },
};

const struct origin *origins_of(const char *name)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strncmp(name, all[i].prefix, strlen(all[i].prefix)))
			return &all[i];
	return NULL;
}

const struct origin *origins_owned(const char *library)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].library && !strncmp(library, all[i].library, strlen(all[i].library)))
			return &all[i];
	return NULL;
}
