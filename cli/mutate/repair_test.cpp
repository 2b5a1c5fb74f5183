// SPDX-License-Identifier: Apache-2.0
// qkvet mutate --repair: a student's kernel with one mistake is repaired;
// another one has no repairing edit; a third one is right.
#include "cli/mutate/repair.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/base/program_run.h"

namespace qkvet::cli::repair_test {
namespace {

namespace fs = std::filesystem;

// The example with `right` replaced by a mistake, in its own folder.
fs::path with_mistake(const std::string& name, const std::string& right,
                      const std::string& wrong) {
  const fs::path folder = scratch() / name;
  fs::create_directories(folder);
  std::string text = read_text(fs::path(QKVET_EXAMPLES) / "twelve_lines.cpp");
  const size_t at = text.find(right);
  EXPECT_NE(at, std::string::npos) << right;
  if (at != std::string::npos) text.replace(at, right.size(), wrong);
  write_text(folder / "mine.cpp", text);
  return folder;
}

// Small cases of one law, so that nearly all of the time is the compiler's.
Ran repair(const fs::path& folder, const std::string& words = "") {
  return run_qkvet(
      "mutate --repair mine.cpp -n 128 --sizes small --budget 600s " + words,
      folder);
}

TEST(Repair, AMistakeIsPutRight) {
  const fs::path where =
      with_mistake("bound", "j > i + Tk - Tq", "j >= i + Tk - Tq");
  const Ran ran = exits(0, repair(where, "--json found.json -v"));
  EXPECT_TRUE(
      has(ran.out,
          "@@ -21 +21 @@\n"
          "-        if (causal && j >= i + Tk - Tq) s[j] = -INFINITY;\n"
          "+        if (causal && j > i + Tk - Tq) s[j] = -INFINITY;\n"));
  // A conforming edit comes before an edit that mends only some cases, and is
  // checked on more than the failing cases.
  std::istringstream lines(read_text(where / "found.json"));
  bool was_better = false, was_right = false;
  for (std::string line; std::getline(lines, line);) {
    const ReadJson json = read_json(line);
    if (json.value("type", "") != "edit") continue;
    EXPECT_GT(json.value("mends", 0), 0) << line;
    if (json.value("conforms", false)) {
      EXPECT_FALSE(was_better) << line;
      EXPECT_GT(json.value("checked", 0), 50) << line;
      EXPECT_EQ(json.value("line", 0), 21) << line;
      was_right = true;
    } else {
      was_better = true;
    }
  }
  EXPECT_TRUE(was_right);
}

TEST(Repair, WhatNoEditMendsIsSaid) {
  const fs::path where = with_mistake("none", "", "");
  write_text(where / "mine.cpp", R"(#include "qkvet/plain.h"
static void zeros(const float* q, const float* k, const float* v, float* o,
                  int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                  int causal) {
  for (int64_t n = 0; n < B * H * Tq * d; ++n) o[n] = 0;
}
QKVET_PLAIN_KERNEL(zeros, "mine/zeros");
)");
  const Ran ran = exits(1, repair(where));
  EXPECT_TRUE(has(ran.out, "NOT FOUND "));
  EXPECT_FALSE(has(ran.out, "REPAIR"));
}

// No edit restores a missing statement: its place shows only by the lines that
// failing cases run and others do not.
TEST(Repair, LinesThatOnlyFailingCasesRunAreNamed) {
  const fs::path where = with_mistake(
      "left-out", "if (causal && j > i + Tk - Tq) s[j] = -INFINITY;",
      "if (causal && j > i + Tk - Tq) {\n          ;\n        }");
  const Ran ran = exits(1, repair(where, "--json found.json"));
  EXPECT_TRUE(has(ran.out, "lines       22: run by all of"));
  // An edit is never in a line that no failing case runs.
  std::istringstream lines(read_text(where / "found.json"));
  for (std::string line; std::getline(lines, line);) {
    const ReadJson json = read_json(line);
    if (json.value("type", "") != "summary") continue;
    EXPECT_GT(json.value("asked_passing", 0), 10) << line;
    EXPECT_GT(json["lines"].size(), 3u) << line;
    EXPECT_EQ(json["lines"][0].value("line", 0), 22) << line;
    EXPECT_LT(4 * json["lines"][0].value("passing", 99),
              json.value("asked_passing", 0))
        << line;
  }
}

TEST(Repair, WhatConformsHasNothingToRepair) {
  const Ran ran = exits(0, repair(with_mistake("right", "", "")));
  EXPECT_TRUE(has(ran.out, "CONFORMS  as it is"));
}

TEST(Repair, ABudgetThatIsSpentIsNoVerdict) {
  // Two places are wrong: no edit mends both, and there are far too many.
  const fs::path where =
      with_mistake("late", "sum += w = std::exp(w - max);",
                   "sum += w = std::exp(w - max);\n"
                   "      sum *= 3; for (float& w : s) w *= w;");
  const Ran ran = run_qkvet(
      "mutate --repair mine.cpp -n 128 --sizes small --budget 1s -j 1", where);
  EXPECT_EQ(ran.exit, 3) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, "the budget is spent"));
}

TEST(Repair, BadWordsAreRefused) {
  const fs::path where = with_mistake("words", "", "");
  write_text(where / "no.cpp", "int main( {");
  expect_wrong_use(run_qkvet("mutate --repair", where),
                   "mutate takes one source");
  expect_wrong_use(run_qkvet("mutate --repair mine.cpp no.cpp", where),
                   "2 are named");
  expect_wrong_use(run_qkvet("mutate --repair gone.cpp", where), "gone.cpp: ");
  expect_wrong_use(run_qkvet("mutate --repair mine.cpp --budget soon", where),
                   "soon");
  const Ran ran = exits(2, run_qkvet("mutate --repair no.cpp", where));
  EXPECT_TRUE(has(ran.error, "no.cpp: does not compile"));
}

TEST(Repair, ADiffHasTheChangedLinesAlone) {
  EXPECT_EQ(diff_text("a.c", "1\n2\n3\n", "1\nb\n3\n"),
            "--- a.c\n+++ a.c\n@@ -2 +2 @@\n-2\n+b\n");
  EXPECT_EQ(diff_text("a.c", "1\n2\n3\n", "1\n3\n"),
            "--- a.c\n+++ a.c\n@@ -2 +1,0 @@\n-2\n");
  EXPECT_EQ(diff_text("a.c", "1\n3\n", "1\n2\n2\n3\n"),
            "--- a.c\n+++ a.c\n@@ -1,0 +2,2 @@\n+2\n+2\n");
}

}  // namespace
}  // namespace qkvet::cli::repair_test
