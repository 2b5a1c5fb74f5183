# SPDX-License-Identifier: Apache-2.0
"""The documentation against the program: every command that a page names can be read by
the program, and what a page shows below a command is what it prints.

QKVET_REWRITE_EXAMPLES=1 writes what is printed now into the pages, for the diff to be
read.
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

import pages

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ["QKVET_HOME"]).resolve()
PROGRAM = str(BUILD / "bin/qkvet")
REWRITE = bool(os.environ.get("QKVET_REWRITE_EXAMPLES"))
sys.path.insert(0, str(ROOT / "python"))

from qkvet import case  # noqa: E402
from qkvet.campaign import __main__ as campaign  # noqa: E402

# Not run here, and why: a page, or "page: how its commands begin".
NOT_RUN = {
    "examples/foreign/README.md": "needs the repositories of others (get.sh)",
    "cli/demos.md: qkvet demo train": "train_demo_test looks at what is trained; its "
                                        "last digits are the machine's",
    "python/README.md": "python/tests/test_readme.py runs its blocks",
}
# The folder of the commands of a page, where it is not an empty one.
FOLDERS = {"examples/README.md": ROOT / "examples"}
# Costly as they are on the page: run with these additional words, which end them
# sooner.
SOONER = {"README.md: qkvet check faulty/mask_after_softmax": "--fail-fast",
          "examples/README.md: qkvet check": "--fail-fast"}
# Commands without inputs that cost almost nothing are run everywhere they are named.
CHEAP = {("new",), ("explain",), ("demo", "memory"), ("demo", "inspect"), ("demo", "trace")}
# Options of other programs in inline code.
OF_OTHERS = {"--offload-arch", "--depth"}


def tracked(*globs):
    """Files of the project; without git, what is not built and not fetched."""
    done = subprocess.run(["git", "ls-files", *globs], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, check=False)
    return done.stdout.split() or sorted(
        str(path.relative_to(ROOT)) for glob in globs for path in ROOT.rglob(glob)
        if not {"build", "theirs"} & set(path.relative_to(ROOT).parts))


PAGES = [page for page in tracked("*.md") if page != "CHANGELOG.md"]


@functools.lru_cache(maxsize=None)
def text_of(page):
    return (ROOT / page).read_text()


def listed(page, command, table):
    """The entry of NOT_RUN or SOONER that a command has, or None."""
    for key in table:
        name, _, start = key.partition(": ")
        if name == page and command.startswith(start):
            return key
    return None


def ran(words, folder=None, code=None):
    """The output of a command of bash, or of words, from both streams."""
    line = ["bash", "-c", words] if isinstance(words, str) else words
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(paths),
           "PATH": os.pathsep.join([str(BUILD / "bin"),
                                    os.path.dirname(sys.executable),
                                    os.environ["PATH"]])}
    done = subprocess.run(line, cwd=folder, env=env, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if code is not None:
        assert done.returncode == code, done.stdout
    return done.stdout


# ---- What is shown is printed


def do_steps(page, text, folder):
    """Follows a page in a folder. Returns the differences, and the corrected page."""
    wrong, changes, lines = [], [], text.splitlines()
    for step in pages.steps_of(text):
        if step.kind == "file":
            (folder / step.name).write_text(step.text)
        elif step.kind == "python":
            (folder / "block.py").write_text(step.text)
            ran([sys.executable, "block.py"], folder, code=0)
        elif listed(page, step.text, NOT_RUN) is None:
            sooner = listed(page, step.text, SOONER)
            printed = ran(step.text + (" " + SOONER[sooner] if sooner else ""), folder)
            differs = pages.differs(step.shown, printed)
            if differs:
                wrong.append(f"{page}:{step.at}: {step.text}\n{differs}")
                changes.append((step, pages.rewritten(step.shown, printed)))
    for step, shown in reversed(changes):
        lines[step.at:step.at + len(step.shown)] = [
            (step.indent + line).rstrip() for line in shown]
    return wrong, "\n".join(lines) + "\n"


def is_followed(page):
    """Has commands to be run, or blocks of a tutorial."""
    if page in NOT_RUN:
        return False
    steps = pages.steps_of(text_of(page))
    return any(step.kind == "command" for step in steps) and any(
        step.kind != "command" or listed(page, step.text, NOT_RUN) is None
        for step in steps)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A folder for compiled kernels, so that each is compiled once."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("page", [page for page in PAGES if is_followed(page)])
def test_what_a_page_shows_is_printed(page, tmp_path):
    wrong, right = do_steps(page, text_of(page), FOLDERS.get(page, tmp_path))
    if "built without libFuzzer" in "".join(wrong):
        pytest.skip("the program was built without libFuzzer")
    if REWRITE and wrong:
        (ROOT / page).write_text(right)
        return
    assert not wrong, "\n".join(wrong)


def stands_in(lines, source):
    """Whether a file contains these lines in their order, with parts left out."""
    parts = "\n".join(lines).split("[...]")
    return re.search(".*".join(re.escape(part.strip()) for part in parts), source, re.S)


def test_what_is_quoted_stands_in_its_file():
    quoted = [(page, path, lines) for page in PAGES
              for path, lines in pages.quotations_of(text_of(page))]
    assert quoted
    for page, path, lines in quoted:
        assert stands_in(lines, text_of(path)), \
            f"{page} quotes of {path} what does not stand there:\n" + "\n".join(lines)
        for i, line in enumerate(lines):  # the control
            if line.strip(" {}[].;"):
                assert not stands_in([*lines[:i], line + "x", *lines[i + 1:]],
                                     text_of(path)), line


PAGE = """Text.

    $ qkvet explain laws --json | head -1
    {"type":"law","id":"reads_only_its_inputs",[...]
    $ qkvet explain kernels -k
    qkvet: The following argument was not expected: -k (--help shows what is allowed)

More text.
"""


def test_an_output_that_is_not_printed_is_seen(tmp_path):
    """The controls of the test above."""
    assert do_steps("x.md", PAGE, tmp_path) == ([], PAGE)
    for good, bad in (("reads_only_its_inputs", "writes_what_it_likes"),
                      ("was not expected: -k", "was not expected: -j"),
                      (" (--help shows what is allowed)", ""),
                      ("    qkvet: The", "    more\n    qkvet: The")):
        wrong, right = do_steps("x.md", PAGE.replace(good, bad), tmp_path)
        assert len(wrong) == 1, (good, wrong)
        assert right == PAGE or "[...]" not in right, right


def test_only_what_changes_is_put_aside():
    shown = ["PASSED  1 kernel, 0.2 s", "[...]", "exit 0"]
    for printed in ("PASSED  1 kernel, 7.1 s\nmore\nexit 0\n", "PASSED  1 kernel, 7.1 s\nexit 0"):
        assert not pages.differs(shown, printed)
    for printed in ("PASSED  2 kernels, 0.2 s\nexit 0", "PASSED  1 kernel, 0.2 s\n", "",
                    "FAILED\nPASSED  1 kernel, 1.0 s\nexit 0",
                    "PASSED  1 kernel, 0.2 s\nexit 0\nmore"):
        assert pages.differs(shown, printed)
    assert not pages.differs(["execution 7, 0.1 s"], "execution 9, 0.2 s")
    assert not pages.differs(["in 2000 executions"], "in 2004 executions")
    assert pages.differs(["1 finding in 2000 executions"], "2 findings in 2000 executions")
    assert pages.differs(["case 7, 0.1 s"], "case 9, 0.2 s")


def test_a_line_between_others_that_are_left_out_is_written_anew():
    shown = ["[...]", "PASSED  7 kernels; 315 cases, 0.1 s", "[...]"]
    printed = "kernel  laws\nonline  1\nPASSED  7 kernels; 308 cases, 0.2 s\nnot judged: 3\n"
    assert pages.rewritten(shown, printed) == [
        "[...]", "PASSED  7 kernels; 308 cases, 0.2 s", "[...]"]
    assert pages.rewritten(["a 1", *shown, "z 1"], "a 2\n" + printed + "z 2") == [
        "a 2", "[...]", "PASSED  7 kernels; 308 cases, 0.2 s", "[...]", "z 2"]
    assert not pages.differs(pages.rewritten(shown, printed), printed)


def test_every_exception_is_one():
    for table in (NOT_RUN, SOONER):
        for key in table:
            page, _, start = key.partition(": ")
            assert page in PAGES and any(
                step.text.startswith(start) for step in pages.steps_of(text_of(page))), key


# ---- What is named can be read


@functools.lru_cache(maxsize=None)
def rows_of(what):
    """Of `qkvet explain`: laws, kernels, ..."""
    said = ran([PROGRAM, "explain", what, "--json"], code=0)
    return [json.loads(line) for line in said.splitlines()]


def names(what):
    return {row.get("id") or row.get("name") for row in rows_of(what)} - {None}


@functools.lru_cache(maxsize=None)
def options():
    """The options of all commands, from the man page, and of all scripts."""
    known = ran([PROGRAM, "man"], code=0).replace("\\-", "-")
    for path in tracked("*.py", "*.sh"):
        if path != "ci/pages_test.py":
            known += text_of(path)
    return set(re.findall(r"--[a-z][a-z-]+", known))


FILLED_IN = "1"  # a number, a name, a file


def completed(words, said):
    """A command out of inline code, which may leave out required parts, with the next of
    these parts; None if the program's message is about something else."""
    if lacking := re.search(r": (\S+) is required", said):
        name = lacking.group(1)
        return [*words, *([name] if name.startswith("-") else []), FILLED_IN]
    if re.search(r": 1 required .* missing", said):
        return [*words, FILLED_IN]
    if placeholder := re.search(r"(?:convert: \S+ =|Value) ([A-Z]+)\b", said):
        return [FILLED_IN if word == placeholder.group(1) else word for word in words]
    if choices := re.search(r": (1|[A-Z]+) not in \{([\w-]+)", said):
        return [choices.group(2) if word == choices.group(1) else word for word in words]
    return None


def wrong_words(words, as_typed):
    """"", or the program's message about `qkvet WORDS`."""
    words = [re.sub(r"(?<=.)\.\.\.$", "", word) for word in words]
    if not as_typed and words[:1] and words[0].isupper():
        return ""  # `qkvet COMMAND --help`
    said = ran([PROGRAM, "--parse-only", *words]).strip()
    while said and not as_typed:
        if "subcommand is required" in said:
            return ""  # `qkvet golden`
        more = completed(words, said)
        if more is None or more == words:
            break
        words, said = more, ran([PROGRAM, "--parse-only", *more]).strip()
    return said or wrong_names(words) or wrong_when_run(tuple(words))


@functools.lru_cache(maxsize=None)
def wrong_when_run(words):
    """"", or the message of a command of CHEAP about its words. Words in capitals are
    placeholders, and the user's files are not here."""
    if words[:1] == () or (
            words[:1] not in CHEAP and words[:2] not in CHEAP) or any(
            word in ("...", FILLED_IN) or re.fullmatch(r"[A-Z]+|--(plugin|python|tvm-ffi|"
                                                       r"svg|png)", word)
            for word in words[1:]):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([PROGRAM, *words], cwd=folder, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    return done.stderr.strip() if done.returncode == 2 else ""


def wrong_names(words):
    """"", or a law, a kernel or a fuzz target that does not exist, or a case that is
    none."""
    if words[:1] == ["fuzz"] and words[1:] and re.fullmatch(r"[a-z_]+", words[1]) \
            and words[1] not in names("fuzz"):
        return f"no fuzz target {words[1]}"
    for option, name in zip(words, words[1:]):
        if option in ("--law", "-l") and re.fullmatch(r"[a-z0-9_]+", name) \
                and name not in names("laws"):
            return f"no law {name}"
        if option in ("--kernel", "-k") and re.fullmatch(r"faulty/[a-z0-9_]+", name) \
                and name not in names("faults"):
            return f"no fault {name}"
    for word in words:
        if re.match(r"(f|bf)\d\d,", word):
            try:
                case.parse(word)
            except Exception as wrong:  # whatever it is, it is said
                return str(wrong)
    return ""


def wrong_script(path, words, page):
    """"", or an option that is in no script of the project."""
    for folder in (ROOT, (ROOT / page).parent):
        script = folder / path
        if script.is_dir():
            script = script / "__main__.py"
        if script.is_file():
            source = script.read_text()
            if script.name == "run.py":  # what it does not know is for these
                words = [word for word in words[1:] if word not in ("--json",)]
                return min((wrong_words([*command, "X", *words], True)
                            for command in (("judge", "--ask"), ("check",))), key=len)
            return " ".join(word for word in words if word.startswith("--")
                            and word.split("=")[0] not in source)
    return "" if "/" not in path else f"no {path}"


def wrong_command(words, page, as_typed=True):
    """"", or what is wrong with a command; those of others are theirs."""
    program, rest = words[0], words[1:]
    if re.fullmatch(r"(.*/)?qkvet", program):
        return wrong_words(rest, as_typed)
    if re.fullmatch(r"python3?", program):
        if rest[:2] == ["-m", "qkvet"]:
            return wrong_words(rest[2:], as_typed)
        if rest[:2] == ["-m", "qkvet.campaign"]:
            return wrong_campaign(rest[2:], as_typed)
        return wrong_script(rest[0], rest[1:], page) if rest and rest[0] != "-m" else ""
    if re.fullmatch(r"(ci|\.)/[\w/.]+\.(sh|py)", program):
        return wrong_script(program, rest, page)
    if program in ("cmake", "ctest") and "--preset" in rest:
        preset = rest[rest.index("--preset") + 1]
        return "" if f'"name": "{preset}"' in text_of("CMakePresets.json") \
            else f"no preset {preset}"
    return ""


def wrong_campaign(words, as_typed):
    if not words and not as_typed:
        return ""  # names it
    try:
        _, words = campaign._read(words)
    except (SystemExit, campaign.WrongUse) as wrong:
        return f"qkvet.campaign does not take this: {wrong}"
    return wrong_words(["check", *words], True)


def wrong_on(page, text):
    """(what is wrong with commands of a page, how many were read)"""
    wrong, read = [], 0
    for line, as_typed in pages.commands_of(text):
        for words in pages.simple_commands(line, as_typed):
            read += bool(re.fullmatch(r"(.*/)?qkvet", words[0]))
            if said := wrong_command(words, page, as_typed):
                wrong.append(f"{page}: {line}: {said}")
    for option in re.findall(r"`(--[a-z][a-z-]+)", pages.blocks_of(text)[1]):
        if option not in options() | OF_OTHERS:
            wrong.append(f"{page}: no command has {option}")
    return wrong, read


def test_every_command_that_a_page_names_can_be_read():
    found = [wrong_on(page, text_of(page)) for page in PAGES]
    wrong = [line for lines, _ in found for line in lines]
    assert not wrong, "\n".join(wrong)
    assert sum(read for _, read in found) > 150


@pytest.mark.parametrize("line", [
    "qkvet check a.cpp --no-such", "qkvet chek a.cpp", "qkvet report a.jsonl --shard 1/2",
    "qkvet check --sizes tiny", "qkvet check --cases many", "qkvet replay",
    "qkvet check --law no_such_law", "qkvet check --kernel faulty/no_such",
    "qkvet replay f32,B1,H0,Tq1,Tk1,d1", "cd x && qkvet explain loaws | head -1",
    "qkvet explain no_such", "qkvet new mine.c --template abi",
    "qkvet demo inspect f32,B1,H2,T4,D5", "python3 -m qkvet.campaign out -- --no-such",
    "python3 -m qkvet.campaign out --no-such -- --cases 5", "ci/no_such.sh",
    "qkvet fuzz forward ./mine.so", "ci/fuzz.sh --no-such", "cmake --preset none"])
def test_a_command_that_cannot_be_read_is_seen(line):
    """The controls of the test above."""
    text = f"Text.\n\n    $ {line}\n    printed\n\nText.\n"
    assert len(wrong_on("x.md", text)[0]) == 1
    if not line.endswith("replay"):  # inline it names a command
        assert len(wrong_on("x.md", f"Text `{line}` text.\n")[0]) >= 1


def test_what_can_be_read_is_not_seen():
    for line in ("qkvet check --shard K/N --json FILE", "qkvet golden", "qkvet replay --out",
                 "qkvet replay CASE --out DIR [--force]", "qkvet check ... --html X",
                 "qkvet check --cases N", "cmake --preset dev", "ci/fuzz.sh --minimise"):
        assert wrong_on("x.md", f"Text `{line}` text.\n") == ([], line.startswith("qkvet"))
