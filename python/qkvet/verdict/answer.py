# SPDX-License-Identifier: Apache-2.0
"""The answer of a verdict: at most 2 kB of JSON (answer.schema.json)."""
import json
import os
import re

import numpy as np

LARGEST = 2048
_MOST_ELEMENTS = 64  # of a tensor in a program
_MOST_PLACES = 4
_SCALARS = {"scale": float, "softcap": float}
# Fields that go first when an answer is too long.
_LEAST = ("lines", "findings", "passes", "program", "places", "fails", "why")


def of(task, one, found, seed, folder):
    """The answer about a candidate; `one` is None if there is none."""
    total = sum(task.score.values())
    tiers = {name: round(part, 3) for name, part in found.tiers.items()}
    score = sum(task.score[name] * tiers.get(name, 0) for name in task.score) / total
    answer = {
        "schema": 1, "task": task.name, "candidate": one.shown if one else "",
        "status": found.status, "score": round(score, 3), "tiers": tiers,
        "why": found.why.replace(str(folder) + "/", "")[:600],
        **_of_failure(one, found), "findings": found.findings[:4],
        "checked": found.checked, "seed": seed, "armour": found.missing,
        "seconds": {name: round(value, 2) for name, value in found.seconds.items()}}
    return shortened({key: value for key, value in answer.items()
                      if value not in ("", [], {}, None)
                      or key in ("score", "tiers")})


def shortened(answer):
    """The same in at most LARGEST bytes."""
    for key in _LEAST:
        if _size(answer) <= LARGEST:
            return answer
        if key in ("lines", "places", "findings"):
            while len(answer.get(key, ())) > 1 and _size(answer) > LARGEST:
                answer[key] = answer[key][:-1]
        elif key == "why" and "why" in answer:
            answer["why"] = answer["why"][:200]
        if _size(answer) > LARGEST:
            answer.pop(key, None)
    return answer


def _size(answer):
    return len(json.dumps(answer, ensure_ascii=False,
                          separators=(",", ":")).encode())


def _of_failure(one, found):
    if found.place is not None:
        place = {key: value for key, value in found.place.items()
                 if key not in ("ratio", "case")}
        return {"law": "The output is within what the declared arithmetic allows, "
                       "element by element.",
                "law_id": "agrees_with_oracle", "case": found.place["case"],
                "places": [place]}
    failure = found.failure
    if failure is None:
        return {}
    diagnosis = failure.fields.get("diagnosis", {})
    where = diagnosis.get("where", {})
    program, places = "", []
    if found.call is not None:
        program, places = _of_call(one, failure, found.call)
    text = diagnosis.get("text", "")
    return {
        "law_id": failure.law, "law": found.laws.get(failure.law, ""), "case": failure.case,
        "program": program,
        "places": places or [{
            "at": failure.fields.get("at", ""), "actual": failure.actual,
            "expected": failure.expected, "allowed": failure.allowed}],
        "fails": where.get("sentence", "") and "where " + where["sentence"],
        "passes": where.get("nearest_pass", ""),
        "cause": "" if failure.cause in ("", "unknown") and not text
                 else text or failure.cause,
        "certainty": failure.certainty, "fix": failure.fix,
        "stage": diagnosis.get("stage", {}).get("name", ""),
        "lines": _lines(one, diagnosis)}


def _of_call(one, failure, call):
    """The failing call as a program, and the places that are off by most."""
    places = []
    for name in call.expected:
        if name not in call.arrays:
            continue
        actual = np.asarray(call.arrays[name], np.float64)
        expected, bound = (np.broadcast_to(one_of[name], actual.shape)
                           for one_of in (call.expected, call.bound))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.abs(actual - expected) / bound
        ratio = np.where(actual == expected, 0, np.where(np.isnan(ratio), np.inf,
                                                         ratio))
        ratio[np.isnan(expected)] = 0
        for at in np.argsort(-ratio, axis=None)[:_MOST_PLACES]:
            index = np.unravel_index(at, ratio.shape)
            if ratio[index] > 1:
                places.append({
                    "at": f"{name}[{','.join(map(str, index))}]",
                    "actual": f"{actual[index]:.8g}",
                    "expected": f"{expected[index]:.8g}",
                    "allowed": f"{expected[index] - bound[index]:.8g} .. "
                               f"{expected[index] + bound[index]:.8g}"})
    return _program_of(one, failure, call, places), places[:_MOST_PLACES]


def _literal(array):
    array = np.asarray(array)
    numbers = [repr(float(x)) if array.dtype.kind == "f" else repr(x.item())
               for x in array.ravel()]
    numbers = [one[:-2] if one.endswith(".0") else one for one in numbers]
    body = "[" + ", ".join(numbers) + "]"
    return (f"np.array({body}, {array.dtype.name!r})"
            f".reshape{tuple(map(int, array.shape))}").replace(",)", ")")


def _program_of(one, failure, call, places):
    """At most ten lines of Python; "" if the call has too many numbers, or options
    that are more than a number."""
    words = {}
    for token in failure.case.split(","):
        key, equals, value = token.partition("=")
        if key == "causal":
            words["causal"] = {"br": "bottom_right", "tl": "top_left"}[value]
        elif key in _SCALARS:
            words[key] = _SCALARS[key](value)
        elif key == "window":
            words["window"] = tuple(int(n) for n in value.split("."))
        elif equals and key not in ("seed", "data", *"qkv", "mask", "bias"):
            return ""
    inputs = {name: array for name, array in call.arrays.items()
              if name not in call.expected}
    if set(inputs) - {*"qkv", "mask", "bias"} or one.target is None or any(
            np.asarray(array).size > _MOST_ELEMENTS for array in inputs.values()):
        return ""
    file, _, name = one.target.rpartition(":")
    module = os.path.basename(file).removesuffix(".py").rpartition(".")[2]
    lines = ["import numpy as np", f"from {module} import {name}"]
    lines += [f"{key} = {_literal(array)}" for key, array in inputs.items()]
    more = [f"{key}={key}" for key in ("mask", "bias") if key in inputs]
    more += [f"{key}={value!r}" for key, value in words.items()]
    lines.append("o = " + f"{name}(" + ", ".join(["q", "k", "v", *more]) + ")")
    if places and places[0]["at"].startswith("o["):
        lines.append(f"print({places[0]['at']}, 'expected', {places[0]['expected']})")
    return "\n".join(lines)


def _lines(one, diagnosis):
    """Lines of the source that a cause is about: those with words of the stage."""
    words = {"scores": ("scale", "sqrt", "@", "einsum", "matmul"),
             "softmax": ("exp", "max", "sum", "softmax"),
             "values": ("@ v", "matmul", "einsum"),
             "mask": ("where", "mask", "triu", "tril", "inf")}.get(
                 diagnosis.get("stage", {}).get("name", ""), ())
    found = []
    for number, line in enumerate(one.text.splitlines(), 1):
        code = re.split("#|//", line)[0].strip()
        if any(word in code for word in words) and not code.startswith(
                ("def ", "import ", "from ", "class ")):
            found.append(f"{number}: {code[:70]}")
    return found[:4]
