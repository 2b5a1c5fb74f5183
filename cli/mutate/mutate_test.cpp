// SPDX-License-Identifier: Apache-2.0
// qkvet mutate: kernels with mutants that are known to die, to live, to have
// the same code, or to be invalid.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "cli/base/program_run.h"
#include "core/base/json.h"

namespace qkvet::cli::mutate_test {
namespace {

namespace fs = std::filesystem;

// A kernel with a line that no call reaches, and one that adds nothing.
constexpr const char* kKernel = R"(#include <algorithm>
#include <cmath>
#include <vector>

#include "qkvet/plain.h"

static void attend(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  std::vector<float> s(Tk);
  for (int64_t n = 0; n < B * H; ++n, k += Tk * d, v += Tk * d)
    for (int64_t i = 0; i < Tq; ++i, q += d, o += d) {
      float max = -INFINITY, sum = 0;
      for (int64_t j = 0; j < Tk; ++j) {
        s[j] = 0;
        for (int64_t c = 0; c < d; ++c) s[j] += q[c] * k[j * d + c];
        s[j] /= std::sqrt(float(d));
        if (causal && j > i + Tk - Tq) s[j] = -INFINITY;
        if (s[j] > max) max = s[j];
      }
      if (Tk > 100000) sum = 1;
      if (sizeof(float) == 4) d += 0;
      for (float& w : s) sum += w = std::exp(w - max);
      std::fill(o, o + d, 0.0f);
      for (int64_t j = 0; j < Tk; ++j)
        for (int64_t c = 0; c < d; ++c) o[c] += s[j] / sum * v[j * d + c];
    }
}

QKVET_PLAIN_KERNEL(attend, "mine/attend");
)";

fs::path folder(const std::string& name) {
  const fs::path path = scratch() / name;
  fs::create_directories(path);
  write_text(path / "mine.cpp", kKernel);
  return path;
}

// The lines of a file of JSON Lines about mutants, by id.
std::map<std::string, ReadJson> mutants_of(const fs::path& file) {
  std::map<std::string, ReadJson> mutants;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    const ReadJson json = read_json(line);
    if (json.value("type", "") == "mutant") mutants[json["id"]] = json;
  }
  return mutants;
}

// One mutant, by its id.
Ran only(const fs::path& where, const std::string& id,
         const std::string& more = "") {
  return run_qkvet("mutate mine.cpp -n 100 --only " + id + " " + more, where);
}

TEST(Mutate, WhatBreaksTheKernelIsKilled) {
  const fs::path where = folder("killed");
  // The mask; the scale; a bound.
  for (const char* id : {"18:9:negate", "17:9:remove", "25:29:bound-minus"}) {
    const Ran ran = only(where, id, "--json one.json");
    EXPECT_EQ(ran.exit, 0) << id << ran.out << ran.error;
    const ReadJson one = mutants_of(where / "one.json")[id];
    EXPECT_EQ(one.value("fate", ""), "killed") << id;
    EXPECT_EQ(one.value("how", ""), "wrong") << id;
    EXPECT_NE(one.value("law", ""), "") << id;
    EXPECT_TRUE(has(one.value("text", ""), "f32,")) << id;
  }
}

TEST(Mutate, WhatDoesTheSameSurvivesAndSaysWhatWasSeen) {
  const fs::path where = folder("survives");
  // The first or the last of equal scores: the maximum is the same.
  Ran ran = exits(1, only(where, "19:18:gt-ge", "--json one.json"));
  EXPECT_TRUE(has(ran.out, "SURVIVED  mine.cpp:19:18:gt-ge   boundary"));
  EXPECT_TRUE(has(ran.out, "line        if (s[j] > max) max = s[j];"));
  EXPECT_TRUE(has(ran.out, "mutant      if (s[j] >= max) max = s[j];"));
  ReadJson one = mutants_of(where / "one.json")["19:18:gt-ge"];
  EXPECT_EQ(one.value("differ", -1), 0);
  EXPECT_GT(one.value("calls", 0), 100);
  EXPECT_TRUE(one.value("reached", false));
  // No call is that long: the statement is never run.
  ran = only(where, "21:24:remove", "--json one.json --pin d=3 -l 'agrees*'");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out,
                  "again       qkvet mutate mine.cpp --law 'agrees*' "
                  "--cases 100 --pin d=3 --only 21:24:remove -o "));
  one = mutants_of(where / "one.json")["21:24:remove"];
  EXPECT_FALSE(one.value("reached", true));
  EXPECT_TRUE(has(ran.out, "none of them reaches the line"));
  // Both the numerator and the denominator: other bits, within the bound.
  ran = only(where, "23:42:result-1e-3", "--json one.json");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  one = mutants_of(where / "one.json")["23:42:result-1e-3"];
  EXPECT_GT(one.value("differ", 0), 0);
  EXPECT_GT(one.value("most_bound", 0.0), 0);
  EXPECT_LT(one.value("most_bound", 9.0), 1);
  EXPECT_EQ(one.count("reached"), 0U);
}

TEST(Mutate, WhatIsNoMutantCountsAsNone) {
  const fs::path where = folder("none");
  // Exchanging s and d gives other keys. A loop over a number is no C++. The
  // compiler drops adding or subtracting 0.
  const std::pair<const char*, const char*> rows[] = {
      {"16:43:swap-51", "killed"},
      {"23:23:swap-26", "invalid"},
      {"22:33:addset-subset", "same code"}};
  for (const auto& [id, fate] : rows) {
    const Ran ran = only(where, id, "--json one.json");
    const ReadJson one = mutants_of(where / "one.json")[id];
    EXPECT_EQ(one.value("fate", ""), fate) << id << ran.out << ran.error;
    EXPECT_EQ(ran.exit, std::string_view(fate) == "killed" ? 0 : 3) << id;
  }
  const Ran ran = only(where, "23:23:swap-26");
  EXPECT_TRUE(has(ran.out, "SCORE   none: no mutant was judged"));
}

TEST(Mutate, WhatNeverEndsIsKilledByTheWorkersLimit) {
  const fs::path where = folder("hangs");
  std::string slow = kKernel;
  const std::string from = "d += 0;";
  slow.replace(slow.find(from), from.size(),
               "for (volatile int t = 0; t < 3; t += 1) d += 0;");
  write_text(where / "mine.cpp", slow);
  // t = 1 for ever.
  const Ran ran = exits(0, only(where, "22:65:addset-set", "--json one.json"));
  EXPECT_EQ(mutants_of(where / "one.json")["22:65:addset-set"].value("how", ""),
            "timeout")
      << ran.out;
}

TEST(Mutate, ARunGoesOnWhereItEnded) {
  const fs::path where = folder("resumed");
  const std::string words = "mutate mine.cpp -n 40 --sample 8 -j 2 --out kept";
  const Ran whole = run_qkvet(words + " --json whole.json", where);
  ASSERT_TRUE(whole.exit == 0 || whole.exit == 1) << whole.out << whole.error;
  const auto all = mutants_of(where / "whole.json");
  ASSERT_EQ(all.size(), 8U) << whole.out;
  // As if the run had been killed while it wrote its fifth mutant.
  std::istringstream lines(read_text(where / "kept/mutants.jsonl"));
  std::string cut;
  for (int n = 0; n < 5; ++n) {
    std::string line;
    std::getline(lines, line);
    cut += line + "\n";
  }
  cut += R"({"type": "mutant", "id": "1)";
  write_text(where / "kept/mutants.jsonl", cut);
  const Ran rest =
      exits(whole.exit, run_qkvet(words + " --json rest.json", where));
  EXPECT_TRUE(has(rest.out, "4 of them known from kept"));
  const auto again = mutants_of(where / "rest.json");
  ASSERT_EQ(again.size(), 8U);
  for (const auto& [id, one] : all)
    for (const char* key : {"fate", "law", "number", "before", "after", "of"})
      EXPECT_EQ(one.value(key, ReadJson()), again.at(id).value(key, ReadJson()))
          << id << " " << key;
  // Another plan is another run.
  expect_wrong_use(
      run_qkvet("mutate mine.cpp -n 41 --sample 8 --out kept", where),
      "is of another run (cases)");
}

TEST(Mutate, AMutantIsWrittenAndReported) {
  const fs::path where = folder("emitted");
  const Ran ran = exits(1, only(where, "18:9:negate", "-o wrong.cpp"));
  EXPECT_TRUE(has(read_text(where / "wrong.cpp"),
                  "if (!(causal && j > i + Tk - Tq)) s[j] = -INFINITY;"));
  EXPECT_TRUE(has(ran.out, "FAIL  "));
  EXPECT_TRUE(has(ran.out, "again       qkvet replay "));
}

TEST(Mutate, WhatIsExplainedIsNoSurvivor) {
  const fs::path where = folder("explained");
  write_text(where / "why.txt",
             "# the maximum\n19:18:gt-ge the maximum is the same\n");
  Ran ran = exits(0, only(where, "19:18:gt-ge", "--known why.txt"));
  EXPECT_TRUE(has(ran.out, "why         the maximum is the same"));
  // An explained mutant that dies does not match its explanation.
  write_text(where / "why.txt", "18:9:negate no reason at all\n");
  ran = only(where, "18:9:negate", "--known why.txt");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  write_text(where / "why.txt", "\n18:9:nothing because\n");
  expect_wrong_use(only(where, "18:9:negate", "--known why.txt"),
                   "why.txt:2: \"18:9:nothing\" is no mutant of mine.cpp");
  write_text(where / "why.txt", "18:9:negate\n");
  expect_wrong_use(only(where, "18:9:negate", "--known why.txt"),
                   "why.txt:1: no reason");
}

TEST(Mutate, AKernelThatFailsAsItIsIsNotMutated) {
  const fs::path where = folder("broken");
  std::string text = kKernel;
  const std::string from = "s[j] /= std::sqrt(float(d));";
  text.replace(text.find(from), from.size(), ";");
  write_text(where / "mine.cpp", text);
  const Ran ran =
      exits(1, run_qkvet("mutate mine.cpp -n 100 --sample 3", where));
  EXPECT_TRUE(has(ran.error, "mine.cpp: fails as it is, unmutated: "));
  EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1);
}

TEST(Mutate, BadWordsAreOneLine) {
  const fs::path where = folder("words");
  const std::pair<const char*, const char*> rows[] = {
      {"mutate", "takes one source"},
      {"mutate mine.cpp mine.cpp", "2 are named"},
      {"mutate none.cpp", "none.cpp: no such file"},
      {"mutate mine.cpp --only 1:1:x", "--only 1:1:x: mine.cpp has no such"},
      {"mutate mine.cpp --only 18:9:negate -o mine.cpp",
       "mine.cpp: is read by this command, which would replace it"},
      {"mutate mine.cpp --only 18:9:negate --sample 2", "--sample"},
      {"mutate mine.cpp --sample 0", "--sample"},
      {"mutate mine.cpp --budget x", "--budget"},
      {"mutate mine.cpp --cflags \"'\"", "--cflags: a quote is not closed"}};
  for (const auto& [words, part] : rows)
    expect_wrong_use(run_qkvet(words, where), part);
  write_text(where / "mine.cpp", "int x = ;");
  expect_wrong_use(run_qkvet("mutate mine.cpp", where),
                   "mine.cpp: does not compile", /*others=*/true);
}

TEST(Mutate, RustIsMutatedAlike) {
  if (std::system("rustc --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "rustc is not on this machine";
  const fs::path where = folder("rust");
  ASSERT_EQ(run_qkvet("new mine.rs", where).exit, 0);
  // The scale, divided by.
  const std::string text = read_text(where / "mine.rs");
  const size_t at = text.find("dot * scale");
  ASSERT_NE(at, std::string::npos);
  const auto line =
      1 +
      std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  const size_t column = at + 5 - text.rfind('\n', at) - 1;
  const std::string id =
      std::to_string(line) + ":" + std::to_string(column) + ":mul-div";
  const Ran ran = exits(
      0,
      run_qkvet("mutate mine.rs -n 100 --json one.json --only " + id, where));
  EXPECT_EQ(mutants_of(where / "one.json")[id].value("fate", ""), "killed")
      << ran.out;
}

}  // namespace
}  // namespace qkvet::cli::mutate_test
