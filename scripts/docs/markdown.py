# SPDX-License-Identifier: Apache-2.0
"""The commands of Markdown files: fenced blocks with their language, inline code, links."""
import os
import re
import subprocess
from dataclasses import dataclass


@dataclass
class Block:
    file: str
    line: int  # of the first line inside
    info: list  # words behind the fence: ["sh", "cluster"]
    text: str

    @property
    def place(self):
        return f"{self.file}:{self.line}"


def markdown_files(repository):
    """Every Markdown file of the repository."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=repository,
                           capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in names if os.path.exists(os.path.join(repository, name)))


def read_blocks(repository, file):
    blocks, inside, info, start = [], None, [], 0
    with open(os.path.join(repository, file), encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            fence = re.match(r"\s*```(.*)", line)
            if not fence:
                if inside is not None:
                    inside.append(line)
            elif inside is None:
                inside, info, start = [], fence[1].split(), number + 1
            else:
                blocks.append(Block(file, start, info, "".join(inside)))
                inside = None
    return blocks


def outside_of_blocks(repository, file, pattern):
    """(line, match) of a pattern outside of fenced blocks."""
    inside = False
    with open(os.path.join(repository, file), encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if re.match(r"\s*```", line):
                inside = not inside
            elif not inside:
                yield from ((number, found) for found in re.findall(pattern, line))


def inline_code(repository, file):
    return outside_of_blocks(repository, file, r"`([^`]+)`")


def links(repository, file):
    return outside_of_blocks(repository, file, r"\]\(([^)\s]+)\)")
