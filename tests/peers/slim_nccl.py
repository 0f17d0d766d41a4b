#!/usr/bin/env python3
# slim_nccl.py - a libnccl.so.2 with the code of one GPU architecture, small enough to carry.
# SPDX-License-Identifier: Apache-2.0
"""A libnccl.so.2 has the code of every architecture.  Zeros in place of the others compress well:

    pip download --no-deps nvidia-nccl-cu13==2.30.7
    unzip -j nvidia_nccl_cu13-*.whl nvidia/nccl/lib/libnccl.so.2
    mkdir slim
    python3 tests/peers/slim_nccl.py libnccl.so.2 90 slim/libnccl.so.2

keeps sm_90.  gpu_stage.bash does so, and packs the result; gpu_nccl.bash unpacks it.  The result is
for one test on one machine: it is not to be published.
"""

import struct
import sys

MAGIC = b"\x50\xed\x55\xba"
CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this head, bytes behind it
ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this head, bytes behind it
ARCHITECTURE_AT = 28


def entries(data):
    """Where each entry's code begins, its length and its architecture."""
    at = data.find(MAGIC)
    while at >= 0:
        _, version, head, length = CONTAINER.unpack_from(data, at)
        end = at + head + length
        # The four bytes may be there by chance.
        if version != 1 or head != CONTAINER.size or end > len(data):
            at = data.find(MAGIC, at + 1)
            continue
        entry = at + head
        while entry + ENTRY.size <= end:
            _, _, entry_head, entry_length = ENTRY.unpack_from(data, entry)
            if entry_head < ARCHITECTURE_AT + 4 or entry + entry_head + entry_length > end:
                break
            architecture, = struct.unpack_from("<I", data, entry + ARCHITECTURE_AT)
            yield entry + entry_head, entry_length, architecture
            entry += entry_head + entry_length
        at = data.find(MAGIC, end)


def main(source, keep, result):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    kept = dropped = 0
    for at, length, architecture in list(entries(bytes(data))):
        if architecture == keep:
            kept += length
        else:
            data[at:at + length] = bytes(length)
            dropped += length
    if not kept:
        sys.exit(f"slim_nccl.py: {source} has no code for sm_{keep}")
    with open(result, "wb") as file:
        file.write(data)
    print(f"kept {kept} bytes of code for sm_{keep}, zeroed {dropped}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
