# SPDX-License-Identifier: Apache-2.0
"""Parses the pages of the documentation: the commands that they name, and the output that
they show below a command. pages_test.py compares both with the program.

A command is a line of a block that begins with "$ ", with its output below it; or a
line of a block of a shell; or inline code. Files of a block are named after its
language: ```python mine.py.
"""
import dataclasses
import difflib
import re
import shlex

REST = "[...]"  # stands for anything
PROMPT = "$ "


@dataclasses.dataclass
class Block:
    """Lines of code. `at`: number of the first, from 0."""
    at: int
    info: str  # behind ```; "" of an indented block
    indent: str
    lines: list

    def words(self):
        return self.info.split()


@dataclasses.dataclass
class Step:
    """A step of a reader, in the order of the page: a command (with the lines that it
    prints, which begin at `at`), a file to write, a script of Python to run."""
    kind: str  # command, file, python
    text: str
    name: str = ""
    shown: tuple = ()
    at: int = 0
    indent: str = ""


def blocks_of(text):
    """The blocks of code of a page, and the page without them."""
    out, prose, lines, i = [], [], text.splitlines(), 0
    while i < len(lines):
        fence = re.match(r"```(.*)$", lines[i])
        if fence:
            end = i + 1
            while end < len(lines) and lines[end] != "```":
                end += 1
            out.append(Block(i + 1, fence.group(1), "", lines[i + 1:end]))
            prose.append("")
            i = end + 1
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            end = i
            while end < len(lines) and (lines[end].startswith("    ")
                                        or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            out.append(Block(i, "", "    ", [one[4:] for one in lines[i:end]]))
            prose.append("")
            i = end
        else:
            prose.append(lines[i])
            i += 1
    return out, "\n".join(prose)


def logical_lines(lines):
    """(index after it, line) with lines that end in a backslash joined."""
    i = 0
    while i < len(lines):
        line, i = lines[i], i + 1
        while line.endswith("\\") and i < len(lines):
            line, i = line[:-1].rstrip() + " " + lines[i].strip(), i + 1
        yield i, line


def steps_of_block(block):
    """The commands after "$ ", each with the output shown below it."""
    steps, shown_from = [], None
    for behind, line in logical_lines(block.lines):
        if line.startswith(PROMPT):
            steps.append(Step("command", line[len(PROMPT):], at=block.at + behind,
                              indent=block.indent))
            shown_from = behind
        elif shown_from is not None:
            steps[-1].shown = tuple(block.lines[shown_from:behind])
    return steps


def steps_of(text):
    """All that a reader does of a page."""
    steps = []
    for block in blocks_of(text)[0]:
        language, *names = block.words() or [""]
        code = "\n".join(block.lines) + "\n"
        if names and re.fullmatch(r"[\w.]+\.\w+", names[0]):
            steps.append(Step("file", code, names[0]))
        elif language == "python" and not names:
            steps.append(Step("python", code))
        else:
            steps += steps_of_block(block)
    return steps


def quotations_of(text):
    """(path, lines) of blocks that say of which file of the project they are."""
    for block in blocks_of(text)[0]:
        if len(block.words()) == 2 and "/" in block.words()[1]:
            yield block.words()[1], block.lines


def commands_of(text):
    """(line, whether it is written as it is typed): lines of shells and inline code, to
    be read and not run."""
    blocks, prose = blocks_of(text)
    for block in blocks:
        language = (block.words() or [""])[0]
        code = "\n".join(block.lines)
        if language == "yaml":
            yield from ((line, True) for line in re.findall(r"run: (.*)", code))
        elif language == "cmake":
            yield from ((" ".join(line.split()), True) for line in
                        re.findall(r"COMMAND (.*?)\)$", code, re.M | re.S))
        elif language in ("", "sh", "slurm"):
            prompted = False
            for _, line in logical_lines(block.lines):
                if line.startswith(PROMPT):
                    prompted = True
                    yield line[len(PROMPT):], True
                elif not prompted:  # else what a command prints
                    yield line, True
    for code in re.findall(r"`([^`]+)`", prose):
        yield " ".join(code.replace("\\|", "|").split()), False


def simple_commands(line, as_typed):
    """The words of each command of a line of a shell. Inline code is no shell: "c|py" is
    one of two words, [--json FILE] may be left out."""
    line = re.sub(r"(^|\s)\[(--?[^\]]*)\]", r"\1\2", line)
    line = re.sub(r"(^|\s)\.\.\.(?=\s|$)", r"\1", line)
    if not as_typed:
        line = re.sub(r"\b([\w-]+)(\|[\w-]+)+", r"\1", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.wordchars += "*?~@:,+=[]{}$%"
    try:
        tokens = list(lexer)
    except ValueError:
        return
    words, skip = [], False
    for token in [*tokens, ";"]:
        if set(token) <= set("|&;()"):
            if words:
                yield words
            words = []
        elif set(token) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        elif words or not re.fullmatch(r"[A-Za-z_]+=.*", token):
            words.append(token)


# Differs between machines or from hour to hour: times, speeds, folders, hashes, the
# names of compilers, the version, and the executions of a hunt, which depend on a
# clock.
CHANGES = [(r"\b[\d,.]+ s\b", "_ s"), (r"\bexecution [\d,]+", "execution _"),
           (r"\b[\d,]+ executions\b", "_ executions"), (r"\b[\d,]+ a second", "_ a second"),
           (r"(?m)^(cc|c\+\+) ", "cc "), (r"-I\S+", "-I_"),
           (r"-o '?\S*/qkvet/([^ /]+)-[0-9a-f]{16}\.so'?", r"-o _/\1.so"),
           (r"\bqkvet \d+\.\d+\.\d+", "qkvet _"), (r" on \S+   \(", " on _ (")]


def steady(text):
    """Without what changes; lines are broken where a time leaves room, so spaces and
    ends of lines are one."""
    for pattern, constant in CHANGES:
        text = re.sub(pattern, constant, text)
    return " ".join(text.split())


def differs_at_all(shown, printed):
    # An omitted part may be empty.
    pattern = r"\s*.*?\s*".join(re.escape(part.strip()) for part in steady(shown).split(REST))
    return not re.fullmatch(pattern, steady(printed), re.S)


def differs(shown, printed):
    """"", or how lines that a page shows differ from what is printed."""
    if not differs_at_all("\n".join(shown), printed):
        return ""
    should = rewritten(shown, printed)
    if should == list(shown):  # within a line that is left out in part
        should = printed.splitlines()
    return "\n".join(difflib.unified_diff(shown, should, "shown", "printed", lineterm="",
                                          n=1))


def rewritten(shown, printed):
    """The lines that a page should show: those that are printed, left out where the
    page leaves them out."""
    new = [line.rstrip() for line in printed.rstrip().splitlines()]
    lines = [steady(one) for one in new]
    # A line with an omitted part matches the first line that it fits.
    keys = [next((one for one in lines if not differs_at_all(line, one)), steady(line))
            if REST in line and line.strip() != REST else steady(line) for line in shown]
    matcher = difflib.SequenceMatcher(None, keys, lines, autojunk=False)
    out = []
    for what, a, b, c, d in matcher.get_opcodes():
        rests = [i for i in range(a, b) if shown[i].strip() == REST]
        if what == "equal":
            out += shown[a:b]  # with the times of that day
        elif not rests:
            out += new[c:d]
        else:
            # Keeps the number of lines before and after the omitted part.
            front = new[c:d][:rests[0] - a]
            others = new[c + len(front):d]
            end = max(0, len(others) - (b - 1 - rests[-1]))
            out += [*front, *alike(shown[rests[0]:rests[-1] + 1], others[:end]),
                    *others[end:]]
    return out


def alike(shown, printed):
    """Lines between others that are left out: for each the printed one that is most
    like it, in their order."""
    out, at = [], 0
    for line in shown:
        if line.strip() == REST:
            out.append(line)
        elif at < len(printed):
            likeness = [difflib.SequenceMatcher(None, line, one).ratio()
                        for one in printed[at:]]
            at += likeness.index(max(likeness)) + 1
            out.append(printed[at - 1])
    return out
