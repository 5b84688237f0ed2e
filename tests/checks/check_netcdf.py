#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how Trireme and Python's netCDF4 read random variables of netCDF-4 files.

Variables have random types, values, and attributes of netCDF and CF: _FillValue, missing_value, valid_range, valid_min,
valid_max, scale_factor, add_offset, _Unsigned; some are partly written. Every value as float32 must equal netCDF4's,
NaN where it masks. Skips deliberate differences (data/fields/README.md): bytes have no default fill value,
missing_value of a wider float type is rounded to the variable's, integers scaled by integers do not overflow, and
64-bit integers are compared as doubles. Also skips what netCDF4 fails to read.

  tests/checks/check_netcdf.py --values build/cpu/tests/field_values [--files 12] [--seed 1]

Exit code 0: all agree; 1: some do not; 77: Python lacks netCDF4.
"""
import subprocess
import sys
import warnings

from shared import add_built, packages, parser_of, random_files

with packages("netCDF4"):
    import netCDF4
    import numpy

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8"]


def some_values(choose, numbers, dtype, shape):
    """Small numbers, so that missing values and range ends occur among them."""
    low = 0 if dtype.kind == "u" else -6
    values = numbers.integers(low, 7, size=shape).astype(dtype)
    if dtype.kind == "f":
        values += numbers.normal(size=shape).astype(dtype) * (numbers.random(shape) < 0.5)
        if choose.random() < 0.3:
            values[numbers.random(shape) < 0.1] = numpy.nan
    elif dtype.itemsize < 8 and choose.random() < 0.3:
        limits = numpy.iinfo(dtype)
        values[numbers.random(shape) < 0.1] = choose.choice([limits.min, limits.max])
    return values


def set_attributes(choose, dtype, variable):
    def number():
        return dtype.type(choose.randint(0, 6) if dtype.kind == "u" else choose.randint(-6, 6))

    if dtype.kind == "i" and dtype.itemsize < 8 and choose.random() < 0.25:
        variable.setncattr_string("_Unsigned", choose.choice(["true", "true", "false"]))
    if choose.random() < 0.4:
        count = choose.choice([1, 1, 2])
        values = [number() for _ in range(count)]
        if dtype.kind == "f" and choose.random() < 0.2:
            values[0] = dtype.type("nan")
        variable.missing_value = numpy.array(values, dtype) if count > 1 else values[0]
    if choose.random() < 0.2:
        variable.valid_range = numpy.array([-3, 4] if dtype.kind != "u" else [1, 5], choose.choice([dtype, numpy.dtype("f8")]))
    if choose.random() < 0.15:
        variable.valid_min = choose.choice([number(), numpy.float32(-3.5)])
    if choose.random() < 0.15:
        variable.valid_max = number()
    for name in ("scale_factor", "add_offset"):
        if choose.random() < 0.5:
            kind = choose.choice(["f4", "f8", "i2"] if dtype.kind == "f" else ["f4", "f8"])
            value = choose.choice([0.1, 0.01, 3, 273.15, 1, -2.5])
            variable.setncattr(name, numpy.dtype(kind).type(value if kind != "i2" else 1 + (name == "scale_factor")))


def write_variable(choose, numbers, file, name):
    dtype = numpy.dtype(choose.choice(TYPES))
    fill = choose.choice([None, None, dtype.type(choose.randint(0, 5)), False])
    if dtype.itemsize == 1 and fill is None:
        fill = False
    chosen = {} if fill is None else {"fill_value": fill}
    if choose.random() < 0.4:
        chosen["zlib"] = True
    order, endian = choose.choice([("=", "native"), (">", "big")])
    variable = file.createVariable(name, dtype.newbyteorder(order), ("y", "x"), endian=endian, **chosen)
    variable.set_auto_maskandscale(False)
    set_attributes(choose, dtype, variable)
    rows = choose.choice([12, 12, 7])  # the rest is never written
    variable[:rows] = some_values(choose, numbers, dtype, (rows, 9))
    return f"{dtype} fill {fill} " + str({key: variable.getncattr(key) for key in variable.ncattrs()})


def expected_values(variable):
    with numpy.errstate(all="ignore"):
        try:
            values = variable[...]
        except TypeError:  # of numpy: a fill value for signed numbers where _Unsigned makes them unsigned
            return None
        mask = numpy.ma.getmaskarray(values)
        values = numpy.ma.getdata(values).astype("f4")
    values[mask] = numpy.nan
    return values


def main():
    parser = parser_of(__doc__, program="")
    add_built(parser, "--values", "tests/field_values")
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--variables", type=int, default=16, help="of each file")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")  # of attributes that netCDF4 does not use, as we do not
    agreed, masked = 0, 0
    for number, path, choose, numbers in random_files(arguments, "nc"):
        with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
            file.createDimension("y", 12)
            file.createDimension("x", 9)
            made = {f"v{i}": write_variable(choose, numbers, file, f"v{i}") for i in range(arguments.variables)}
        said = subprocess.run([arguments.values, path, *made], stdout=subprocess.PIPE, check=True).stdout
        ours = numpy.frombuffer(said, "f4").reshape(len(made), 12, 9)
        with netCDF4.Dataset(path) as file:
            for values, (name, how) in zip(ours, made.items()):
                theirs = expected_values(file[name])
                if theirs is None:
                    continue
                if not numpy.array_equal(values, theirs, equal_nan=True):
                    at = tuple(numpy.argwhere(~((values == theirs) | (numpy.isnan(values) & numpy.isnan(theirs))))[0])
                    print(f"WRONG: {name} of file {number} (seed {arguments.seed}): {how}\n  at {at}: {values[at]!r} for {theirs[at]!r}")
                    return 1
                agreed, masked = agreed + 1, masked + int(numpy.isnan(theirs).sum())
    print(f"{agreed} variables agree with netCDF4 {netCDF4.__version__}; {masked} of their values are missing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
