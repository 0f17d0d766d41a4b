#!/usr/bin/env bats
# platforms.bats - what kind of node this is, on trees that look like nodes of each platform.
# needs: cpu
# tests: init-scripts/lib

load ../lib/helper

setup() {
  for f in log json node; do source "$src/init-scripts/lib/$f.bash"; done
  export INIT_ROOT=$BATS_TEST_TMPDIR/root
  mkdir "$INIT_ROOT"
  unset DB_IS_DRIVER DB_CONTAINER_IP DB_DRIVER_IP DB_CLUSTER_ID DATABRICKS_RUNTIME_VERSION \
    DATAPROC_IMAGE_VERSION SLURM_JOB_ID SLURM_NODEID
}

# is PLATFORM ROLE CLUSTER RUNTIME - that is what is found.
is() {
  local got
  got="$(node_platform)|$(node_role)|$(node_cluster)|$(node_runtime)"
  [[ $got == "$1|$2|$3|$4" ]] || { echo "$got"; return 1; }
}

@test "nothing is known: generic" { is generic single '' ''; }

@test "Databricks: by its folder or its variable" {
  mkdir "$INIT_ROOT/databricks"
  echo 15.4 >"$INIT_ROOT/databricks/DBR_VERSION"
  DB_IS_DRIVER=TRUE DB_CLUSTER_ID=0101-ab is databricks driver 0101-ab 15.4
  DB_CONTAINER_IP=10.0.0.2 DB_DRIVER_IP=10.0.0.1 is databricks executor '' 15.4
  DATABRICKS_RUNTIME_VERSION=16.1 DB_IS_DRIVER=FALSE is databricks executor '' 16.1
}

@test "limits are twice as long where processors, or the cgroup's share of them, are few" {
  local max=$BATS_TEST_TMPDIR/cpu.max there text
  nproc() { echo "$there"; }
  for there in 1 3; do [[ $(node_pace "$max") == 2 ]]; done
  for there in 4 64; do [[ $(node_pace "$max") == 1 ]]; done
  echo "200000 100000" >"$max" # two processors of 64
  [[ $(node_pace "$max") == 2 ]]
  for text in "max 100000" "400000 100000" "" "x y" "100 0"; do
    echo "$text" >"$max"
    [[ $(node_pace "$max") == 1 ]]
  done
}

@test "Dataproc: role and cluster are attributes of the instance" {
  mkdir -p "$INIT_ROOT/etc/google-dataproc" "$INIT_ROOT/usr/share/google"
  is dataproc single '' ''
  printf '#!/bin/bash\ncase $1 in attributes/dataproc-role) echo Master ;; attributes/dataproc-cluster-name) echo c-1 ;; *) exit 1 ;; esac\n' \
    >"$INIT_ROOT/usr/share/google/get_metadata_value"
  chmod +x "$INIT_ROOT/usr/share/google/get_metadata_value"
  DATAPROC_IMAGE_VERSION=2.2 is dataproc driver c-1 2.2
  sed -i s/Master/Worker/ "$INIT_ROOT/usr/share/google/get_metadata_value"
  is dataproc executor c-1 ''
  # a server that does not answer costs five seconds, not the start of the node
  printf '#!/bin/bash\nexit 1\n' >"$INIT_ROOT/usr/share/google/get_metadata_value"
  is dataproc single '' ''
}

@test "EMR: instance.json and job-flow.json, in any layout" {
  mkdir -p "${INIT_ROOT}/mnt/var/lib/info"
  printf '{\n  "isMaster": true,\n  "isRunningNameNode": true\n}\n' >"${INIT_ROOT}/mnt/var/lib/info/instance.json"
  echo '{"jobFlowId":"j-1ABC","masterPrivateDnsName":"ip-10-0-0-1"}' >"${INIT_ROOT}/mnt/var/lib/info/job-flow.json"
  is emr driver j-1ABC ''
  echo '{"isRunningNameNode":false,"isMaster":false}' >"${INIT_ROOT}/mnt/var/lib/info/instance.json"
  is emr executor j-1ABC ''
  echo 'not JSON' >"${INIT_ROOT}/mnt/var/lib/info/instance.json"
  is emr single j-1ABC ''
}

@test "Slurm: the first node of the job leads" {
  SLURM_JOB_ID=17 SLURM_NODEID=0 is slurm driver 17 ''
  SLURM_JOB_ID=17 SLURM_NODEID=3 is slurm executor 17 ''
  SLURM_JOB_ID=17 is slurm single 17 ''
}
