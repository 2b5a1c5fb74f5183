# SPDX-License-Identifier: Apache-2.0
"""Verdicts of qkvet.verdict: every exploit of examples/exploits, tasks, the server."""
import contextlib
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

import pytest
import qkvet
import qkvet.verdict
from qkvet import _program
from qkvet.verdict import answer as answers
from qkvet.verdict.command import main
from qkvet.verdict.server import answer_to, serve_lines, serve_socket

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPLOITS = ROOT / "examples" / "exploits"
SCHEMA = json.loads((pathlib.Path(qkvet.verdict.__file__).parent
                     / "answer.schema.json").read_text(encoding="utf-8"))
TASK = """
[declares]
options = "causal_bottom_right scale default_scale grouped_heads cross_lengths"
dtypes = "f16"
empty_row = "zero"
[precision]
preset = "flash_half"
[serves]
cases = ["f16,B1,H4,Hkv2,Tq16,Tk512,d64,causal=br"]
[limits]
seconds = 2
load_seconds = 60
"""


@pytest.fixture(scope="module", name="judge")
def judge_of_task(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "task.toml"
    path.write_text(TASK, encoding="utf-8")
    return qkvet.verdict.Verdict(path)


def head(path):
    """The fields in the first comment of an exploit."""
    return dict(re.findall(r"^# (\w+): (.*)$", path.read_text(encoding="utf-8"),
                           re.M))


def check_answer(answer):
    """Its schema, and its size."""
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(answer, SCHEMA)
    assert len(json.dumps(answer, ensure_ascii=False,
                          separators=(",", ":")).encode()) <= answers.LARGEST


CANDIDATES = sorted(path for path in EXPLOITS.glob("*.py") if head(path))
# By day the controls and every third exploit, all at night (ci/long.sh).
JUDGED = [path for number, path in enumerate(CANDIDATES)
          if "QKVET_TEST_FACTOR" in os.environ or number % 3 == 0
          or head(path)["status"] == "conforms"]


@pytest.mark.parametrize("path", JUDGED, ids=lambda path: path.stem)
def test_exploits_do_not_pass_and_controls_do(judge, path):
    answer = judge.judge(path, seed=5)
    check_answer(answer)
    assert answer["status"] in head(path)["status"].split(), answer


@pytest.mark.parametrize("status", [1, 8])  # no memory, not run
def test_no_excuse_can_be_forged(judge, status):
    source = (EXPLOITS / "forged_replies.py").read_text(encoding="utf-8")
    honest = (EXPLOITS / "honest.py").read_text(encoding="utf-8")
    source = source.replace("from honest import attention as honest",
                            honest + "\n\nhonest = attention")
    answer = judge.judge(source.replace("STATUS = 2", f"STATUS = {status}"), seed=5)
    assert answer["status"] == "suspected_hack", answer


def test_the_page_of_exploits_has_their_heads():
    page = (EXPLOITS / "README.md").read_text(encoding="utf-8")
    rows = [f"| [{path.stem}]({path.name}) | {head(path)['strategy']} | "
            f"{head(path)['attacks']} | {head(path)['source']} | "
            + ", ".join(f"`{one}`" for one in head(path)["status"].split()) + " |"
            for path in CANDIDATES]
    assert "\n".join(rows) in page, "\n".join(rows)


def test_the_program_of_an_answer_shows_the_failure(judge, tmp_path):
    source = (EXPLOITS / "wrong_scale.py").read_text(encoding="utf-8")
    answer = judge.judge(EXPLOITS / "wrong_scale.py", seed=5)
    lines = answer["program"].splitlines()
    assert 4 <= len(lines) <= 10
    script = tmp_path / "again.py"
    script.write_text(answer["program"], encoding="utf-8")
    said = subprocess.run([sys.executable, script], text=True, capture_output=True,
                          env={"PYTHONPATH": str(EXPLOITS)}, check=True).stdout
    actual, _, expected = said.strip().partition(" expected ")
    assert float(actual) == pytest.approx(
        float(answer["places"][0]["actual"]), rel=1e-3)  # as f16 is printed
    assert float(expected) == float(answer["places"][0]["expected"])
    assert "scale" in source and "scale" in answer["law"]
    assert "1.1" in answer["cause"] and answer["fix"] and answer["passes"]


def test_the_same_seed_gives_the_same_answer(judge):
    first, second = (judge.judge(EXPLOITS / "mean_of_values.py", seed=9)
                     for _ in range(2))
    for answer in (first, second):
        answer.pop("seconds")
    assert first == second
    assert judge.judge(EXPLOITS / "zeros.py")["seed"] != judge.judge(
        EXPLOITS / "zeros.py")["seed"]


def test_candidates_are_forked_from_a_warm_process(judge, monkeypatch):
    judge.judge(EXPLOITS / "zeros.py")
    with monkeypatch.context() as gone:  # no other Python can be started
        gone.setattr(sys, "executable", "/nonexistent")
        assert judge.judge(EXPLOITS / "zeros.py")["status"] == "wrong"
        judge.warm.close()
        assert judge.judge(EXPLOITS / "zeros.py")["status"] == "infrastructure"
    answer = judge.judge(EXPLOITS / "zeros.py")
    check_answer(answer)
    assert answer["status"] == "wrong"


def test_a_warm_process_that_dies_is_replaced(judge):
    judge.judge(EXPLOITS / "zeros.py")
    first = judge.warm.process
    first.kill()
    assert judge.judge(EXPLOITS / "zeros.py")["status"] == "wrong"
    assert judge.warm.process.pid != first.pid


BOMBS = {"memory": ("kept.append(np.ones(1 << 23))", "MemoryError"),
         "processes": ("os.fork() or time.sleep(1000)", "BlockingIOError")}


@pytest.mark.parametrize("limit", BOMBS)
@pytest.mark.parametrize("where", ["laws", "served"])
def test_a_bomb_ends_alone(tmp_path, limit, where):
    bomb, said = BOMBS[limit]
    path = tmp_path / "task.toml"
    path.write_text(TASK.replace("[limits]", "[limits]\nmemory = 512\nprocesses = 16"),
                    encoding="utf-8")
    judge = qkvet.verdict.Verdict(path)
    assert judge.judge(EXPLOITS / "zeros.py", seed=1)["status"] == "wrong"
    warm = judge.warm.process.pid
    source = (EXPLOITS / "honest.py").read_text(encoding="utf-8") + f"""
import os, time
honest, kept = attention, []
def attention(q, k, v, **options):
    if k.shape[2] >= {512 if where == "served" else 1}:
        for _ in range(40):
            {bomb}
    return honest(q, k, v, **options)
"""
    answer = judge.judge(source, seed=1)
    check_answer(answer)
    assert answer["status"] in ("crashes", "wrong"), answer
    assert said in json.dumps(answer), answer
    assert (answer["tiers"]["smoke"] == 1) == (where == "served")
    assert judge.judge(EXPLOITS / "zeros.py", seed=1)["status"] == "wrong"
    assert judge.warm.process.pid == warm


LEAVES = """
import ctypes, os, time
calls = []
def attention(q, k, v, *, causal=None, scale=None):
    calls.append(1)
    if len(calls) > 1:
        return q
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"MARK")  # PR_SET_NAME
            time.sleep(1000)
        os._exit(0)
    time.sleep(0.2)
    return q
"""


def named(mark):
    """Processes with this name."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found += [path] * (path.read_text().strip() == mark)
    return found


def test_daemons_of_a_candidate_end_with_its_verdict(judge):
    mark = f"left{os.getpid()}"
    judge.judge(LEAVES.replace("MARK", mark))
    assert not named(mark)


ARMOURED = """
import os, socket, sys
from qkvet.verdict.caller import armoured
missing = armoured(sys.argv[1])
def denied(action):
    try:
        action()
    except OSError:
        return True
    return False
print(missing)
print(denied(lambda: open(sys.argv[2], "w")))
print(denied(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])))))
print(denied(lambda: open(f"/proc/{os.getppid()}/mem", "rb")))
print(denied(lambda: os.kill(os.getppid(), 0)))
print(sorted(os.listdir("/tmp")))
"""


def test_the_armour_denies_what_it_names(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = subprocess.run(
            [sys.executable, "-c", ARMOURED, tmp_path, tmp_path / "file",
             str(server.getsockname()[1])], text=True, capture_output=True,
            env=_program.environment(), check=True).stdout.splitlines()
    missing, *denied, files = said
    if "files for reading alone" not in missing:
        assert denied[0] == "True", said
    if "no access to other processes" not in missing:
        assert denied[2] == "True", said
    if "no signals" not in missing:
        assert denied[3] == "True", said
    if "an empty /tmp" in missing:
        pytest.skip(f"this system denies: {missing}")
    assert denied[1] == "True"
    visible = pathlib.Path(tmp_path).resolve().parts
    assert files == str([visible[2]] if visible[1] == "tmp" else [])


@pytest.mark.parametrize("line, said", [
    ("[1]", "no JSON object"),
    ("{", "Expecting"),
    ('{"id": 3}', "one of source and candidate"),
    ('{"source": "x", "sauce": 1}', "sauce: unknown"),
    ('{"candidate": 7}', "no text")])
def test_a_bad_request_is_answered_with_what_is_wrong(judge, line, said):
    assert said in json.loads(answer_to(judge, line))["error"]


def test_the_server_answers_every_request(judge):
    wrong = (EXPLOITS / "zeros.py").read_text(encoding="utf-8")
    requests = [json.dumps({"id": n, "source": wrong, "seed": 1}) for n in range(3)]
    out = io.StringIO()
    serve_lines(judge, [*requests, "nonsense"], out, 2)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert sorted(one["id"] for one in said if "id" in one) == [0, 1, 2]
    assert {one["status"] for one in said if "id" in one} == {"wrong"}
    assert sum("error" in one for one in said) == 1


def test_a_socket_serves_several_connections(judge, tmp_path):
    path = str(tmp_path / "judge.sock")
    threading.Thread(target=serve_socket, args=(judge, path, 2),
                     daemon=True).start()
    end = time.monotonic() + 10
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    connections = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for number, one in enumerate(connections):
        one.connect(path)
        one.sendall(json.dumps({"id": number, "candidate": str(
            EXPLOITS / "zeros.py")}).encode() + b"\n")
    for number, one in enumerate(connections):
        answer = json.loads(one.makefile().readline())
        assert (answer["id"], answer["status"]) == (number, "wrong")
        one.close()


@pytest.mark.parametrize("text, said", [
    ("[declares", "no TOML"),
    ("[declare]\noptions = \"causal\"", "table: 'declare'; allowed: name"),
    ("[limits]\nsecnds = 3", "limits: field: 'secnds'"),
    ("[declares]\noptions = \"scale\"\n[limits]\nmemory = 0",
     "limits.memory: 0; allowed: at least 1"),
    ("[limits]\nseconds = \"3\"", "limits.seconds: '3'; allowed: a number"),
    ("name = \"x\"", "declares.options is missing"),
    ("[declares]\noptions = \"causel\"", "causel"),
    ("[declares]\noptions = \"scale\"\n[limits]\ncomputed_by = \"me\"",
     "limits.computed_by: 'me'; allowed: own"),
    ("[declares]\noptions = \"scale\"\n[serves]\ncases = [\"f16,Q1\"]", "Q1")])
def test_a_bad_task_is_one_line(tmp_path, capsys, text, said):
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    assert main([str(path), "x.py"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_task_or_a_candidate_that_is_a_pipe_is_not_waited_for(judge, tmp_path,
                                                               capsys):
    for name in ("task.toml", "candidate.py"):
        os.mkfifo(tmp_path / name)
    assert main([str(tmp_path / "task.toml"), "x.py"]) == 2
    assert "no regular file" in capsys.readouterr().err
    assert judge.judge(tmp_path / "candidate.py")["status"] == "does_not_compile"


def test_a_missing_candidate_is_no_failure_of_a_law(judge, tmp_path):
    answer = judge.judge(tmp_path / "none.py")
    assert answer["status"] == "does_not_compile"
    assert "no such file" in answer["why"]


def test_shipped_tasks_can_be_read():
    folder = pathlib.Path(qkvet.verdict.__file__).parent / "tasks"
    for path in folder.glob("*.toml"):
        assert qkvet.verdict.Verdict(path.stem).task.name == path.stem


def test_a_new_task_is_one(tmp_path):
    said = subprocess.run([_program.program(), "new", "decode.toml"], text=True,
                          cwd=tmp_path, capture_output=True, check=True).stdout
    assert "next: qkvet verdict decode.toml candidate.py" in said
    path = tmp_path / "decode.toml"
    bare = qkvet.verdict.Verdict(path).task
    assert (bare.name, bare.memory, bare.served[0].data) == ("decode", 8192, None)
    # Its further fields are fields.
    text = re.sub(r"^# (\w+ = )", r"\1", path.read_text(encoding="utf-8"), flags=re.M)
    path.write_text(text, encoding="utf-8")
    (tmp_path / "call.safetensors").write_bytes(b"")
    task = qkvet.verdict.load(path)
    assert task.imports == ["numpy"] and "d = max 256" in task.declared
    _program.resolve(task.declares)


def test_the_program_hands_over_to_the_package(tmp_path):
    words = [_program.program(), "verdict", "prefill_causal_f16", EXPLOITS / "zeros.py"]
    said = subprocess.run(words, text=True, capture_output=True, check=False,
                          env=_program.environment())
    assert said.returncode == 1 and json.loads(said.stdout)["status"] == "wrong"
    for words, environment, wrong in (
            (words, {"QKVET_PYTHON": "/nonexistent"}, "allowed: a Python 3"),
            (words, {"QKVET_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)},
             "allowed: pip install qkvet"),
            ([*words[:2], "prefil", "x.py"], _program.environment(),
             "prefil: no such task; allowed: a file, or decode_mla")):
        said = subprocess.run(words, text=True, capture_output=True, check=False,
                              env=environment, cwd=tmp_path)
        assert said.returncode == 2 and said.stderr.count("\n") == 1, said
        assert wrong in said.stderr and not said.stdout


def test_an_answer_that_is_too_long_loses_its_least_fields():
    answer = {"schema": 1, "task": "t", "status": "wrong", "score": 0, "tiers": {},
              "why": "w" * 600, "lines": ["1: " + "x" * 70] * 4,
              "program": "y" * 1500, "law": "z" * 100}
    short = answers.shortened(dict(answer))
    assert "program" not in short and short["law"] == answer["law"]
    check_answer(short)


def test_a_file_beside_the_candidate_is_its_own(judge, tmp_path):
    (tmp_path / "tiles.py").write_text(
        (EXPLOITS / "honest.py").read_text(encoding="utf-8").replace(
            "def attention", "def flash_attention"), encoding="utf-8")
    (tmp_path / "candidate.py").write_text(
        "from tiles import flash_attention\n\n\n"
        "def attention(q, k, v, *, causal=None, scale=None):\n"
        "    return flash_attention(q, k, v, causal=causal, scale=scale)\n",
        encoding="utf-8")
    assert judge.judge(tmp_path / "candidate.py")["status"] == "conforms"
