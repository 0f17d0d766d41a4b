# ptx.py - make src/device/kernels_ptx.c of kernels.cu with NVRTC, or compare the two.
# SPDX-License-Identifier: Apache-2.0
"""Make the PTX of the device's kernels, or compare it, or assemble it.

usage: ptx.py [--update] LIBNVRTC
       ptx.py --assemble PTXAS...

LIBNVRTC is libnvrtc.so.12 of the package nvidia-cuda-nvrtc-cu12 12.9.86, and PTXAS is bin/ptxas of
nvidia-cuda-nvcc-cu12 12.x or nvidia-cuda-nvcc 13.x.  None of them needs a GPU; tests/run gets them.
Without options the committed text is compared with what NVRTC says now.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = "src/device/kernels.cu"
RESULT = os.path.join(ROOT, "src/device/kernels_ptx.c")
INCLUDED = ("coll/scalar.h", "device/kernels.h")
# PTX 6.3 is CUDA 10.0's, so that every driver that can run sm_70 compiles it.
VERSION, TARGET = "6.3", "sm_70"
# The architectures of each ptxas, by its first version that has them.
ASSEMBLED = {
    (12, 4): (70, 75, 80, 86, 89, 90),
    (12, 9): (70, 75, 80, 86, 89, 90, 100, 103, 120),
    (13, 0): (75, 80, 86, 89, 90, 100, 103, 120),
}
OPTIONS = ("--gpu-architecture=compute_70", "--fmad=false", "--std=c++17")

# What the sources use of C's headers.
STDINT = "".join(
    f"typedef {kind} {name}{bits}_t;\n"
    for bits, word in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for name, kind in (("int", f"signed {word}"), ("uint", f"unsigned {word}"))
) + """typedef unsigned long long uintptr_t;
#define UINT32_C(x) x##u
#define UINT8_MAX 255
#define INT8_MAX 127
#define INT8_MIN (-INT8_MAX - 1)
#define UINT16_MAX 65535
#define INT16_MAX 32767
#define INT16_MIN (-INT16_MAX - 1)
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-INT64_MAX - 1)
"""


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def compiled(library):
    """The PTX of the kernels."""
    builtins = glob.glob(os.path.join(os.path.dirname(library), "libnvrtc-builtins.so*"))
    if not builtins:
        sys.exit(f"ptx.py: no libnvrtc-builtins.so beside {library}")
    ctypes.CDLL(builtins[0])
    nvrtc = ctypes.CDLL(library)
    headers = {"stdint.h": STDINT, "string.h": ""}
    headers.update({name: text_of(os.path.join("src", name)) for name in INCLUDED})
    strings = ctypes.c_char_p * len(headers)
    program = ctypes.c_void_p()
    bad = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text_of(SOURCE).encode(), b"kernels.cu", len(headers),
        strings(*(text.encode() for text in headers.values())), strings(*(name.encode() for name in headers)))
    bad = bad or nvrtc.nvrtcCompileProgram(
        program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS)))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    said = [line for line in log.value.decode().splitlines()
            if line.strip() and "Architectures prior to" not in line]
    if bad or said:
        sys.exit("\n".join(["ptx.py: NVRTC refuses:", *said]))
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def plain(ptx):
    """Without comments, empty lines and line tables, for the oldest version that can say it."""
    lines = []
    for line in ptx.splitlines():
        line = line.split("//")[0].strip()
        if line.startswith(".version"):
            line = f".version {VERSION}"
        elif line.startswith(".target"):
            line = f".target {TARGET}"
        if line and not line.startswith(".pragma"):
            lines.append(line)
    return lines


def as_c(lines):
    """PTX is free-form behind its head, so many instructions share a line."""
    text = "\n".join(textwrap.wrap(" ".join(" ".join(lines[3:]).split()), 92, break_on_hyphens=False))
    return ("/* kernels_ptx.c - kernels.cu as PTX, made by tests/device/ptx.py --update. */\n"
            "/* SPDX-License-Identifier: Apache-2.0 */\n"
            '#include "device/kernels.h"\n\n'
            "/* clang-format off */\n"
            "const char device_kernels_ptx[] =\n" +
            "\n".join('"' + line + '\\n"' for line in lines[:3] + text.splitlines()) +
            ";\n")


def from_c(text):
    """What a driver gets."""
    return "".join(line.strip(' ";').replace("\\n", "\n") for line in text.splitlines() if line.startswith('"'))


def architectures(ptxas):
    """Those that it knows, and its version."""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"release (\d+)\.(\d+)", said)
    version = version and tuple(map(int, version.groups()))
    if not version or version < min(ASSEMBLED):
        sys.exit(f"ptx.py: {ptxas} is not ptxas 12.4 or later: {said.strip()}")
    return ASSEMBLED[max(known for known in ASSEMBLED if known <= version)], version


def assemble(ptxas, ptx):
    """ptxas takes it, for every architecture; a thread keeps nothing in memory of its own."""
    known, version = architectures(ptxas)
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "kernels.ptx")
        with open(text, "w", encoding="utf-8") as file:
            file.write(ptx)
        for architecture in known:
            done = subprocess.run(
                [ptxas, "-v", f"-arch=sm_{architecture}", text, "-o", os.path.join(folder, "cubin")],
                capture_output=True, text=True, check=False)
            if done.returncode or " stack frame" in done.stderr.replace(" 0 bytes stack frame", ""):
                sys.exit(f"ptx.py: {ptxas} for sm_{architecture}:\n{done.stderr}")
    print("ptxas {}.{}:".format(*version), *(f"sm_{architecture}" for architecture in known))


def main(arguments):
    options = [word for word in arguments if word.startswith("-")]
    files = [word for word in arguments if not word.startswith("-")]
    if options == ["--assemble"] and files:
        for ptxas in files:
            assemble(ptxas, from_c(text_of(RESULT)))
        return
    if len(files) != 1 or options not in ([], ["--update"]):
        sys.exit(__doc__)
    lines = plain(compiled(files[0]))
    if options:
        with open(RESULT, "w", encoding="utf-8") as file:
            file.write(as_c(lines))
    elif text_of(RESULT) != as_c(lines):
        sys.exit(f"ptx.py: {RESULT} is not what NVRTC makes of {SOURCE}: run ptx.py --update")
    print(f"{len(lines)} lines of PTX are as committed")


if __name__ == "__main__":
    main(sys.argv[1:])
