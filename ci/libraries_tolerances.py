#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usual tolerances applied to the same outputs: the number of conforming entries that
they flag, and the number of findings that they miss, on the very call that shows them.
Writes the second table of examples/libraries/README.md.

    python3 ci/libraries_tolerances.py [--cases N] [ENTRY...]

For a Python that has the libraries; $QKVET is the program.
"""
import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = ROOT / "examples/libraries"
sys.path[:0] = [str(LIBRARIES), str(LIBRARIES / "findings"), str(ROOT / "ci")]

import libraries_page  # noqa: E402

# rtol and atol of each, by type. Of ONNX: its node tests; of ONNX Runtime: the
# tests of its operator.
TOLERANCES = {
    "torch.testing.assert_close": {
        "f64": (1e-7, 1e-7), "f32": (1.3e-6, 1e-5), "f16": (1e-3, 1e-5),
        "bf16": (1.6e-2, 1e-5)},
    "numpy.allclose": dict.fromkeys(("f64", "f32", "f16", "bf16"), (1e-5, 1e-8)),
    "numpy assert_allclose": dict.fromkeys(("f64", "f32", "f16", "bf16"),
                                           (1e-7, 0.0)),
    "ONNX": dict.fromkeys(("f64", "f32", "f16", "bf16"), (1e-3, 1e-7)),
    "ONNX Runtime": {"f64": (0.0, 3e-5), "f32": (0.0, 3e-5), "f16": (0.0, 3e-3),
                     "bf16": (0.0, 3e-3)}}
ENTRIES = ("torch:math", "torch:flash", "torch:flash_half",
           "onnxruntime:multi_head", "mlx:fast", "mlx:fast_half", "openvino:sdpa",
           "ggml:f32")
SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def flags(name, dtype, expected, actual):
    """Whether a tolerance distinguishes the two. NaN where NaN is expected is no
    difference, because each of them can be configured so."""
    import numpy as np
    rtol, atol = TOLERANCES[name][dtype]
    return not np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def answered(entry, cases, folder):
    """The calls of agrees_with_oracle that conform: dtype, expected rounded to it,
    actual."""
    import numpy as np
    from adapters import numpy as definition
    import plan as plans
    lines = folder / "report.jsonl"
    # Other runs test the bound: this is one law, with one call a case.
    subprocess.run([sys.executable, str(LIBRARIES / "run.py"), entry, "--json",
                    str(lines), "--law", "agrees_with_oracle", "-n", str(cases)],
                   env={**os.environ, "QKVET_PLAN": str(folder)},
                   stdout=subprocess.DEVNULL, check=False)
    passed = {call for row in map(json.loads, lines.read_text().splitlines())
              if row["type"] == "question" and row["verdict"] == "passed"
              for call in row["calls"]}
    rows = json.loads((folder / "plan/plan.json").read_text())["calls"]
    for row in rows:
        if row["call"] not in passed:
            continue
        call = plans.read_call(folder / "plan", row)
        if (row["softcap"] or "sink" in row["inputs"]
                or (row["window_left"], row["window_right"]) != (-1, -1)):
            continue  # the definition beside it has no such word
        with np.errstate(all="ignore"):
            exact = definition.attention(plans.with_finite_tails(call), wide="f8")
        dtype = row["outputs"]["o"]["dtype"]
        actual = np.load(folder / "plan" / f"{row['call']}.o.npy")
        if dtype == "bf16":
            actual = actual.view(plans.bfloat16())
        expected = exact["o"].astype(actual.dtype).astype(np.float64)
        seeing = np.isfinite(exact["lse"])  # without a key libraries differ
        yield dtype, expected[seeing], actual.astype(np.float64)[seeing]


def outputs_table(entries, cases):
    """Rows of (entry, type): calls that conform, and how many each flags."""
    counts = collections.defaultdict(collections.Counter)
    for entry in entries:
        with tempfile.TemporaryDirectory() as folder:
            for dtype, expected, actual in answered(entry, cases,
                                                    pathlib.Path(folder)):
                count = counts[entry, dtype]
                count["calls"] += 1
                for name in TOLERANCES:
                    count[name] += flags(name, dtype, expected, actual)
    return counts


def missed_findings():
    """The names that each tolerance misses, and those that have numbers to compare;
    a refusal needs no tolerance."""
    path = LIBRARIES / "findings/__main__.py"
    spec = importlib.util.spec_from_file_location("findings_main", path)
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    missed, tried = collections.defaultdict(list), []
    for name, one in runner.load().items():
        if not runner.tried(one):
            continue
        pairs = [pair for pair in runner.shown.pairs
                 if pair.wanted and not isinstance(pair.actual, str)]
        if not pairs:
            continue
        tried.append(name)
        for tolerance in TOLERANCES:
            if not any(flags(tolerance, SHORT.get(pair.dtype, "f64"),
                             pair.expected, pair.actual) for pair in pairs):
                missed[tolerance].append(name)
    return missed, tried


def table(counts, missed, tried):
    head = ["outputs that conform", "calls", *TOLERANCES]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (entry, dtype), count in counts.items():
        shares = [f"{100 * count[name] / count['calls']:.0f} %"
                  for name in TOLERANCES]
        lines.append(f"| `{entry}` {dtype}, flagged | {count['calls']} | "
                     + " | ".join(shares) + " |")
    lines.append(f"| **findings missed** | {len(tried)} | " + " | ".join(
        str(len(missed[name])) for name in TOLERANCES) + " |")
    lines.append("")
    for name in TOLERANCES:
        if missed[name]:
            lines.append(f"Missed by {name}: " + ", ".join(
                f"`{finding}`" for finding in missed[name]) + ".")
    return lines


def main(words):
    cases = 200
    if words[:1] == ["--cases"]:
        if not (len(words) > 1 and words[1].isdigit() and int(words[1]) > 0):
            print("libraries_tolerances.py: --cases; allowed: 1 and more",
                  file=sys.stderr)
            return 2
        cases, words = int(words[1]), words[2:]
    for word in words:
        if word not in ENTRIES:
            print(f"libraries_tolerances.py: {word}: no such entry; allowed: "
                  + ", ".join(ENTRIES), file=sys.stderr)
            return 2
    lines = table(outputs_table(words or ENTRIES, cases), *missed_findings())
    readme = LIBRARIES / "README.md"
    readme.write_text(libraries_page.between(
        readme.read_text(), "tolerances", lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
