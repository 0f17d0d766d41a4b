# test_recipes.py - packaging/recipes: members and values that their readers know, versions.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: packaging/recipes src/base/conf.def configure.ac

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import HANG, ROOT

RECIPES = os.path.join(ROOT, "packaging", "recipes")
# Kubeflow's definitions, cloud-init's schema, Ansible's modules and rattler-build's recipes, as far
# as they are used here.  A name with "?" may be missing; "*" is any other name.
MEMORY = {"name": str, "emptyDir": {"medium": ("Memory",), "sizeLimit": str}}
POD = {"containers": [{"name": str, "image": str, "command?": [str],
                       "volumeMounts?": [{"name": str, "mountPath": str}]}],
       "volumes?": [MEMORY]}
REPLICAS = {"replicas": int, "restartPolicy?": ("Always", "OnFailure", "Never", "ExitCode"),
            "template": {"spec": POD}}
SHAPES = {
    "pytorchjob.yaml": {
        "apiVersion": ("kubeflow.org/v1",), "kind": ("PyTorchJob",), "metadata": {"name": str},
        "spec": {"nprocPerNode": str,
                 "pytorchReplicaSpecs": {"Master": REPLICAS, "Worker?": REPLICAS}}},
    "mpijob.yaml": {
        "apiVersion": ("kubeflow.org/v2beta1",), "kind": ("MPIJob",), "metadata": {"name": str},
        "spec": {"slotsPerWorker": int, "runPolicy": {"cleanPodPolicy": ("None", "Running", "All")},
                 "mpiReplicaSpecs": {"Launcher": REPLICAS, "Worker": REPLICAS}}},
    "cloud-init.yaml": {
        "write_files": [{"path": str, "permissions?": str, "content": str}], "runcmd": [[str]]},
    "ansible.yaml": [{
        "name": str, "hosts": str, "become": bool, "vars": {"*": str},
        "tasks": [{"name": str, "register?": str, "changed_when?": (False, str),
                   "failed_when?": str, "when?": str,
                   "ansible.builtin.command?": {"cmd": str, "creates?": str},
                   "ansible.builtin.copy?": {"src": str, "dest": str, "mode": str}}]}],
    "conda.yaml": {
        "schema_version": (1,), "package": {"name": str, "version": str}, "source": {"path": str},
        "build": {"script": str, "dynamic_linking": {"binary_relocation": bool}},
        "requirements": {"host": [str], "run": [str]},
        "tests": [{"python?": {"imports": [str]}, "script?": [str]}],
        "about": {"summary": str, "license": str}},
}


def differences(shape, value, at):
    """Sentences about what a reader would refuse."""
    if isinstance(shape, tuple):
        if value not in shape and type(value) not in shape:
            yield f"{at}: {value!r} is none of {shape}"
    elif isinstance(shape, type):
        if type(value) is not shape:
            yield f"{at}: {value!r} is no {shape.__name__}"
    elif type(value) is not type(shape) or not value:
        yield f"{at}: {value!r} is no {type(shape).__name__}, or is empty"
    elif isinstance(shape, list):
        for i, item in enumerate(value):
            yield from differences(shape[0], item, f"{at}[{i}]")
    else:
        known = {name.rstrip("?"): member for name, member in shape.items()}
        for name in shape:
            if name[-1] not in "?*" and name not in value:
                yield f"{at}: {name} is missing"
        for name, member in value.items():
            if name in known or "*" in known:
                yield from differences(known.get(name, known.get("*")), member, f"{at}.{name}")
            else:
                yield f"{at}: {name} is not known"


def text(name):
    with open(os.path.join(RECIPES, name), encoding="utf-8") as f:
        return f.read()


@pytest.fixture(scope="module")
def recipes():
    """{file name: what its YAML holds}, as the distribution's Python reads it."""
    words = "import json, sys, yaml; print(json.dumps([yaml.safe_load(open(p)) for p in " \
            "sys.argv[1:]]))"
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import yaml"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("python3-yaml is not installed")
    out = subprocess.run([python, "-c", words, *(os.path.join(RECIPES, n) for n in SHAPES)],
                         text=True, stdout=subprocess.PIPE, check=True, timeout=HANG).stdout
    return dict(zip(SHAPES, json.loads(out)))


@pytest.mark.parametrize("name", SHAPES)
def test_its_reader_knows_all_that_it_says(recipes, name):
    assert not list(differences(SHAPES[name], recipes[name], name))


def test_the_check_sees_what_is_wrong(recipes):
    def spoilt(spoil):
        job = json.loads(json.dumps(recipes["pytorchjob.yaml"]))
        spoil(job["spec"])
        return list(differences(SHAPES["pytorchjob.yaml"], job, "job"))

    assert spoilt(lambda s: s.update(nprocPerNode=2)) == ["job.spec.nprocPerNode: 2 is no str"]
    assert spoilt(lambda s: s.pop("pytorchReplicaSpecs")) == \
        ["job.spec: pytorchReplicaSpecs is missing"]
    assert spoilt(lambda s: s.update(mpiReplicaSpecs={})) == \
        ["job.spec: mpiReplicaSpecs is not known"]
    assert spoilt(lambda s: s["pytorchReplicaSpecs"]["Master"].update(restartPolicy="Sometimes"))


def test_each_recipe_has_a_check():
    assert sorted(os.listdir(RECIPES)) == sorted([*SHAPES, "Dockerfile"])


def test_they_name_settings_and_versions_that_there_are():
    with open(os.path.join(ROOT, "src", "base", "conf.def"), encoding="utf-8") as f:
        settings = {f"RINGUP_{n.upper()}" for n in re.findall(r"SETTING\((\w+),", f.read())}
    with open(os.path.join(ROOT, "configure.ac"), encoding="utf-8") as f:
        number = re.search(r"AC_INIT\(\[ringup\], \[(.+?)\]\)", f.read()).group(1)
    for name in os.listdir(RECIPES):
        said = text(name)
        assert not set(re.findall(r"RINGUP_[A-Z0-9_]+", said)) - settings, name
        versions = re.findall(r"(?:ringup[-:]|version: )(\d[\d.]*\d)", said)
        assert set(versions) <= {number}, name


def test_volumes_that_are_mounted_are_there(recipes):
    for name, specs in (("pytorchjob.yaml", "pytorchReplicaSpecs"), ("mpijob.yaml",
                                                                    "mpiReplicaSpecs")):
        for replica in recipes[name]["spec"][specs].values():
            pod = replica["template"]["spec"]
            mounts = {m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])}
            assert mounts == {v["name"] for v in pod.get("volumes", [])}


def test_the_ranks_of_an_mpijob_fit_its_slots(recipes):
    spec = recipes["mpijob.yaml"]["spec"]
    launcher, worker = (spec["mpiReplicaSpecs"][n] for n in ("Launcher", "Worker"))
    command = launcher["template"]["spec"]["containers"][0]["command"]
    ranks = int(command[command.index("-np") + 1])
    assert ranks == spec["slotsPerWorker"] * worker["replicas"]


def test_conda_installs_the_wheel_as_the_tests_of_wheels_do(recipes):
    recipe = recipes["conda.yaml"]
    assert recipe["build"]["script"] == "$PYTHON -m pip install --no-index --no-deps ringup-*.whl"
    assert recipe["package"]["name"] == "ringup"
    assert os.path.normpath(os.path.join(RECIPES, recipe["source"]["path"])) == \
        os.path.join(ROOT, "dist")


def test_what_cloud_init_and_ansible_run_is_shell_that_parses(recipes, tmp_path):
    lines = [words[-1] for words in recipes["cloud-init.yaml"]["runcmd"]]
    tasks = recipes["ansible.yaml"][0]["tasks"]
    assert all(len([k for k in t if k.startswith("ansible.")]) == 1 for t in tasks)
    lines += [t["ansible.builtin.command"]["cmd"] for t in tasks if "ansible.builtin.command" in t]
    assert len(lines) >= 6
    for line in lines:
        subprocess.run(["sh", "-n", "-c", re.sub(r"{{.*?}}", "x", line)], check=True)
    if shutil.which("ansible-playbook"):
        subprocess.run(["ansible-playbook", "--syntax-check", "-i", "localhost,", "-e",
                        "wheel=x.whl", os.path.join(RECIPES, "ansible.yaml")], check=True,
                       cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=HANG)


def test_the_dockerfile_copies_what_make_wheel_makes():
    said = re.sub(r"\\\n", " ", text("Dockerfile"))
    lines = [line.split(None, 1) for line in said.splitlines() if line and line[0] != "#"]
    assert lines[0][0] == "FROM"
    assert {word for word, _ in lines} <= {"FROM", "RUN", "COPY", "CMD"}
    for word, rest in lines:
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
        if word == "COPY":
            assert rest.split() == ["*.whl", "/tmp/wheels/"]
        if word == "CMD":
            assert json.loads(rest) == ["ringup", "doctor"]
