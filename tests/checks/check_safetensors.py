#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks our safetensors files against the reference library (pip install 'safetensors>=0.8').

    python3 tests/checks/check_safetensors.py runs/gpt_tiny/weights.safetensors

Opens each file with the reference reader, writes the same tensors with the reference writer and compares both byte for
byte. Takes a second; prints one line per file; exits 1 on a difference.
"""
import ctypes
import json
import pathlib
import sys

from shared import packages, parser_of

with packages("'safetensors>=0.8' numpy"):
    import safetensors

DTYPE_NAMES = {  # the file's spelling: the reference writer's
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "I64": "int64", "I32": "int32",
}


def split(data):
    """The header as (key, value) pairs in file order, and the data."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + length], object_pairs_hook=list), length, data[8 + length:]


def check(path):
    ours = pathlib.Path(path).read_bytes()
    # deserialize() validates like the reference reader; it keeps dtypes that numpy lacks.
    tensors = dict(safetensors.deserialize(ours))
    header, *_ = split(ours)
    metadata = dict(dict(header).get("__metadata__", []))
    buffers = {name: ctypes.create_string_buffer(bytes(spec["data"]), max(1, len(spec["data"])))
               for name, spec in tensors.items()}
    theirs = bytes(safetensors.serialize(
        {name: safetensors.TensorSpec(dtype=DTYPE_NAMES[spec["dtype"]], shape=spec["shape"],
                                      data_ptr=ctypes.addressof(buffers[name]), data_len=len(spec["data"]))
         for name, spec in tensors.items()}, metadata or None))
    if ours == theirs:
        return f"{path}: equal to the reference writer's ({len(tensors)} tensors, {len(ours)} bytes)", True
    # The reference keeps metadata in an unordered map, so its order may differ between two calls.
    (our_items, our_length, our_data), (their_items, their_length, their_data) = split(ours), split(theirs)
    same = our_data == their_data and our_length == their_length and (
        [item for item in our_items if item[0] != "__metadata__"]
        == [item for item in their_items if item[0] != "__metadata__"]
    )
    if same and len(metadata) > 1:
        return f"{path}: equal but for the order of metadata ({len(tensors)} tensors)", True
    return f"{path}: DIFFERS from the reference writer's bytes", False


def main():
    parser = parser_of(__doc__, program="")
    parser.add_argument("file", nargs="+")
    results = [check(path) for path in parser.parse_args().file]
    for text, _ in results:
        print(text)
    return 0 if all(good for _, good in results) else 1


if __name__ == "__main__":
    sys.exit(main())
