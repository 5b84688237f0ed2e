#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the input and label that `trireme data inspect` chooses for files of other libraries.

A table: files that these libraries write (tests/data/fields/layouts_test.cpp has layouts), and the input, label and axes of the expected config, or
part of the message why there is none. Skips cases if Python lacks the module.

  tests/checks/check_describe.py --trireme build/cpu/trireme

Exit code 0: all as in the table; 1: some are not; 77: Python lacks h5py.
"""
import importlib.util
import sys
import tempfile
from pathlib import Path

from shared import packages, parser_of, run

with packages("h5py netCDF4 tables"):
    import h5py
    import make_science_data
    import numpy

N = 24
IMAGES = numpy.random.default_rng(1).integers(0, 255, (N, 12, 10, 3)).astype("u1")
LABELS = numpy.arange(N) % 4


def dimension_scales(path):
    with h5py.File(path, "w") as file:
        file["images"], file["number"], file["grade"] = IMAGES, numpy.arange(N) // 2, LABELS
        file["number"].make_scale("number")
        file["images"].dims[0].attach_scale(file["number"])


def netcdf(path, labelled=True):
    netCDF4 = importlib.import_module("netCDF4")
    with netCDF4.Dataset(path, "w") as file:
        for name, size in {"time": N, "lat": 12, "lon": 10}.items():
            file.createDimension(name, size)
            values = file.createVariable(name, "i4", (name,))
            values[:] = numpy.arange(size) // 2
            values.units = "hours since 2000-01-01" if name == "time" else "degrees"
        area = file.createVariable("area", "f8", ("lat", "lon"))
        area[:] = 1
        field = file.createVariable("t2m", "i2", ("time", "lat", "lon"), fill_value=-32767)
        field.scale_factor, field.add_offset, field.coordinates = 0.01, 280.0, "area season"
        field[:] = 280 + numpy.random.default_rng(2).normal(size=(N, 12, 10))
        season = file.createVariable("season", "i4", ("time",))
        season[:] = numpy.arange(N) // 6
        if labelled:
            file.createVariable("storm_class", "i4", ("time",))[:] = LABELS


def pytables(path):
    tables = importlib.import_module("tables")
    with tables.open_file(path, "w", title="pictures") as file:
        images = file.create_earray("/", "images", tables.UInt8Atom(), (0, 12, 10, 3), title="x")
        labels = file.create_earray("/", "labels", tables.Int64Atom(), (0,))
        images.append(IMAGES)
        labels.append(LABELS)
        file.create_carray("/", "mean", obj=IMAGES.mean(axis=0))


def pytables_without_label(path):
    tables = importlib.import_module("tables")
    with tables.open_file(path, "w") as file:
        file.create_carray("/", "image", obj=IMAGES[0])


def matlab(path):
    """As MATLAB writes X, 12 x 10 x 3 x N, and y, N x 1, both double: reversed axes after a 512-byte block."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values, kind in (("X", IMAGES.transpose(0, 3, 2, 1), "uint8"), ("y", LABELS.reshape(1, N) + 1.0, "double"),
                                   ("title_text", numpy.frombuffer("some pictures of cats!!!".encode("utf-16-le"), "u2").reshape(N, 1), "char")):
            data = file.create_dataset(name, data=values, chunks=values.shape, compression="gzip")
            data.attrs["MATLAB_class"] = numpy.bytes_(kind)
            if kind == "char":
                data.attrs["MATLAB_int_decode"] = 2
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def science(kind):
    return lambda path: make_science_data.KINDS[kind](numpy.random.default_rng(1), path, 16)


def records(path):
    with h5py.File(path, "w") as file:
        file["records"] = numpy.zeros((4, 4), [("a", "f4"), ("b", "i4")])


def parquet(path):
    Path(path).write_bytes(b"PAR1" + b"\0" * 64 + b"PAR1")


# Name; how the file is written; module; (input, target, axes) or part of the refusal; part of the text.
TABLE = [
    ("dimension scales", dimension_scales, None, ("images", "grade", "NHWC"), ""),
    ("netCDF", netcdf, "netCDF4", ("t2m", "storm_class", "NHW"), ""),
    ("netCDF without label", lambda path: netcdf(path, False), "netCDF4", "nothing looks like a label", ""),
    ("PyTables", pytables, "tables", ("images", "labels", "NHWC"), ""),
    ("PyTables without label", pytables_without_label, "tables", "nothing looks like a label", ""),
    ("MATLAB", matlab, None, ("X", "y", "NCWH"), ""),
    ("NumPy archive", lambda path: numpy.savez_compressed(open(path, "wb"), X_train=IMAGES, y_train=LABELS, X_val=IMAGES[:9],
                                                          y_val=LABELS[:9]), None,
     ("X_train", "y_train", "NHWC"), 'validation_target: ["y_val"]'),
    ("unreadable", records, None, "records of several members", ""),
    ("The Well", science("the_well"), None, ('t0_fields/tracer", "t1_fields/velocity', None, "NTHW NTHWC"), "4 steps in, 1 out; 12 channels"),
    ("U-Net 3D", science("unet3d"), None, ("x", "y", "DHWC"), "family: unet, depth: "),
    ("Parquet", parquet, None, "parquet", ""),
]


def check(trireme, name, write, wanted, words, path):
    write(path)
    done = run([trireme, "data", "inspect", path], codes=None)
    if isinstance(wanted, str):
        right = done.returncode == 3 and wanted.lower() in done.stderr.lower()
    else:
        target = f'"{wanted[1]}"' if wanted[1] else f'["{wanted[0]}"]'
        lines = [f'  inputs: ["{wanted[0]}"]', f"  target: {target}", f"  axes: {wanted[2]}"]
        right = done.returncode == 0 and all(line in done.stdout.splitlines() for line in lines)
    silent = not any(word in done.stdout + done.stderr for word in ("DIMENSION_LIST", "REFERENCE_LIST"))
    if right and silent and words in done.stdout:
        return True
    print(f"WRONG: {name}: wanted {wanted} {words}\n{done.stdout}{done.stderr}")
    return False


def main():
    arguments = parser_of(__doc__).parse_args()
    right, wrong, missing = 0, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, write, module, wanted, words) in enumerate(TABLE):
            if module and importlib.util.find_spec(module) is None:
                missing.add(module)
                continue
            good = check(arguments.trireme, name, write, wanted, words, str(Path(folder) / f"{number}.h5"))
            right, wrong = right + good, wrong + (not good)
    print(f"{right} files described as they should be, {wrong} otherwise" + (f"; Python lacks {', '.join(missing)}" if missing else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
