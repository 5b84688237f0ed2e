# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks: packages that may be missing, the program, small data. Not to be run."""
import argparse
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "scripts"
sys.path += [str(SCRIPTS), str(SCRIPTS / "peers")]
from workloads import read_steps, write_idx  # noqa: E402, F401


@contextlib.contextmanager
def packages(names):
    """Around the imports of these packages: a check without one of them ends with 77."""
    try:
        yield
    except ImportError as error:
        print(f"skipped: {error}; install with: pip install {names}")
        sys.exit(77)


def built(path):
    """An argument that names what a build makes."""
    path = pathlib.Path(path).absolute()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{path}: does not exist; build it, or give its path")
    return path


def parser_of(text, program="trireme"):
    """Options of a check, with --trireme for what it runs unless `program` is empty."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if program:
        add_built(parser, "--trireme", program)
    return parser


def add_built(parser, option, place):
    parser.add_argument(option, type=built, default=str(REPOSITORY / "build/cpu" / place), help=f"default: build/cpu/{place}")


def run(command, codes=(0,), variables=None, **options):
    """A finished command. An exit code other than `codes`, if there are any, ends the check."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | (variables or {}), **options)
    if codes and done.returncode not in codes:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Program:
    """Calls of a program, which return its standard output."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *command):
        return run([self.path, *command]).stdout


def sets(settings):
    return [word for setting in settings for word in ("--set", setting)]


def prepare(trireme, directory, config, text, *options):
    """gpt.yaml and a packed text below `directory`, in which a check then trains."""
    pathlib.Path(directory, "gpt.yaml").write_text(config)
    pathlib.Path(directory, "text.txt").write_text(text)
    run([trireme, "data", "pack-text", "--quiet", "--out", "text", *options, "text.txt"], cwd=directory)


def pack_tokens(trireme, place, tokens, *options):
    """Bytes as the data set place/data/train."""
    (place / "tokens.bin").write_bytes(tokens)
    trireme("data", "pack-text", place / "tokens.bin", "--out", place / "data", "--split", "train", *options)


def pack_images(trireme, place, pixels, side, labels, classes):
    """Square grey images, likewise."""
    write_idx(place / "images_idx", (len(labels), side, side), pixels)
    write_idx(place / "labels_idx", (len(labels),), labels)
    trireme("data", "pack-images", place / "images_idx", "--labels", place / "labels_idx", "--classes", classes, "--out",
            place / "data", "--split", "train")


def random_files(arguments, ending):
    """For --files and --seed: each file's number and path, and what draws its contents."""
    import numpy
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.files):
            seed = arguments.seed * 100_000 + number
            yield number, os.path.join(folder, f"{number}.{ending}"), random.Random(seed), numpy.random.default_rng(seed)


def same_bits(left, right):
    """Of two arrays."""
    return left.shape == right.shape and left.tobytes() == right.tobytes()
