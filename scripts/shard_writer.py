# SPDX-License-Identifier: Apache-2.0
"""Writes token shards as specified in data/shard/FORMAT.md. Imported by the scripts here; needs h5py, numpy and
xxhash."""
import os

import h5py
import numpy
import xxhash

BLOCK_TOKENS = 1 << 22
CHECKED_BYTES = 4096  # of a block with a checksum of its own


def write_shard(path, tokens, offsets, fields):
    """One shard as specified in data/shard/FORMAT.md: temporary name, checksums, fsync, rename."""
    temporary = path + ".tmp"
    payload = xxhash.xxh3_64()
    table = []
    with h5py.File(temporary, "w", libver=("v108", "v108")) as file:
        data = file.create_dataset("tokens", tokens.shape, tokens.dtype, track_times=False)
        for first in range(0, len(tokens), BLOCK_TOKENS):
            block = numpy.ascontiguousarray(tokens[first:first + BLOCK_TOKENS])
            data[first:first + len(block)] = block
            payload.update(block)
            table += block_checksums(block)
        offsets = numpy.ascontiguousarray(offsets, dtype=numpy.uint64)
        file.create_dataset("document_offsets", data=offsets, track_times=False)
        payload.update(offsets)
        table = numpy.array(table + block_checksums(offsets), dtype=numpy.uint32)
        file.create_dataset("block_checksums", data=table, track_times=False)
        fields["payload_xxh3"] = payload.intdigest()
        text = "".join(f"{name}={value}\n" for name, value in fields.items())
        fields["header_xxh3"] = xxhash.xxh3_64_intdigest(text.encode())
        belongs = f"block_bytes={CHECKED_BYTES}\npayload_xxh3={fields['payload_xxh3']}\n".encode()
        checks = {"block_bytes": CHECKED_BYTES, "block_checksums_xxh3": xxhash.xxh3_64_intdigest(belongs + table.tobytes())}
        for name, value in (fields | checks).items():
            if isinstance(value, str):
                raw = value.encode()
                file.attrs.create(name, raw, dtype=h5py.string_dtype("utf-8", max(1, len(raw))))
            else:
                file.attrs.create(name, value, dtype=numpy.uint64)
    sync(temporary)
    os.rename(temporary, path)
    sync(os.path.dirname(path))


def block_checksums(array):
    """Checksums of blocks of CHECKED_BYTES; only the last block of an array may be partial."""
    view = memoryview(array).cast("B")
    return [xxhash.xxh3_64_intdigest(view[first:first + CHECKED_BYTES]) & 0xffffffff
            for first in range(0, len(view), CHECKED_BYTES)]


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
