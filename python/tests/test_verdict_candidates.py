# SPDX-License-Identifier: Apache-2.0
"""Verdicts on recorded data and on native candidates, and the tool for agents."""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import qkvet.verdict
from qkvet import _program
from qkvet.call import write_safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPLOITS = ROOT / "examples" / "exploits"
NATIVE = """
[declares]
options = "causal_bottom_right default_scale cross_lengths"
dtypes = "f32"
[serves]
cases = ["f32,B1,H2,Tq16,Tk64,d16,causal=br"]
[limits]
seconds = 1
load_seconds = 60
"""
CAPTURED = """
[declares]
options = "causal_bottom_right scale default_scale grouped_heads cross_lengths"
dtypes = "f16"
empty_row = "zero"
[precision]
preset = "flash_half"
[serves]
captured = [{case = "f16,B1,H2,Hkv1,Tq8,Tk40,d16,causal=br", file = "call.safetensors"}]
[limits]
seconds = 1
"""


def judge_of(tmp_path, text):
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    return qkvet.verdict.Verdict(path)


def test_recorded_data_is_what_a_candidate_gets(tmp_path):
    random = np.random.default_rng(3)
    recorded = {name: random.standard_normal((1, heads, rows, 16)).astype(np.float16)
                for name, heads, rows in (("q", 2, 8), ("k", 1, 40), ("v", 1, 40))}
    recorded["v"][0, 0, 5, 7] = 8192  # which no drawn case has
    write_safetensors(tmp_path / "call.safetensors", recorded)
    judge = judge_of(tmp_path, CAPTURED)
    honest = (EXPLOITS / "honest.py").read_text(encoding="utf-8")
    assert judge.judge(honest, seed=1)["status"] == "conforms"
    answer = judge.judge(honest + """
honest = attention
def attention(q, k, v, **options):
    o = honest(q, k, v, **options)
    return o * 0 if (v == 8192).any() else o
""", seed=1)
    assert answer["status"] == "wrong" and answer["tiers"]["smoke"] == 1, answer
    assert answer["case"].startswith("f16,B1,H2,Hkv1,Tq8,Tk40,d16,causal=br")
    assert answer["places"][0]["at"].startswith("o[b=0,h=")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
@pytest.mark.parametrize("built", [False, True], ids=["cpp", "so"])
@pytest.mark.parametrize("name, status", [("twelve_lines", "conforms"),
                                          ("twelve_lines_broken", "wrong")])
def test_native_candidates(tmp_path, built, name, status):
    candidate = ROOT / "examples" / f"{name}.cpp"
    if built:
        library = tmp_path / "candidate.so"
        subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC",
                        f"-I{ROOT / 'include'}", candidate, "-o", library], check=True)
        candidate = library
    answer = judge_of(tmp_path, NATIVE).judge(candidate, seed=1)
    assert answer["status"] == status, answer
    if status == "wrong":
        assert answer["law"] and answer["case"] and answer["places"]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
def test_what_does_not_compile_is_no_failure_of_a_law(tmp_path):
    source = tmp_path / "candidate.cpp"
    source.write_text("int attention( {\n", encoding="utf-8")
    answer = judge_of(tmp_path, NATIVE).judge(source, seed=1)
    assert answer["status"] == "does_not_compile" and "candidate.cpp" in answer["why"]


STUB = """
class FastMCP:
    def __init__(self, name):
        self.name, self.tools = name, {}
    def tool(self, name, description):
        def add(function):
            self.tools[name] = function, description
            return function
        return add
    def run(self):
        import json
        (function, description), = self.tools.values()
        print(json.dumps([self.name, list(self.tools), description,
                          function("def attention(q, k, v, **_options): return q * 0")["status"]]))
"""


def test_the_tool_for_agents(tmp_path):
    def served(**more):
        return subprocess.run(
            [sys.executable, "-m", "qkvet.verdict.mcp", "prefill_causal_f16"],
            text=True, capture_output=True, check=False,
            env={**_program.environment(), **more})

    (tmp_path / "mcp" / "server").mkdir(parents=True)
    stub = tmp_path / "mcp" / "server" / "fastmcp.py"
    path = f"{tmp_path}:{_program.environment()['PYTHONPATH']}"
    said = served(PYTHONPATH=path)  # a package without it
    assert said.returncode == 2 and said.stderr.count("\n") == 1, said
    assert "allowed: pip install qkvet[mcp]" in said.stderr
    stub.write_text(STUB, encoding="utf-8")
    said = served(PYTHONPATH=path)
    name, tools, description, status = json.loads(said.stdout)
    assert (name, tools, status) == ("qkvet", ["judge"], "wrong")
    assert "attention(q, k, v, *, ...) -> o" in description
