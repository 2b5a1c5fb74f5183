#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts patterns of prose that a reader has to read twice, and fails if a count grows.

It reads the pages that are written by hand, comments, and the texts in quotation marks.
Write the sentence with its subject first and one plain verb: CONTRIBUTING.md has the
rules. When a count falls, lower its limit to what is printed.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Pattern: what to write instead, the expression, and the count that may not grow.
PATTERNS = {
    "free relative": (
        "begin with the subject; What, Where, Who and Of begin questions alone",
        r"(?:^|[.:;] )(?:What|Where|Who|Whoever|Of) [a-z][^?]*?(?:[.;]|$)", 81),
    "behind, in front of": (
        "after, before (time); past, next to (place)", r"\b(?:behind|in front of)\b", 93),
    "stands, lies": (
        "is, are", r"\b(?:stands?|lies?|lying) (?:in|on|at|for|behind|below|there|beside)\b", 29),
    "speaking data": (
        "returns, reports, prints, contains, checks, predicts, requires",
        r"\b(?:says|tells|hears|knows|answers for|is told|are told|is asked|are asked)\b", 64),
    "whose, nobody": (
        "the caller; its; unused; undocumented",
        r"\b(?:nobody|somebody|whoever|whose|whom)\b", 82),
    "negation twice": (
        "only; each; say what holds", r"\b(?:nothing but|not one|none that|nothing else)\b", 7),
    "in the place of": ("instead of", r"\bin (?:the|its|their) place\b", 2),
    "dear, hollow, vacuous": (
        "expensive; mostly skipped; uninformative",
        r"\b(?:dear|dearest|hollow|vacuous)\b", 22),
}

# Written by the program from texts that are counted where they are.
GENERATED = {"impl/faulty/CATALOGUE.md", "properties/laws.md", "properties/faults.md",
             "properties/conventions.md", "properties/others.md", "properties/kills.md",
             "cli/options.md", "examples/libraries/verdicts.md"}


def prose_of(name, text):
    """The prose of a file, a paragraph a line."""
    if name.endswith(".md"):
        text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
        text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.M)
        blocks = re.split(r"\n\s*\n|\n(?=[-*|#] ?)", text)
    elif name.endswith((".py", ".sh")):
        blocks = re.findall(r'"""(.*?)"""', text, re.S)
        blocks += re.findall(r"(?:^[ \t]*#(?!!).*\n)+", text, re.M)
    else:
        blocks = re.findall(r"(?:^[ \t]*//.*\n)+", text, re.M)
        blocks += re.findall(r"\S[^\n\"]*// (.*)$", text, re.M)
        blocks += re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text)
    for block in blocks:
        block = re.sub(r'^[ \t]*(?://+|#+|[-*|])[ \t]?', "", block, flags=re.M)
        block = re.sub(r'"\s*"', "", block).strip('" \n')
        yield " ".join(block.split())


def counts_of(files):
    """A Counter of the patterns, and their places: {pattern: [(file, text)]}."""
    counts, places = collections.Counter(), collections.defaultdict(list)
    for name in files:
        text = (ROOT / name).read_text(errors="replace")
        for line in prose_of(name, text):
            for pattern, (_, expression, _) in PATTERNS.items():
                for found in re.finditer(expression, line):
                    counts[pattern] += 1
                    places[pattern].append((name, found.group().strip()))
    return counts, places


def main(arguments):
    tracked = subprocess.run(["git", "ls-files", *arguments], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, check=True).stdout.split()
    files = [name for name in tracked if name not in GENERATED
             and name.endswith((".md", ".h", ".cpp", ".c", ".cu", ".py", ".sh"))]
    counts, places = counts_of(files)
    if arguments:  # the places in these files or folders
        for pattern, found in places.items():
            for name, text in found:
                print(f"{name}: {pattern}: {text[:100]}")
    grown = 0
    for pattern, (instead, _, limit) in PATTERNS.items():
        print(f"{counts[pattern]:6} {pattern} (limit {limit})")
        if not arguments and counts[pattern] > limit:
            grown += 1
            print(f"ci/english.py: '{pattern}' grew; write: {instead}. "
                  "`python3 ci/english.py FOLDER` lists the places.", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
