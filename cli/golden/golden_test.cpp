// SPDX-License-Identifier: Apache-2.0
// qkvet golden, as its users meet it.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/base/program_run.h"
#include "golden/format/set.h"

namespace qkvet::cli::golden_test {
namespace {

namespace fs = std::filesystem;

// An empty place in scratch().
std::string fresh(const std::string& name) {
  fs::remove_all(scratch() / name);
  return name;
}

const std::string kCases =
    " plain:f32,B1,H2,Tq5,Tk7,d8 half:f16,B1,H1,Tq3,Tk4,d16,causal=br "
    "masked:f32,B2,H2,Hkv1,Tq3,Tk9,d4,mask=random50,scale=0.3";

TEST(Golden, WhatIsRecordedIsUnchanged) {
  const std::string sets = fresh("unchanged");
  Ran ran = run_qkvet("golden record " + sets + kCases + " -k scalar/plain");
  ASSERT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, "new        masked"));
  ran = run_qkvet("golden verify " + sets + " -k scalar/plain --unchanged");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("scalar/plain +3 +0 +[0-9.]+ +0 +3 +0 +0\n")))
      << ran.out;
  ran = run_qkvet("golden record " + sets + " -k scalar/plain");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_EQ(ran.out, sets + ": unchanged, 3 sets\n");
}

// Among planned cases are some without queries or keys.
TEST(Golden, APlanIsRecordedAsAWhole) {
  const std::string sets = fresh("planned");
  const Ran ran =
      run_qkvet("golden record " + sets + " -n 100 -k scalar/plain");
  ASSERT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(has(ran.out, ",Tq0,"));
  const Ran verified = exits(
      0, run_qkvet("golden verify " + sets + " -k scalar/plain --unchanged"));
  EXPECT_TRUE(has(verified.out, "100 sets, 1 kernel: 100 judged"));
}

TEST(Golden, OtherRoundingIsChangedAndCorrect) {
  const std::string sets = fresh("rounding");
  ASSERT_EQ(
      run_qkvet("golden record " + sets + kCases + " -k scalar/plain").exit, 0);
  const std::string verify = "golden verify " + sets + " -k controls/reversed ";
  const Ran ran = exits(0, run_qkvet(verify));
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex(" masked +[0-9]+ of 168 numbers, at most "
                          "[0-9]+ ulps?, 0?[.0-9e-]+ of the bound, at "
                          "o\\[b=.*\\]: still correct\n")))
      << ran.out;
  const Ran strict = exits(1, run_qkvet(verify + "--unchanged"));
  EXPECT_TRUE(has(strict.out, "still correct, more than allowed"));
  EXPECT_EQ(run_qkvet(verify + "--unchanged=1e6").exit, 0);
  EXPECT_EQ(run_qkvet(verify + "--unchanged=0").exit, 1);
}

TEST(Golden, AFaultIsWrongAndReplaysFromTheFile) {
  const Ran ran = exits(
      1,
      run_qkvet("golden verify -k faulty/no_scale 'numpy_causal*' 'hand_*'"));
  EXPECT_TRUE(has(ran.out, "no_scale, sure"));
  // Shrinking may end with a case of recipes; a fault that needs the values of
  // the file keeps them.
  const Ran kept = run_qkvet(
      "golden verify -k faulty/no_scale "
      "hand_score_matrix_usual_scale_f32 "
      "--diagnose 0");
  std::smatch again;
  ASSERT_TRUE(std::regex_search(kept.out, again,
                                std::regex("again +qkvet (replay .*)")))
      << kept.out << kept.error;
  EXPECT_EQ(run_qkvet(again[1]).exit, 1) << again[1];
}

// A kernel without a set is not judged: each subject has sets.
TEST(Golden, EveryKernelOfAFamilyIsAskedSomething) {
  const Ran ran = exits(0, run_qkvet("golden verify -k 'scalar/*'"));
  EXPECT_TRUE(has(ran.out, "scalar/merge "));
  // The control: with sets of one subject, the others have none.
  const Ran merges =
      exits(3, run_qkvet("golden verify -k 'scalar/*' 'numpy_merge_*'"));
}

TEST(Golden, OwnSetsHoldForEveryFamily) {
  const Ran ran =
      exits(0, run_qkvet("golden verify --junit sets.xml --json sets.jsonl"));
  EXPECT_FALSE(has(ran.out, "in doubt"));
  EXPECT_FALSE(has(ran.out, "FAIL"));
  const std::string junit = read_text(scratch() / "sets.xml");
  EXPECT_TRUE(std::regex_search(
      junit, std::regex("tests=\"[0-9]{4,}\" failures=\"0\" errors=\"0\"")));
  EXPECT_TRUE(has(junit, "classname=\"eigen/plain\" name=\"hand_"));
  std::istringstream lines(read_text(scratch() / "sets.jsonl"));
  int passed = 0, layers = 0, stories = 0, merges = 0, open = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "set") continue;
    EXPECT_NE(json["expected"], "FAILED") << line;
    open += json["correct"] == "gave up";
    if (json["correct"] != "passed") continue;
    ++passed;
    layers += has(json["case"], ",D");
    stories += has(json["case"], "story=");
    merges += has(json["case"], ",merge");
  }
  EXPECT_GT(passed, 1000);
  EXPECT_GT(layers, 10);
  EXPECT_GT(stories, 10);
  EXPECT_GT(merges, 10);
  EXPECT_EQ(open, 0);
}

// How many of these sets each kernel answers correctly, and how many wrongly.
std::map<std::string, std::array<int, 2>> judged_on(
    const std::string& sets, const std::string& kernels) {
  const Ran ran = run_qkvet("golden verify " + sets +
                            " --diagnose 0 --json served.jsonl " + kernels);
  EXPECT_FALSE(has(ran.out, "in doubt"));
  std::map<std::string, std::array<int, 2>> judged;
  std::istringstream lines(read_text(scratch() / "served.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "set") continue;
    judged[json["kernel"]][0] += json["correct"] == "passed";
    judged[json["kernel"]][1] += json["correct"] == "FAILED";
  }
  return judged;
}

// The sets with lists of pages, with packed queries over pages and with lengths
// in int32.
std::map<std::string, std::array<int, 2>> judged_on_served(
    const std::string& kernels) {
  return judged_on(
      "'numpy_*page_list*' 'numpy_packed_page*' "
      "'numpy_*int32'",
      kernels);
}

// All but the one that is packed in rows.
TEST(Golden, ServedSetsHoldForKernelsThatServe) {
  const auto judged = judged_on_served("-k 'serving/*' -k 'simt/[dp]*'");
  // Two of them have appended tokens, for which no plan is made; one has
  // chunks, which only serving/paged takes, and one a sink, which simt does not
  // take.
  using Judged = std::map<std::string, std::array<int, 2>>;
  EXPECT_EQ(judged, (Judged{{"serving/gathered", {12, 0}},
                            {"serving/paged", {13, 0}},
                            {"serving/planned", {10, 0}},
                            {"simt/decode", {11, 0}},
                            {"simt/planned", {9, 0}}}));
}

TEST(Golden, WhoReadsListsWronglyFailsServedSets) {
  const auto judged =
      judged_on_served("-k 'faulty/csr_*' -k 'faulty/packed_pages_*'");
  ASSERT_GE(judged.size(), 13u);
  for (const auto& [kernel, sets] : judged) EXPECT_GT(sets[1], 0) << kernel;
}

// Among the five, one has values as wide as keys, two are in half types, and
// one has lists of pages.
TEST(Golden, SetsOfValuesInKeysTellWhoFindsThem) {
  const std::string sets = "'numpy_values_in_keys*'";
  const auto right = judged_on(
      sets, "-k 'serving/*' -k controls/values_in_keys_only -k avx2/flash");
  ASSERT_EQ(right.size(), 5u);
  for (const auto& [kernel, counts] : right) {
    const int taken = kernel.starts_with("serving/") ? 5
                      : kernel == "avx2/flash"       ? 2
                                                     : 1;
    EXPECT_EQ(counts[0], taken) << kernel;
    EXPECT_EQ(counts[1], 0) << kernel;
  }
  const auto wrong = judged_on(sets,
                               "-k faulty/values_at_end_of_keys -k "
                               "faulty/values_in_rows_of_their_own");
  ASSERT_EQ(wrong.size(), 2u);
  for (const auto& [kernel, counts] : wrong) EXPECT_GT(counts[1], 0) << kernel;
}

// A kernel that takes all lengths for int32 is wrong only on the same lengths
// in int64.
TEST(Golden, WhoReadsOneWidthOfLengthsFailsTheOther) {
  const std::string kernel = "faulty/lengths_int64_read_as_int32";
  const auto narrow = judged_on_served("-k " + kernel).at(kernel);
  EXPECT_EQ(narrow[0], 2);
  EXPECT_EQ(narrow[1], 0);
  const std::string wide = "golden verify numpy_kv_len --diagnose 0 -k ";
  EXPECT_EQ(run_qkvet(wide + kernel).exit, 1);
  EXPECT_EQ(run_qkvet(wide + "scalar/plain").exit, 0);
}

// One record, and the reports of it: rows are sets instead of laws.
TEST(Golden, ReportsAreThoseOfARun) {
  const std::string sets = fresh("reports");
  ASSERT_EQ(
      run_qkvet("golden record " + sets + kCases + " -k scalar/plain").exit, 0);
  const Ran ran = run_qkvet(
      "golden verify " + sets +
      " -k scalar/plain -k controls/reversed -k faulty/no_scale --unchanged "
      "--json g.jsonl --html g.html --junit g.xml --sarif g.sarif --markdown "
      "g.md --github");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, "::error"));
  const std::string page = read_text(scratch() / "g.html");
  for (const char* part :
       {"2 of 3 kernels fail", " of 3 sets asked", "Sets and kernels",
        "<code>no_scale</code>", "3 sets per kernel", "<dt>actual</dt>",
        "as it was recorded"})
    EXPECT_TRUE(has(page, part)) << part;
  const std::string junit = read_text(scratch() / "g.xml");
  EXPECT_TRUE(has(junit, "tests=\"9\""));
  EXPECT_TRUE(has(junit, "classname=\"scalar/plain\" name=\"masked\""));
  // Written later, the files are the same, byte for byte.
  EXPECT_EQ(run_qkvet("report g.jsonl --html l.html --junit l.xml").exit, 0);
  EXPECT_EQ(read_text(scratch() / "l.html"), page);
  EXPECT_EQ(read_text(scratch() / "l.xml"), junit);
  // An answer that only differs from the set is compared with it again.
  std::istringstream lines(read_text(scratch() / "g.jsonl"));
  int unlike = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "result" || json["kernel"] != "controls/reversed" ||
        json["verdict"] != "FAILED")
      continue;
    ++unlike;
    const std::string again = json["failure"]["again"];
    EXPECT_TRUE(has(again, "golden verify " + sets));
    EXPECT_TRUE(has(again, " --unchanged "));
    EXPECT_EQ(run_qkvet(again.substr(6)).exit, 1) << again;
  }
  EXPECT_GT(unlike, 0);
  expect_wrong_use(run_qkvet("golden verify " + sets + " --html no/g.html"),
                   "no/g.html: cannot be written");
}

// One set of one key with the value 1, with `o` as its answer.
std::string one_set(const std::string& name, float o,
                    const std::string& finding) {
  NamedTensors tensors;
  tensors["o"] = {FileDtype::kF32, {1, 1, 1, 1}, stored_as(Dtype::kF32, {o})};
  std::string error;
  const auto file = safetensors_bytes(tensors,
                                      {{"qkvet", kGoldenFormat},
                                       {"case", "f32,B1,H1,Tq1,Tk1,d1,v=one"},
                                       {"pins", "one key"},
                                       {"source", "a test"},
                                       {"generator", ""},
                                       {"arithmetic", "exact"},
                                       {"finding", finding}},
                                      &error);
  EXPECT_TRUE(file) << error;
  write_text(scratch() / (name + ".safetensors"),
             {reinterpret_cast<const char*>(file->data()), file->size()});
  return "golden verify " + name + ".safetensors -k scalar/plain";
}

TEST(Golden, SetsThatAreWrongThemselvesAreInDoubt) {
  const Ran right = exits(0, run_qkvet(one_set("right", 1, "")));
  EXPECT_FALSE(has(right.out, "in doubt"));
  // A right kernel differs from such a set.
  const Ran wrong = exits(1, run_qkvet(one_set("wrong", 1.5F, "")));
  EXPECT_TRUE(
      has(wrong.out, "in doubt      wrong   o[b=0,h=0,i=0,c=0] is 1.5"));
  EXPECT_TRUE(has(wrong.out, "not as set    wrong"));
  EXPECT_EQ(run_qkvet(one_set("known", 1.5F, "half too much")).exit, 0);
  const Ran gone = exits(3, run_qkvet(one_set("gone", 1, "half too much")));
  const Ran told = exits(3, run_qkvet(one_set("gone", 1, "half too much") +
                                      " --markdown gone.md"));
  EXPECT_TRUE(has(read_text(scratch() / "gone.md"), "INCOMPLETE"));
  EXPECT_TRUE(
      has(read_text(scratch() / "gone.md"), "the set itself is in doubt"))
      << read_text(scratch() / "gone.md");
  EXPECT_TRUE(has(gone.out, "its finding is not to be seen"));
}

TEST(Golden, SetsAreListedAndShown) {
  const Ran list = exits(0, run_qkvet("explain golden"));
  EXPECT_TRUE(has(list.out, "hand_uniform_all")) << list.out.substr(0, 600);
  const Ran json = run_qkvet("explain golden --json");
  EXPECT_EQ(
      nlohmann::json::parse(json.out.substr(0, json.out.find('\n'))).at("type"),
      "golden");
  const Ran show = exits(0, run_qkvet("golden show hand_equal_scores_f32"));
  for (const char* part : {"pins", "source", "case", "q ", "o ", " .. ", "|"})
    EXPECT_TRUE(has(show.out, part)) << part;
  expect_wrong_use(run_qkvet("golden show no_such_set"), "no_such_set");
  expect_wrong_use(run_qkvet("golden show hand_equal_scores_f32 z"),
                   "z: the set has");
}

TEST(Golden, RecordShowsWhatItWouldReplace) {
  const std::string sets = fresh("update");
  const std::string record = "golden record " + sets;
  ASSERT_EQ(run_qkvet(record + kCases + " -k scalar/plain").exit, 0);
  const std::string before = read_text(scratch() / sets / "MANIFEST.jsonl");
  const Ran refused = run_qkvet(record + " -k controls/reversed");
  expect_wrong_use(refused, sets + ": holds golden sets; --force");
  EXPECT_TRUE(has(refused.out, "changed    masked"));
  EXPECT_EQ(read_text(scratch() / sets / "MANIFEST.jsonl"), before);
  const Ran added = run_qkvet(record +
                              " more:f32,B1,H1,Tq1,Tk1,d2 --force "
                              "-k scalar/plain");
  EXPECT_EQ(added.exit, 0) << added.error;
  EXPECT_TRUE(has(added.out, sets + ": 4 sets"));
  EXPECT_EQ(run_qkvet(record + " -k controls/reversed --force").exit, 0);
  EXPECT_EQ(
      run_qkvet("golden verify " + sets + " -k controls/reversed --unchanged")
          .exit,
      0);
}

TEST(Golden, WhatIsWrongIsNotRecorded) {
  const std::string sets = fresh("wrong");
  const std::string record =
      "golden record " + sets + " a:f32,B1,H1,Tq2,Tk3,d4 -k faulty/no_scale";
  expect_wrong_use(run_qkvet(record), "a: the kernel is wrong there");
  EXPECT_FALSE(fs::exists(scratch() / sets));
  EXPECT_EQ(run_qkvet(record + " --wrong").exit, 0);
  const Ran ran =
      exits(1, run_qkvet("golden verify " + sets + " -k faulty/no_scale"));
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("faulty/no_scale +0 +1 +- +0 +1 +0 +0\n")))
      << ran.out;
}

TEST(Golden, BadInputIsOneLine) {
  const std::string sets = fresh("bad");
  ASSERT_EQ(
      run_qkvet("golden record " + sets + kCases + " -k scalar/plain").exit, 0);
  const fs::path file = scratch() / sets / "plain.safetensors";
  const std::string good = read_text(file);
  const std::string verify = "golden verify " + sets + " -k scalar/plain";
  std::string flipped = good;
  flipped[flipped.size() - 3] ^= 1;
  write_text(file, flipped);
  expect_wrong_use(run_qkvet(verify), "plain.safetensors: its SHA-256 is");
  // Without a manifest nothing protects a single bit; truncation is still
  // detected.
  write_text(file, good.substr(0, good.size() - 1));
  expect_wrong_use(
      run_qkvet("golden verify '" + file.string() + "' -k scalar/plain"),
      "plain.safetensors: ");
  write_text(file, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good);
  expect_wrong_use(
      run_qkvet("golden verify '" + file.string() + "' -k scalar/plain"),
      "header");
  write_text(file, good);
  EXPECT_EQ(run_qkvet(verify).exit, 0);
  expect_wrong_use(run_qkvet(verify + " nothing*"),
                   "nothing*: no folder, and no set");
  expect_wrong_use(run_qkvet(verify + " --unchanged=-1"), "--unchanged=-1");
  expect_wrong_use(run_qkvet(verify + " --unchanged=2x"), "--unchanged=2x");
  expect_wrong_use(run_qkvet("golden verify no/such"), "no/such");
  expect_wrong_use(run_qkvet("golden record " + sets +
                             " f32,B1 "
                             "-k scalar/plain --force"),
                   "case: ");
  expect_wrong_use(run_qkvet("golden record " + sets), "golden record takes");
  expect_wrong_use(run_qkvet("golden record " + sets +
                             " a:f32,B1,H1,Tq1,Tk1,d1 a:f32,B1,H1,Tq1,Tk1,d2 "
                             "-k scalar/plain"),
                   "two cases have this name");
  write_text(scratch() / sets / "stray", "x");
  expect_wrong_use(run_qkvet(verify), "stray: no row of");
  expect_wrong_use(
      run_qkvet("golden record " + sets + " -k scalar/plain --force"),
      "stray: no row of");
}

}  // namespace
}  // namespace qkvet::cli::golden_test
