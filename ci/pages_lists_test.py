# SPDX-License-Identifier: Apache-2.0
"""Compares lists that pages hold by hand with the registry that each of them repeats; names
of kernels and links in all pages. The text beside a name in a table is written by hand,
so the tables are not generated: here they are checked for completeness."""
import collections
import pathlib
import re

import pytest

import english
import pages
from pages_test import PAGES, PROGRAM, REWRITE, ROOT, names, ran, rows_of, text_of, tracked

FAMILIES = ("scalar", "eigen", "avx2", "kv_cache", "kv_cache_avx2", "serving",
            "serving_avx2", "simt", "cuda", "controls", "faulty")


def first_cells(text):
    """The code in the first cells of the tables of a page."""
    return {name.strip("/") for cell in re.findall(r"^\| *([^|]*)\|", text, re.M)
            for name in re.findall(r"`([^`]+)`", cell)}


def commands():
    """Of `qkvet --help`."""
    said = ran([PROGRAM, "--help"], code=0)
    return set(re.findall(r"^  ([a-z][a-z-]+) ", said[said.index("Subcommands:"):], re.M))


def golden_sets():
    """How many sets of each source."""
    count = collections.Counter(row["name"].split("_")[0] for row in rows_of("golden"))
    return {f"{name}_* {number}" for name, number in count.items()}


def adapters():
    source = text_of("python/qkvet/adapters.py")
    return set(re.findall(r"^(?:def )?([a-z]\w+)(?:\(| = )", source, re.M))


def in_folder(folder):
    """The content of a folder: files and folders."""
    return {path[len(folder) + 1:].split("/")[0] for path in tracked(folder + "/*")
            } - {"README.md"}


def broken_examples():
    return {pathlib.PurePath(path).name for path in tracked("examples/*")
            if path.count("/") == 1 and path.endswith((".c", ".cpp"))
            and ("_broken" in path or "def BROKEN" in text_of(path))}


# A page, what it lists, and what there is.
WHOLE = {
    "cli/commands.md": (
        lambda text: set(re.findall(r"qkvet ([a-z][a-z-]+)", text_of("README.md") + text)),
        commands),
    "examples/README.md": (
        lambda text: set(re.findall(r"^    \$ qkvet check (\S+)", text, re.M)),
        broken_examples),
    "fuzz/README.md": (first_cells, lambda: names("fuzz")),
    "golden/README.md": (
        lambda text: {" ".join(row) for row in
                      re.findall(r"^\| `(\w+_\*)` \((\d+)\)", text, re.M)}, golden_sets),
    "python/guide.md": (lambda text: set(re.findall(r"\w+", text)), adapters),
    "tutorials/README.md": (lambda text: set(re.findall(r"\]\((\w+\.md)\)", text)),
                            lambda: in_folder("tutorials")),
    "ci/README.md": (first_cells, lambda: in_folder("ci")),
}


@pytest.mark.parametrize("page", WHOLE)
def test_a_page_lists_all_that_there_is(page):
    listed, known = WHOLE[page]
    missing = known() - listed(text_of(page))
    assert not missing, f"{page} lacks {sorted(missing)}"
    # The control.
    one = max(known() - listed("")).split("_* ")[0]
    assert any(one in name for name in known() - listed(text_of(page).replace(one, "")))


def audited(text):
    """The laws of properties/audit.md; each row has three cells."""
    return sorted(law for row in re.findall(r"^\| (`[^|]+) \|(?:[^|]+\|){2}$", text, re.M)
                  for law in re.findall(r"`([a-z_0-9]+)`", row))


def test_every_law_has_one_row_in_the_audit():
    text, laws = text_of("properties/audit.md"), sorted(names("laws"))
    assert audited(text) == laws
    # The controls.
    row = re.search(r"^\| `agrees_with_oracle` .*\n", text, re.M).group()
    for wrong in ("", row * 2, row.replace("with", "without"), row.replace("|\n", "| x |\n")):
        assert audited(text.replace(row, wrong)) != laws


MOST_LINES = 400
TO_READ = re.compile(r"\[([\w/.]+)\]\(\1\) (\d+)")


def unread_kernels(text):
    """Kernels without a row in the table of files to read."""
    table = text.split("## Files to read")[1].split("\n## ")[0]
    listed = set(re.findall(r"\w+/\w+(?= *[|,])", table))
    return {name for name in names("kernels")
            if name.split("/")[0] in ("scalar", "eigen", "avx2", "kv_cache", "serving",
                                      "simt")} - listed


def test_each_kernel_is_read_in_short_files():
    page = "impl/kernels.md"
    with_lines = TO_READ.sub(
        lambda cell: f"[{cell[1]}]({cell[1]}) "
                     f"{len(text_of('impl/' + cell[1]).splitlines())}", text_of(page))
    if REWRITE:
        (ROOT / page).write_text(with_lines)
    else:
        assert text_of(page) == with_lines, "QKVET_REWRITE_EXAMPLES=1 writes the lines"
    found = TO_READ.findall(with_lines)
    assert len(found) > 20
    assert all(int(lines) < MOST_LINES for _, lines in found)
    assert not unread_kernels(with_lines)
    # The control.
    assert unread_kernels(with_lines.replace("| serving/paged |", "|")) == {"serving/paged"}


def test_the_page_of_options_is_what_the_program_writes():
    said = ran([PROGRAM, "man", "--markdown"], code=0)
    assert "## qkvet golden verify\n" in said and "| `--shard` K/N | " in said
    if REWRITE:
        (ROOT / "cli/options.md").write_text(said)
    assert text_of("cli/options.md") == said, \
        "qkvet man --markdown --out cli/options.md writes it"


def kernels_in(text):
    """Names of kernels in a page. A path (impl/controls/table.cpp) is none."""
    found = re.findall(r"(?<![\w/.*-])((?:%s)/[a-z0-9_]+)(?![\w/*.<])"
                       % "|".join(FAMILIES), text)
    return set(found)


def test_kernels_in_pages_exist():
    known = names("kernels") | names("faults")
    # Those of cuda are not built without nvcc; simt has the same ones.
    known |= {name.replace("simt/", "cuda/") for name in known}
    wrong = {page: kernels_in(text_of(page)) - known for page in PAGES}
    assert {page: found for page, found in wrong.items() if found} == {}
    assert len(set().union(*(kernels_in(text_of(page)) for page in PAGES))) > 20
    assert kernels_in("`controls/no_such`, faulty/none and impl/avx2/flash.cpp") == {
        "controls/no_such", "faulty/none"}


def anchors(text):
    """The anchors of the headings of a page, as GitHub makes them."""
    prose = pages.blocks_of(text)[1]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", prose, re.M)}


def broken_links(page, text):
    prose = re.sub(r"`[^`]*`", "", pages.blocks_of(text)[1])
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            yield f"{page}: {target}: no such file"
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"{page}: {target}: no such heading"


def test_links_lead_somewhere():
    wrong = [line for page in [*PAGES, "CHANGELOG.md"]
             for line in broken_links(page, text_of(page))]
    assert not wrong, "\n".join(wrong)
    assert len(list(broken_links("README.md", "[a](no.md) [b](LICENSE#x) [c](#how-it-works)"
                                 " [d](#none)"))) == 3


# ---- Prose


def test_patterns_of_prose_are_counted_in_pages_comments_and_texts(tmp_path, monkeypatch):
    for name, text in (
            ("page.md", "What a case says of it is kept.\n\n    nobody in a block\n"),
            ("code.cpp", "// Of these, none is\n// behind the last.\nf(\"it \"\n  \"lies in k\");\n"),
            ("script.py", "# Whoever reads this.\nnobody = 1\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(english, "ROOT", tmp_path)
    counts, places = english.counts_of(["page.md", "code.cpp", "script.py"])
    assert counts == {"free relative": 3, "speaking data": 1, "behind, in front of": 1,
                      "stands, lies": 1}, places


def test_a_count_may_not_grow(monkeypatch, capsys):
    assert english.main([]) == 0
    monkeypatch.setitem(english.PATTERNS, "free relative",
                        (*english.PATTERNS["free relative"][:2], 0))
    assert english.main([]) == 1
    assert "'free relative' grew" in capsys.readouterr().err
