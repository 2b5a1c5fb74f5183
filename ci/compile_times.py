#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time to build goes: by folder, by file, by header, by optimiser.

    ci/compile_times.py [TARGET]      builds it anew in build/times, measures
    ci/compile_times.py --write       the same, and puts the tables into ci/times.md

TARGET is by default qkvet_default_program, the target of ci/check.sh. Times are
seconds of CPU, which a busy machine changes less than those of a clock. The cost
of a header has two parts: the time for a file that only includes it, and the number
of compiler runs that read it. Files that get it precompiled, or are compiled
together, read it once. The last table compiles some files each by itself.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "times"
LOG = BUILD / "cpu_seconds.tsv"
PAGE = ROOT / "ci" / "times.md"
BEGIN, END = "<!-- compile times -->\n", "<!-- end of compile times -->"
LEVELS = ("-fsyntax-only", "-O0", "-O1", "-O2", "-O3")
# One of each kind: a law, the runner, a command with JSON, a kernel.
SAMPLES = ("properties/laws/attention/rows_stay_in_hull.cpp", "properties/run/runner.cpp",
           "cli/commands/check.cpp", "cli/reproduce/plan_text.cpp",
           "reference/bound/bound_scores.cpp", "impl/avx2/flash_kernel.cpp")


def as_launcher(command: list) -> int:
    """Runs a compiler and notes what it took; one line is one write."""
    status = subprocess.run(command).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = command[command.index("-o") + 1] if "-o" in command else ""
    with open(LOG, "a") as log:
        log.write(f"{used.ru_utime + used.ru_stime:.3f}\t"
                  f"{used.ru_maxrss // 1024}\t{output}\n")
    return status


def cpu_of(command: list, cwd=None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime
            - before.ru_utime - before.ru_stime)


def build(target: str) -> None:
    LOG.unlink(missing_ok=True)
    subprocess.run(["cmake", "--preset", "release", "-B", str(BUILD),
                    f"-DCMAKE_CXX_COMPILER_LAUNCHER={__file__};--launcher"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    LOG.unlink(missing_ok=True)  # what configuring tried
    subprocess.run(["cmake", "--build", str(BUILD), "--clean-first",
                    "--target", target], cwd=ROOT, check=True)


def source_of(output: str) -> str:
    """"core/CMakeFiles/qkvet_core.dir/case/case.cpp.o" as "core/case/case.cpp", and
    "core/CMakeFiles/qkvet_core.dir/Unity/unity_2_cxx.cxx.o" as "core/qkvet_core, part 2"."""
    together = re.fullmatch(r"(.*)CMakeFiles/([^/]*)\.dir/Unity/unity_(\d+)_cxx\.cxx\.o", output)
    if together:
        return f"{together[1]}{together[2]}, part {together[3]}"
    path = re.sub(r"CMakeFiles/[^/]*\.dir/", "", output)
    return re.sub(r"\.o$", "", path).replace("__/", "../")


def rows() -> list:
    """CPU seconds and source, of each object, the slowest first."""
    found = []
    for line in LOG.read_text().splitlines():
        seconds, _, output = line.split("\t")
        if output.endswith((".o", ".gch")):
            found.append((float(seconds), source_of(output)))
    return sorted(found, reverse=True)


def folder_of(source: str) -> str:
    parts = source.split("/")
    if source.endswith(".gch"):
        return "precompiled headers"
    return "/".join(parts[:2]) if parts[0] == "impl" and len(parts) > 2 \
        else parts[0]


def table(head: tuple, lines: list) -> str:
    text = "| " + " | ".join(head) + " |\n|" + "---|" + "---:|" * (
        len(head) - 1) + "\n"
    return text + "".join("| " + " | ".join(str(x) for x in line) + " |\n"
                          for line in lines) + "\n"


def put_into_page(text: str, begin: str, end: str) -> None:
    head, rest = PAGE.read_text().split(begin)
    PAGE.write_text(head + begin + text + end + rest.split(end)[1])


def by_folder(found: list) -> str:
    sums, counts = collections.Counter(), collections.Counter()
    for seconds, source in found:
        sums[folder_of(source)] += seconds
        counts[folder_of(source)] += 1
    lines = [(folder, counts[folder], f"{seconds:.0f}")
             for folder, seconds in sums.most_common()]
    lines.append(("**all**", sum(counts.values()),
                  f"**{sum(sums.values()):.0f}**"))
    return table(("folder", "objects", "CPU s"), lines)


def by_file(found: list) -> str:
    return table(("slowest files", "CPU s"),
                 [(f"`{source}`", f"{seconds:.1f}")
                  for seconds, source in found[:12]])


def commands(found: list) -> dict:
    """How each file of the folders that were built is compiled by itself."""
    apart = BUILD / "apart"
    subprocess.run(["cmake", "--preset", "release", "-B", str(apart),
                    "-DQKVET_TOGETHER=OFF", "-DQKVET_BUILD_TESTS=OFF",
                    "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    entries = json.loads((apart / "compile_commands.json").read_text())
    known = {str(pathlib.Path(e["file"]).relative_to(ROOT)): e
             for e in entries if e["file"].startswith(str(ROOT))
             and not e["file"].startswith(str(BUILD))}
    folders = {folder_of(source) for _, source in found}
    return {source: entry for source, entry in known.items()
            if folder_of(source) in folders}


def plain(entry: dict) -> list:
    """The command without what it writes and how it is optimised."""
    words = shlex.split(entry["command"])
    out, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-o", "-c", "-MF", "-MT"):
            skip = 1
        elif word != "-MD" and not re.fullmatch(r"-O\d", word):
            out.append(word)
    return out


def by_header(known: dict) -> str:
    """Headers outside of the project and our own: time alone, and number of reads."""
    deps = subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"],
                          capture_output=True, text=True, check=True).stdout
    read = collections.Counter()
    for block in deps.split("\n\n"):
        for line in block.split("\n")[1:]:
            read[line.strip()] += 1
    include = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
    direct = collections.Counter()
    for source in known:
        direct.update(set(include.findall((ROOT / source).read_text())))
    any_entry = known["properties/run/runner.cpp"]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        probe = pathlib.Path(folder) / "probe.cpp"
        for header, files in direct.items():
            text = f'#include "{header}"\n' if (ROOT / header).exists() \
                else f"#include <{header}>\n"
            probe.write_text(text)
            try:
                alone = cpu_of(plain(any_entry) + ["-fsyntax-only", str(probe)],
                               cwd=any_entry["directory"])
            except subprocess.CalledProcessError:
                continue  # another folder's
            alone_read = sum(n for path, n in read.items()
                             if path.endswith("/" + header))
            lines.append((alone * alone_read, alone, alone_read, files, header))
    lines.sort(reverse=True)
    return table(("header", "alone, s", "named by files", "parsed by runs"),
                 [(f"`{header}`", f"{alone:.2f}", files, parsed)
                  for _, alone, parsed, files, header in lines[:12]])


def by_level(known: dict) -> str:
    lines = []
    for source in SAMPLES:
        entry = known.get(source)
        if entry is None:
            continue
        words = plain(entry) + ["-c", entry["file"], "-o", "/dev/null"]
        lines.append((f"`{source}`",) + tuple(
            f"{cpu_of(words + [level], cwd=entry['directory']):.1f}"
            for level in LEVELS))
    return table(("without precompiled headers",) + LEVELS, lines)


def main() -> int:
    if sys.argv[1:2] == ["--launcher"]:
        return as_launcher(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", nargs="?", default="qkvet_default_program")
    parser.add_argument("--write", action="store_true",
                        help="put the tables into ci/times.md")
    parser.add_argument("--built", action="store_true",
                        help="measure nothing anew: read the last build's log")
    options = parser.parse_args()
    if not options.built:
        build(options.target)
    found = rows()
    known = commands(found)
    text = by_folder(found) + by_file(found) + by_header(known) + \
        by_level(known)
    print(text, end="")
    if options.write:
        put_into_page(text, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
