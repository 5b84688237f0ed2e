#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small HDF5 files with the structure of public scientific data sets, to try models on them.

  scripts/make_science_data.py cosmoflow --out data/cosmoflow --samples 64 --size 32

What is in train/ and validation/ below --out, with size S:
  cosmoflow  a file per sample: x int16 (S, S, S, 4), counts of particles at four times; y float32 (4), the parameters
             of the universe from -1 to 1: density, amplitude, slope of the spectrum, rate of growth
  deepcam    a file per sample: climate/data float32 (S, 3 S / 2, 16), climate/labels_0 (S, 3 S / 2), 0 background,
             1 cyclones, 2 atmospheric rivers; and stats.h5 with climate/minval, climate/maxval (16)
  unet3d     a file per sample of S to 7 S / 4 voxels along each axis, for patches of S^3: x float32 (D, H, W, 1), y uint8
             (D, H, W), 0 background, 1 organs, 2 tumours; unet3d_cut: all are S^3
  the_well   a file per trajectory of a stirred 2-D flow: t0_fields/tracer float32 (1, T, S, S), t1_fields/velocity
             (1, T, S, S, 2), dimensions, boundary_conditions, scalars and their attributes

The numbers are synthetic but can be learned, and depend on seed, part and place alone: more samples are a longer list
of the same. Needs h5py and numpy (exits with 77 without).
"""
import argparse
import functools
import pathlib
import sys

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"make_science_data.py: {error}; install with: pip install h5py numpy", file=sys.stderr)
    sys.exit(77)

CHANNELS_OF_CLIMATE = 16
STEPS_OF_FLOW = 48


def frequencies(shape):
    """The magnitude of each wave vector of a real transform, in cycles per box."""
    axes = [np.fft.fftfreq(n) * n for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1]) * shape[-1]]
    return np.sqrt(sum(axis ** 2 for axis in np.meshgrid(*axes, indexing="ij")))


def random_field(rng, shape, slope, shortest=0.0):
    """A Gaussian random field of variance 1 whose power falls like k^slope, without waves shorter than `shortest`."""
    k = frequencies(shape)
    power = np.where(k > 0, np.maximum(k, 1) ** slope, 0) * np.exp(-(k * shortest) ** 2)
    field = np.fft.irfftn(np.fft.rfftn(rng.standard_normal(shape)) * np.sqrt(power), s=shape, axes=range(len(shape)))
    return field / field.std()


def cosmoflow(rng, path, size):
    """Particles are drawn from a log-normal density that grows with time."""
    parameters = rng.uniform(-1, 1, 4)
    density, amplitude, slope, growth = parameters
    field = random_field(rng, (size,) * 3, -2 + 0.8 * slope, 0.5 / size)
    particles = np.empty((size, size, size, 4), "i2")
    for time in range(4):
        spread = (0.9 + 0.4 * amplitude) * (0.75 + 0.15 * growth) ** (3 - time)
        mean = 3 * 2 ** density * np.exp(spread * field - spread ** 2 / 2)
        particles[..., time] = np.minimum(rng.poisson(mean), 32767)
    with h5py.File(path, "w") as file:
        file["x"] = particles
        file["y"] = parameters.astype("f4")


def distances(shape, centre):
    """Rows and columns from a point of a map that is a ring in its columns, like longitudes."""
    rows, columns = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    across = (columns - centre[1] + shape[1] / 2) % shape[1] - shape[1] / 2
    return rows - centre[0], across


def deepcam(rng, path, size):
    """Water vapour, winds and pressure at sea level show cyclones and rivers; the other channels are noise."""
    shape = (size, size * 3 // 2)
    data = np.stack([random_field(rng, shape, -3) for _ in range(CHANNELS_OF_CLIMATE)], axis=-1)
    labels = np.zeros(shape, "i8")
    for _ in range(1 + rng.poisson(1)):
        rows, columns = distances(shape, rng.uniform((0, 0), shape))
        angle, length, width = rng.uniform(-0.6, 0.6), size / 3, size / 24
        along = rows * np.sin(angle) + columns * np.cos(angle)
        across = rows * np.cos(angle) - columns * np.sin(angle)
        band = np.exp(-(along / length) ** 4 - (across / width) ** 2)
        data[..., 0] += 4 * band
        data[..., 1] += 3 * band * np.cos(angle)
        data[..., 2] += 3 * band * np.sin(angle)
        labels[band > 0.5] = 2
    for _ in range(1 + rng.poisson(2)):
        rows, columns = distances(shape, rng.uniform((0, 0), shape))
        radius = rng.uniform(size / 32, size / 16) + 1
        bell = np.exp(-(rows ** 2 + columns ** 2) / radius ** 2)
        data[..., 0] += 2 * bell
        data[..., 1] -= 5 * bell * rows / radius
        data[..., 2] += 5 * bell * columns / radius
        data[..., 3] -= 5 * bell
        labels[bell > 0.4] = 1
    scales = 10.0 ** np.linspace(-2, 5, CHANNELS_OF_CLIMATE)
    with h5py.File(path, "w") as file:
        file["climate/data"] = ((data + 3) * scales).astype("f4")
        file["climate/labels_0"] = labels


def deepcam_statistics(folder, files):
    """The least and largest number of each channel of the training data."""
    least, most = np.full(CHANNELS_OF_CLIMATE, np.inf, "f4"), np.full(CHANNELS_OF_CLIMATE, -np.inf, "f4")
    for path in files:
        with h5py.File(path) as file:
            data = file["climate/data"][...]
        least, most = np.minimum(least, data.min((0, 1))), np.maximum(most, data.max((0, 1)))
    with h5py.File(folder / "stats.h5", "w") as file:
        file["climate/minval"], file["climate/maxval"] = least, most


def unet3d(rng, path, size, cut=False):
    """Two organs, one of them with a tumour, in noise, as in a scan whose values are scaled."""
    extents = rng.integers(size, size + 1 if cut else 7 * size // 4 + 1, 3)
    places = np.stack(np.meshgrid(*[np.linspace(-1, 1, extent) for extent in extents], indexing="ij"))
    labels = np.zeros(extents, "u1")
    for side in (-1, 1):
        centre = np.array((rng.uniform(-0.3, 0.3), rng.uniform(-0.2, 0.2), side * rng.uniform(0.35, 0.5)))
        radii = np.array((rng.uniform(0.4, 0.6), rng.uniform(0.25, 0.35), rng.uniform(0.2, 0.3)))
        inside = (((places - centre[:, None, None, None]) / radii[:, None, None, None]) ** 2).sum(0) < 1
        labels[inside] = 1
        if side > 0 or rng.uniform() < 0.3:
            tumour = centre + rng.uniform(-0.5, 0.5, 3) * radii
            near = ((places - tumour[:, None, None, None]) ** 2).sum(0) < rng.uniform(0.12, 0.25) ** 2
            labels[near & inside] = 2
    scan = np.array((-0.5, 0.8, 0.2))[labels] + 0.2 * random_field(rng, labels.shape, -2)
    scan += 0.15 * rng.standard_normal(labels.shape)
    with h5py.File(path, "w") as file:
        chunk = (max(size // 4, 1),) * 3  # a patch reads only what it touches
        file.create_dataset("x", data=scan[..., None].astype("f4"), chunks=(*chunk, 1))
        file.create_dataset("y", data=labels, chunks=chunk)


def velocity_of(vorticity, waves):
    """The transforms of the velocity's parts, from the stream function."""
    (across, along), square = waves
    stream = vorticity / np.where(square > 0, square, 1)
    return 1j * along * stream, -1j * across * stream


def change(state, waves, viscosity, force, kept):
    """d/dt of vorticity and tracer: carried by the flow, smoothed, and for vorticity stirred."""
    (across, along), square = waves
    size = state[0].shape[0]
    velocity = [np.fft.irfft2(part, (size, size)) for part in velocity_of(state[0], waves)]
    slopes = [[np.fft.irfft2(1j * axis * part, (size, size)) for axis in (across, along)] for part in state]
    carried = [np.fft.rfft2(velocity[0] * slope[0] + velocity[1] * slope[1]) * kept for slope in slopes]
    return np.stack([force - carried[0], -carried[1]]) - viscosity * square * state


def the_well(rng, path, size):
    """Pseudo-spectral, with the waves above two thirds of the largest left out; Heun's steps; a square of side 2 pi."""
    waves = np.meshgrid(np.fft.fftfreq(size) * size, np.fft.rfftfreq(size) * size, indexing="ij")
    kept = np.maximum(np.abs(waves[0]), np.abs(waves[1])) < size / 3
    waves = (waves, waves[0] ** 2 + waves[1] ** 2)
    viscosity, step = rng.uniform(2e-3, 1e-2), 0.2 / size
    place = 2 * np.pi * np.arange(size) / size
    force = np.fft.rfft2(np.cos(4 * place)[:, None] * np.ones(size))
    state = np.stack([np.fft.rfft2(3 * random_field(rng, (size, size), -3)), np.fft.rfft2(random_field(rng, (size, size), -3))])
    tracer = np.empty((1, STEPS_OF_FLOW, size, size), "f4")
    velocity = np.empty((1, STEPS_OF_FLOW, size, size, 2), "f4")
    every = max(1, round(0.2 / step))
    for at in range(STEPS_OF_FLOW):
        tracer[0, at] = np.fft.irfft2(state[1], (size, size))
        for axis, part in enumerate(velocity_of(state[0], waves)):
            velocity[0, at, ..., axis] = np.fft.irfft2(part, (size, size))
        for _ in range(every):
            first = change(state, waves, viscosity, force, kept)
            second = change(state + step * first, waves, viscosity, force, kept)
            state = state + step / 2 * (first + second)
    with h5py.File(path, "w") as file:
        write_flow(file, place, every * step * np.arange(STEPS_OF_FLOW), viscosity, {"tracer": tracer}, {"velocity": velocity})


def write_flow(file, place, times, viscosity, scalars, vectors):
    size = len(place)
    file.attrs.update({"dataset_name": "stirred_flow", "grid_type": "cartesian", "n_spatial_dims": 2, "n_trajectories": 1,
                       "simulation_parameters": ["viscosity"], "viscosity": viscosity})
    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = ["x", "y"]
    for name, values in (("time", times), ("x", place), ("y", place)):
        dimensions[name] = values.astype("f4")
        dimensions[name].attrs.update({"sample_varying": False} | ({} if name == "time" else {"time_varying": False}))
    for name in ("x", "y"):
        boundary = file.create_group(f"boundary_conditions/{name}_periodic")
        boundary.attrs.update({"associated_dims": [name], "associated_fields": h5py.Empty("S1"), "bc_type": "PERIODIC",
                               "sample_varying": False, "time_varying": False})
        mask = np.zeros(size, bool)
        mask[[0, -1]] = True
        boundary["mask"], boundary["values"] = mask, np.zeros(2, "f4")
    for name, fields in (("scalars", {"viscosity": np.float32(viscosity)}), ("t0_fields", scalars), ("t1_fields", vectors), ("t2_fields", {})):
        group = file.create_group(name)
        group.attrs["field_names"] = list(fields) or h5py.Empty("S1")
        for field, values in fields.items():
            group[field] = values
            several = name != "scalars"
            group[field].attrs.update({"sample_varying": several, "time_varying": several} | ({"dim_varying": [True, True]} if several else {}))


def persistence(files):
    """VRMSE of predicting each step by the one before it, of the steps that a window of four has behind it."""
    errors = []
    for path in files:
        with h5py.File(path) as file:
            fields = np.concatenate([file["t0_fields/tracer"][0][..., None], file["t1_fields/velocity"][0]], axis=-1).astype("f8")
        squares = ((fields[4:] - fields[3:-1]) ** 2).mean((1, 2))
        errors.append(np.sqrt(squares / (fields[4:].var((1, 2), ddof=1) + 1e-7)).mean())
    return np.mean(errors)


KINDS = {"cosmoflow": cosmoflow, "deepcam": deepcam, "unet3d": unet3d,
         "unet3d_cut": functools.partial(unet3d, cut=True), "the_well": the_well}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the directory, which must not hold such data yet")
    parser.add_argument("--samples", type=int, default=64, help="files to train on (default: 64)")
    parser.add_argument("--validation", type=int, help="files to evaluate on (default: a quarter of --samples)")
    parser.add_argument("--size", type=int, default=32, help="S (default: 32)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    given = parser.parse_args()
    if given.samples < 1 or given.size < 8 or given.seed < 0:
        parser.error("--samples must be 1 or more, --size 8 or more and --seed not negative")
    counts = {"train": given.samples, "validation": max(1, given.samples // 4) if given.validation is None else given.validation}
    for number, (part, count) in enumerate(counts.items()):
        folder = given.out / part
        if folder.exists():
            sys.exit(f"make_science_data.py: {folder}: exists; remove it, or name another directory by --out")
        folder.mkdir(parents=True)
        files = [folder / f"data-{i:05}.h5" for i in range(count)]
        for i, path in enumerate(files):
            KINDS[given.kind](np.random.default_rng((given.seed, number, i)), path, given.size)
        if given.kind == "deepcam" and part == "train":
            deepcam_statistics(given.out, files)
        print(f"{folder}: {count} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
        if given.kind == "the_well" and count > 0:
            print(f"{folder}: predicting each step by the one before has a VRMSE of {persistence(files):.4f}")


if __name__ == "__main__":
    main()
