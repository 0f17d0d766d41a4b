# horovod_FindPytorch.cmake - what Horovod's CMake files want to know of torch, asked at once.
# SPDX-License-Identifier: Apache-2.0
# Sets Pytorch_VERSION, _CUDA, _ROCM, _CXX11, _INCLUDE_DIRS, _LIBRARY_DIRS, _LIBRARIES and
# _COMPILE_FLAGS.  torch is imported once; what it or its start prints goes elsewhere.
set(_pytorch_ask "
import os, sys
answer = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)
import torch
from torch.utils import cpp_extension as cpp
cuda = sys.argv[1] == 'TRUE' and torch.version.cuda is not None and cpp.CUDA_HOME is not None
extension = (cpp.CUDAExtension if cuda else cpp.CppExtension)('', [])
for line in (torch.__version__, str(cuda).upper(), str(torch.compiled_with_cxx11_abi()).upper(),
             ';'.join(extension.include_dirs), ';'.join(extension.library_dirs),
             ';'.join(extension.libraries)):
    print('@' + line, file=answer)
answer.close()  # torch without numpy ends Python so that nobody else does
")
if(HAVE_CUDA)
  set(_pytorch_cuda TRUE)
else()
  set(_pytorch_cuda FALSE)
endif()
execute_process(COMMAND ${PY_EXE} -c "${_pytorch_ask}" ${_pytorch_cuda}
  OUTPUT_VARIABLE _pytorch_said RESULT_VARIABLE _pytorch_failed)

set(_pytorch_line "@([^\n]*)\n")
string(REPEAT "${_pytorch_line}" 6 _pytorch_lines)
if(NOT _pytorch_failed AND _pytorch_said MATCHES "^${_pytorch_lines}$")
  set(Pytorch_VERSION "${CMAKE_MATCH_1}")
  set(Pytorch_CUDA "${CMAKE_MATCH_2}")
  set(Pytorch_ROCM FALSE)
  set(Pytorch_CXX11 "${CMAKE_MATCH_3}")
  set(Pytorch_INCLUDE_DIRS "${CMAKE_MATCH_4}")
  set(Pytorch_LIBRARY_DIRS "${CMAKE_MATCH_5}")
  set(_pytorch_names "${CMAKE_MATCH_6}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pytorch REQUIRED_VARS Pytorch_VERSION VERSION_VAR Pytorch_VERSION)
if(NOT PYTORCH_FOUND)
  return()
endif()

foreach(_pytorch_name IN LISTS _pytorch_names)
  find_library(Pytorch_LIBRARY_${_pytorch_name} NAMES ${_pytorch_name} HINTS ${Pytorch_LIBRARY_DIRS})
  if(NOT Pytorch_LIBRARY_${_pytorch_name})
    message(FATAL_ERROR "torch wants lib${_pytorch_name}.so, which is not in ${Pytorch_LIBRARY_DIRS}")
  endif()
  list(APPEND Pytorch_LIBRARIES ${Pytorch_LIBRARY_${_pytorch_name}})
endforeach()

if(Pytorch_CXX11)
  set(Pytorch_COMPILE_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
else()
  set(Pytorch_COMPILE_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")
endif()
