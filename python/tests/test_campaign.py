# SPDX-License-Identifier: Apache-2.0
"""Campaigns on a pool of processes: each shard once in the result, whichever
process dies."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from qkvet import WrongUse, _program
from qkvet.campaign import __main__ as campaign
from qkvet.campaign import local, shard
from qkvet.campaign.folder import Campaign

# Two laws of a right and a wrong kernel: a shard is over in a second.
PLAN = ["--kernel", "scalar/plain", "--kernel", "faulty/no_scale", "--cases", "120",
        "--law", "scale_is_one_over_sqrt_d", "--law", "weights_sum_to_one"]
SHARDS = 3


def start(folder, *options, plan=PLAN):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(pathlib.Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-m", "qkvet.campaign", *options, "--", *plan], cwd=folder,
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def rest_of(night):
    """Its output from here on. (communicate() would lose lines that were read
    ahead; its stdout is far less than a pipe holds.)"""
    said = night.stderr.read()
    return night.stdout.read(), said


def run(folder, *options, plan=PLAN):
    with start(folder, *options, plan=plan) as night:
        out, said = rest_of(night)
    return night.returncode, out, said


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """A home with shards that begin, and continue once this file is there."""
    home, file = tmp_path / "home", tmp_path / "gate"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "qkvet"
    program.write_text(f"""#!/bin/sh
case "$*" in *--shard*) while [ ! -e '{file}' ]; do sleep 0.02; done ;; esac
exec '{_program.program()}' "$@"
""")
    program.chmod(0o755)
    monkeypatch.setenv("QKVET_HOME", str(home))
    return file


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def verdicts(lines):
    """Verdict and cause of each kernel and law, and the number of cases if none
    failed: after a failure, a run skips the law's other cases, and a shard does not
    see the failures of others."""
    out = {}
    for line in lines:
        if line["type"] == "result":
            failure = line.get("failure")
            out[line["kernel"], line["law"]] = (
                line["verdict"],
                failure["diagnosis"]["cause"] if failure else line["checked"])
    return out


def began(said):
    return collections.Counter(re.findall(r"^shard (\d+)/\d+  began", said, re.M))


def expect_the_run(folder, out="night"):
    """The merged record has all shards, once each, with the verdicts of one
    process."""
    lines = lines_of(folder / out / "all.jsonl")
    assert lines[0]["shards"] == {"of": SHARDS, "merged": [1, 2, 3], "missing": []}
    code, _, said = _program.run(
        ["check", *PLAN, "--shard", "1/1", "--jobs", "1",
         "--json", str(folder / "whole.jsonl")])
    assert code == 1, said
    whole = verdicts(lines_of(folder / "whole.jsonl"))
    assert verdicts(lines) == whole
    assert ("FAILED", "no_scale") in whole.values()


def kill_first(night, process):
    """Waits for the first shard that begins and kills it or its parent. Returns
    its number, its process, and the output until then."""
    line = night.stderr.readline()
    said = line
    while "began" not in line:
        assert line, said
        line = night.stderr.readline()
        said += line
    number, pid = re.match(r"shard (\d+)/\d+  began, process (\d+)", line).groups()
    os.kill(int(pid) if process == "shard" else night.pid, signal.SIGKILL)
    return number, int(pid), said


def test_a_shard_that_was_killed_is_run_again(tmp_path, gate):
    with start(tmp_path, "night", "--shards", "3", "--workers", "2") as night:
        number, _, said = kill_first(night, "shard")
        gate.touch()
        out, more = rest_of(night)
    said += more
    assert night.returncode == 1, said
    assert f"shard {number}/3  lost: killed by SIGKILL; again, try 2 of 3" in said
    assert began(said) == {"1": 1, "2": 1, "3": 1} | {number: 2}, said
    assert any(f"fails {n} of 2 laws asked" in out for n in (1, 2)), out
    expect_the_run(tmp_path)


def test_a_campaign_that_was_killed_goes_on(tmp_path, gate):
    gate.touch()
    assert run(tmp_path, "night", "--shards", "3", "--workers", "2")[0] == 1
    kept = (tmp_path / "night/shards/2-of-3.jsonl").stat().st_mtime_ns
    # As after a power failure of the worker: a record without its last line.
    broken = tmp_path / "night/shards/1-of-3.jsonl"
    broken.write_text("\n".join(broken.read_text().splitlines()[:-1]))
    (tmp_path / "night/shards/3-of-3.jsonl").unlink()
    gate.unlink()
    with start(tmp_path, "night", "--workers", "1") as night:
        _, pid, said = kill_first(night, "campaign")
        said += rest_of(night)[1]
    assert night.returncode == -signal.SIGKILL, said
    # Its shard died with it.
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(pid, 0)
            if pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                raise ProcessLookupError
            subprocess.run(["sleep", "0.05"], check=True)
    gate.touch()
    code, _, said = run(tmp_path, "night")
    assert code == 1, said
    assert "2" not in began(said) and began(said)["1"] == 1, said
    assert (tmp_path / "night/shards/2-of-3.jsonl").stat().st_mtime_ns == kept
    expect_the_run(tmp_path)


def test_a_shard_that_is_lost_too_often_is_missing(tmp_path, gate):
    good = ["--kernel", "scalar/plain", *PLAN[4:]]
    with start(tmp_path, "night", "--shards", "2", "--workers", "1", "--tries", "1",
               plan=good) as night:
        number, _, said = kill_first(night, "shard")
        gate.touch()
        out, more = rest_of(night)
    assert f"shard {number}/2  lost: killed by SIGKILL; given up after 1 tries" in more
    assert night.returncode == 3, out
    assert f"shard {number} of 2 is missing" in out, out
    assert "INCOMPLETE" in out


def test_another_campaign_in_the_folder_is_refused(tmp_path):
    kernel = tmp_path / "mine.so"
    kernel.write_text("one")
    Campaign(tmp_path / "a", ["mine.so:x"], 2, 1, tmp_path)
    again = Campaign(tmp_path / "a", ["mine.so:x"], None, 1, tmp_path)
    assert again.of == 2 and again.missing() == [1, 2]
    for words, of, what in ((["--cases", "9"], 2, "its words"),
                            (["mine.so:x"], 3, "its shards")):
        with pytest.raises(WrongUse, match=what):
            Campaign(tmp_path / "a", words, of, 1, tmp_path)
    kernel.write_text("two")  # built again
    with pytest.raises(WrongUse, match="its files"):
        Campaign(tmp_path / "a", ["mine.so:x"], 2, 1, tmp_path)
    with pytest.raises(WrongUse, match="something else in it"):
        Campaign(tmp_path, [], 2, 1, tmp_path)
    with again.locked(), pytest.raises(WrongUse, match="one at a time"):
        again.locked()


@pytest.mark.parametrize("options, plan, what", [
    (["--shards", "0"], [], "allowed: a number from 1 to"),
    ([], ["--shard", "1/2"], "--shard: the campaign sets it"),
    ([], ["--html=x.html"], "--html: belongs to the whole run; allowed: `qkvet "
     "report night/all.jsonl"),
    (["--ray", "--workers", "2"], [], "--workers: Ray has its own"),
    (["--shards", "2"], ["--kernel", "scalar/nowhere"], "scalar/nowhere"),
    (["--shards", "2"], ["--seed", "random", *PLAN[:2]], "no --seed random"),
])
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, options, plan, what):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, WrongUse)) as refused:
        campaign.main(["night", *options, "--", *plan])
    said = capsys.readouterr()
    if refused.type is SystemExit:
        assert refused.value.code == 2
        assert what in said.err.splitlines()[-1]
    else:
        assert what in str(refused.value) and "\n" not in str(refused.value)
    assert said.out == ""


def test_a_mistake_in_the_words_keeps_no_folder(tmp_path):
    wrong = [*PLAN[:1], "scalar/nope"]
    code, _, said = run(tmp_path, "night", "--shards", "2", plan=wrong)
    assert code == 2 and "nope" in said
    code, out, said = run(tmp_path, "night", "--shards", "2",
                          plan=["--kernel", "scalar/plain", *PLAN[4:]])
    assert code == 0, out + said


def test_wrong_use_ends_with_two(tmp_path):
    code, out, said = run(tmp_path, "night", "--shards", "2",
                          plan=["--kernel", "scalar/nowhere"])
    assert code == 2 and out == "", said
    assert said.splitlines()[-1].startswith('qkvet.campaign: ')


def test_each_worker_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert local.devices(3) == ["4", "7", "4"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert local.devices(2) == ["0", "1"]


def test_no_other_shard_and_no_part_of_one_is_whole():
    first, last = b'{"shard":{"number":1,"of":2}}\n', b'{"type":"end"}\n'
    assert shard.is_whole(first + last, 1, 2)
    assert not shard.is_whole(first + last, 2, 2)
    assert not shard.is_whole(first, 1, 2)
    assert not shard.is_whole(first + last[:9], 1, 2)
    assert not shard.is_whole(first + b'{"type":"end","interrupted":true}\n', 1, 2)
    assert not shard.is_whole(b"", 1, 2)
