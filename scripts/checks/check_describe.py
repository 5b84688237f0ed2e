#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the input and label that `trireme data inspect` chooses for files of other libraries.

A table: files of h5py, netCDF4, PyTables and MATLAB's v7.3, and the input, label and axes of the expected config, or
part of the message why there is none. Skips cases if Python lacks the module.

  scripts/checks/check_describe.py --trireme build/cpu/trireme

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


def hdf5(contents):
    """Writes data sets by their paths, and attributes by PATH@NAME."""
    def write(path):
        with h5py.File(path, "w") as file:
            for name, values in contents.items():
                place, _, attribute = name.partition("@")
                if attribute:
                    file[place or "/"].attrs[attribute] = values
                else:
                    file[place] = values
    return write


CUBE = numpy.random.default_rng(3).integers(0, 50, (12, 12, 12, 4)).astype("f4")
SCAN = IMAGES[0, :, :, 0].astype("f4")


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


def parquet(path):
    Path(path).write_bytes(b"PAR1" + b"\0" * 64 + b"PAR1")


# Name; how the file is written; module; (input, target, axes) or part of the refusal; part of the text.
TABLE = [
    ("plain", hdf5({"images": IMAGES, "labels": LABELS.astype("i8"), "ids": numpy.arange(N), "@version": 3}), None,
     ("images", "labels", "NHWC"), ""),
    ("plain without name", hdf5({"x": IMAGES, "a_id": numpy.arange(N), "kept": (LABELS == 1).astype("i8")}), None,
     ("x", "kept", "NHWC"), ""),
    ("one value", hdf5({"images": IMAGES, "labels": numpy.full(N, 3)}), None, "all 24 samples have the label 3", ""),
    ("file with attribute", hdf5({"scan": SCAN, "scan@label": 2, "@CLASS": "GROUP"}), None, ("scan", "scan@label", "HW"), ""),
    ("files with user class", hdf5({"scan": SCAN, "@CLASS": "cat"}), None, ("scan", "@CLASS", "HW"), ""),
    ("dimension scales", dimension_scales, None, ("images", "grade", "NHWC"), ""),
    ("netCDF", netcdf, "netCDF4", ("t2m", "storm_class", "NHW"), ""),
    ("netCDF without label", lambda path: netcdf(path, False), "netCDF4", "nothing looks like a label", ""),
    ("PyTables", pytables, "tables", ("images", "labels", "NHWC"), ""),
    ("PyTables without label", pytables_without_label, "tables", "nothing looks like a label", ""),
    ("MATLAB", matlab, None, ("X", "y", "NCWH"), ""),
    ("numbered groups", hdf5({f"data/demo_{i}/{name}": values[:10 + i] for i in range(5)
                              for name, values in (("obs/image", IMAGES), ("dones", LABELS))}), None,
     ("obs/image", "dones", "NHWC"), 'groups: "data/demo_*"'),
    ("groups of samples", hdf5({f"s{i}/image": IMAGES[i] for i in range(6)} | {f"s{i}@label": i % 2 for i in range(6)}), None,
     ("image", "@label", "HWC"), ""),
    ("two splits", hdf5({"train/x": IMAGES[:16], "train/y": LABELS[:16], "val/x": IMAGES[16:], "val/y": LABELS[16:]}), None,
     ("train/x", "train/y", "NHWC"), 'validation_inputs: ["val/x"]'),
    ("one-hot labels", hdf5({"x": IMAGES, "y": numpy.eye(4)[LABELS]}), None, ("x", "y", "NHWC"), "classes: 4"),
    ("table", hdf5({"x": IMAGES[:, :5, 0, 0].astype("f4"), "y": LABELS}), None, ("x", "y", "NC"), "family: mlp, length: 1, channels: 5"),
    ("signals", hdf5({"x": numpy.ones((N, 100, 3), "f4"), "y": LABELS}), None, ("x", "y", "NWC"), "family: mlp, length: 100, channels: 3"),
    ("values of images", hdf5({"x": IMAGES, "target": numpy.linspace(5, 9, N * 3).reshape(N, 3)}), None, ("x", "target", "NHWC"),
     "head: values, targets: 3"),
    ("robomimic", hdf5({f"data/demo_{i}/{name}": values[:10 + i] for i in range(3)
                        for name, values in (("obs/image", IMAGES), ("actions", numpy.ones((N, 7))))} |
                       {"mask/train": [b"demo_0", b"demo_2"], "mask/valid": [b"demo_1"]}), None,
     ("obs/image", "actions", "NHWC"), 'validation_group_list: "mask/valid"'),
    ("NumPy archive", lambda path: numpy.savez_compressed(open(path, "wb"), X_train=IMAGES, y_train=LABELS, X_val=IMAGES[:9],
                                                          y_val=LABELS[:9]), None,
     ("X_train", "y_train", "NHWC"), 'validation_target: ["y_val"]'),
    ("unreadable", hdf5({"records": numpy.zeros((4, 4), [("a", "f4"), ("b", "i4")])}), None, "records of several members", ""),
    ("cube with numbers", hdf5({"x": CUBE.astype("i2"), "y": numpy.array([0.5, -0.25, 1, 0], "f4")}), None, ("x", "y", "DHWC"),
     "model: {family: cosmoflow, size: 12, channels: 4, targets: 4}"),
    ("cubes along an axis", hdf5({"full": numpy.stack([CUBE] * N), "unitPar": numpy.linspace(5, 9, N * 3).reshape(N, 3), "redshift": 0.5}),
     None, ("full", "unitPar", "NDHWC"), "target_mean: [6.94366, 7, 7.05634]"),
    ("cube with a class", hdf5({"x": CUBE, "label": 2}), None, ("x", "label", "DHWC"), "family: resnet"),
    ("map of classes", hdf5({"climate/data": CUBE[0], "climate/labels_0": CUBE[0, :, :, 0].astype("i8") % 3}), None,
     ("climate/data", "climate/labels_0", "HWC"), "model: {family: unet, image_size: 12, image_width: 12, channels: 4, classes: 3,"),
    ("CosmoFlow", science("cosmoflow"), None, ("x", "y", "DHWC"), "transform: log1p"),
    ("DeepCAM", science("deepcam"), None, ("climate/data", "climate/labels_0", "HWC"), "maps of classes 0 to 2"),
    ("The Well", science("the_well"), None, ('t0_fields/tracer", "t1_fields/velocity', None, "NTHW NTHWC"), "4 steps in, 1 out; 12 channels"),
    ("U-Net 3D", science("unet3d"), None, ("x", "y", "DHWC"), "family: unet, depth: "),
    ("map without a class", hdf5({"x": CUBE[0], "mask": numpy.zeros((12, 12), "u1")}), None, "maps have one class or none", ""),
    ("volume with a map", hdf5({"x": CUBE[..., :1], "y": CUBE[..., 0].astype("u1") % 3 + 253 * (CUBE[..., 1] == 7) *
                              (CUBE[..., 0] % 3 == 2)}), None, ("x", "y", "DHWC"), "ignored_class: 255"),
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
