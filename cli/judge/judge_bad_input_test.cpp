// SPDX-License-Identifier: Apache-2.0
// qkvet judge --ask and judge: refused input, in one line.
#include <gtest/gtest.h>

#include <functional>

#include "cli/judge/judge_run.h"
#include "core/files/npy.h"

namespace qkvet::cli::judge_bad_input_test {
namespace {

namespace fs = std::filesystem;

// A small plan with its answers, to be corrupted and restored.
const fs::path& answered_plan() {
  static const fs::path plan = [] {
    fs::path made = emitted("bad", "--law weights_sum_to_one --cases 6");
    answer_plan(made, "scalar/plain");
    return made;
  }();
  return plan;
}

fs::path in_plan(const std::string& name) { return answered_plan() / name; }

// Judges with another text in a file, and puts the right one back.
void expect_refused(const std::string& file, const std::string& text,
                    const std::string& part) {
  ASSERT_EQ(judged(answered_plan()).exit, 0);
  const fs::path path = in_plan(file);
  const bool was_there = fs::exists(path);
  const std::string right = was_there ? read_text(path) : "";
  write_text(path, text);
  const Ran ran = judged(answered_plan(), "--json bad.jsonl --junit bad.xml");
  expect_wrong_use(ran, part);
  EXPECT_EQ(ran.out, "");
  EXPECT_FALSE(fs::exists(scratch() / "bad.jsonl"));
  EXPECT_FALSE(fs::exists(scratch() / "bad.xml"));
  if (was_there)
    write_text(path, right);
  else
    fs::remove(path);
}

std::string changed(const std::string& file, const std::string& from,
                    const std::string& to) {
  std::string text = read_text(in_plan(file));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string npy_text(const TensorToWrite& tensor) {
  std::string error;
  const auto bytes = npy_bytes(tensor, false, &error);
  EXPECT_TRUE(bytes) << error;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

TEST(JudgeBadInput, Answers) {
  const std::string right = read_text(in_plan("c0000/o.npy"));
  expect_refused("c0000/o.npy", right.substr(0, right.size() - 1), "o.npy: ");
  expect_refused("c0000/o.npy", right.substr(0, 9), "o.npy: ");
  expect_refused("c0000/o.npy", "", "o.npy: ");
  expect_refused("c0000/o.npy", right + "x", "o.npy: ");
  std::string long_header = right;
  long_header[8] = long_header[9] = '\xff';
  expect_refused("c0000/o.npy", long_header, "o.npy: ");
  expect_refused("c0000/o.npy", std::string(size_t{2} << 20, 'x'), "at most");
  const std::vector<std::byte> bytes(8);
  expect_refused("c0000/o.npy", npy_text({FileDtype::kF32, {2}, bytes}),
                 "f32 [2] where f32 [");
  expect_refused("c0000/o.npy", npy_text({FileDtype::kF64, {1}, bytes}),
                 "f64 [1] where f32 [");
  expect_refused("c0000/lse.npy", right,
                 "lse.npy: belongs to no output of this call; allowed: o.npy, "
                 "refused.txt");
  expect_refused("c0000.safetensors", "short", "c0000.safetensors: ");
  expect_refused("c9999.safetensors", "short", "belongs to no call");
  expect_refused("o.npy", right, "belongs to no call");
}

TEST(JudgeBadInput, ThePlanItself) {
  std::string q = read_text(in_plan("t/0001.npy"));
  q.back() = static_cast<char>(q.back() ^ 1);
  expect_refused("t/0001.npy", q, "t/0001.npy: is not what the plan has");
  expect_refused("t/9999.npy", q, "t/9999.npy: is no input of the plan");
  expect_refused("calls.tsv", changed("calls.tsv", "\tf32\t", "\tf16\t"),
                 "calls.tsv: is not what the plan has");
  expect_refused("plan.json", "{", "plan.json: is no JSON");
  expect_refused("plan.json", "{}", "plan.json: is no plan: ");
  expect_refused("plan.json", "[1]", "plan.json: is no plan: ");
  expect_refused("plan.json", changed("plan.json", "plan 2", "plan 1"),
                 "\"plan 1\" is not what this version of QKVet reads, "
                 "\"plan 2\": write it again");
  expect_refused(
      "plan.json",
      changed("plan.json", " \"seed\": 1,", " \"seed\": 1, \"seed\": 2,"),
      "\"seed\" is there twice");
  expect_refused("plan.json",
                 changed("plan.json", "weights_sum_to_one", "no_such_law"),
                 "no law is named \"no_such_law\"");
  expect_refused("plan.json", changed("plan.json", "f32,B", "f3,B"), "f3");
  expect_refused("plan.json", changed("plan.json", "\"id\":0", "\"id\":1"),
                 "\"/calls/0/id\" is not what this version of QKVet makes");
  expect_refused("plan.json",
                 changed("plan.json", "\"digest\":\"", "\"digest\":\"0"),
                 "/digest");
  expect_refused("plan.json", changed("plan.json", "\"q\":{", "\"extra\":{"),
                 "/inputs");
  expect_refused("plan.json", changed("plan.json", "\"causal\"", "\"cauchy\""),
                 "\"cauchy\" is no option; allowed: ");
}

TEST(JudgeBadInput, Folders) {
  fs::remove_all(scratch() / "empty");
  fs::create_directories(scratch() / "empty" / "c0000");
  expect_wrong_use(judged(scratch() / "empty"), "plan.json: cannot be read");
  expect_wrong_use(judged(scratch() / "nowhere"), "nowhere: cannot be read");
  expect_wrong_use(judged(answered_plan(), "nowhere"), "nowhere: is no folder");
  fs::create_directories(in_plan("c9999"));
  expect_wrong_use(judged(answered_plan()), "is the folder of no call");
  fs::remove(in_plan("c9999"));
  fs::rename(in_plan("t/0001.npy"), in_plan("kept"));
  expect_wrong_use(judged(answered_plan()), "t/0001.npy: cannot be read");
  fs::rename(in_plan("kept"), in_plan("t/0001.npy"));
  EXPECT_EQ(judged(answered_plan()).exit, 0);
  // Inputs that come back with the answers must be unchanged.
  fs::remove_all(scratch() / "copy");
  fs::copy(answered_plan(), scratch() / "copy", fs::copy_options::recursive);
  EXPECT_EQ(judged(answered_plan(), "copy").exit, 0);
  write_text(scratch() / "copy" / "t" / "0001.npy", "other");
  expect_wrong_use(judged(answered_plan(), "copy"),
                   "copy/t/0001.npy: is not the plan's");
}

// Refused before anything is judged, and without half-written files.
TEST(JudgeBadInput, OutputsThatCannotBeWritten) {
  fs::remove(scratch() / "first.jsonl");
  const auto refuses = [](const std::string& arguments,
                          const std::string& part) {
    const Ran ran = judged(answered_plan(), "--json first.jsonl " + arguments);
    expect_wrong_use(ran, part);
    EXPECT_EQ(ran.out, "");
    EXPECT_FALSE(fs::exists(scratch() / "first.jsonl"));
  };
  refuses("--out nowhere/rows.tsv", "nowhere/rows.tsv: cannot be written");
  refuses("--junit nowhere/all.xml", "nowhere/all.xml: cannot be written");
  refuses("--out .", ".: is a folder");
  refuses("--out first.jsonl", "first.jsonl: is named for two outputs");
  // An existing file stays.
  write_text(scratch() / "kept.tsv", "kept");
  expect_wrong_use(judged(answered_plan(), "--out kept.tsv --json no/x"),
                   "no/x: cannot be written");
  EXPECT_EQ(read_text(scratch() / "kept.tsv"), "kept");
  EXPECT_EQ(judged(answered_plan(), "--out kept.tsv").exit, 0);
  EXPECT_NE(read_text(scratch() / "kept.tsv"), "kept");
  write_text(scratch() / "call.safetensors", "");
  expect_wrong_use(run_qkvet("judge call.safetensors --out rows.tsv"),
                   "call.safetensors: no plan; --out is for");
}

TEST(EmitPlan, WrongUse) {
  const auto refuses = [](const std::string& arguments,
                          const std::string& part) {
    expect_wrong_use(run_qkvet("judge --ask " + arguments), part);
  };
  fs::create_directories(scratch() / "there");
  refuses("there", "there: is there already and is not overwritten");
  refuses("x --options causal,magic", "\"magic\" is no option; allowed: all, ");
  refuses("x --dtype int8", "allowed are f64, f32, f16 and bf16");
  refuses("x --dtype f32/f16", "or three of them for q, for k and v");
  refuses("x --dtype f32/f16/f64", "f64 beside other storage");
  refuses("x --kernel me", "--kernel me: allowed is family/variant");
  refuses("x --law no_such", "no law is named");
  refuses("x --law reads_only_its_inputs", "answers in files");
  refuses("x --law 'cache_*'", "a cache lives between calls");
  refuses("x --law softcap_is_tanh", "not declared: softcap");
  refuses("x --pin e=3", "--pin");
  refuses("x --dialect nowhere.txt", "nowhere.txt: cannot be read");
  write_text(scratch() / "wrong.txt", "empty_row = some\n");
  refuses("x --dialect wrong.txt", "dialect:1: \"some\": allowed: zero");
  EXPECT_FALSE(fs::exists(scratch() / "x"));
  // --force replaces only a plan.
  fs::remove_all(scratch() / "own");
  fs::create_directories(scratch() / "own");
  refuses("own --force", "it is no folder with a plan.json");
  const std::string again = "again --law weights_sum_to_one --cases 2 ";
  ASSERT_EQ(
      run_qkvet("judge --ask again/ --law weights_sum_to_one --cases 2").exit,
      0);
  ASSERT_EQ(run_qkvet("judge --ask " + again + "--force --seed 5").exit, 0);
}

}  // namespace
}  // namespace qkvet::cli::judge_bad_input_test
