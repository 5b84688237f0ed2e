#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of `trireme bench data` for images in place: Pillow with torchvision's RandomResizedCrop, in one thread and
in PyTorch's DataLoader.

Images come from archives (*.tar, directories of them, patterns), whose members are located once and read by pread, or
from a directory of class folders. Prints lines "rate NAME WORKERS SAMPLES_PER_SECOND". Example:
scripts/peers/bench_torchvision.py --side 224 --workers 2 imagenet/train
"""
import glob
import io
import os
import sys
import tarfile

import peer_rates

try:
    from PIL import Image
    from torchvision import transforms
except ImportError as error:
    sys.exit(f"torchvision: not measured: {error}; install with: pip install torch torchvision pillow")

ENDINGS = (".jpg", ".jpeg", ".png")


def places_of(names):
    """(path, offset, bytes) of every image."""
    places = []
    for name in names:
        paths = sorted(glob.glob(name)) or [name]
        if os.path.isdir(name):
            paths = sorted(os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files)
        for path in paths:
            if path.endswith(".tar"):
                with tarfile.open(path) as archive:
                    places += [(path, member.offset_data, member.size) for member in archive if member.name.lower().endswith(ENDINGS)]
            elif path.lower().endswith(ENDINGS):
                places.append((path, 0, os.path.getsize(path)))
    return places


class Images:
    """A map-style data set of uint8 tensors (3, H, W)."""

    def __init__(self, places, side):
        self.places, self.files = places, {}
        self.transform = transforms.Compose([transforms.RandomResizedCrop(side), transforms.PILToTensor()])

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        path, offset, size = self.places[index]
        if path.endswith(".tar"):
            if path not in self.files:
                self.files[path] = os.open(path, os.O_RDONLY)
            content = os.pread(self.files[path], size, offset)
        else:
            with open(path, "rb") as file:
                content = file.read()
        return self.transform(Image.open(io.BytesIO(content)).convert("RGB"))


def main():
    parser = peer_rates.arguments_of(__doc__, "images")
    parser.add_argument("--side", type=int, default=224)
    arguments = parser.parse_args()
    images = Images(places_of(arguments.images), arguments.side)
    if len(images) == 0:
        sys.exit(f"torchvision: not measured: {arguments.images}: no images")

    peer_rates.rate_alone(images, 0.1)
    peer_rates.show("Pillow,_torchvision", 1, [peer_rates.rate_alone(images, arguments.seconds) for _ in range(arguments.rounds)])
    peer_rates.show("PyTorch_DataLoader,_torchvision", arguments.workers,
                    peer_rates.loader_rates(images, arguments.workers, arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    main()
