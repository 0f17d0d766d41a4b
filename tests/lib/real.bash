# shellcheck shell=bash disable=SC2034,SC2154
# real.bash - find the real libraries that tests use, or skip the test and say why.

# need_programs NAME... - or skip.
need_programs() {
  local p
  for p; do command -v "$p" >/dev/null || skip "$p is not installed"; done
}

# need_mpi - an Open MPI 4.1 to ask, and a program that makes it talk; sets $version and $job.
need_mpi() {
  need_programs mpicc mpirun
  version=$(mpirun --version | sed -n 's/.*(Open MPI) //p')
  [[ $version == 4.1* ]] || skip "mpirun is not Open MPI 4.1"
  job=$BATS_TEST_TMPDIR/allreduce
  mpicc -o "$job" "$src/tests/net/allreduce.c"
}

# need_nccl - sets $nccl, $version and $python.
need_nccl() {
  [[ -n ${RINGUP_TEST_NCCL:-} ]] || skip "RINGUP_TEST_NCCL names no libnccl.so.2"
  python=${RINGUP_TEST_PYTHON:-python3}
  nccl_is "$RINGUP_TEST_NCCL"
}

# need_older_nccls - sets $nccls and $python.
need_older_nccls() {
  [[ -n ${RINGUP_TEST_NCCLS:-} ]] || skip "RINGUP_TEST_NCCLS names no libnccl.so.2 of other versions"
  python=${RINGUP_TEST_PYTHON:-python3}
  IFS=: read -ra nccls <<<"$RINGUP_TEST_NCCLS"
}

# nccl_is LIBRARY - sets $nccl and $version.
nccl_is() {
  nccl=$1
  version=$("$python" -I -c 'import ctypes, sys
v = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v))
print("%d.%d.%d" % (v.value // 10000, v.value // 100 % 100, v.value % 100))' "$nccl")
}

# need_torch - a Python that has torch with Gloo; sets $python.  To import torch takes seconds, so
# it is asked itself only where its headers do not tell.
need_torch() {
  python=${RINGUP_TEST_PYTHON:-python3}
  has_torch "$python" include/torch/csrc/distributed/c10d/ProcessGroupGloo.hpp ||
    "$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
    skip "no torch with Gloo in $python; RINGUP_TEST_PYTHON names another"
}

# has_torch PYTHON [FILE] - has it torch, and torch this file?  Nothing is imported.
has_torch() {
  "$1" -c 'import importlib.util, os, sys
torch = importlib.util.find_spec("torch")
sys.exit(not torch or not os.path.exists(os.path.join(torch.submodule_search_locations[0], sys.argv[1])))' \
    "${2:-}" 2>/dev/null
}

# need_ssh - sets $sshd.
need_ssh() {
  sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip "sshd is not installed"
  need_programs ssh ssh-keygen
}

# need_mpi5 - an Open MPI 5 beside the installed one; sets $mpi5, $version and $job.
need_mpi5() {
  mpi5=${RINGUP_TEST_MPI5:-}
  [[ -n $mpi5 ]] || skip "RINGUP_TEST_MPI5 names no folder with an Open MPI 5"
  job=$BATS_TEST_TMPDIR/allreduce
  local -x OPAL_PREFIX=$mpi5 LD_LIBRARY_PATH=$mpi5/lib
  version=$("$mpi5/bin/mpirun" --version | sed -n 's/.*(Open MPI) //p')
  "$mpi5/bin/mpicc" -o "$job" "$src/tests/net/allreduce.c"
}

# need_ucx - an ucx_info; sets $version.
need_ucx() {
  need_programs ucx_info
  version=$(ucx_info -v | sed -n 's/.* version: *//Ip; s/^# Version //p' | head -n 1)
}

# need_fabric - an fi_info; sets $version.
need_fabric() {
  need_programs fi_info
  version=$(fi_info --version | sed -n 's/^libfabric: //p')
}
