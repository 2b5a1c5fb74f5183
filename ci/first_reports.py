#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lifetime of each fault: until its first report, alone, by the default plan.

Usage: ci/first_reports.py QKVET OUT.jsonl

QKVET is the program. A line of OUT is a fault: the number of the first case of the
plan that fails, the seconds of CPU until the whole report is printed, with the
smallest case and the cause, the seconds of a clock, and the number of faults.
Seconds of CPU, because a busy machine changes them less than those of a clock.
Faults that OUT already has are skipped, so that an interrupted run can continue.
The order mixes the faults: the lines of an interrupted run are a sample.
"""
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zlib


def names_of_faults(program: str) -> list:
    listed = subprocess.run([program, "explain", "faults", "--json"], check=True,
                            capture_output=True, text=True).stdout
    names = [json.loads(line)["name"] for line in listed.splitlines()]
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_report(program: str, fault: str, record: pathlib.Path) -> dict:
    """With one thread: two would also judge cases after the first that fails."""
    cpu, clock = cpu_of_children(), time.monotonic()
    ran = subprocess.run([program, "check", "--kernel", fault, "--fail-fast",
                          "--jobs", "1", "--json", str(record)],
                         capture_output=True, text=True)
    row = {"kernel": fault, "exit": ran.returncode,
           "cpu_seconds": round(cpu_of_children() - cpu, 3),
           "seconds": round(time.monotonic() - clock, 3)}
    if ran.returncode not in (0, 1, 4):
        sys.exit(f"{fault}: {ran.stderr or ran.stdout}")
    failures = [line["failure"]
                for line in map(json.loads, record.read_text().splitlines())
                if line["type"] == "result" and "failure" in line]
    if failures:
        row["case"] = min(one["number"] for one in failures)
    return row


def asked_before(out: pathlib.Path) -> set:
    """Kernels that have a line in OUT."""
    lines = out.read_text().splitlines() if out.exists() else []
    return {json.loads(line)["kernel"] for line in lines}


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    program, out = sys.argv[1], pathlib.Path(sys.argv[2])
    known = asked_before(out)
    with tempfile.TemporaryDirectory() as folder, open(out, "a") as lines:
        names = names_of_faults(program)
        for fault in names:
            if fault in known:
                continue
            row = first_report(program, fault,
                               pathlib.Path(folder) / "run.jsonl")
            row["faults"] = len(names)
            print(json.dumps(row), file=lines, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
