# SPDX-License-Identifier: Apache-2.0
"""Writes token shards as data/README.md specifies them. Imported by the scripts here; needs h5py, numpy and xxhash."""
import os

import h5py
import numpy
import xxhash

BLOCK_TOKENS = 1 << 22


def write_shard(path, tokens, offsets, fields):
    """One shard as data/README.md specifies it: temporary name, checksums, fsync, rename."""
    temporary = path + ".tmp"
    payload = xxhash.xxh3_64()
    with h5py.File(temporary, "w", libver=("v108", "v108")) as file:
        data = file.create_dataset("tokens", tokens.shape, tokens.dtype, track_times=False)
        for first in range(0, len(tokens), BLOCK_TOKENS):
            block = numpy.ascontiguousarray(tokens[first:first + BLOCK_TOKENS])
            data[first:first + len(block)] = block
            payload.update(block)
        file.create_dataset("document_offsets", data=offsets, dtype=numpy.uint64, track_times=False)
        payload.update(offsets)
        fields["payload_xxh3"] = payload.intdigest()
        text = "".join(f"{name}={value}\n" for name, value in fields.items())
        fields["header_xxh3"] = xxhash.xxh3_64_intdigest(text.encode())
        for name, value in fields.items():
            if isinstance(value, str):
                raw = value.encode()
                file.attrs.create(name, raw, dtype=h5py.string_dtype("utf-8", max(1, len(raw))))
            else:
                file.attrs.create(name, value, dtype=numpy.uint64)
    sync(temporary)
    os.rename(temporary, path)
    sync(os.path.dirname(path))


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
