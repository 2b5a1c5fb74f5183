#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records of real runs against their schema, and the reports of them.

    record_test.py QKVET

Each check has a control: a broken line that the schema must refuse, texts that are
hostile to every format. With $QKVET_SARIF_SCHEMA, a copy of the schema that OASIS
publishes, SARIF is checked against that, too.
"""
import copy
import html.parser
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
FORMATS = {"html": "html", "sarif": "sarif", "junit": "xml", "markdown": "md"}
HOSTILE = "<script>alert(1)</script><img src=x>\"'&]]>`|*\n::error::%0A\u0001"


def run(qkvet, folder, words, exit_code):
    """stdout of the program."""
    ran = subprocess.run([qkvet, *words], cwd=folder, capture_output=True,
                         text=True, check=False)
    assert ran.returncode == exit_code, (words, ran.returncode, ran.stdout,
                                         ran.stderr)
    return ran.stdout


def written(name):
    """The options that write all formats under the name."""
    return [word for option, ending in FORMATS.items()
            for word in (f"--{option}", f"{name}.{ending}")]


def lines_of(path):
    return [json.loads(line) for line in
            path.read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- the schema

def strict(schema):
    """The same without additional fields: a reader may ignore unknown fields, but
    the writer must not write undocumented ones."""
    out = copy.deepcopy(schema)
    lines = {rule["if"]["properties"]["type"]["const"] for rule in out["allOf"]}

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part["additionalProperties"] = False
            part = list(part.values())
        if isinstance(part, list):
            for one in part:
                close(one)
    for name, part in out["$defs"].items():
        if name in lines:
            part = list(part["properties"].values())
        close(part)
    out["unevaluatedProperties"] = False
    return out


def broken_lines(rows):
    """Lines of the record, each made wrong in one way."""
    def first(kind, has=None):
        return copy.deepcopy(next(row for row in rows if row["type"] == kind
                                  and (has is None or has in row)))
    for field in ("kernel", "law", "verdict", "checked"):
        row = first("result")
        del row[field]
        yield f"a result without {field}", row
    for field, value in (("verdict", "fine"), ("checked", -1), ("checked", "1"),
                         ("worst_error_over_bound", "large"), ("schema", 2),
                         ("error_over_bound_powers", {"one": 1}),
                         ("bound_over_error", {"f32": {"quarters": {"-1": 1},
                                                       "without_error": 0}})):
        yield f"{field} = {value!r}", {**first("result"), field: value}
    row = first("result", "failure")
    del row["failure"]
    yield "FAILED without a failure", row
    row = first("result", "failure")
    row["failure"]["digest"] = "xyz"
    yield "a digest that is none", row
    row = next(copy.deepcopy(row) for row in rows
               if row.get("failure", {}).get("calls"))
    row["failure"]["calls"][0]["outputs"][0]["actual"] = ["zero"]
    yield "an element that is no number", row
    yield "a field without a name in it", {**first("end"), "new": 1}
    row = first("result", "failure")
    row["failure"]["new"] = 1
    yield "a field of a failure without a name in it", row
    row = first("kernel", "pairs")
    row["pairs"]["met"][0] = "2"
    yield "a meeting that is neither 0 nor 1", row
    yield "an exit code that is none", {**first("end"), "exit": 7}
    row = first("start")
    row["environment"]["began"] = "yesterday"
    yield "a time that is none", row


def check_schema(validator, rows):
    kinds = {row["type"] for row in rows}
    assert {"start", "law", "kernel", "result", "end"} <= kinds, kinds
    for row in rows:
        validator.validate(row)
    for what, row in broken_lines(rows):
        assert not validator.is_valid(row), f"the schema allows {what}"


# --------------------------------------------------------------- the formats

class Page(html.parser.HTMLParser):
    """Tags, ids, links and texts of a page; an end that fits no start is an
    error."""
    VOID = {"meta", "br", "img", "link", "input", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links = [], [], [], []
        self.attributes, self.text = [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def check_page(text, rows):
    page = Page(text)
    assert page.tags.count("script") == 1, page.tags.count("script")
    assert "img" not in page.tags and "iframe" not in page.tags
    assert len(set(page.ids)) == len(page.ids), "an id stands twice"
    for link in page.links:
        assert link[0] == "#" and link[1:] in page.ids, link
    for tag, attrs in page.attributes:
        assert not {"src", "onclick", "onload", "srcset"} & set(attrs), attrs
        assert "http" not in attrs.get("href", ""), attrs
        if tag == "svg" and attrs.get("role") == "img":
            assert attrs.get("aria-label"), attrs
        if tag == "button":
            assert attrs.get("type") == "button" and "hidden" in attrs, attrs
    assert "default-src 'none'" in text
    assert "@import" not in text and "url(http" not in text
    for row in rows:
        if row["type"] == "result" and "failure" in row:
            # The page keeps its line feeds and blanks.
            assert row["failure"]["again"] in page.text, row["failure"]["again"]
    return page


def check_sarif(text, rows):
    log = json.loads(text)
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    found = log["runs"][0]
    rules = [rule["id"] for rule in found["tool"]["driver"]["rules"]]
    assert rules == [row["law"] for row in rows if row["type"] == "law"]
    failures = sum(("failure" in row) + len(row.get("other_failures", []))
                   for row in rows if row["type"] == "result")
    # A result is a cause; its other failures are related.
    assert sum(1 + len(one.get("relatedLocations", [])) for one in
               found["results"] if one["kind"] == "fail") == failures
    for one in found["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        assert one["message"]["text"]
        place = one["locations"][0]
        assert place["logicalLocations"][0]["fullyQualifiedName"]
        assert " " not in place["physicalLocation"]["artifactLocation"]["uri"]
    schema = os.environ.get("QKVET_SARIF_SCHEMA")
    if schema:
        jsonschema.validate(log, json.loads(pathlib.Path(schema).read_text(
            encoding="utf-8")))
    return found


def check_junit(text, rows):
    suite = xml.etree.ElementTree.fromstring(text.encode())[0]
    tests = suite.findall("testcase")
    assert len(tests) == sum(row["type"] == "result" for row in rows)
    for name, count in (("failure", "failures"), ("error", "errors"),
                        ("skipped", "skipped")):
        assert len(suite.findall(f"testcase/{name}")) == int(suite.get(count))


def check_formats(folder, name, rows):
    read = {option: (folder / f"{name}.{ending}").read_text(encoding="utf-8")
            for option, ending in FORMATS.items()}
    page = check_page(read["html"], rows)
    found = check_sarif(read["sarif"], rows)
    check_junit(read["junit"], rows)
    assert "<script" not in read["markdown"], "Markdown has markup of a kernel"
    return page, found, read


# ------------------------------------------------------------------ the runs

def check_failing(qkvet, folder, validator):
    run(qkvet, folder,
        ["check", "--kernel", "faulty/no_scale", "--kernel",
         "faulty/tail_tile_unmasked", "--kernel", "scalar/plain", "--cases",
         "700", "--sizes", "small", "--json", "bad.jsonl", *written("bad")], 1)
    rows = lines_of(folder / "bad.jsonl")
    check_schema(validator, rows)
    page, found, read = check_formats(folder, "bad", rows)
    assert "FAILED" in page.text and "The scores are not scaled." in page.text
    assert "rect" in page.tags, "no heat map"
    places = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
              for one in found["results"]}
    assert any(place.startswith("impl/faulty/") for place in places), places
    # Files written later equal those written at once.
    run(qkvet, folder, ["report", "bad.jsonl", *written("later")], 0)
    for option, ending in FORMATS.items():
        later = (folder / f"later.{ending}").read_text(encoding="utf-8")
        assert later == read[option], option
    said = run(qkvet, folder, ["report", "bad.jsonl", "--github"], 0)
    assert "::error file=impl/faulty/" in said, said
    return rows


def check_passing(qkvet, folder, validator):
    run(qkvet, folder,
        ["check", "--kernel", "scalar/plain", "--law", "agrees_with_oracle",
         "--law", "weights_sum_to_one", "--sizes", "small", "--cases", "200",
         "--json", "good.jsonl", *written("good")], 0)
    rows = lines_of(folder / "good.jsonl")
    for row in rows:
        validator.validate(row)
    page, found, _ = check_formats(folder, "good", rows)
    assert "PASSED" in page.text and not found["results"]


def check_golden(qkvet, folder, validator):
    """Golden sets are rows like laws, with additional lines of their own."""
    run(qkvet, folder,
        ["golden", "verify", "--kernel", "faulty/no_scale", "--kernel",
         "scalar/plain", "hand_*", "--json", "sets.jsonl",
         *written("sets")], 1)
    rows = lines_of(folder / "sets.jsonl")
    for row in rows:
        validator.validate(row)
    types = {row["type"] for row in rows}
    assert {"start", "law", "kernel", "result", "set", "end"} <= types, types
    for kind, field in (("set", "set"), ("set", "source"), ("law", "sentence")):
        row = next(dict(row) for row in rows if row["type"] == kind)
        del row[field]
        assert not validator.is_valid(row), f"the schema allows no {field}"
    page, found, read = check_formats(folder, "sets", rows)
    assert "fails" in page.text and "sets" in page.text
    assert found["results"]
    run(qkvet, folder, ["report", "sets.jsonl", *written("later")], 0)
    for option, ending in FORMATS.items():
        later = (folder / f"later.{ending}").read_text(encoding="utf-8")
        assert later == read[option], option


def hostile(value, field=""):
    """The same with markup in every text that a user can write."""
    if isinstance(value, dict):
        return {key: hostile(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one, field) for one in value]
    kept = {"type", "verdict", "certainty", "cause", "reported_with", "law",
            "laws", "axes", "expected", "actual", "low", "high", "digest",
            "worst_error_over_bound", "error_over_bound", "sizes",
            "rows", "kind", "met", "reason_is_about"}
    if not isinstance(value, str) or field in kept:
        return value
    return HOSTILE


def check_hostile(qkvet, folder, validator, rows):
    wanted = [row for row in hostile(rows) if row["type"] != "round"]
    # One kernel of each name is left.
    seen, kept = set(), []
    for row in wanted:
        key = (row["type"], row.get("kernel"), row.get("law"))
        if key not in seen:
            kept.append(row)
        seen.add(key)
    path = folder / "hostile.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in kept),
                    encoding="utf-8")
    run(qkvet, folder, ["report", "hostile.jsonl", *written("hostile")], 0)
    page = check_page((folder / "hostile.html").read_text(encoding="utf-8"), [])
    assert "<script>alert(1)</script>" in page.text
    check_sarif((folder / "hostile.sarif").read_text(encoding="utf-8"), kept)
    check_junit((folder / "hostile.xml").read_text(encoding="utf-8"), kept)
    markdown = (folder / "hostile.md").read_text(encoding="utf-8")
    outside = markdown.split("```")[::2]
    assert not any("<script" in part or "<img" in part for part in outside)
    said = run(qkvet, folder, ["report", "hostile.jsonl", "--github"], 0)
    assert all(line.startswith(("::error ", "::warning ")) for line in
               said.splitlines()), said


def main():
    qkvet = sys.argv[1]
    schema = json.loads((HERE / "run.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(strict(schema))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = check_failing(qkvet, folder, validator)
        check_passing(qkvet, folder, validator)
        check_golden(qkvet, folder, validator)
        check_hostile(qkvet, folder, validator, rows)
    print("records, pages, SARIF, JUnit and Markdown are fine")


if __name__ == "__main__":
    main()
