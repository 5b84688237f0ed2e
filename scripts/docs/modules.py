# SPDX-License-Identifier: Apache-2.0
"""Checks that modules' READMEs agree with the tree and the links of the build."""
import os
import pathlib
import re

from .markdown import inline_code, links

# Paths outside the tree: written by runs, programs or the build, or foreign.
NOT_OURS = re.compile(
    r"^(config(\.user)?|here|a|site|published|hostfile)\.(yaml|sh)$|^(CMakeCache|requirements)\.txt$|^(site|env)\.sh$"
    r"|^(nlohmann/json|yaml-cpp/yaml|hdf5|mpi|nccl|dnnl|cuda_runtime|cuda_fp8|cudnn_frontend|cub/.*|immintrin|opencl)\.(h|hpp)$")


def read_modules(path):
    """Parses modules.txt into {folder: folders whose headers the module may include}, as CheckModules.cmake has it."""
    with open(path, encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("|") for line in stream if line.strip()]
    folder = {name: place for name, place, *_ in rows}
    depends = {row[0]: re.findall(r"trireme::(\w+)", row[2]) for row in rows}
    private = {row[0]: re.findall(r"trireme::(\w+)", row[3]) for row in rows}
    visible = {}
    for name in folder:
        seen, todo = set(), depends[name] + private[name]
        while todo:
            here = todo.pop()
            if here in folder and here not in seen:
                seen.add(here)
                todo += depends[here]
        visible.setdefault(folder[name], set()).update(folder[other] for other in seen)
    return {module: others - {module} for module, others in visible.items()}


def room_faults(repository, modules):
    """Compares the sentence 'Must not depend on ...' with the links: the named modules, or for 'anything but' all
    others."""
    for module, below in sorted(modules.items()):
        text = pathlib.Path(repository, module, "README.md").read_text()
        said = re.search(r"[Mm]ust not depend on\**:?\s+(.*?)(?=[.;](\s|$))", text, re.DOTALL)
        if not said:
            if not any(module in others for others in modules.values()):
                continue  # on top of all
            yield f"{module}/README.md: does not say what this module must not depend on"
            continue
        words = set(re.findall(r"[a-z0-9_]+", said[1].lower()))
        named = {other for other in modules if os.path.basename(other) in words and other != module}
        breach = below - named if "anything but" in said[1] else below & named
        if re.match(r"any other module", said[1]):
            breach = below
        for other in sorted(breach):
            yield f"{module}/README.md: says that the module must not depend on {other}, and its CMakeLists.txt links it"


def file_faults(repository, file, tree):
    """Files that a document names and the tree lacks; tree: all paths. A name may lack leading folders."""
    folder = os.path.dirname(file)
    suffixes = tree_suffixes(tree)
    for number, code in inline_code(repository, file):
        for word in re.findall(r"[\w./-]+\.(?:h|cuh|cpp|cu|sh|py|sbatch|cmake|yaml)\b", code):
            name = word.lstrip("./")
            if NOT_OURS.match(name) or name.startswith(("X_", "RUN/")) or "NAME" in name or re.search(r"[*<>{]|step_", code) or word.startswith(("~", "/")):
                continue
            if name not in suffixes and os.path.normpath(os.path.join(folder, word)) not in tree:
                yield f"{file}:{number}: there is no file {word}"
    for number, target in links(repository, file):
        path = target.split("#")[0]
        if path and "://" not in path and not path.startswith("mailto:"):
            if not os.path.exists(os.path.join(repository, folder, path)):
                yield f"{file}:{number}: the link {target} leads nowhere"


def tree_suffixes(tree):
    names = set()
    for path in tree:
        parts = path.split("/")
        names.update("/".join(parts[index:]) for index in range(len(parts)))
    return names
