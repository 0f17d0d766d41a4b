/* test_buildplan.c - many nodes, and what is decided for each of them. */
#include "rebuild/buildplan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "rebuild/packages.h"
#include "rebuild/probe.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"
#include "tap.h"

/* Facts are JSON with ' for ", in pieces that nodes have in common. */
#define PY(v)          "'pythons':[{'path':'/p/bin/python3','version':'" v "','prefix':'/p'}]"
#define FW(n, v, rest) "{'name':'" n "','version':'" v "','python':'/p/bin/python3'," rest "}"
#define PIP(dist)      "'installer':'pip','distribution':'" dist "'"
#define ELF(abi, by)   "'cxx11_abi':" #abi ",'compiler':'" by "'"
#define GCC(n, def)                                                   \
	"{'family':'gcc','version':'" n ".2.0','cc':'/usr/bin/gcc-" n \
	"','cxx':'/usr/bin/g++-" n "','default':" def "}"
#define CLANG(n)                                                          \
	"{'family':'clang','version':'" n ".0.6','cc':'/usr/bin/clang-" n \
	"','cxx':'/usr/bin/clang++-" n "','default':false}"
#define GXX_PACKAGE(n)                                                                       \
	"{'family':'gcc','version':'" n "','cc':'/usr/bin/gcc-" n "','cxx':'/usr/bin/g++-" n \
	"','package':'g++-" n "'}"
#define OPENMPI(v)                                                                 \
	"{'flavour':'openmpi','version':'" v "','mpicc':'/usr/bin/mpicc.openmpi'," \
	"'mpirun':'/usr/bin/mpirun.openmpi','library':'/l/libmpi.so','header':'/i/mpi.h'}"
#define MPICH                                                                  \
	"{'flavour':'mpich','version':'4.0.2','mpicc':'/usr/bin/mpicc.mpich'," \
	"'library':'/l/libmpich.so','header':'/i/mpich/mpi.h'}"
#define TOOLKIT(v)                                      \
	"{'path':'/usr/local/cuda-" v "','version':'" v \
	"','nccl':null,'nvcc':'/usr/local/cuda-" v "/bin/nvcc'}"
#define CUDA(v) "'cuda':{'toolkits':[" TOOLKIT(v) "]}"
#define ONE_NCCL(v, at, by)                                   \
	"{'version':'" v "','library':'" at "/libnccl.so.2'," \
	"'header':'/usr/include/nccl.h','source':'" by "'}"
#define NCCL(v) "'nccl':[" ONE_NCCL(v, "/usr/lib", "system") "]"
#define THREE_TOOLKITS \
	"'cuda':{'toolkits':[" TOOLKIT("12.1") "," TOOLKIT("12.4") "," TOOLKIT("12.8") "]}"
#define THREE_NCCLS                                                 \
	"'nccl':[" ONE_NCCL("2.21.5", "/l", "system") "," ONE_NCCL( \
		"2.22.3", "/p", "/p/bin/python3") "," ONE_NCCL("2.20.5", "/m", "system") "]"

#define TORCH_2_13 FW("torch", "2.13.0", PIP("torch") "," ELF(1, "gcc 13.3.1"))
#define TORCH_CUDA \
	FW("torch", "2.6.0+cu124", PIP("torch") "," ELF(0, "gcc 9.3.1") ",'cuda':'12.4'")
#define TF_2_15  FW("tensorflow", "2.15.1", PIP("tensorflow-cpu") "," ELF(1, "clang 17.0.2"))
#define TF_2_21  FW("tensorflow", "2.21.0", PIP("tensorflow-cpu") "," ELF(1, "clang 18.1.8"))
#define TF_1_14  FW("tensorflow", "1.14.0", PIP("tensorflow") "," ELF(0, "gcc 4.8.5"))
#define TF_2_3   FW("tensorflow", "2.3.1", PIP("tensorflow") "," ELF(0, "gcc 7.3.1"))
#define KERAS(v) FW("keras", v, PIP("keras"))

struct node {
	const char *name, *engine, *frameworks[3];
	const char *facts;
	const char *want[12]; /* "path=value" or "path~part", in compact JSON without quotes */
};

static const struct node nodes[] = {
	{ "TensorFlow 2.15, gcc 12",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TF_2_15
		       "," KERAS("2.15.0") "],'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "compiler.cxx=/usr/bin/g++-12", "cxx_standard=17", "cxx11_abi=1",
	    "compiler.installed=true", "frameworks.0.cxx11_abi_by=elf", "disagreements=[]",
	    "env.HOROVOD_WITH_TENSORFLOW=1", "env.HOROVOD_WITHOUT_PYTORCH=1",
	    "env.CXX=/usr/bin/g++-12", "advisories~CVE-2024-10190" } },
	{ "the documentation of TensorFlow 2.15 errs about its compiler",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "tensorflow", "2.15.1",
		  PIP("tensorflow") "," ELF(1, "clang 17.0.2")) "]"
								",'compilers':[" GCC(
									"12", "true") "]",
	  { "possible=true", "disagreements=[{about:compiler of tensorflow 2.15.1,probe:clang "
			     "17.0.2,table:clang "
			     "16.0.0}]" } },
	{ "TensorFlow 2.21 and the clang that built it",
	  "horovod",
	  { NULL },
	  PY("3.12.4") ",'frameworks':[" TF_2_21
		       "],'compilers':[" GCC("12", "true") "," CLANG("14") "," CLANG("18") "]",
	  { "compiler.cxx=/usr/bin/clang++-18", "compiler.why~was built with clang 18",
	    "rejected~clang 14.0.6" } },
	{ "TensorFlow 2.21, of clang only an old one",
	  "horovod",
	  { NULL },
	  PY("3.12.4") ",'frameworks':[" TF_2_21
		       "],'compilers':[" GCC("12", "true") "," CLANG("14") "]",
	  { "compiler.cxx=/usr/bin/g++-12", "compiler.why~which is not installed",
	    "rejected~gcc goes first" } },
	{ "Debian's torch 1.13: new ABI, no .comment, libstdc++ of gcc 12",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "1.13.0a0+gitunknown",
		  "'installer':'distribution','distribution':'torch','cxx11_abi':1,"
		  "'compiler':null,'needs':{'glibcxx':'3.4.30'}") "],"
								  "'compilers':[" GCC(
									  "11",
									  "true") "," GCC("12",
											  "fals"
											  "e") "]",
	  { "possible=true", "compiler.version=12.2.0", "frameworks.0.cxx11_abi=1",
	    "frameworks.0.compiler=null", "frameworks.0.cxx_standard=14", "disagreements=[]",
	    "compiler.why~is unknown" } },
	{ "torch 2.13 and its own gcc",
	  "horovod",
	  { "torch", NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "," TF_2_15
		       "],'compilers':[" GCC("12", "true") "," GCC("13", "false") "]",
	  { "compiler.version=13.2.0", "compiler.why~torch 2.13.0 was built with gcc 13.3.1",
	    "env.HOROVOD_WITHOUT_TENSORFLOW=1", "edits~torch-cxx17" } },
	{ "torch 2.13 between gcc 12 and 14: the older of two as near",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13
		       "],'compilers':[" GCC("14", "true") "," GCC("12", "false") "]",
	  { "compiler.version=12.2.0" } },
	{ "torch 2.13 and a gcc too old for its headers",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC("8", "true") "]",
	  { "possible=false", "why_not~supports gcc from 9.4", "compiler=null" } },
	{ "torch 2.6 for CUDA 12.4, of which no library tells: the old ABI",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.6.0+cu124",
		  PIP("torch") ",'cxx11_abi':null,'cuda':null") "],"
								"'compile"
								"rs':[" GCC("12", "true") "]",
	  { "frameworks.0.cxx11_abi=0", "frameworks.0.cxx11_abi_by=table", "cxx11_abi=0" } },
	{ "torch 2.6 for CUDA 12.6, by the CUDA that its files tell: the new",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.6.0",
		  PIP("torch") ",'cxx11_abi':null,'cuda':'12.6'") "]"
								  ",'compile"
								  "rs':[" GCC("12", "true") "]",
	  { "frameworks.0.cxx11_abi=1", "frameworks.0.cxx11_abi_by=table" } },
	{ "a library is believed, the table is not",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.6.0+cu124",
		  PIP("torch") "," ELF(1, "gcc 11.2.1")) "],"
							 "'compilers':"
							 "[" GCC("1"
								 "2",
								 "tru"
								 "e") "]",
	  { "frameworks.0.cxx11_abi=1",
	    "disagreements~about:C++ ABI of torch 2.6.0+cu124,probe:1,table:0" } },
	{ "a probe goes before the table",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.13.0",
		  PIP("torch") ",'location':'/p/torch','cxx11_abi':null") "],'compilers':"
									  "[" GCC("12",
										  "true") "],'"
											  "prob"
											  "es':"
											  "{'"
											  "fram"
											  "ewor"
											  "ks':"
											  "[{'"
											  "loca"
											  "tion"
											  "':'/"
											  "p/"
											  "torc"
											  "h','"
											  "cxx1"
											  "1_"
											  "abi'"
											  ":0,'"
											  "cxx_"
											  "stan"
											  "dard"
											  "':"
											  "20}]"
											  "}",
	  { "frameworks.0.cxx11_abi=0", "frameworks.0.cxx11_abi_by=probe", "cxx_standard=20",
	    "frameworks.0.cxx_standard_by=probe", "disagreements~C++ standard of torch",
	    "disagreements~C++ ABI of torch" } },
	{ "Databricks 6.2 ML: what it calls its own the table knows nothing of",
	  "horovod",
	  { NULL },
	  "'pythons':[{'path':'/databricks/python3/bin/python','version':'3.7.3','prefix':'/"
	  "databricks/python3'}],'frameworks':[{'name':'tensorflow','version':'1.15.0+db2','"
	  "python':'/databricks/python3/bin/"
	  "python','installer':'pip','distribution':'tensorflow'"
	  ",'cxx11_abi':1,'compiler':'gcc 7.4.0'}],'compilers':[" GCC("7", "true") "]",
	  { "possible=true", "python.path=/databricks/python3/bin/python",
	    "frameworks.0.cxx11_abi=1", "disagreements=[]", "compiler.version=7.2.0" } },
	{ "Databricks 13.3 ML: torch 2.0, TensorFlow 2.12, CUDA 11.7",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" FW("torch", "2.0.1+cu117", PIP("torch") "," ELF(0, "gcc 9.3.1") ",'cuda':'11.7'") "],'compilers':[" GCC(
		  "11", "true") "," GCC("12", "false") "]," CUDA("11.7") "," NCCL("2.15.1"),
	  { "possible=true", "cuda.version=11.7", "nccl.version=2.15.1",
	    "compiler.version=11.2.0", "rejected~nvcc of CUDA 11.7 supports gcc up to 11" } },
	{ "CUDA of the framework, NCCL for it",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA "],'compilers':[" GCC(
		  "12", "true") "," GCC("14", "false") "]," CUDA("12.4") "," NCCL("2.21.5"),
	  { "possible=true", "cuda.version=12.4", "nccl.version=2.21.5",
	    "env.HOROVOD_GPU_OPERATIONS=NCCL", "env.HOROVOD_CUDA_HOME=/usr/local/cuda-12.4",
	    "env.CUDAHOSTCXX=/usr/bin/g++-12", "env.HOROVOD_NCCL_HOME=/usr",
	    "rejected~nvcc of CUDA 12.4 supports gcc up to 13" } },
	{ "CUDA 12.4 and gcc 14 alone: the distribution's g++-13",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA
			"],'compilers':[" GCC("14", "true") "]," CUDA("12.4") "," NCCL(
				"2.21.5") ",'packages':{'manager':'apt','compilers':"
					  "[" GXX_PACKAGE("13") "," GXX_PACKAGE("14") "]}",
	  { "possible=true", "compiler.installed=false", "compiler.cxx=/usr/bin/g++-13",
	    "packages~name:g++-13", "build~horovod" } },
	{ "CUDA 12.4 and gcc 14 alone: nothing else to be had",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA "],'compilers':[" GCC(
		  "14", "true") "]," CUDA("12.4") "," NCCL("2.21.5"),
	  { "possible=false", "why_not~nvcc of CUDA 12.4 supports gcc up to 13",
	    "nearest~CUDA 12.8 supports gcc 14.2.0", "compiler=null", "packages=[]" } },
	{ "a toolkit of another series is no use",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA "],'compilers':[" GCC(
		  "12", "true") "]," CUDA("11.8") "," NCCL("2.21.5"),
	  { "possible=true", "cuda=null", "rejected~was built for CUDA 12.4",
	    "rejected~tensors on GPUs will not be combined" } },
	{ "of several toolkits and NCCLs each that is not taken is told",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA
			"],'compilers':[" GCC("12", "true") "]," THREE_TOOLKITS "," THREE_NCCLS,
	  { "cuda.version=12.4", "nccl.version=2.22.3",
	    "rejected.0~CUDA 12.1 (/usr/local/cuda-12.1)",
	    "rejected.1~CUDA 12.8 (/usr/local/cuda-12.8)",
	    "rejected.1~another toolkit is as good or better for CUDA 12.4",
	    "rejected.2~NCCL 2.21.5 (/l/libnccl.so.2)",
	    "rejected.3~NCCL 2.20.5 (/m/libnccl.so.2)",
	    "rejected.3~another one comes first" } },
	{ "NCCL of another CUDA is no use",
	  "horovod",
	  { NULL },
	  PY("3.10.12") ",'frameworks':[" TORCH_CUDA "],'compilers':[" GCC(
		  "12", "true") "]," CUDA("12.4") "," NCCL("2.11.4"),
	  { "cuda=null", "nccl=null", "rejected~it is for CUDA 10-11" } },
	{ "the old ABI and a compiler that ignores the flag: the next one",
	  "horovod",
	  { NULL },
	  PY("3.8.10") ",'frameworks':[" TF_2_3 "],'compilers':[" GCC("11", "false") "," GCC(
		  "12",
		  "true") "],'probes':{'compilers':[{'cxx':'/usr/bin/g++-11','abi':{'0':1,"
			  "'1':1}}]}",
	  { "possible=true", "compiler.cxx=/usr/bin/g++-12",
	    "rejected~ignores -D_GLIBCXX_USE_CXX11_ABI=0: its objects have the new" } },
	{ "the new ABI and a compiler that only has the old",
	  "horovod",
	  { NULL },
	  PY("3.11.10") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "11",
		  "true") "],'probes':{'compilers':[{'cxx':'/usr/bin/g++-11','abi':{'1':0}}]}",
	  { "possible=false", "why_not~ignores -D_GLIBCXX_USE_CXX11_ABI=1",
	    "nearest~ringup needs no C++" } },
	{ "a compiler that does not work",
	  "horovod",
	  { NULL },
	  PY("3.11.10") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "13", "true") "," GCC("12", "false") "],'probes':{'compilers':[{'cxx':'/usr/"
						       "bin/g++-13','failed':'no cc1plus'}]}",
	  { "compiler.version=12.2.0", "rejected~does not work: no cc1plus" } },
	{ "a compiler that does not take the headers",
	  "horovod",
	  { NULL },
	  PY("3.11.10") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "13", "true") "," GCC("12", "false") "],'probes':{'compilers':[{'cxx':'/usr/"
						       "bin/g++-13','abi':{'1':1},'"
						       "standards':{'17':false}}]}",
	  { "compiler.version=12.2.0", "rejected~headers as C++17" } },
	{ "TensorFlow 1.14 of gcc 4.8 on Debian 12",
	  "horovod",
	  { NULL },
	  PY("3.7.3") ",'frameworks':[" TF_1_14
		      "],'compilers':[" GCC("12", "true") "," GCC("11", "false") "]",
	  { "possible=false", "why_not~std::function has another layout",
	    "nearest~tensorflow 1.15 was built with gcc 7.3.1", "compiler=null" } },
	{ "TensorFlow 1.14 where gcc 4.8 is",
	  "horovod",
	  { NULL },
	  PY("3.7.3") ",'frameworks':[" TF_1_14 "],'compilers':[" GCC(
		  "12", "true") ",{'family':'gcc','version':'4.8.5','cc':'/usr/bin/"
				"gcc-4.8','cxx':'/usr/bin/g++-4.8'}]",
	  { "compiler.version=4.8.5", "cxx11_abi=0", "cxx_standard=11" } },
	{ "TensorFlow 2.3 of gcc 7.3 on Debian 12: the nearest, with the old ABI",
	  "horovod",
	  { NULL },
	  PY("3.8.10") ",'frameworks':[" TF_2_3
		       "],'compilers':[" GCC("12", "true") "," GCC("11", "false") "]",
	  { "possible=true", "compiler.version=11.2.0", "cxx11_abi=0", "cxx_standard=14" } },
	{ "Python 3.13",
	  "horovod",
	  { NULL },
	  PY("3.13.0") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "edits~python-include", "edits~jsrun", "disagreements=[]" } },
	{ "a Python that the framework was never made for",
	  "horovod",
	  { NULL },
	  PY("3.13.0") ",'frameworks':[" TF_2_15 "],'compilers':[" GCC("12", "true") "]",
	  { "disagreements~Python of tensorflow 2.15.1,probe:3.13,table:3.9-3.11" } },
	{ "torch of the old ABI beside TensorFlow of the new",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.5.1",
		  PIP("torch") "," ELF(0, "gcc 9.3.1")) "," TF_2_15 "],"
							"'compilers':[" GCC("12", "true") "]",
	  { "possible=false",
	    "why_not=torch 2.5.1 has the old C++ ABI and tensorflow 2.15.1 the new: no object "
	    "works with both",
	    "nearest=one build each: --for torch, or --for tensorflow" } },
	{ "the same, one of them asked for",
	  "horovod",
	  { "torch", NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.5.1",
		  PIP("torch") "," ELF(0, "gcc 9.3.1")) "," TF_2_15 "],"
							"'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "cxx11_abi=0" } },
	{ "a library that tells nothing, of a vendor's own build",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.4.0a0+3bcc3cddb5.nv24.7",
		  PIP("torch") ",'cxx11_abi':null") "],'compilers':[" GCC("12", "true") "]",
	  { "possible=false", "why_not~neither its library nor the table",
	    "nearest~--force-reinstall" } },
	{ "conda's old libstdc++: no compiler whose objects want a newer one",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC("12", "true") "," GCC(
		  "11", "false") "],'probes':{'glibcxx':'3.4.29'}",
	  { "compiler.version=11.2.0", "rejected~need GLIBCXX_3.4.30" } },
	{ "no compiler at all",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[]",
	  { "possible=false", "why_not=no C++ compiler",
	    "nearest=install one: apt-get install g++" } },
	{ "no compiler at all, but a distribution",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13
		       "],'compilers':[],'packages':{'compilers':[" GXX_PACKAGE(
			       "11") "," GXX_PACKAGE("12") "]}",
	  { "possible=true", "packages~name:g++-12", "compiler.cc=/usr/bin/gcc-12" } },
	{ "of a package and what is here, what is here",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "12", "true") "],'packages':{'compilers':[" GXX_PACKAGE("13") "]}",
	  { "compiler.version=12.2.0", "packages=[]", "rejected~would need installing" } },
	{ "a compiler for another machine, and one without C++",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13
		       "],'compilers':[{'family':'gcc','version':'13.2.0','cc':'/usr/bin/"
		       "aarch64-linux-gnu-gcc','cxx':'/usr/bin/"
		       "aarch64-linux-gnu-g++'},{'family':'gcc','version':'13.1.0','cc':'/usr/"
		       "bin/gcc-13','cxx':null}," GCC("12", "true") "]",
	  { "compiler.version=12.2.0", "rejected~compiles for aarch64, not for x86_64",
	    "rejected~only compiles C" } },
	{ "Keras 3: the recipe edits for it",
	  "horovod",
	  { NULL },
	  PY("3.12.4") ",'frameworks':[" TF_2_21
		       "," KERAS("3.15.1") "],'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "edits~keras" } },
	{ "nothing installed",
	  "horovod",
	  { NULL },
	  "'pythons':[],'frameworks':[],'compilers':[]",
	  { "possible=false", "why_not=no framework that Horovod supports is installed",
	    "python=null", "compiler=null" } },
	{ "not what was asked for",
	  "horovod",
	  { "mxnet", NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC("12", "true") "]",
	  { "possible=false", "why_not=mxnet is not installed for /p/bin/python3",
	    "nearest=/p/bin/python3 -m pip install mxnet" } },
	{ "of two Pythons the one that has more of it",
	  "horovod",
	  { NULL },
	  "'pythons':[{'path':'/a/python3','version':'3.9.1','prefix':'/"
	  "a'},{'path':'/p/bin/python3','version':'3.11.2','prefix':'/"
	  "p'}],'frameworks':[" TORCH_2_13 "," TF_2_15
	  ",{'name':'torch','version':'2.0.1','python':'/a/"
	  "python3','cxx11_abi':0}],'compilers':[" GCC("12", "true") "]",
	  { "python.path=/p/bin/python3", "frameworks.1.name=tensorflow",
	    "rejected~what:/a/python3" } },
	{ "Open MPI 3.1.3 hangs with Horovod, MPICH does not",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "12", "true") "],'mpi':[" OPENMPI("3.1.3") "," MPICH "]",
	  { "mpi.0.flavour=mpich", "mpi.0.mpicxx=/usr/bin/mpicxx.mpich",
	    "env.HOROVOD_WITH_MPI=1", "rejected~known to be bad for horovod: it hangs" } },

	{ "Open MPI 5: Horovod without MPI, and no refusal",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13
		       "],'compilers':[" GCC("12", "true") "],'mpi':[" OPENMPI("5.0.3") "]",
	  { "possible=true", "mpi=[]", "env.HOROVOD_WITHOUT_MPI=1",
	    "rejected~no C++ bindings" } },
	{ "headers that want C++20: the recipe is told",
	  "horovod",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" FW(
		  "torch", "2.13.0",
		  PIP("torch") ",'location':'/t'," ELF(
			  1, "gcc 13.3.1")) "],'compilers':[" GCC("12",
								  "true") "],'probes':{'"
									  "frameworks':[{'"
									  "location':'/"
									  "t','cxx_standard':"
									  "20}]}",
	  { "possible=true", "cxx_standard=20", "edits~torch-cxx20" } },

	/* ringup */
	{ "ringup: a module for each MPI, and the package",
	  NULL,
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[" GCC(
		  "12", "true") "],'mpi':[" OPENMPI("4.1.4") "," MPICH "]",
	  { "engine=ringup", "possible=true", "build.0.what=ringup-mpi-openmpi-4.1.4.so",
	    "build.1.what=ringup-mpi-mpich-4.0.2.so", "build.2.what=Python package ringup",
	    "build.2.why~torch 2.13.0", "compiler.cc=/usr/bin/gcc-12", "cxx_standard=null",
	    "cxx11_abi=null", "env.CC=/usr/bin/gcc-12", "rejected=[]" } },
	{ "ringup without MPI needs no compiler",
	  "ringup",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TORCH_2_13 "],'compilers':[]",
	  { "possible=true", "compiler=null", "build.0.what=Python package ringup" } },
	{ "ringup: an MPI without its header",
	  "ringup",
	  { NULL },
	  PY("3.11.2") ",'compilers':[" GCC(
		  "12", "true") "],'mpi':[{'flavour':'openmpi','version':'4.1.4','library':'/l/"
				"libmpi.so','mpirun':'/usr/bin/mpirun'}]",
	  { "possible=true", "mpi=[]", "rejected~it has no mpi.h; install libopenmpi-dev" } },
	{ "ringup: an MPI and no compiler",
	  "ringup",
	  { NULL },
	  PY("3.11.2") ",'compilers':[],'mpi':[" MPICH "]",
	  { "possible=false", "why_not=no C compiler" } },
	{ "ringup, TensorFlow",
	  "ringup",
	  { NULL },
	  PY("3.11.2") ",'frameworks':[" TF_2_15 "],'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "frameworks.0.name=tensorflow",
	    "build.0.what=Python package ringup" } },
	{ "ringup, for TensorFlow only",
	  "ringup",
	  { "tf", NULL },
	  PY("3.11.2") ",'frameworks':[" TF_2_15 "],'compilers':[" GCC("12", "true") "]",
	  { "possible=true", "frameworks.0.name=tensorflow" } },
	{ "ringup on an empty node",
	  "ringup",
	  { NULL },
	  "'pythons':[]",
	  { "possible=true", "build=[]", "rejected~no Python 3 is installed" } },
	{ "two MPIs of one kind: a module each",
	  "ringup",
	  { NULL },
	  PY("3.11.2") ",'compilers':[" GCC("12", "true") "],'mpi':[" OPENMPI(
		  "4.1.4") "," OPENMPI("5.0.3") "]",
	  { "build.0.what=ringup-mpi-openmpi-4.1.4.so",
	    "build.1.what=ringup-mpi-openmpi-5.0.3.so" } },

	/* What nobody should have written. */
	{ "facts of the wrong kind",
	  "horovod",
	  { NULL },
	  "'pythons':[7,{'path':3,'version':[]},{'path':'/"
	  "p','version':''}],'frameworks':[null,{"
	  "'name':{},'python':'/p'},{'name':'torch','python':'/p','version':5,'cxx11_abi':77,'"
	  "compiler':'gcc "
	  "','cxx_standard':-4,'needs':3,'cuda':[]}],'compilers':[{'family':'gcc'},"
	  "{'family':'gcc','cxx':'','version':'x'},4],'mpi':[{},{'flavour':9}],'nccl':{},'cuda'"
	  ":["
	  "],'probes':[],'packages':'no'",
	  { "possible=false" } },
	{ "no facts at all", "horovod", { NULL }, "", { "possible=false", "python=null" } },
};

static struct versions table;
static struct recipe recipe;

static json_t *facts_of(const char *text)
{
	char *copy = malloc(strlen(text) + 3), *p;
	json_t *facts;

	if (!copy)
		abort();
	sprintf(copy, "{%s}", text);
	for (p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	facts = json_loads(copy, 0, NULL);
	free(copy);
	return facts;
}

/* What stands at "a.0.b", as compact JSON without quotes, in @out. */
static void value_at(const json_t *o, const char *path, size_t len, char *out, size_t cap)
{
	char word[64], *dump, *p;
	size_t n, at = 0;

	for (; len; path += n + (n < len), len -= n + (n < len)) {
		n = strcspn(path, ".=~");
		snprintf(word, sizeof(word), "%.*s", (int)n, path);
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(word))
				     : json_object_get(o, word);
	}
	dump = json_dumps(o, JSON_ENCODE_ANY | JSON_COMPACT);
	for (p = dump; p && *p && at + 1 < cap; p++)
		if (*p != '"' && *p != '\\')
			out[at++] = *p;
	out[at] = 0;
	free(dump);
}

static void check(const struct node *n, const json_t *plan)
{
	char got[8192];
	int i;

	for (i = 0; i < 12 && n->want[i]; i++) {
		const char *w = n->want[i], *op = w + strcspn(w, "=~");

		value_at(plan, w, (size_t)(op - w), got, sizeof(got));
		ok(*op == '=' ? !strcmp(got, op + 1) : strstr(got, op + 1) != NULL, "%s: %s",
		   n->name, w);
		if (*op == '=' ? strcmp(got, op + 1) : !strstr(got, op + 1))
			printf("# it is %s\n", got);
	}
}

/* What a node's facts call "probes": what was tried. */
static void read_probes(const json_t *o, struct probes *p)
{
	const json_t *compilers = json_object_get(o, "compilers");
	const json_t *frameworks = json_object_get(o, "frameworks"), *one, *v;
	static struct probe_compiler c[4];
	static struct probe_framework f[4];
	const char *key;
	size_t i;

	*p = (struct probes){ .compilers = c, .frameworks = f };
	p->glibcxx = json_string_value(json_object_get(o, "glibcxx"));
	p->cmake = json_string_value(json_object_get(json_object_get(o, "tools"), "cmake"));
	json_array_foreach(compilers, i, one) {
		c[i] = (struct probe_compiler){ jsonio_string(one, "cxx"),
						jsonio_string(one, "failed"),
						{ -1, -1 },
						{ 0 } };
		json_object_foreach(json_object_get(one, "abi"), key, v)
			c[i].abi[atoi(key)] = (int)json_integer_value(v);
		json_object_foreach(json_object_get(one, "standards"), key, v)
			c[i].refuses[atoi(key)] = json_is_false(v);
	}
	p->compiler_count = (int)json_array_size(compilers);
	json_array_foreach(frameworks, i, one) {
		f[i] = (struct probe_framework){ jsonio_string(one, "location"), 0, -1 };
		jsonio_get_int(one, "cxx_standard", 0, 99, 0, &f[i].cxx_standard);
		jsonio_get_int(one, "cxx11_abi", 0, 1, -1, &f[i].cxx11_abi);
	}
	p->framework_count = (int)json_array_size(frameworks);
}

/* And "packages": what could be installed. */
static void read_packages(const json_t *o, struct packages *p)
{
	const json_t *all = json_object_get(o, "compilers"), *one;
	static struct packages_compiler c[4];
	size_t i;

	*p = (struct packages){ .manager = jsonio_string(o, "manager"), .at = c };
	json_array_foreach(all, i, one)
		c[p->count++] = (struct packages_compiler){ jsonio_string(one, "family"),
							    jsonio_string(one, "version"),
							    jsonio_string(one, "cc"),
							    jsonio_string(one, "cxx"),
							    jsonio_string(one, "package") };
}

/* A plan as it is printed, or NULL. */
static json_t *made(const struct buildplan_how *how, const json_t *facts, struct err *e)
{
	struct buildplan_how ask = *how;
	struct buildplan plan;
	struct packages packages;
	struct probes probes;
	json_t *json;

	read_probes(json_object_get(facts, "probes"), &probes);
	read_packages(json_object_get(facts, "packages"), &packages);
	ask.probes = &probes;
	ask.packages = &packages;
	json = buildplan_make(&ask, facts, &table, &plan, e) ? NULL : buildplan_json(&plan);
	buildplan_free(&plan);
	return json;
}

static void plan_node(const struct node *n, const struct recipe *r)
{
	struct buildplan_how how = { .engine = n->engine,
				     .recipe = r,
				     .machine = "x86_64",
				     .frameworks = n->frameworks };
	json_t *facts = facts_of(n->facts), *plan, *again;
	struct err e = { 0 };

	while (n->frameworks[how.framework_count])
		how.framework_count++;
	if (!facts) {
		ok(0, "%s: the test's facts are no JSON", n->name);
		return;
	}
	plan = made(&how, facts, &e);
	again = made(&how, facts, &e);
	ok(plan != NULL, "%s%s%s", n->name, *e.text ? ": " : "", e.text);
	check(n, plan);
	ok(json_equal(plan, again), "%s: the same again", n->name);
	json_decref(again);
	json_decref(plan);
	json_decref(facts);
}

static void test_words(void)
{
	static const char *const frameworks[] = { "torhc" };
	struct buildplan_how how = { .engine = "gloo" };
	json_t *facts = json_object();
	struct err e = { 0 };

	ok(!made(&how, facts, &e), "no engine: %s", e.text);
	how = (struct buildplan_how){ .frameworks = frameworks, .framework_count = 1 };
	ok(!made(&how, facts, &e) && strstr(e.text, "is torch meant"), "no framework: %s",
	   e.text);
	json_decref(facts);
}

/* Without a recipe there is no build; with one that does not mind Keras 3, none for it. */
static void test_recipes(void)
{
#define RECIPE_HEAD                                                                   \
	"{\"name\":\"horovod\",\"version\":\"0.28.1\",\"index\":\"horovod==0.28.1\"," \
	"\"file\":\"horovod-0.28.1.tar.gz\",\"sha256\":\"0\",\"needs\":\"\",\"bad\":[],"
	static const char minimal[] =
		RECIPE_HEAD "\"env\":[],\"adds\":[],\"advisories\":[],\"edits\":[]}";
	static const struct node without = {
		"no recipe",
		"horovod",
		{ NULL },
		PY("3.11.2") ",'frameworks':[" TORCH_2_13
			     "],'compilers':[" GCC("12", "true") "]",
		{ "possible=false", "why_not~no recipe", "nearest=--engine ringup" }
	};
	static const struct node careless = {
		"a recipe that does not mind Keras 3",
		"horovod",
		{ NULL },
		PY("3.12.4") ",'frameworks':[" TF_2_21
			     "," KERAS("3.15.1") "],'compilers':[" GCC("12", "true") "]",
		{ "possible=false", "why_not~Keras 3.15.1 with horovod", "nearest~Keras 2" }
	};
	static const struct node legacy = {
		"and Keras 2",
		"horovod",
		{ NULL },
		PY("3.11.4") ",'frameworks':[" TF_2_15
			     "," KERAS("2.15.0") "],'compilers':[" GCC("12", "true") "]",
		{ "possible=true" }
	};
	static const struct node gcc = {
		"a recipe that does nothing for gcc 13",
		"horovod",
		{ NULL },
		PY("3.10.4") ",'frameworks':[" FW(
			"torch", "2.0.1",
			PIP("torch") "," ELF(
				0,
				"gcc 9.3.1")) "],'compilers':[" GCC("13",
								    "true") "," GCC("12",
										    "false") "]",
		{ "possible=true", "compiler.version=12.2.0",
		  "rejected~horovod 0.28.1 supports gcc up to 12" }
	};
	static const struct node torch = {
		"a recipe that does nothing for torch 2.1",
		"horovod",
		{ NULL },
		PY("3.11.4") ",'frameworks':[" TORCH_2_13
			     "],'compilers':[" GCC("12", "true") "]",
		{ "possible=false",
		  "why_not=horovod 0.28.1 supports torch 1.5-2.0, and "
		  "its recipe has no edits for 2.13.0",
		  "nearest=torch 1.5-2.0, or --engine ringup" }
	};
	static const char more[] =
		RECIPE_HEAD "\"env\":[{\"name\":\"A\",\"value\":\"b\"}],"
			    "\"adds\":[{\"to\":\"a/b\",\"from\":\"c\"}],"
			    "\"advisories\":[{\"id\":\"CVE-1\",\"text\":\"it is so\"}],"
			    "\"edits\":[{\"name\":\"x\",\"file\":\"f\",\"when\":\"torch>=2.1\","
			    "\"why\":\"so\",\"match\":\"a\",\"with\":\"b\",\"times\":1}]}";
	static const struct node printed = {
		"a plan is printed as it always was",
		"horovod",
		{ NULL },
		PY("3.10.12") ",'frameworks':[" TORCH_CUDA
			      "],'compilers':[" GCC("12", "true") "],'mpi':[" OPENMPI(
				      "4.1.4") "]," CUDA("12.4") "," NCCL("2.21.5"),
		{ "={engine:horovod,version:0.28.1,python:{path:/p/bin/python3,versi"
		  "on:3.10.12,prefix:/p},frameworks:[{name:torch,version:2.6.0+cu12"
		  "4,location:null,library:null,cxx11_abi:0,cxx11_abi_by:elf,compil"
		  "er:gcc 9.3.1,compiler_by:elf,cxx_standard:17,cxx_standard_by:tab"
		  "le}],compiler:{cc:/usr/bin/gcc-12,cxx:/usr/bin/g++-12,family:gcc"
		  ",version:12.2.0,installed:true,why:torch 2.6.0+cu124 was built w"
		  "ith gcc 9.3.1, which is not installed; gcc 12.2.0 has the same C++ AB"
		  "I and is within all limits},cxx_standard:17,cxx11_abi:0,cuda:{pa"
		  "th:/usr/local/cuda-12.4,version:12.4,nvcc:/usr/local/cuda-12.4/b"
		  "in/nvcc},nccl:{version:2.21.5,library:/usr/lib/libnccl.so.2,head"
		  "er:/usr/include/nccl.h},mpi:[{flavour:openmpi,version:4.1.4,mpic"
		  "c:/usr/bin/mpicc.openmpi,mpirun:/usr/bin/mpirun.openmpi,library:"
		  "/l/libmpi.so,header:/i/mpi.h,mpicxx:/usr/bin/mpicxx.openmpi}],pa"
		  "ckages:[],build:[{what:horovod 0.28.1: torch,why:torch 2.6.0+cu1"
		  "24, old C++ ABI, with NCCL}],env:{CC:/usr/bin/gcc-12,CXX:/usr/bi"
		  "n/g++-12,HOROVOD_WITH_PYTORCH:1,HOROVOD_WITHOUT_TENSORFLOW:1,HOR"
		  "OVOD_WITHOUT_MXNET:1,HOROVOD_WITH_GLOO:1,HOROVOD_WITH_MPI:1,HORO"
		  "VOD_GPU_OPERATIONS:NCCL,HOROVOD_CUDA_HOME:/usr/local/cuda-12.4,C"
		  "UDA_HOME:/usr/local/cuda-12.4,CUDAHOSTCXX:/usr/bin/g++-12,HOROVO"
		  "D_NCCL_HOME:/usr,A:b},edits:[x],adds:[{to:a/b,from:c}],advisorie"
		  "s:[{id:CVE-1,text:it is so}],rejected:[],disagreements:[],possib"
		  "le:true,why_not:null,nearest:null}" }
	};
	struct recipe r = { 0 };
	struct err e = { 0 };

	plan_node(&without, NULL);
	ok(!recipe_parse(&r, "minimal", minimal, strlen(minimal), &e), "a recipe %s", e.text);
	plan_node(&careless, &r);
	plan_node(&legacy, &r);
	plan_node(&gcc, &r);
	plan_node(&torch, &r);
	recipe_free(&r);
	ok(!recipe_parse(&r, "more", more, strlen(more), &e), "another recipe %s", e.text);
	plan_node(&printed, &r);
	recipe_free(&r);
}

/* Processor time of this thread. */
static int64_t used_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Deciding takes no time: a node with torch and TensorFlow. */
static void test_speed(void)
{
	json_t *facts = facts_of(PY(
		"3.11.2") ",'frameworks':[" TORCH_2_13 "," TF_2_15
			  "],'compilers':[" GCC("12", "true") "," GCC("11", "false") "," CLANG(
				  "14") "," CLANG("16") "],'mpi':[" OPENMPI("4.1.4") "," MPICH
										     "]");
	struct buildplan_how how = { .engine = "horovod", .recipe = &recipe };
	int64_t best = INT64_MAX, start;
	struct buildplan plan;
	int i;

	for (i = 0; i < 20; i++) {
		start = used_ns();
		if (buildplan_make(&how, facts, &table, &plan, NULL))
			break;
		start = used_ns() - start;
		best = start < best ? start : best;
		buildplan_free(&plan);
	}
	ok(i == 20 && best < 10000000, "decided in %lld us", (long long)best / 1000);
	json_decref(facts);
}

int main(void)
{
	const char *src = getenv("srcdir") ? getenv("srcdir") : "..";
	char path[PATH_MAX];
	struct err e = { 0 };
	size_t i;

	snprintf(path, sizeof(path), "%s/compat/versions.tsv", src);
	ok(!versions_load(&table, path, &e), "the table %s", e.text);
	snprintf(path, sizeof(path), "%s/src/rebuild/recipes/horovod-0.28.1.json", src);
	ok(!recipe_load(&recipe, path, &e), "the recipe %s", e.text);
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		plan_node(&nodes[i], &recipe);
	test_words();
	test_recipes();
	test_speed();
	recipe_free(&recipe);
	versions_free(&table);
	return tap_done();
}
