# SPDX-License-Identifier: Apache-2.0
"""Records of measured figures: ci/records/NAME.json, each with the commit, the
date, the seed and the command that it comes from. ci/figures.py writes pages only
from them."""
import datetime
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "ci/records"
KEYS = {"commit", "date", "command", "seed", "values"}


def read(name, folder=FOLDER):
    """A record; ValueError in one line if it does not say where it comes from."""
    path = folder / f"{name}.json"
    try:
        one = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as why:
        raise ValueError(f"{path}: {why}") from None
    if not isinstance(one, dict) or set(one) != KEYS:
        raise ValueError(f"{path}: keys other than {', '.join(sorted(KEYS))}")
    return one


def commit():
    """The commit of the tree, with a plus where files of it were changed."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], check=True,
                              capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--",
                  ":!ci/records", ":!*.md")
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def write(name, command, seed, values, folder=FOLDER):
    folder.mkdir(exist_ok=True)
    one = {"commit": commit(), "date": datetime.date.today().isoformat(),
           "command": command, "seed": seed, "values": values}
    path = folder / f"{name}.json"
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(one, indent=1) + "\n")
    beside.replace(path)


def load():
    """"load 7.3 on 2 cores": how busy the machine is, for records of times."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def source(one):
    """"commit 82dd1774, 2026-11-29, seed 2": where a record comes from."""
    seed = "" if one["seed"] is None else f", seed {one['seed']}"
    return f"commit {one['commit']}, {one['date']}{seed}"
