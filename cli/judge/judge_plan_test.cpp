// SPDX-License-Identifier: Apache-2.0
// qkvet judge --ask and judge: kernels that answer in files are judged like
// opened ones.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/judge/judge_run.h"
#include "cli/reproduce/emit_run.h"
#include "core/base/at_night.h"
#include "core/files/npy.h"
#include "core/files/safetensors.h"

namespace qkvet::cli::judge_plan_test {
namespace {

namespace fs = std::filesystem;

std::string last_of(const std::string& kernel) {
  return kernel.substr(kernel.find('/') + 1);
}

TEST(JudgePlan, ACorrectKernelPassesEveryLawOfThePlan) {
  const fs::path plan = emitted("right");
  answer_plan(plan, "scalar/plain");
  const Ran ran =
      exits(0, judged(plan, "--json right.jsonl --junit right.xml"));
  EXPECT_TRUE(has(ran.out, "seed 1, 200 cases per kernel"));
  EXPECT_FALSE(has(ran.out, "missing"));
  EXPECT_FALSE(has(ran.out, "gave up"));
  const std::string json = read_text(scratch() / "right.jsonl");
  EXPECT_TRUE(
      has(json, "\"law\":\"agrees_with_oracle\",\"verdict\":\"passed\""))
      << json;
  EXPECT_TRUE(has(json, "\"exit\":0"));
  EXPECT_TRUE(has(read_text(scratch() / "right.xml"), "failures=\"0\""));
  // And again: nothing was written into the plan.
  EXPECT_EQ(judged(plan).exit, 0);
}

struct Row {
  const char* kernel;
  const char* options;  // in addition to those of every plan; or ""
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.kernel; }

class JudgeFaults : public testing::TestWithParam<Row> {};

// The same cause as `check` finds, from recorded answers alone.
TEST_P(JudgeFaults, AreKnownByTheirAnswers) {
  const Row& row = GetParam();
  const std::string name = last_of(row.kernel);
  const fs::path plan = emitted(
      name, row.options[0] == 0
                ? ""
                : std::string("--options ") + row.options + " --seed 2");
  answer_plan(plan, row.kernel);
  const Ran ran = exits(1, judged(plan, "--html " + name + ".html"));
  // Expected answers, actual ones, and the distance.
  EXPECT_TRUE(has(read_text(scratch() / (name + ".html")), "<dt>actual</dt>"))
      << name;
  const Ran check = run_qkvet(std::string("check --sizes small --cases 1500 "
                                          "--kernel ") +
                              row.kernel);
  EXPECT_EQ(cause_in(check.out), name + ", sure") << check.out;
  EXPECT_EQ(cause_in(ran.out), name + ", sure") << ran.out;
  EXPECT_TRUE(has(ran.out, "\n  again       qkvet judge " + name + "\n"));
  EXPECT_TRUE(has(ran.out, "of the plan; recorded: not repeated, not shrunk"));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, JudgeFaults,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            Row{"faulty/no_scale", ""}, Row{"faulty/mask_after_softmax", ""},
            Row{"faulty/key_head_modulo", ""},
            Row{"faulty/tail_tile_unmasked", ""},
            Row{"faulty/causal_once_per_two_rows", ""},
            Row{"faulty/window_off_by_one_left", "causal,cross_lengths,window"},
            Row{"faulty/lse_without_maximum", "causal,cross_lengths,lse"},
            Row{"faulty/alibi_from_top_left", "causal,cross_lengths,alibi"}},
        3)),
    [](const auto& test) { return last_of(test.param.kernel); });

TEST(JudgePlan, EveryOptionAndTypeCanBeAsked) {
  const fs::path plan =
      emitted("all", "--options all --dtype f32 --dtype bf16 --cases 400");
  answer_plan(plan, "scalar/plain");
  const Ran ran = judged(plan, "--diagnose 0 --verbose");
  // The kernel refuses what it lacks: only that keeps it from passing.
  EXPECT_NE(ran.exit, 1) << ran.out << ran.error;
  EXPECT_FALSE(has(ran.out, "FAIL"));
  EXPECT_TRUE(has(ran.out, "sink_joins_the_denominator  "));
}

TEST(JudgePlan, ALayerAnswersInFilesToo) {
  const fs::path plan =
      emitted("layer",
              "--options layer,causal,gqa,layer_biases,layer_stages "
              "--cases 60");
  answer_plan(plan, "scalar/layer");
  const Ran ran = exits(0, judged(plan, "--verbose"));
  EXPECT_TRUE(has(ran.out, "mismatched_widths_are_refused"));
  EXPECT_TRUE(has(ran.out, "layer_agrees_with_oracle"));
}

TEST(JudgePlan, AnswersMayLieElsewhereInEitherFormat) {
  const fs::path plan = emitted("formats", "--format safetensors --cases 48");
  const fs::path npy = scratch() / "as_npy", tensors = scratch() / "as_tensors";
  answer_plan(plan, "scalar/plain", npy, /*safetensors=*/false);
  answer_plan(plan, "scalar/plain", tensors, /*safetensors=*/true);
  EXPECT_EQ(judged(plan, "as_npy").exit, 0);
  EXPECT_EQ(judged(plan, "as_tensors").exit, 0);
  // Both at once would leave open which one counts.
  fs::copy(npy / "c0000", tensors / "c0000");
  expect_wrong_use(judged(plan, "as_tensors"), "answered twice");
  // Without any answer: nothing was checked.
  EXPECT_EQ(judged(plan).exit, 3);
}

// One file per answer next to calls.tsv; and all answers in one file, with
// refusals in its metadata.
TEST(JudgePlan, AnswersMayLieInOnePlace) {
  const fs::path plan = emitted("places", "--cases 48");
  const fs::path split = scratch() / "split";
  answer_plan(plan, "scalar/plain", split, /*safetensors=*/false);
  const fs::path flat = scratch() / "flat", one = scratch() / "one";
  for (const fs::path& folder : {flat, one}) {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  std::map<std::string, std::string> files;
  std::map<std::string, TensorToWrite, std::less<>> tensors;
  for (const auto& entry : fs::recursive_directory_iterator(split)) {
    if (!entry.is_regular_file()) continue;
    const std::string call = entry.path().parent_path().filename().string();
    const std::string name = entry.path().filename().string();
    fs::copy_file(entry, flat / (call + "." + name));
    files[call + "/" + entry.path().stem().string()] = read_text(entry);
  }
  std::string error;
  for (const auto& [name, text] : files) {
    const auto bytes = std::as_bytes(std::span(text));
    const auto npy = parse_npy(bytes, &error);
    ASSERT_TRUE(npy) << error;
    tensors[name] = {npy->tensor.dtype, npy->tensor.shape,
                     npy->tensor.data(bytes)};
  }
  const auto write = [&](const SafetensorsMetadata& metadata) {
    const auto bytes = safetensors_bytes(tensors, metadata, &error);
    ASSERT_TRUE(bytes) << error;
    write_text(one / "answers.safetensors",
               {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  };
  EXPECT_EQ(judged(plan, "flat").exit, 0);
  write({{"format", "pt"}});
  EXPECT_EQ(judged(plan, "one").exit, 0);
  tensors.erase("c0003/o");
  write({{"c0003/refused", "no such width"}});
  const Ran refused = exits(0, judged(plan, "one --verbose"));
  EXPECT_TRUE(has(refused.out, "no such width"));
  write({{"c9999/refused", "no such call"}});
  expect_wrong_use(judged(plan, "one"),
                   "\"c9999/refused\" belongs to no call of the plan");
  tensors["c9999/o"] = tensors["c0004/o"];
  write({});
  expect_wrong_use(judged(plan, "one"),
                   "\"c9999/o\" belongs to no call of the plan");
  tensors.erase("c9999/o");
  tensors["c0003/lse"] = tensors["c0004/o"];
  write({});
  expect_wrong_use(judged(plan, "one"),
                   "\"c0003/lse\" is neither an output of this call");
  write_text(flat / "c0003.lse.npy", "");
  expect_wrong_use(judged(plan, "flat"),
                   "c0003.lse.npy: belongs to no output of this call");
}

TEST(JudgePlan, MissingAnswersLeaveTheirLawsOpen) {
  const fs::path plan = emitted("missing", "--cases 48");
  answer_plan(plan, "scalar/plain");
  fs::remove(plan / "c0003" / "o.npy");
  fs::remove_all(plan / "c0004" / "o.npy");
  const Ran some = exits(3, judged(plan));
  EXPECT_TRUE(
      has(some.out, "2 answers are missing: c0003.o.npy, c0004.o.npy\n"))
      << some.out;
  EXPECT_TRUE(has(some.out, " calls have no answer\n"));
  EXPECT_TRUE(has(some.out, "  passed "));
}

TEST(JudgePlan, ARefusalIsNoAnswerAndNoFailure) {
  const fs::path plan = emitted("refused", "--cases 48");
  answer_plan(plan, "scalar/plain");
  fs::remove(plan / "c0003" / "o.npy");
  write_text(plan / "c0003" / "refused.txt", "no such width\n");
  const Ran ran = judged(plan, "--verbose");
  EXPECT_TRUE(has(ran.out, "no such width"));
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  write_text(plan / "c0004" / "refused.txt", "and answered\n");
  expect_wrong_use(judged(plan), "c0004: is refused and answered");
}

// As numpy.savez writes them, in C order and Fortran order.
TEST(JudgePlan, AnswersMayLieInOneArchive) {
  const fs::path plan = emitted("archive", "--cases 48");
  const fs::path split = scratch() / "loose";
  answer_plan(plan, "scalar/plain", split, /*safetensors=*/false);
  fs::remove_all(scratch() / "zipped");
  fs::create_directories(scratch() / "zipped");
  const auto pack = [&](const std::string& edit) {
    write_text(scratch() / "pack.py",
               "import numpy as np, pathlib\n"
               "a = {f'{x.parent.name}/{x.stem}': np.load(x)\n"
               "     for x in pathlib.Path('loose').glob('*/*.npy')}\n" +
                   edit + "\nnp.savez('zipped/answers.npz', **a)\n");
    const Ran ran = exits(0, run_shell(python() + " pack.py", scratch()));
    return judged(plan, "zipped --diagnose 0");
  };
  EXPECT_EQ(pack("").exit, 0);
  EXPECT_EQ(pack("a = {n: np.asfortranarray(x) for n, x in a.items()}").exit,
            0);
  EXPECT_EQ(pack("a = {n: x + np.float32(1) for n, x in a.items()}").exit, 1);
  EXPECT_EQ(pack("del a['c0003/o']").exit, 3);
  expect_wrong_use(pack("a['c9999/o'] = a['c0003/o']"),
                   "answers.npz: \"c9999/o\" belongs to no call of the plan");
  expect_wrong_use(pack("a['c0003/o'] = a['c0003/o'].astype('f8')"),
                   "answers.npz: \"c0003/o\" is f64 [");
  write_text(scratch() / "zipped" / "answers.npz", "PK");
  expect_wrong_use(judged(plan, "zipped"), "answers.npz: ");
}

// Judges a plan of one law with one flipped bit in the last number of its last
// answer.
Ran judged_with_bit(const std::string& law, size_t byte, int bit,
                    const std::string& options = "") {
  const fs::path plan =
      emitted(law, "--cases 4 --force --law " + law + options);
  answer_plan(plan, "scalar/plain");
  EXPECT_EQ(judged(plan).exit, 0);
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  const std::string call = json["calls"].back()["call"];
  const fs::path file = plan / call / "o.npy";
  std::string wrong = read_text(file);
  char& at = wrong[wrong.size() - sizeof(float) + byte];
  at = static_cast<char>(at ^ (1 << bit));
  write_text(file, wrong);
  Ran ran = judged(plan, "--diagnose 0");
  EXPECT_EQ(has(ran.out, "  where       c"), ran.exit == 1) << ran.out;
  return ran;
}

// Bits of the exponent, and the last of the mantissa.
TEST(JudgePlan, OneBitIsSeenWhereTheBoundCanTell) {
  const Ran large = exits(1, judged_with_bit("agrees_with_oracle", 3, 5));
  const Ran small = exits(0, judged_with_bit("agrees_with_oracle", 0, 0));
  const Ran pair =
      exits(0, judged_with_bit("scaled_values_scale_output", 0, 0));
  const Ran claimed =
      judged_with_bit("scaled_values_scale_output", 0, 0,
                      " --options causal,power_of_two_invariant");
  EXPECT_EQ(claimed.exit, 1) << claimed.out << claimed.error;
}

// Probes in the plan find an undeclared dialect; with a wrong declaration the
// answers fail.
TEST(JudgePlan, TheDialectIsFoundInTheAnswers) {
  const fs::path plan =
      emitted("dialect", "--options causal,cross_lengths,lse --cases 60");
  answer_plan(plan, "controls/dialect_lse_base2");
  const Ran ran = exits(0, judged(plan));
  EXPECT_TRUE(has(ran.out, ".lse_base = QKVET_LSE_BASE2"));
  write_text(scratch() / "natural.txt", "lse_base = natural\n");
  const Ran natural =
      exits(1, judged(plan, "--dialect natural.txt --diagnose 0"));
  EXPECT_TRUE(has(natural.out, "qkvet judge dialect --dialect natural.txt\n"));
}

// Every distinct call once, and the law's pairs by their numbers.
TEST(EmitPlan, SaysWhatItAsks) {
  const fs::path plan = emitted("says", "--law 'scale_*' --cases 24");
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  ASSERT_EQ(json["cases"].size(), 24U);
  std::set<std::string> digests;
  for (const auto& call : json["calls"]) {
    EXPECT_TRUE(digests.insert(call["digest"]).second) << call;
    for (const auto& input : call["inputs"])
      EXPECT_TRUE(fs::exists(plan / (std::string(input["stored"]) + ".npy")))
          << input;
    EXPECT_GT(std::abs(call["scale"].get<double>()), 0);
    EXPECT_EQ(call["outputs"]["o"]["dtype"], "f32");
  }
  bool pair = false;
  for (const auto& one : json["cases"]) pair |= one["calls"].size() >= 2;
  EXPECT_TRUE(pair) << json["cases"];
  const std::string table = read_text(plan / "calls.tsv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'),
            std::ssize(json["calls"]) + 1);
  // No tensor is stored twice, and each is used by a call.
  std::set<std::string> contents, stored;
  for (const auto& entry : fs::directory_iterator(plan / "t"))
    EXPECT_TRUE(contents.insert(read_text(entry.path())).second) << entry;
  size_t taken = 0;
  for (const auto& call : json["calls"])
    for (const auto& input : call["inputs"]) {
      stored.insert(input["stored"]);
      ++taken;
    }
  EXPECT_EQ(stored.size(), contents.size());
  EXPECT_LT(stored.size(), taken);
  // The same plan makes the same folder; another seed makes another one.
  const fs::path same = emitted("says2", "--law 'scale_*' --cases 24");
  EXPECT_EQ(read_text(same / "plan.json"), read_text(plan / "plan.json"));
  const fs::path other =
      emitted("says3", "--law 'scale_*' --cases 24 --seed 9");
  EXPECT_NE(read_text(other / "plan.json"), read_text(plan / "plan.json"));
}

// A recipe has a fifth of the bytes at most and the same calls. Its answers may
// be in the plan that is made of it.
TEST(EmitPlan, ARecipeIsThePlanWithoutItsFiles) {
  const auto bytes_in = [](const fs::path& folder) {
    uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) bytes += entry.file_size();
    return bytes;
  };
  const fs::path whole = emitted("whole", "--cases 96");
  const fs::path recipe = emitted("recipe", "--cases 96 --format recipe");
  EXPECT_LT(bytes_in(recipe), bytes_in(whole) / 5);
  EXPECT_FALSE(fs::exists(recipe / "calls.tsv"));
  const fs::path made = scratch() / "made";
  fs::remove_all(made);
  ASSERT_EQ(run_qkvet("judge recipe --ask made").exit, 0);
  for (const auto& entry : fs::recursive_directory_iterator(whole)) {
    if (!entry.is_regular_file()) continue;
    const fs::path name = fs::relative(entry.path(), whole);
    EXPECT_EQ(read_text(made / name), read_text(entry.path())) << name;
  }
  answer_plan(made, "scalar/plain", scratch() / "third", /*safetensors=*/false);
  EXPECT_EQ(judged(made, "third").exit, 0);
  EXPECT_EQ(judged(recipe, "third").exit, 0);
  expect_wrong_use(run_qkvet("judge recipe --ask other --seed 2"), "--seed");
  expect_wrong_use(run_qkvet("judge nowhere --ask other"),
                   "nowhere/plan.json: cannot be read");
}

// Combinations that a library refuses although it takes each part.
TEST(EmitPlan, AsksNothingThatIsDeclaredAsRefused) {
  struct Asked {
    int given_scale = 0, negative_scale = 0, mask_and_bias = 0,
        bias_and_causal = 0;
  };
  const auto asked = [](const std::string& name, const std::string& limits) {
    const fs::path plan = emitted(
        name, "--cases 300 --options causal,cross_lengths,mask,bias" + limits);
    Asked counts;
    const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
    for (const auto& call : json["calls"]) {
      const auto& inputs = call["inputs"];
      counts.given_scale += call["scale_given"] != 0;
      counts.negative_scale += call["scale"] < 0;
      counts.mask_and_bias +=
          inputs.contains("mask") && inputs.contains("bias");
      counts.bias_and_causal +=
          inputs.contains("bias") && call["causal"] != "none";
    }
    return counts;
  };
  const Asked all = asked("all_asked", "");
  EXPECT_GT(all.given_scale, 0);
  EXPECT_GT(all.negative_scale, 0);
  EXPECT_GT(all.mask_and_bias, 0);
  EXPECT_GT(all.bias_and_causal, 0);
  const Asked positive = asked("positive", ",positive_scale");
  EXPECT_EQ(positive.negative_scale, 0);
  EXPECT_GT(positive.given_scale, 0);
  const Asked left =
      asked("left", ",default_scale,mask_or_bias,bias_or_causal");
  EXPECT_EQ(left.given_scale, 0);
  EXPECT_EQ(left.mask_and_bias, 0);
  EXPECT_EQ(left.bias_and_causal, 0);
}

}  // namespace
}  // namespace qkvet::cli::judge_plan_test
