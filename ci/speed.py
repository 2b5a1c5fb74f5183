#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many cases a second are checked, at small shapes: by the kernels of the
default program, and of functions of Python. Writes ci/records/speed.json, from
which ci/figures.py writes pages.

Usage: ci/speed.py QKVET [CASES]

QKVET is the program; CASES (20,000) are planned for each run. Seconds are those of
CPU, of all processes of a run: a busy machine changes them less than those of a
clock, and yet it does, so that the record has the load.
"""
import importlib.util
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import records

FUNCTIONS = {
    "NumPy": ("numpy", """
import numpy as np

def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
""", ""),
    "PyTorch": ("torch", """
import torch

def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
""", ':{"arrays": "torch"}'),
}


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program, folder, cases, words):
    """Checked cases, seconds of CPU, and the lines of a run that conforms."""
    record = pathlib.Path(folder) / "run.jsonl"
    before = cpu_of_children()
    ran = subprocess.run(
        [program, "check", "--sizes", "small", "--jobs", "1", "--cases", str(cases),
         "--json", str(record), *words], capture_output=True, text=True,
        env={**os.environ, "QKVET_PYTHON": sys.executable,
             "QKVET_HOME": str(pathlib.Path(program).resolve().parents[1]),
             "PYTHONPATH":
             os.pathsep.join([str(records.ROOT / "python"),
                              os.environ.get("PYTHONPATH", "")])})
    seconds = cpu_of_children() - before
    if ran.returncode not in (0, 3):  # 3: of so few cases some law is not asked
        sys.exit(f"speed.py: {' '.join(words)}: exit code {ran.returncode}\n"
                 f"{ran.stderr or ran.stdout}")
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    checked = sum(line["checked"] for line in lines if line["type"] == "result")
    return checked, seconds, lines


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    program = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) == 3 else 20000
    values = {"machine": records.load(), "python": {}}
    with tempfile.TemporaryDirectory() as folder:
        checked, seconds, lines = run(program, folder, cases, [])
        spent = lines[-1]["thread_seconds"]
        values["suite"] = {
            "kernels": len({line["kernel"] for line in lines
                            if line["type"] == "result"}),
            "checked": checked, "per_second": round(checked / seconds),
            "shares": {name: round(one / sum(spent.values()), 3)
                       for name, one in spent.items()}}
        for name, (package, source, words) in FUNCTIONS.items():
            if importlib.util.find_spec(package) is None:
                continue
            path = pathlib.Path(folder) / f"of_{package}.py"
            path.write_text(source)
            checked, seconds, _ = run(
                program, folder, cases, [f"{path}:attention{words}",
                                         "--law", "agrees_with_oracle"])
            values["python"][name] = {"checked": checked,
                                      "per_second": round(checked / seconds)}
    records.write("speed", f"ci/speed.py QKVET {cases}", 1, values)
    print(json.dumps(values, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
