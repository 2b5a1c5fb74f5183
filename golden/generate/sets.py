# SPDX-License-Identifier: Apache-2.0
"""Writes golden sets and their manifest."""
import hashlib
import json
import pathlib
import re

from golden.generate import case_text, storage

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = ROOT / "golden" / "sets"
VERSION_ROW = {"qkvet": "golden manifest 1"}
ARITHMETIC = ("exact", "f64", "storage")


class Generator:
    """The sets of one source, with names that begin with its prefix."""

    def __init__(self, script, prefix, source):
        self.script = "golden/generate/" + pathlib.Path(script).name
        self.prefix = prefix + "_"
        self.source = source
        self.made = {}

    def add_set(self, name, case, pins, arithmetic, inputs, outputs,
                source="", dialect="", finding=""):
        """`inputs` and `outputs` are storage.Tensors by their names."""
        name = self.prefix + name
        source = source or self.source
        if not re.fullmatch("[a-z0-9_]+", name) or name in self.made:
            raise ValueError(f"{name}: no name for a set, or there twice")
        if arithmetic not in ARITHMETIC:
            raise ValueError(f"{name}: {arithmetic} is none of {ARITHMETIC}")
        check_inputs(name, case, inputs)
        metadata = {"qkvet": "golden 1", "case": case, "pins": pins,
                    "source": source, "generator": self.script,
                    "arithmetic": arithmetic, "dialect": dialect,
                    "finding": finding}
        self.made[name] = storage.file_bytes(metadata, {**inputs, **outputs})

    def write(self):
        SETS.mkdir(exist_ok=True)
        for path in SETS.glob(self.prefix + "*.safetensors"):
            if path.stem not in self.made:
                path.unlink()
        for name, content in self.made.items():
            (SETS / (name + ".safetensors")).write_bytes(content)


def check_inputs(name, case, inputs):
    """A set must hold exactly the tensors that its case takes from a file."""
    wanted = case_text.input_shapes(case_text.parse(case))
    given = {key: (t.shape, t.dtype) for key, t in inputs.items()}
    if wanted != given:
        raise ValueError(f"{name}: inputs are {given}, the case wants {wanted}")


def write_manifest():
    rows = [VERSION_ROW]
    for path in sorted(SETS.glob("*.safetensors")):
        metadata, _ = storage.read_file(path)
        rows.append({"name": path.stem, "case": metadata["case"],
                     "pins": metadata["pins"], "source": metadata["source"],
                     "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    text = "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
    (SETS / "MANIFEST.jsonl").write_text(text)
    return len(rows) - 1
