# SPDX-License-Identifier: Apache-2.0
"""The GPU as nvidia-smi shows it: name, driver, memory in use; and the peaks for MFU."""
import os
import re
import shutil
import subprocess
import tempfile

# Dense bf16 TFLOP/s with fp32 accumulation as published, by the first pattern that the name matches.
BF16_PEAKS = [(r"GH200|H200|H100.*(HBM3|SXM)|H100 SXM", 989), (r"H100.*PCIe", 756), (r"H100 NVL", 835), (r"H20\b", 148),
              (r"B200|GB200", 2250), (r"A100|A800", 312), (r"L40S", 362), (r"L4\b", 121), (r"A10G?\b", 125), (r"A40", 150),
              (r"4090", 165), (r"5090", 210), (r"3090", 71)]


def peak_tflops(name, precision):
    """None if the GPU is not in the table; tf32 is half of bf16, and fp32 uses other units."""
    if precision not in ("bf16", "fp16", "tf32"):
        return None
    for pattern, peak in BF16_PEAKS:
        if re.search(pattern, name):
            return peak / 2 if precision == "tf32" else peak
    return None


def selected():
    """The GPU that a single process computes on, by nvidia-smi's name."""
    return (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]


def query(*fields):
    """Values of `nvidia-smi --query-gpu`, or None without driver or GPU."""
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "-i", selected(), "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return None
    values = [value.strip() for value in (done.stdout.splitlines() or [""])[0].split(",")]
    return values if done.returncode == 0 and len(values) == len(fields) else None


class MemoryWatch:
    """Peak memory on the GPU within a `with`, in MiB above the use before it; None without nvidia-smi."""

    def __enter__(self):
        self.mib, self.before = None, self._number(query("memory.used"))
        if self.before is not None:
            self.log = tempfile.TemporaryFile("w+")
            self.watcher = subprocess.Popen(["nvidia-smi", "-i", selected(), "--query-gpu=memory.used",
                                             "--format=csv,noheader,nounits", "-lms", "250"], stdout=self.log,
                                            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self.before is None:
            return
        self.watcher.terminate()
        self.watcher.wait()
        self.log.seek(0)
        seen = [self._number([line]) for line in self.log]
        self.log.close()
        self.mib = max([self.before, *(used for used in seen if used is not None)]) - self.before

    @staticmethod
    def _number(values):
        try:
            return float(values[0])
        except (TypeError, ValueError):
            return None
