# SPDX-License-Identifier: Apache-2.0
"""A task: what every candidate must take, compute and keep to (task.toml)."""
import dataclasses
import os
import pathlib
from typing import Dict, List, Optional

from ..declare import WrongUse, declaration

# The fields of each table of a task, with their types.
_TABLES = {
    "call": {"function": str, "arrays": str, "device": str, "gradient": str,
             "cache": str, "subject": str},
    "declares": None,  # the words of qkvet.kernel
    "precision": None,  # the fields of a precision file
    "serves": {"cases": list, "captured": list, "rows": int},
    "limits": {"seconds": float, "load_seconds": float, "imports": list,
               "computed_by": str, "memory": int, "processes": int},
    "score": {"smoke": float, "laws": float, "served": float},
}
COMPUTED_BY = ("own", "primitives", "anything")


@dataclasses.dataclass(frozen=True)
class Served:
    """A call at its full size, and the file of its inputs or None."""
    case: str
    data: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    title: str
    function: str  # the name of the candidate's function
    # Declarations of the task, each as words. A candidate's own are ignored.
    declares: Dict[str, str]
    precision: str  # the text of a precision file; "": generic
    served: List[Served]
    rows: int  # that are judged of a served call
    seconds: float  # for the laws
    load_seconds: float  # until the first call: imports, compilers
    memory: int  # MiB of a process
    processes: int  # with their threads
    imports: Optional[List[str]]  # modules that may be imported; None: any
    computed_by: str
    score: Dict[str, float]
    folder: str

    @property
    def declared(self):
        """The text of a file for --dialect: all that a candidate must take."""
        kept = ("arrays", "device", "gradient", "cache", "subject", "precision")
        return "".join(f"{key} = {value}\n"
                       for key, value in self.declares.items()
                       if key not in kept)


def _toml(path):
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        try:
            import tomli as tomllib
        except ImportError:
            raise WrongUse(f"{path}: Python before 3.11 reads no TOML; allowed: "
                           "pip install tomli") from None
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise WrongUse(f"{path}: no TOML: {error}") from None


def _one_of(path, what, value, allowed):
    if value not in allowed:
        raise WrongUse(f"{path}: {what}: {value!r}; allowed: " + ", ".join(allowed))


def _checked(path, text):
    """The tables of the file, complete. WrongUse names the first bad one."""
    for key, value in text.items():
        if key in ("name", "title"):
            if not isinstance(value, str):
                raise WrongUse(f"{path}: {key}: no text")
            continue
        _one_of(path, "table", key, ("name", "title", *_TABLES))
        if not isinstance(value, dict):
            raise WrongUse(f"{path}: {key}: no table; allowed: [{key}]")
        fields = _TABLES[key]
        for field, one in value.items() if fields else ():
            _one_of(path, f"{key}: field", field, fields)
            wanted = fields[field]
            if not isinstance(one, (int, float) if wanted is float else wanted) or (
                    isinstance(one, bool)):
                raise WrongUse(f"{path}: {key}.{field}: {one!r}; allowed: a "
                               + {str: "text", list: "list", int: "whole number",
                                  float: "number"}[wanted])
    return {table: dict(text.get(table, {})) for table in _TABLES}


def load(path) -> Task:
    """Reads a task file, or one of those that are shipped by its name. Errors: WrongUse, one line with the table and the field."""
    path = os.fspath(path)
    if not os.path.exists(path):
        shipped = {one.stem: str(one) for one in sorted(
            (pathlib.Path(__file__).parent / "tasks").glob("*.toml"))}
        if path not in shipped:
            raise WrongUse(f"{path}: no such task; allowed: a file, or "
                           + ", ".join(shipped))
        path = shipped[path]
    if not os.path.isfile(path):
        raise WrongUse(f"{path}: no regular file")
    text = _toml(path)
    tables = _checked(path, text)
    folder = os.path.dirname(os.path.abspath(path))
    call, serves, limits = (tables[one] for one in ("call", "serves", "limits"))
    if "options" not in tables["declares"] and "like" not in tables["declares"]:
        raise WrongUse(f"{path}: declares.options is missing: what every candidate "
                       "must take; allowed: words of `qkvet explain options`")
    words = {key: value for key, value in call.items() if key != "function"}
    fields = declaration({**tables["declares"], **words})
    fields.setdefault("arrays", "numpy")
    served = [Served(one) for one in serves.get("cases", [])]
    for one in serves.get("captured", []):
        if not isinstance(one, dict) or sorted(one) != ["case", "file"]:
            raise WrongUse(f"{path}: serves.captured: {one!r}; allowed: "
                           '{case = "...", file = "call.safetensors"}')
        data = os.path.join(folder, one["file"])
        if not os.path.exists(data):
            raise WrongUse(f"{data}: no such file")
        served.append(Served(one["case"], data))
    computed_by = limits.get("computed_by", "primitives")
    _one_of(path, "limits.computed_by", computed_by, COMPUTED_BY)
    most = {"memory": limits.get("memory", 8192),
            "processes": limits.get("processes", 256)}
    for name, number in most.items():
        if number < 1:
            raise WrongUse(f"{path}: limits.{name}: {number}; allowed: at least 1")
    precision = declaration({"precision": tables["precision"]})["precision"]
    score = {"smoke": 0.2, "laws": 0.5, "served": 0.3, **tables["score"]}
    if not sum(score.values()) > 0:
        raise WrongUse(f"{path}: score: the weights add up to "
                       f"{sum(score.values())}; allowed: more than 0")
    return Task(
        name=text.get("name", pathlib.Path(path).stem),
        title=text.get("title", ""), function=call.get("function", "attention"),
        declares=fields, precision=precision, served=served,
        rows=serves.get("rows", 16), seconds=float(limits.get("seconds", 10)),
        load_seconds=float(limits.get("load_seconds", 120)),
        **most, imports=limits.get("imports"), computed_by=computed_by, score=score,
        folder=folder)
