// SPDX-License-Identifier: Apache-2.0
// examples/answer_plan.* and examples/libraries/: programs without QKVet answer
// a plan, and a wrong scale in them is diagnosed from the answers.
#include <gtest/gtest.h>

#include "cli/judge/judge_run.h"
#include "cli/reproduce/emit_run.h"

namespace qkvet::cli::judge_examples_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = QKVET_EXAMPLES;

// Answers a plan with `command PLAN`, and returns the result of judge.
Ran judged_of(const std::string& command, const std::string& plan,
              const std::string& arguments = "") {
  const fs::path folder = emitted(plan, arguments);
  const Ran ran = exits(0, run_shell(command + " " + plan, scratch()));
  EXPECT_EQ(ran.out, "");
  return judged(folder);
}

TEST(JudgeExamples, NumPyAnswersAPlan) {
  const std::string text = read_text(kFolder / "answer_plan.py");
  write_text(scratch() / "right.py", text);
  const Ran right = exits(0, judged_of(python() + " right.py", "py"));
  write_text(scratch() / "wrong.py", replaced(text, " * scale", ""));
  const Ran wrong = exits(1, judged_of(python() + " wrong.py", "py_wrong"));
  EXPECT_EQ(cause_in(wrong.out), "no_scale, sure") << wrong.out;
  // Storage types that differ, as of a cache in half.
  const std::string mixed = "--dtype f32/f16/f32 --dtype f16/f32/f16";
  EXPECT_EQ(judged_of(python() + " right.py", "py_mixed", mixed).exit, 0);
  EXPECT_EQ(judged_of(python() + " wrong.py", "py_mixed_wrong", mixed).exit, 1);
  // No known fault matches it, but a description does.
  write_text(scratch() / "strange.py",
             replaced(text, "weights @ v", "1.01 * weights @ v"));
  const Ran strange =
      exits(1, judged_of(python() + " strange.py", "py_strange"));
  EXPECT_TRUE(has(strange.out, "o is the right value times 1.01: likely"));
  EXPECT_FALSE(has(strange.out, ", sure"));
}

// A gradient that is independent of QKVet.
TEST(JudgeExamples, NumPyAnswersWithGradients) {
  const std::string options = "--options backward,causal,gqa,cross_lengths";
  const std::string text = read_text(kFolder / "answer_plan.py");
  write_text(scratch() / "gradient.py", text);
  const Ran right =
      exits(0, judged_of(python() + " gradient.py", "py_gradient", options));
  EXPECT_FALSE(has(right.out, "gradients (not declared)"));
  write_text(scratch() / "no_scale.py",
             replaced(text, "d_k = scale * d_s", "d_k = d_s"));
  const Ran wrong =
      exits(1, judged_of(python() + " no_scale.py", "py_no_scale", options));
  EXPECT_EQ(cause_in(wrong.out), "backward_key_scale_missing, sure")
      << wrong.out;
  // The term that subtracts the row's sum is left out: dq and dk are wrong, dv
  // is not.
  write_text(scratch() / "no_delta.py",
             replaced(text, " - (d_o * o).sum(axis=3, keepdims=True)", ""));
  const Ran delta =
      exits(1, judged_of(python() + " no_delta.py", "py_no_delta", options));
  EXPECT_EQ(cause_in(delta.out), "backward_delta_missing, sure") << delta.out;
}

// The formulas of cli/plan.md as a program: they are enough to pass, and each
// of them is needed.
TEST(JudgeExamples, EveryWordIsAnsweredFromThePage) {
  const std::string text = read_text(kFolder / "answer_every_word.py");
  write_text(scratch() / "as_said.py", text);
  const Ran right = judged_of(python() + " as_said.py", "as_said",
                              "--options all --cases 1200 --seed 2");
  EXPECT_EQ(right.exit, 0) << right.out << right.error;
  EXPECT_FALSE(has(right.out, "gave up"));
  const struct {
    const char *name, *from, *to;
    const char* law;
  } rows[] = {
      {"alibi_signed", "abs(at - j)", "(at - j)", "alibi_equals_bias"},
      {"window_short", "j - at <= call", "j - at < call",
       "every_pair_is_seen_as_asked"},
      {"sink_lost", " + np.exp(sink - top)", "", "sink_joins_the_denominator"},
      {"pairs_swapped", "style == \"half\" else slice(0",
       "style != \"half\" else slice(0", "rope_turns_pairs_of_channels"},
      {"bias_of_one_member", "rows.sum((0, 1))", "rows[0].sum(0)",
       "layer_backward_agrees_with_oracle"},
      {"not_turned_back", "-t[\"rope_sin\"]", "t[\"rope_sin\"]",
       "layer_backward_is_the_adjoint"},
      {"cap_behind", "slope = 1 - (s", "slope = 1 - 0 * (s",
       "backward_is_the_adjoint"},
      {"lengths_ignored", "t[\"kv_len\"][b] if \"kv_len\" in t else ", "",
       "every_pair_is_seen_as_asked"}};
  for (const auto& row : rows) {
    const std::string name = row.name;
    write_text(scratch() / (name + ".py"), replaced(text, row.from, row.to));
    const Ran wrong =
        judged_of(python() + " " + name + ".py", name,
                  std::string("--options all --cases 60 --law ") + row.law);
    EXPECT_EQ(wrong.exit, 1) << name << wrong.out << wrong.error;
    EXPECT_TRUE(has(wrong.out, std::string("FAIL  ") + row.law)) << name;
  }
}

TEST(JudgeExamples, CAnswersAPlan) {
  const std::string text = read_text(kFolder / "answer_plan.c");
  const auto compiled = [&](const std::string& name, const std::string& code) {
    write_text(scratch() / (name + ".c"), code);
    const Ran ran = run_shell("cc -std=c11 -O1 -Wall -Wextra -Wpedantic " +
                                  name + ".c -lm -o " + name,
                              scratch());
    EXPECT_EQ(ran.exit, 0) << ran.out;
    EXPECT_EQ(ran.out, "") << "warnings";
    return "./" + name;
  };
  const Ran right = exits(0, judged_of(compiled("right", text), "c"));
  const Ran wrong = judged_of(
      compiled("wrong", replaced(text, "dot * (float)c->scale",
                                 "dot * (float)(c->scale * c->scale)")),
      "c_wrong");
  EXPECT_EQ(wrong.exit, 1) << wrong.out << wrong.error;
  EXPECT_EQ(cause_in(wrong.out), "scale_twice, sure") << wrong.out;
}

// A script in examples/libraries/, with the program of this build.
Ran run_library(const std::string& words) {
  return run_shell("export QKVET='" QKVET_PROGRAM "' QKVET_PLAN='" +
                       (scratch() / "library").string() + "' PYTHONPATH='" +
                       (kFolder / "libraries").string() + "'; " + python() +
                       " -B " + words,
                   scratch());
}

const std::string kRun = (kFolder / "libraries/run.py").string() + " ";

// The libraries themselves are not here.
TEST(JudgeExamples, AnAdapterAnswersAPlan) {
  const Ran right = exits(0, run_library(kRun + "numpy -n 60"));
  const Ran wrong =
      run_library(kRun +
                  "numpy:without_scale -n 100 --dtype f32 --options "
                  "causal,gqa,cross_lengths");
  EXPECT_EQ(wrong.exit, 1) << wrong.out;
  EXPECT_EQ(cause_in(wrong.out), "no_scale, sure") << wrong.out;
  // Options that the declaration does not allow are refused, not ignored.
  const Ran more = exits(
      3, run_library(kRun +
                     "numpy -n 20 --options bias --law bias_alone_decides"));
  EXPECT_TRUE(has(more.out, "calls: takes no bias\n"));
}

// An entry that is called, instead of one that answers plans.
TEST(JudgeExamples, ACallableIsJudgedAsDeclared) {
  const std::string few = " -n 300 --sizes small -j 1";
  const Ran right = exits(0, run_library(kRun + "numpy:callable" + few));
  EXPECT_TRUE(has(right.out, "numpy/callable"));
  write_text(scratch() / "control.py", R"(import run, sys
sys.exit(run.check("numpy:callable_without_scale", "numpy-callable",
                   sys.argv[1:], []))
)");
  const Ran wrong = exits(1, run_library("control.py" + few));
  EXPECT_EQ(cause_in(wrong.out).rfind("no_scale, ", 0), 0) << wrong.out;
}

TEST(JudgeExamples, AnAdapterThatIsNotThereIsOneLine) {
  for (const char* name : {"nopy", "numpy:other"}) {
    const Ran ran = exits(2, run_library(kRun + name));
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
    EXPECT_TRUE(has(ran.out, "allowed: "));
  }
}

TEST(JudgeExamples, EveryDeclarationOfALibraryMakesAPlan) {
  write_text(scratch() / "declared.py", R"(import pathlib
import answer, run
names = answer.declarations("emit")
assert names
for name in names:
    code = run.emit("some/library", name, pathlib.Path("declared"), ["-n", "1"])
    assert code == 0, name
)");
  const Ran ran = exits(0, run_library("declared.py"));
}

const std::string kLibraries =
    (kFolder.parent_path() / "ci/libraries.py").string() + " ";

// verdicts.json with one entry, which failed one law; `findings` explain it.
void write_verdicts(const std::string& findings) {
  write_text(scratch() / "recorded/verdicts.json",
             R"({"schema": 1, "entries": {"numpy:half": {"version": "9.8",
      "machine": "abacus",
      "on": "2026-01-02", "cases": 70, "checked": 1234, "seconds": 5.0,
      "error_over_bound": 0.25, "refused": {"takes no sink": 3},
      "groups": {"attention": {"passed": 29, "failed": 1, "checked": 1234}},
      "not_judged": "layers", "failures": [{"law": "weights_sum_to_one",
      "verdict": "failed", "case": "f16,B1", "findings": [)" +
                 findings +
                 R"(]}]}, "tinygrad:sdpa": {"reason": "not here"}}})");
}

TEST(JudgeExamples, RecordedVerdictsAreAPage) {
  fs::create_directories(scratch() / "recorded");
  write_text(
      scratch() / "recorded/README.md",
      "before\n<!-- verdicts -->\nold\n<!-- end of verdicts -->\n"
      "between\n<!-- findings -->\nold\n<!-- end of findings -->\nbehind\n");
  write_verdicts("\"numpy_sums\"");
  const std::string pages = kLibraries + "--pages --results recorded";
  // The declaration no longer names the finding: the page reports it.
  const Ran ran = exits(1, run_library(pages + " --only 'numpy:*'"));
  EXPECT_TRUE(has(ran.out, "no finding explains weights_sum_to_one"));
  const std::string page = read_text(scratch() / "recorded/verdicts.md");
  for (const char* words :
       {"NO FINDING EXPLAINS THIS", "`tinygrad:sdpa`: not here",
        "| `numpy:half` | 9.8 | 29, 1 failed | 1,234 | 0.25 | 5 |",
        "Not judged: layers", "takes no sink (3 calls)", "- case: `f16,B1`"})
    EXPECT_TRUE(has(page, words)) << words;
  const std::string readme = read_text(scratch() / "recorded/README.md");
  EXPECT_EQ(readme.find("before\n<!-- verdicts -->\n"), 0) << readme;
  EXPECT_TRUE(has(readme, "<!-- end of findings -->\nbehind\n")) << readme;
  EXPECT_TRUE(has(readme, "1 entries of 0 libraries")) << readme;
  EXPECT_TRUE(has(readme, "| `torch_nan_in_a_query` | bug |")) << readme;
  EXPECT_FALSE(has(readme, "old")) << readme;
  // An entry that is not selected is not reported.
  EXPECT_EQ(run_library(pages + " --only 'tinygrad:*'").exit, 3);
}

TEST(JudgeExamples, TheTableOfLibrariesIsThatOfItsVerdicts) {
  fs::create_directories(scratch() / "same");
  for (const char* name : {"README.md", "verdicts.md", "verdicts.json"})
    fs::copy_file(kFolder / "libraries" / name, scratch() / "same" / name,
                  fs::copy_options::overwrite_existing);
  // Every failure is a finding that a declaration names.
  const Ran ran = exits(0, run_library(kLibraries + "--pages --results same"));
  for (const char* name : {"README.md", "verdicts.md"})
    EXPECT_EQ(read_text(scratch() / "same" / name),
              read_text(kFolder / "libraries" / name))
        << name << ": ci/libraries.py --pages writes it";
}

TEST(JudgeExamples, ALibraryIsJudgedOnce) {
  fs::create_directories(scratch() / "once");
  const std::string words =
      kLibraries + "--results once --cases 60 --only numpy:plain --python " +
      python();
  const Ran first = exits(0, run_library(words));
  EXPECT_TRUE(has(first.out, " checked, 0 failed"));
  const Ran again = exits(0, run_library(words));
  EXPECT_TRUE(has(again.out, "judged already"));
  // A Python without packages: a line with the reason, and nothing was judged.
  write_text(scratch() / "bare.sh", "exec " + python() + " -S \"$@\"\n");
  EXPECT_EQ(
      run_shell("chmod +x bare.sh && sed -i '1i #!/bin/sh' bare.sh", scratch())
          .exit,
      0);
  const Ran none = run_library(
      kLibraries + "--results once --only ggml:f32 --python ./bare.sh");
  EXPECT_EQ(none.exit, 3) << none.out;
  EXPECT_TRUE(has(none.out, "not judged: pywhispercpp is not installed"));
}

// An entry that ends while another one is being judged.
TEST(JudgeExamples, RunsInOneFolderKeepEachOthersRows) {
  fs::create_directories(scratch() / "both");
  const std::string words =
      kLibraries + "--results both --python " + python() + " --cases ";
  const Ran both =
      run_library(words + "60 --only numpy:plain & sleep 0.3; " + python() +
                  " -B " + words + "1 --only numpy:half; wait");
  const std::string rows = read_text(scratch() / "both/verdicts.json");
  for (const char* name : {"numpy:plain", "numpy:half"})
    EXPECT_TRUE(has(rows, name)) << name << both.out;
}

TEST(JudgeExamples, WrongWordsForLibrariesAreOneLine) {
  fs::create_directories(scratch() / "broken");
  write_text(scratch() / "broken/verdicts.json", "{\"schema\": 2}");
  for (const char* words :
       {"--only 'nopy:*'", "--cases 0", "--results nowhere", "--cases many",
        "--nothing", "--results broken --pages", "--python ./nowhere",
        "--qkvet ./nowhere"}) {
    const Ran ran = run_library(kLibraries + words);
    EXPECT_EQ(ran.exit, 2) << words << ran.out;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
  }
}

TEST(JudgeExamples, FindingsAreListedWithoutTheirLibraries) {
  const Ran ran = run_library((kFolder / "libraries/findings").string() +
                              " no_such_finding");
  EXPECT_EQ(ran.exit, 2) << ran.out;
  EXPECT_TRUE(has(ran.out, "allowed: "));
  // Each that a declaration names is there, and each that is there is on the
  // page.
  write_text(scratch() / "named.py", R"(import json, pathlib, sys
import answer
sys.path.insert(0, str(answer.HERE / "findings"))
import importlib
for path in (answer.HERE / "findings").glob("of_*.py"):
    importlib.import_module(path.stem)
import shown
readme = (answer.HERE / "README.md").read_text()
for section in ("emit", "check"):
    for name in answer.declarations(section):
        text = answer.declaration(name)[0].get("findings", "")
        for findings in answer.pairs(text).values():
            for finding in findings.split():
                assert finding in shown.FINDINGS, (name, finding)
for finding in shown.FINDINGS:
    assert f"`{finding}`" in readme, finding
shown.show("control", 1, 1.5)
assert shown.pairs[-1].differs
shown.show("control", 1, 1, same=True)
assert not shown.pairs[-1].differs
)");
  const Ran named = exits(0, run_library("named.py"));
}

}  // namespace
}  // namespace qkvet::cli::judge_examples_test
