# SPDX-License-Identifier: Apache-2.0
"""check, replay and fuzz: the commands of the program, on a callable."""
import json
import os
import sys
import tempfile

from . import _door, _program
from .declare import WrongUse, as_config, declared
from .imported import in_worker
from .report import VERDICTS, Report, report_of


def target_of(function):
    """"module:name" if a worker can import exactly this object, else None; and
    the folder in which the module is found."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return None, None
    loaded = sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    if module == "__main__":
        # A script: a worker imports it by its file, and not as __main__.
        spec = getattr(loaded, "__spec__", None)
        if spec is not None or path is None or not path.endswith(".py"):
            return None, None
        module = os.path.abspath(path)
    found = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function:
        return None, None
    if module.endswith(".py") or path is None:
        return f"{module}:{name}", None
    above = os.path.abspath(path)
    for _ in range(module.count(".") + (
            2 if os.path.basename(path) == "__init__.py" else 1)):
        above = os.path.dirname(above)
    return f"{module}:{name}", above


def _adapted(function, adapter, fields):
    """The callable for this process, and its declaration."""
    if adapter is not None:
        function = adapter(function)
    return function, declared(function, fields)


def _adapter_name(adapter):
    if adapter is None:
        return None
    target, _ = target_of(adapter)
    if target is None:
        raise WrongUse(f"adapter {adapter!r}: a worker cannot import it; "
                       "allowed: a function of a module, or isolated=False")
    return target


def where_of(function, adapter, isolated, fields):
    """Arguments of the program for the callable, and folders of modules; None if
    it can only be judged in this process."""
    if isinstance(function, str):
        if ":" not in function:
            raise WrongUse(f"{function}: no callable; allowed: MODULE:NAME, FILE.py:NAME")
        target, folder = function, None
    elif isolated is False:
        return None, []
    else:
        target, folder = target_of(function)
        if target is None and isolated:
            raise WrongUse(f"{function!r}: a worker cannot import it; allowed: a "
                           "function of a module or a file, or isolated=False")
        if target is None:
            return None, []
    config = dict(fields)
    name = _adapter_name(adapter)
    if name:
        config["adapter"] = name
    text = as_config(config)
    return ([target + (":" + text if text else "")],
            [os.getcwd()] + ([folder] if folder else []))


def _wrong_use(line):
    """The error of the program, without the prefixes for plug-ins in C."""
    return WrongUse(line.strip().removeprefix("qkvet: ").replace(
        "qkvet_open() returned INVALID_ARGUMENT: ", "").replace(
            "qkvet_open() returned INTERNAL: ", ""))


def ran(words, paths):
    """Runs the program: its exit code and text. WrongUse with its one line;
    RuntimeError for an undefined exit code."""
    code, text, wrong = _program.run(words, paths)
    if code == 2:
        raise _wrong_use(wrong)
    if code not in VERDICTS:
        raise RuntimeError(f"qkvet {words[0]} ended with {code}: {wrong.strip()}")
    return code, text


def _reported(words, where, paths, record=None):
    """The report of a command with --json, which writes the record."""
    with tempfile.TemporaryDirectory() as folder:
        record = os.fspath(record or os.path.join(folder, "run.jsonl"))
        code, text = ran([*words, "--json", record], paths)
        with open(record, encoding="utf-8") as lines:
            return report_of(code, text, lines.read(), where, paths)


def _here(function, fields, request, files=()):
    """In this process: for closures, notebooks and debuggers."""
    said = {}

    def say(what, text):
        said[what] = text.decode(errors="replace")

    library = _door.Library(f"here:{getattr(function, '__name__', 'callable')}",
                            function, fields, here=True)
    door = _door.opener(lambda _config: library)
    code = _program.library().qkvet_python_check(
        library.kernel.name, _program.program().encode(),
        json.dumps({k: v for k, v in request.items() if v is not None}).encode(),
        door, _program.Say(say))
    if code == 2:
        raise WrongUse(said.get(2, "wrong use"))
    if files:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
            lines.write(said[1])
            lines.flush()
            ran(["report", lines.name, *files], [])
    return report_of(code, said[0], said[1])


def check(function, *, adapter=None, laws=None, cases=None, budget=None, seed=1,
          sizes=None, pin=None, known=None, strict=False, fail_fast=False,
          jobs=None, diagnose=None, verbose=False, hints=True, isolated=None,
          junit=None, sarif=None, html=None, record=None, baseline=None,
          **fields) -> Report:
    """Judges an attention callable by every law that it declares enough for.

    function: a callable, or "module:name". If a worker can import it (a function
        of a module or of a script with a file), it runs in worker processes,
        which may crash and hang. Others (closures, lambdas, cells of a notebook)
        run in this process, one case at a time; isolated=True makes that an
        error, isolated=False requests it.
    adapter: a function that gives the callable the signature of `kernel`
        (qkvet.adapters has those of known libraries).
    fields: declarations as in `kernel`; they override the decorator.
    laws: names or globs. cases: number for all laws together [20,000]; budget: a
        time ("60s") instead. seed: a number or "random". sizes: "small", "medium",
        "large" or "long" [long]. pin: "d=64,Tk=128". known: a file of accepted
        failures. baseline: the `record` of an earlier run; its failures are
        accepted.
        strict, jobs, diagnose, verbose: as in `qkvet check --help`.
        fail_fast: end the run at the first failure, without a cause unless
        `diagnose=1`; a call that waits for 3 s then counts as died.
        hints: use numbers in the source of the callable as extents.
    junit, sarif, html, record: paths of files to write.

    Returns a Report. Errors: WrongUse, one line, if nothing can be judged: an
    unknown word, a module that cannot be imported.
    """
    if (nothing := in_worker()) is not None:
        return nothing
    where, paths = where_of(function, adapter, isolated, fields)
    names = [laws] if isinstance(laws, str) else list(laws or [])
    if diagnose is None and fail_fast:
        diagnose = 0
    diagnose = None if diagnose is None else int(diagnose)
    files = [part for flag, path in (("--junit", junit), ("--sarif", sarif),
                                     ("--html", html)) if path is not None
             for part in (flag, os.fspath(path))]
    if record is not None and where is None:
        raise WrongUse("record: only for callables that a worker can import")
    if where is None:
        function, fields = _adapted(function, adapter, fields)
        for name, value in (("known", known), ("baseline", baseline)):
            if value is not None:
                raise WrongUse(f"{name}: only for callables that a worker can "
                               "import")
        return _here(function, fields, {
            "laws": names, "cases": cases, "budget": budget, "seed": str(seed),
            "sizes": sizes, "pin": pin, "strict": strict, "diagnose": diagnose,
            "fail_fast": fail_fast, "verbose": verbose}, files)
    words = ["check", *where, "--seed", str(seed), *files]
    for law in names:
        words += ["--law", law]
    for flag, value in (("--cases", cases), ("--budget", budget),
                        ("--sizes", sizes), ("--pin", pin), ("--known", known),
                        ("--jobs", jobs), ("--diagnose", diagnose),
                        ("--baseline", baseline)):
        if value is not None:
            words += [flag, str(value)]
    words += [flag for flag, wanted in (
        ("--strict", strict), ("--fail-fast", fail_fast),
        ("--verbose", verbose), ("--without=hints", not hints)) if wanted]
    return _reported(words, where, paths, record)


def replay(case, function, *, law=None, adapter=None, isolated=None,
           **fields) -> Report:
    """Judges one case, as a report prints it, by one law or by all that apply.

    Returns a Report. With isolated=False the callable runs in this process, where
    a debugger can stop in it. The other arguments are those of `check`."""
    if (nothing := in_worker()) is not None:
        return nothing
    where, paths = where_of(function, adapter, isolated, fields)
    if where is None:
        function, fields = _adapted(function, adapter, fields)
        return _here(function, fields, {"case": case, "laws": [law] if law else []})
    words = ["replay", case, *where] + (["--law", law] if law else [])
    return _reported(words, where, paths)


def fuzz(function, *, target="shapes", time="60s", adapter=None, seed=1,
         jobs=None, corpus=None, **fields) -> Report:
    """Searches for failing cases with a fuzzer.

    target: one of `qkvet explain fuzz`. time: a duration. corpus: a folder of
    inputs to read and extend. The callable must be importable by a worker.
    Returns a Report without results; `text` has the findings."""
    if (nothing := in_worker()) is not None:
        return nothing
    where, paths = where_of(function, adapter, True, fields)
    words = ["fuzz", target, *where, "--budget", time, "--seed", str(seed)]
    for flag, value in (("--jobs", jobs), ("--corpus", corpus)):
        if value is not None:
            words += [flag, str(value)]
    return Report(*ran(words, paths), [])
