#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs every kind of PNG and JPEG and compares all pixels with Pillow's.

    tests/checks/check_images.py [--trireme BINARY]

Creates an image of each kind, packs it with 3 and with 1 channels, reads it with h5py and compares with
Image.open(file).convert("RGB") and convert("L"). Only 16-bit grey is compared with the high byte, because Pillow clips
it to 255. Prints a line per kind; exit 1 if pixels differ; exit 77 if a package is missing. Takes seconds.
"""
import io
import pathlib
import struct
import sys
import tempfile
import zlib

from shared import packages, parser_of, run

with packages("h5py numpy pillow"):
    import h5py
    import numpy as np
    from PIL import Image, ImageCms

HEIGHT, WIDTH = 29, 37
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(pixels, depth):
    """Filter 0 and the samples of each row of (height, width, channels), packed to bytes."""
    rows = b""
    for row in pixels.reshape(pixels.shape[0], -1):
        if depth == 16:
            data = row.astype(">u2").tobytes()
        else:
            bits = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:]
            data = np.packbits(bits.reshape(-1)).tobytes()
        rows += b"\0" + data
    return rows


def png(pixels, depth, kind, extra=(), interlaced=False):
    """Writes a PNG; Pillow cannot write most kinds."""
    height, width = pixels.shape[:2]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
        data = b"".join(packed_rows(pixels[y::dy, x::dx], depth) for y, x, dy, dx in passes
                        if pixels[y::dy, x::dx].size)
    else:
        data = packed_rows(pixels, depth)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(k, d) for k, d in extra)
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def png_kinds(random):
    profile = zlib.compress(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    notes = {"gAMA 1.0": [(b"gAMA", struct.pack(">I", 100000))], "gAMA 0.45": [(b"gAMA", struct.pack(">I", 45455))],
             "sRGB": [(b"sRGB", b"\0")], "iCCP": [(b"iCCP", b"profile\0\0" + profile)],
             "cHRM": [(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000))],
             "eXIf": [(b"eXIf", orientation_exif(6)[6:])]}
    background = {GREY: b"\0\x40", GREY_ALPHA: b"\0\x40", RGB: b"\0\x40" * 3, RGBA: b"\0\x40" * 3, PALETTE: b"\1"}
    depths = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
    names = {GREY: "grey", RGB: "rgb", PALETTE: "palette", GREY_ALPHA: "grey+alpha", RGBA: "rgba"}
    for kind, all_depths in depths.items():
        for depth in all_depths:
            pixels = random.integers(0, 1 << depth, (HEIGHT, WIDTH, CHANNELS[kind]))
            must, transparent = [], []
            if kind == PALETTE:
                must = [(b"PLTE", random.integers(0, 256, 3 << depth, dtype=np.uint8).tobytes())]
                transparent = [(b"tRNS", bytes(range(0, min(1 << depth, 200))))]
            elif kind in (GREY, RGB):
                transparent = [(b"tRNS", pixels[0, 0].astype(">u2").tobytes())]
            name = f"png {names[kind]} {depth} bit"
            yield name, png(pixels, depth, kind, must), pixels
            yield f"{name} interlaced", png(pixels, depth, kind, must, interlaced=True), pixels
            if transparent:
                yield f"{name} tRNS", png(pixels, depth, kind, must + transparent), pixels
            yield f"{name} bKGD", png(pixels, depth, kind, must + [(b"bKGD", background[kind])]), pixels
            notes["sBIT"] = [(b"sBIT", bytes([min(depth, 5)] * (3 if kind == PALETTE else CHANNELS[kind])))]
            for note, chunks in notes.items():
                yield f"{name} {note}", png(pixels, depth, kind, chunks + must), pixels


def orientation_exif(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


def smooth(random, channels):
    """A smooth image, like a photograph, that covers all values of JPEG's colour conversion."""
    coarse = random.integers(0, 256, (6, 7, channels), dtype=np.uint8)
    planes = [np.asarray(Image.fromarray(coarse[:, :, c]).resize((WIDTH, HEIGHT), Image.BICUBIC)) for c in range(channels)]
    return np.stack(planes, axis=2)


def encoded(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def ycck(image):
    """Pillow writes CMYK untransformed; an Adobe marker with YCCK makes decoders transform it."""
    data = encoded(image, quality=90)
    at = data.index(b"Adobe")
    return data[:at + 11] + b"\2" + data[at + 12:]


def jpeg_kinds(random):
    rgb, grey = Image.fromarray(smooth(random, 3)), Image.fromarray(smooth(random, 1)[:, :, 0])
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for quality in (30, 75, 100):
        for sampling in (0, 1, 2):
            for progressive in (False, True):
                yield (f"jpeg rgb quality {quality} {('4:4:4', '4:2:2', '4:2:0')[sampling]}{' progressive' * progressive}",
                       encoded(rgb, quality=quality, subsampling=sampling, progressive=progressive))
        yield f"jpeg grey quality {quality}", encoded(grey, quality=quality)
    yield "jpeg optimised", encoded(rgb, quality=80, optimize=True)
    yield "jpeg restart markers", encoded(rgb, quality=80, restart_marker_blocks=2)
    yield "jpeg stored as RGB", encoded(rgb, quality=80, keep_rgb=True)
    yield "jpeg iCCP", encoded(rgb, quality=80, icc_profile=profile)
    for value in (3, 6, 8):
        yield f"jpeg EXIF orientation {value}", encoded(rgb, quality=80, exif=orientation_exif(value))
    for seed in range(3):
        cmyk = Image.fromarray(smooth(random, 4), "CMYK")
        yield f"jpeg CMYK {seed}", encoded(cmyk, quality=90)
        yield f"jpeg YCCK {seed}", ycck(cmyk)


def expected(data, pixels, mode):
    image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I"):  # 16-bit grey: Pillow clips
        high = (pixels[:, :, 0] >> 8).astype(np.uint8)
        return np.stack([high] * 3, axis=2) if mode == "RGB" else high[:, :, None]
    values = np.asarray(image.convert(mode))
    return values if values.ndim == 3 else values[:, :, None]


def main():
    trireme = parser_of(__doc__).parse_args().trireme
    random = np.random.default_rng(1)
    kinds = list(png_kinds(random)) + [(name, data, None) for name, data in jpeg_kinds(random)]
    differing = set()
    with tempfile.TemporaryDirectory() as directory:
        tree = pathlib.Path(directory, "tree")
        for index, (_, data, _) in enumerate(kinds):
            folder = tree / f"{index:04}"
            folder.mkdir(parents=True)
            (folder / "image").write_bytes(data)
        for channels, mode in ((3, "RGB"), (1, "L")):
            out = pathlib.Path(directory, mode)
            run([trireme, "data", "pack-images", "--no-shuffle", "--channels", channels, tree, "--out", out])
            with h5py.File(out / "shard_00000.h5") as shard:
                packed = shard["images"][:]
            for index, (name, data, pixels) in enumerate(kinds):
                difference = np.abs(packed[index].astype(int) - expected(data, pixels, mode).astype(int))
                if difference.any():
                    differing.add(name)
                    print(f"{name} as {mode}: {np.count_nonzero(difference)} of {difference.size} values differ, "
                          f"by up to {difference.max()}")
    print(f"{len(kinds) - len(differing)} of {len(kinds)} kinds of images are equal to Pillow {Image.__version__}'s")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
