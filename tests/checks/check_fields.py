#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how Trireme and h5py read random HDF5 data sets in place.

Files are written in every format of h5py, with user blocks. Their data sets have random types, axes, chunks, growing
axes, filters and fill values, are partly written, and then grown and shrunk. Every value as float32 must equal h5py's.
Only a file newer than the program's HDF5 library may be refused, with a message that says so.

  tests/checks/check_fields.py --values build/cpu/tests/field_values [--files 16] [--seed 1]

Exit code 0: all agree; 1: some do not; 77: there is no h5py.
"""
import importlib.util
import subprocess
import sys

from shared import add_built, packages, parser_of, random_files

with packages("h5py"):
    import h5py
    import numpy

FORMATS = ["v108", "v110", "v112", "v114", "v200", "latest"]
TYPES = ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">u8"]
FILTERS = [{}, {}, {"compression": "gzip", "compression_opts": 3}, {"compression": "lzf"}, {"shuffle": True},
           {"shuffle": True, "compression": "gzip"}, {"fletcher32": True}, {"compression": "gzip", "fletcher32": True}]

if importlib.util.find_spec("hdf5plugin"):  # filters that are decoded without it
    import hdf5plugin
    FILTERS += [hdf5plugin.Bitshuffle(nelems=n, cname=name) for n in (0, 8, 64) for name in ("none", "lz4", "zstd")]


def random_box(choose, shape):
    """Slices of a random part of an array."""
    starts = [choose.randrange(extent) for extent in shape]
    return tuple(slice(start, choose.randint(start + 1, extent)) for start, extent in zip(starts, shape))


def random_values(numbers, dtype, shape):
    if dtype.kind == "f":
        return numbers.normal(scale=100, size=shape).astype(dtype)
    limits = numpy.iinfo(dtype)
    return numbers.integers(limits.min, limits.max, size=shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)


def chunked_storage(choose, shape):
    """Chunks, and the maximum extent of each axis: they decide the kind of index."""
    storage = {"chunks": tuple(choose.randint(1, extent) for extent in shape)}
    growth = [choose.choice([0, 0, 3]) for _ in shape]
    limits = [extent + more for extent, more in zip(shape, growth)]
    for axis in choose.sample(range(len(shape)), choose.choice([0, 1, 1, min(2, len(shape))])):
        limits[axis] = None
    storage["maxshape"] = tuple(limits)
    storage.update(choose.choice(FILTERS))
    return storage


def write_data_set(choose, numbers, file, name):
    """A random data set; returns a description for messages."""
    dtype = numpy.dtype(choose.choice(TYPES))
    shape = tuple(choose.randint(1, 9) for _ in range(choose.randint(1, 4)))
    storage = chunked_storage(choose, shape) if choose.random() < 0.85 else {}
    if choose.random() < 0.5:
        storage["fillvalue"] = dtype.type(choose.randint(0, 100))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if choose.random() < 0.3:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    data = file.create_dataset(name, shape=shape, dtype=dtype, dcpl=properties, **storage)
    for _ in range(choose.choice([0, 1, 2, 3])):
        box = random_box(choose, data.shape)
        data[box] = random_values(numbers, dtype, tuple(part.stop - part.start for part in box))
        if "chunks" in storage and choose.random() < 0.4:
            data.resize(tuple(choose.randint(1, 12 if most is None else most) for most in data.maxshape))
    if choose.random() < 0.5:
        data[...] = random_values(numbers, dtype, data.shape)
    return f"{dtype.str} {shape} -> {data.shape} {storage}"


def check_file(choose, numbers, program, path, data_sets):
    """The number of data sets that agreed and that were refused as too new, and the errors."""
    bounds = choose.choice(FORMATS)
    low = choose.choice(["earliest", bounds])
    block = choose.choice([0, 0, 512, 2048])
    with h5py.File(path, "w", libver=(low, bounds), userblock_size=block) as file:
        made = {f"x{i}": write_data_set(choose, numbers, file, f"x{i}") for i in range(data_sets)}
    agreed, refused, wrong = 0, 0, []
    with h5py.File(path) as file:
        for name, how in made.items():
            expected = file[name][...]
            with numpy.errstate(over="ignore"):
                expected = expected.astype("f4")
            how = f"{name} of libver=({low}, {bounds}), user block {block}: {how}"
            done = subprocess.run([program, path, name], capture_output=True)
            message = done.stderr.decode()
            if done.returncode == 0 and done.stdout == expected.tobytes():
                agreed += 1
            elif done.returncode == 0:
                wrong.append(f"{how}: other values: {numpy.frombuffer(done.stdout, 'f4')[:8]} for {expected.ravel()[:8]}")
            elif bounds in ("v200", "latest") and "newer than the HDF5 library" in message:
                refused += 1
            else:
                wrong.append(f"{how}: {message.strip()}")
    return agreed, refused, wrong


def main():
    parser = parser_of(__doc__, program="")
    add_built(parser, "--values", "tests/field_values")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--data-sets", type=int, default=12, help="of each file")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    agreed, refused = 0, 0
    for number, path, choose, numbers in random_files(arguments, "h5"):
        right, new, wrong = check_file(choose, numbers, arguments.values, path, arguments.data_sets)
        agreed, refused = agreed + right, refused + new
        if wrong:
            print("\n".join(wrong[:5]))
            print(f"WRONG: {len(wrong)} data sets of file {number} (seed {arguments.seed})")
            return 1
    print(f"{agreed} data sets agree with h5py {h5py.version.version}; {refused} were refused as newer than the library")
    return 0 if agreed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
