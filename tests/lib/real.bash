# shellcheck shell=bash disable=SC2034,SC2154
# real.bash - the real libraries that tests ask, each of them or a skip that says why.

# need_programs NAME... - or skip.
need_programs() {
  local p
  for p; do command -v "$p" >/dev/null || skip "$p is not installed"; done
}

# need_mpi - an Open MPI 4.1 to ask, and a program that makes it talk; sets $job.
need_mpi() {
  need_programs mpicc mpirun
  mpirun --version | grep -q 'Open MPI) 4\.1' || skip "mpirun is not Open MPI 4.1"
  job=$BATS_TEST_TMPDIR/allreduce
  mpicc -o "$job" "$src/tests/net/allreduce.c"
}

# need_nccl - sets $nccl and $python.
need_nccl() {
  nccl=${RINGUP_TEST_NCCL:-}
  [[ -n $nccl ]] || skip "RINGUP_TEST_NCCL names no libnccl.so.2"
  python=${RINGUP_TEST_PYTHON:-python3}
  # shellcheck disable=SC2034 # for who explains
  version=$("$python" -I -c 'import ctypes, sys
v = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v))
print("%d.%d.%d" % (v.value // 10000, v.value // 100 % 100, v.value % 100))' "$nccl")
}

# need_torch - a Python that has torch with Gloo; sets $python.
need_torch() {
  python=${RINGUP_TEST_PYTHON:-python3}
  "$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
    skip "no torch with Gloo in $python; RINGUP_TEST_PYTHON names another"
}

# need_ssh - sets $sshd.
need_ssh() {
  sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip "sshd is not installed"
  need_programs ssh ssh-keygen
}
