#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every Markdown file against the program and the tree.

    python3 scripts/check_docs.py --trireme build/cpu/trireme --modules build/cpu/modules.txt     everything they name exists
    python3 scripts/check_docs.py --trireme build/cpu/trireme --run                           their commands run
    python3 scripts/check_docs.py --trireme build/cpu/trireme FILE...                         these documents only

A fenced block of commands has `sh` as its info string. `sh` alone is run, in a directory that looks like the
repository, with shortened training. A word after `sh` is the reason why a block is not run: cluster, gpu, network, slow
or python (packages). Those, and commands in the text, are only checked: syntax, programs and scripts, subcommands,
options, config keys, files, presets, test labels. Every other block names another language (text, cpp, yaml). Without
--run it also checks links, named files, the forbidden dependencies of modules (against the build's modules.txt), and sizes.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from docs.commands import Checker
from docs.markdown import inline_code, markdown_files, read_blocks
from docs.modules import file_faults, read_modules, room_faults

REASONS = {"cluster", "gpu", "network", "slow", "python"}
LANGUAGES = {"text", "cpp", "yaml"}
REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README_LINES, LONG_READMES, ALL_BYTES = 100, {"data/README.md": 120, "launch/README.md": 120}, 260 * 1000
GENERATED = re.compile(r"<!-- (\S+):begin -->.*?<!-- \1:end -->", re.DOTALL)

# A model with thousands of parameters and a few steps replaces any training.
SHORT_RUN = ("model.layers=2 model.hidden=32 model.heads=4 model.context=32 train.steps=6 train.log_every=2 train.eval_every=3 "
             "train.global_batch=8 train.micro_batch=2 checkpoint.every_steps=3 lr_schedule.warmup_steps=1").split()


def block_faults(block, checker):
    if block.info and block.info[0] == "sh":
        for reason in block.info[1:]:
            if reason not in REASONS:
                yield f"{block.place}: '{reason}' is no reason why commands are not run: {', '.join(sorted(REASONS))}"
        for fault in checker.faults(block.text):
            yield f"{block.place}: {fault}"
    elif not block.info or block.info[0] not in LANGUAGES:
        yield f"{block.place}: the fence says no language: sh [{'|'.join(sorted(REASONS))}], {', '.join(sorted(LANGUAGES))}"


def size_faults(documents):
    """READMEs that are too long, without generated tables; and the total size of all documents."""
    total = 0
    for file in documents:
        text = pathlib.Path(REPOSITORY, file).read_text()
        total += len(text.encode())
        lines, most = GENERATED.sub("", text).count("\n"), LONG_READMES.get(file, README_LINES)
        if os.path.basename(file) == "README.md" and lines > most:
            yield f"{file}: {lines} lines, at most {most}: formats belong into FORMAT.md, figures into scripts/measurements"
    if total > ALL_BYTES:
        yield f"all documents: {total} bytes, at most {ALL_BYTES}"


def check(arguments):
    checker = Checker(REPOSITORY, os.path.abspath(arguments.trireme))
    tree = set(subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY,
                              capture_output=True, text=True, check=True).stdout.split())
    faults, commands = [], 0
    documents = [os.path.abspath(file) for file in arguments.files] or markdown_files(REPOSITORY)
    for file in documents:
        for block in read_blocks(REPOSITORY, file):
            commands += block.info[:1] == ["sh"]
            faults += block_faults(block, checker)
        for number, code in inline_code(REPOSITORY, file):
            if re.match(r"(trireme|mpirun|sbatch|source|python3|(\./)?scripts/\S+|launch/\S+|build/\S+/trireme) \S", code) and "<" not in code:
                commands += 1
                faults += (f"{file}:{number}: `{code}`: {fault}" for fault in checker.faults(code.replace("...", "")))
        faults += file_faults(REPOSITORY, file, tree)
    if arguments.modules:
        faults += room_faults(REPOSITORY, read_modules(arguments.modules))
    faults += size_faults(documents)
    for fault in faults:
        print(fault)
    print(f"{commands} blocks and commands in {len(documents)} documents, {len(faults)} faults")
    if commands == 0:
        sys.exit("no command was found")
    return 1 if faults else 0


def make_place(directory, trireme):
    """A directory that looks like the repository after the quickstart, with a program that shortens training."""
    shutil.copytree(os.path.join(REPOSITORY, "configs"), os.path.join(directory, "configs"))
    for name in ("launch", "scripts", "tests"):
        os.symlink(os.path.join(REPOSITORY, name), os.path.join(directory, name))
    pathlib.Path(directory, "book.txt").write_text("".join(
        f"In the beginning line {n} was written, and it was the {n % 7}th of them.\n" for n in range(2000)))
    program = pathlib.Path(directory, "build/cpu/trireme")
    program.parent.mkdir(parents=True)
    flags = " ".join(f"--set {setting}" for setting in SHORT_RUN)
    program.write_text(f'#!/bin/bash\n[[ $1 != train ]] || set -- "$@" {flags}\nexec "{trireme}" "$@"\n')
    program.chmod(0o755)
    subprocess.run([trireme, "data", "pack-text", "--out", "quickstart/data/kjv", "--validation", "0.05", "book.txt"],
                   cwd=directory, check=True, capture_output=True)


def run(arguments):
    trireme = os.path.abspath(arguments.trireme)
    ran, failed = 0, 0
    for file in markdown_files(REPOSITORY):
        blocks = [block for block in read_blocks(REPOSITORY, file) if block.info == ["sh"]]
        if not blocks:
            continue
        with tempfile.TemporaryDirectory(prefix="trireme-docs.") as directory:
            make_place(directory, trireme)
            for block in blocks:
                ran += 1
                # As the README says for root and shared cores; it also sets PATH.
                text = "source launch/mpi_env.sh 4\n" + block.text
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=directory, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                print(f"{block.place}: {'ran' if done.returncode == 0 else f'ended with {done.returncode}'}")
                if done.returncode != 0:
                    failed += 1
                    print(done.stdout[-4000:])
    print(f"{ran} blocks ran, {failed} failed")
    if ran == 0:
        sys.exit("no block was found to run")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="documents to check (default: all)")
    parser.add_argument("--trireme", required=True, help="the program")
    parser.add_argument("--modules", help="modules.txt of the build")
    parser.add_argument("--run", action="store_true", help="run the commands of blocks marked sh alone")
    arguments = parser.parse_args()
    if not os.access(arguments.trireme, os.X_OK):
        parser.error(f"--trireme {arguments.trireme}: is no program")
    sys.exit(run(arguments) if arguments.run else check(arguments))


if __name__ == "__main__":
    main()
