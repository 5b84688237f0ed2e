# SPDX-License-Identifier: Apache-2.0
"""Checks that the commands in documents exist: programs, subcommands, options, config keys, files, presets, labels."""
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess

# Placeholders: CONFIG, RUN, 'configs/*.yaml', ..., [--tensors].
PLACEHOLDER = re.compile(r"^[A-Z_]+(/|$)|[*<>]|\.\.\.")
SEPARATORS = {"&&", "||", ";", "|", "&", "then", "do"}


class Checker:
    def __init__(self, repository, binary):
        self.repository, self.binary = repository, binary
        self.keys = {line.split()[0] for line in self._help("train", "--list-keys").splitlines() if line[:1].isalpha()}
        presets = json.loads(pathlib.Path(repository, "CMakePresets.json").read_text())["configurePresets"]
        self.presets = {preset["name"] for preset in presets}

    @functools.lru_cache(maxsize=None)
    def _help(self, *arguments):
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        return done.stdout + done.stderr

    @functools.lru_cache(maxsize=None)
    def _script(self, path):
        return pathlib.Path(self.repository, path).read_text()

    def faults(self, text):
        """Faults of a shell text as sentences; empty if everything exists."""
        syntax = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        if syntax.returncode != 0:
            yield syntax.stderr.strip()
            return
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            command = []
            for word in [*words, ";"]:
                ends = word in SEPARATORS or word.endswith(";")
                if word not in SEPARATORS:
                    command.append(word.strip("[]()$;"))
                if ends:
                    yield from self.command_faults(command)
                    command = []

    def command_faults(self, words):
        """Faults of one command: launchers precede scripts, scripts precede programs, each with its options."""
        at = 0
        while at < len(words):
            word = words[at]
            rest = words[at + 1:]
            if at > 0 and re.match(r"--\w", words[at - 1]) and os.path.basename(word) == "trireme":
                pass  # what an option of a script is given
            elif os.path.basename(word) == "trireme" and not word.endswith("/") and not PLACEHOLDER.search(word):
                yield from self.program_faults(rest)
                return
            elif re.match(r"(\./)?(scripts|launch|tests)/\S+\.(sh|py|sbatch)$", word):
                yield from self.script_faults(word, rest)
            elif word in ("cmake", "ctest"):
                yield from self.cmake_faults(rest)
            elif re.match(r"(configs|scripts|launch|tests|runtime|models|data/pack)/\S*\.\w+$", word):
                if not PLACEHOLDER.search(word) and not os.path.exists(os.path.join(self.repository, word)):
                    yield f"there is no file {word}"
            at += 1

    def program_faults(self, words):
        subcommand = []
        while words and re.match(r"[a-z][a-z-]*$", words[0]) and \
                re.search(rf"^  {re.escape(words[0])}  ", self._help(*subcommand, "--help"), re.MULTILINE):
            subcommand.append(words.pop(0))
        text = self._help(*subcommand, "--help")
        name = " ".join(["trireme", *subcommand])
        if words and "\nSubcommands:" in text and "\nPositionals:" not in text and re.match(r"[a-z]", words[0]):
            yield f"{name} has no subcommand {words[0]}"
            return
        for index, word in enumerate(words):
            option = word.split("=")[0]
            if word.startswith("-") and not re.search(rf"(^|[\s,]){re.escape(option)}(?![\w-])", text, re.MULTILINE):
                yield f"{name} has no option {option}"
            before = words[index - 1] if index else ""
            if before == "--set" and not PLACEHOLDER.search(word.split("=")[0]):
                if word.split("=")[0] not in self.keys and not word.split("=")[0].endswith("*"):
                    yield f"--set {word}: there is no key {word.split('=')[0]}"
            elif re.match(r"configs/\S+$", word) and not PLACEHOLDER.search(word):
                if not os.path.exists(os.path.join(self.repository, word)):
                    yield f"there is no file {word}"

    def script_faults(self, script, words):
        if not os.path.exists(os.path.join(self.repository, script)):
            yield f"there is no script {script}"
            return
        text = self._help("supervise", "--help") if script.endswith("supervise.sh") else self._script(script)
        for index, word in enumerate(words):
            # The rest belongs to another program: mpirun's options, train's arguments.
            if word == "--" or os.path.basename(word) == "trireme" or script.endswith(("mpi_run.sh", "tcp_run.sh", "mpi_env.sh")):
                break
            if script.endswith("train.sbatch"):
                if words[index - 1] == "--set" and word.split("=")[0] not in self.keys:
                    yield f"--set {word}: there is no key {word.split('=')[0]}"
                continue
            if word.startswith("--") and not re.search(rf"{re.escape(word.split('=')[0])}(?![\w-])", text):
                yield f"{script} has no option {word}"

    def cmake_faults(self, words):
        for before, word in zip(words, words[1:]):
            if before == "--preset" and word not in self.presets:
                yield f"there is no preset {word}"
            elif before == "-L" and not re.search(rf"LABELS[^)]*\b{re.escape(word)}\b", self._test_lists()):
                yield f"no test has the label {word}"

    @functools.lru_cache(maxsize=None)
    def _test_lists(self):
        text = self._script("scripts/cmake/TriremeTests.cmake")
        for directory, _, files in os.walk(os.path.join(self.repository, "tests")):
            if "CMakeLists.txt" in files:
                text += self._script(os.path.relpath(os.path.join(directory, "CMakeLists.txt"), self.repository))
        return text
