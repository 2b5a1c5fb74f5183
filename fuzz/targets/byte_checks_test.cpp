// SPDX-License-Identifier: Apache-2.0
// Each check of bytes accepts its parser, and detects a wrong one.
#include "fuzz/targets/byte_checks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "fuzz/targets/target.h"

namespace qkvet::fuzz::byte_checks_test {
namespace {

constexpr std::string_view kCase = "f32,B1,H4,Hkv2,Tq17,Tk33,d64,causal=br";
constexpr std::string_view kStory =
    "qkvet-story 1\ncache f32,H2,Hkv1,d4,cap64\nstep a 5\ntruncate a 2\n";
constexpr std::string_view kCondition = "rows(hidden > 0) && Tq < Tk";

TEST(ByteChecks, TheKindOfARefusalIsWithoutTheInput) {
  EXPECT_EQ(kind_of("seed=12: must be small"), "mustbesmall");
  EXPECT_EQ(kind_of("x:7: y: must be small"), "mustbesmall");
  EXPECT_EQ(kind_of("header, byte 12: \")\" where \",\" must stand"),
            "wheremuststand");
  EXPECT_EQ(kind_of(""), "");
}

ParsedCase forgets_the_seed(std::string_view text) {
  ParsedCase parsed = parse_case(text);
  static uint64_t calls = 0;
  if (parsed.value) parsed.value->seed += ++calls;
  return parsed;
}
ParsedCase says_nothing(std::string_view) { return {}; }

TEST(ByteChecks, ACaseParserThatIsWrongIsTold) {
  std::string said;
  EXPECT_EQ(case_text_problem(kCase, parse_case, &said), "");
  EXPECT_EQ(said, "fkvqkdcausal");
  EXPECT_EQ(case_text_problem("f32,B0", parse_case, &said), "");
  EXPECT_NE(said, "");
  EXPECT_EQ(case_text_problem(kCase, says_nothing, &said),
            "refused without one line");
  EXPECT_EQ(case_text_problem(kCase, forgets_the_seed, &said),
            "its spelling is another case");
}

TEST(ByteChecks, ControlCharactersOfStrangersAreNotEchoed) {
  for (const std::string& text :
       {std::string("qkvet-story 1\ncache f32\x1b[31m,H1"),
        std::string("qkvet-story 1\ncache f32,H1,d1,cap4\n\x07 a 1"),
        std::string("qkvet-story 1\ncache f32,H1,d1,cap4\nstep a 1\0", 45)}) {
    std::string said;
    EXPECT_EQ(story_text_problem(text, parse_story_log, &said), "") << text;
    EXPECT_EQ(condition_text_problem(text, parse_condition, &said), "");
    EXPECT_EQ(case_text_problem(text, parse_case, &said), "");
  }
  std::string error;
  EXPECT_FALSE(parse_story_log("qkvet-story 1\ncache \x1b", "x", &error));
  EXPECT_NE(error.find("\\x1b"), std::string::npos) << error;
}

std::optional<StoryLog> loses_a_command(std::string_view text,
                                        const std::string& name,
                                        std::string* error) {
  auto log = parse_story_log(text, name, error);
  if (log && name == "y") log->story.pop_back();
  return log;
}
std::optional<StoryLog> reads_another(std::string_view text,
                                      const std::string& name,
                                      std::string* error) {
  auto log = parse_story_log(text, name, error);
  if (log && name == "y") ++log->story[0].count;
  return log;
}
std::optional<StoryLog> names_no_place(std::string_view, const std::string&,
                                       std::string* error) {
  *error = "wrong";
  return std::nullopt;
}

TEST(ByteChecks, AStoryParserThatIsWrongIsTold) {
  std::string said;
  EXPECT_EQ(story_text_problem(kStory, parse_story_log, &said), "");
  EXPECT_EQ(story_text_problem("qkvet-story 9", parse_story_log, &said), "");
  EXPECT_EQ(story_text_problem("", parse_story_log, &said), "");
  EXPECT_EQ(story_text_problem(kStory, loses_a_command, &said),
            "commands are lost when it is written out");
  EXPECT_EQ(story_text_problem(kStory, reads_another, &said),
            "it is read in two ways");
  EXPECT_EQ(story_text_problem(kStory, names_no_place, &said),
            "refused without a place: \"wrong\"");
}

ParsedCondition refuses_all(std::string_view) { return {}; }

TEST(ByteChecks, AConditionParserThatIsWrongIsTold) {
  std::string said;
  EXPECT_EQ(condition_text_problem(kCondition, parse_condition, &said), "");
  EXPECT_EQ(condition_text_problem("Tq <", parse_condition, &said), "");
  EXPECT_EQ(condition_text_problem(kCondition, refuses_all, &said),
            "refused without one line");
}

CallOutcome believes_all(const CallReply& reply, const CallPlan&) {
  CallOutcome outcome;
  outcome.status = static_cast<CallStatus>(reply.status);
  return outcome;
}
CallOutcome too_many_lengths(const CallReply& reply, const CallPlan& plan) {
  CallOutcome outcome = outcome_of(reply, plan);
  outcome.lengths.resize(4);
  return outcome;
}

TEST(ByteChecks, AReaderOfRepliesThatBelievesIsTold) {
  std::string said;
  const std::vector<uint8_t> wild(64, 0x7F);
  EXPECT_EQ(worker_reply_problem(wild, outcome_of, &said), "");
  EXPECT_EQ(worker_reply_problem({}, outcome_of, &said), "");
  EXPECT_EQ(worker_reply_problem(wild, believes_all, &said),
            "a status that there is not is believed");
  EXPECT_EQ(worker_reply_problem({}, too_many_lengths, &said),
            "lengths of sequences that are not");
}

std::vector<std::byte> small_npy() {
  const std::vector<std::byte> data(24);
  std::string error;
  return *npy_bytes({FileDtype::kF32, {2, 3}, data}, false, &error);
}
std::optional<NpyArray> turns_extents(std::span<const std::byte> file,
                                      std::string* error) {
  auto array = parse_npy(file, error);
  static bool again = false;
  if (array && again) std::swap(array->tensor.shape[0], array->tensor.shape[1]);
  again = true;
  return array;
}

TEST(ByteChecks, AnNpyParserThatIsWrongIsTold) {
  std::string said;
  const std::vector<std::byte> file = small_npy();
  EXPECT_EQ(npy_problem(file, parse_npy, &said), "");
  EXPECT_EQ(said, "f322");
  EXPECT_EQ(npy_problem(std::span(file).first(20), parse_npy, &said), "");
  EXPECT_EQ(npy_problem(file, turns_extents, &said),
            "another array is read than was written");
}

std::optional<Safetensors> loses_metadata(std::span<const std::byte> file,
                                          std::string* error) {
  auto read = parse_safetensors(file, error);
  static bool again = false;
  if (read && again) read->metadata.clear();
  again = true;
  return read;
}

TEST(ByteChecks, ASafetensorsParserThatIsWrongIsTold) {
  const std::vector<std::byte> data(8);
  std::string error, said;
  const auto file = safetensors_bytes({{"a", {FileDtype::kF32, {2}, data}}},
                                      {{"key", "value"}}, &error);
  ASSERT_TRUE(file) << error;
  EXPECT_EQ(safetensors_problem(*file, parse_safetensors, &said), "");
  EXPECT_EQ(safetensors_problem(*file, loses_metadata, &said),
            "metadata are lost");
}

std::vector<std::byte> seed(const std::string& name) {
  std::ifstream file(QKVET_CORPUS "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  const std::vector<char> text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::optional<NpzArrays> turns_an_array(std::span<const std::byte> file,
                                        std::string* error) {
  auto arrays = parse_npz(file, error);
  if (arrays) arrays->at("q").array.fortran_order ^= true;
  return arrays;
}
std::optional<NpzArrays> believes_lengths(std::span<const std::byte> file,
                                          std::string* error) {
  auto arrays = parse_npz(file, error);
  if (!arrays) return arrays;
  // As large as a header without data may claim.
  const std::vector<std::byte> data(1 << 20);
  NpzArray& large = (*arrays)["large"];
  large.file = *npy_bytes({FileDtype::kUint8, {1 << 20}, data}, false, error);
  large.array = *parse_npy(large.file, error);
  return arrays;
}
std::optional<NpzArrays> reads_once(std::span<const std::byte> file,
                                    std::string* error) {
  auto arrays = parse_npz(file, error);
  static bool again = false;
  if (again) arrays->erase("q");
  again = true;
  return arrays;
}

TEST(ByteChecks, AnNpzParserThatIsWrongIsTold) {
  std::string said;
  const std::vector<std::byte> file = seed("npz/deflated");
  EXPECT_EQ(npz_problem(file, parse_npz, &said), "");
  EXPECT_EQ(said, "arrays3f64");
  EXPECT_EQ(npz_problem(std::span(file).first(200), parse_npz, &said), "");
  EXPECT_EQ(npz_problem(file, turns_an_array, &said),
            "a member holds another array");
  EXPECT_EQ(npz_problem(file, believes_lengths, &said),
            "more was unpacked than can have been packed");
  EXPECT_EQ(npz_problem(file, reads_once, &said),
            "other arrays are read the second time");
}

std::optional<OnnxTensor> believes_the_shape(std::span<const std::byte> file,
                                             std::string* error) {
  auto tensor = parse_onnx_tensor(file, error);
  if (tensor) tensor->shape.push_back(2);
  return tensor;
}
std::optional<OnnxTensor> doubles_data(std::span<const std::byte> file,
                                       std::string* error) {
  auto tensor = parse_onnx_tensor(file, error);
  if (tensor) tensor->data.resize(9 * file.size());
  return tensor;
}
std::optional<OnnxNode> invents_names(std::span<const std::byte> file,
                                      std::string* error) {
  auto node = parse_onnx_node(file, error);
  if (node) node->inputs.emplace_back(file.size(), 'x');
  return node;
}

TEST(ByteChecks, AnOnnxParserThatIsWrongIsTold) {
  std::string said;
  const std::vector<std::byte> file = seed("onnx_tensor/f16");
  EXPECT_EQ(onnx_tensor_problem(file, parse_onnx_tensor, &said), "");
  EXPECT_EQ(said, "f164");
  EXPECT_EQ(onnx_tensor_problem(file, believes_the_shape, &said),
            "the tensor is none: 128 bytes of data, but f16 [2, 4, 1, 8, 2] "
            "takes 256");
  EXPECT_EQ(onnx_tensor_problem(file, doubles_data, &said),
            "more numbers than the file can hold");
  const std::vector<std::byte> model = seed("onnx_tensor/model");
  EXPECT_EQ(onnx_node_problem(model, parse_onnx_node, &said), "");
  EXPECT_EQ(said, "node312");
  EXPECT_EQ(onnx_node_problem(model, invents_names, &said),
            "more text than the file can hold");
}

TEST(ByteChecks, EveryTargetHasANameASentenceAndSomethingToAsk) {
  int kernels = 0, bytes = 0;
  for (const FuzzTarget* target : fuzz_targets()) {
    EXPECT_EQ(find_fuzz_target(target->name), target);
    EXPECT_GT(std::string(target->sentence).size(), 20u);
    if (!target->about_kernels()) {
      ++bytes;
      std::string said;
      EXPECT_EQ(target->check({}, &said), "") << target->name;
      continue;
    }
    ++kernels;
    for (const Law* law : laws_of(*target))
      EXPECT_EQ(law->domain.subject, target->subject);
    // A glob that names no law is a spelling mistake.
    EXPECT_GE(laws_of(*target).size(), target->laws.size()) << target->name;
  }
  EXPECT_EQ(kernels, 5);
  EXPECT_EQ(bytes, 8);
  EXPECT_EQ(find_fuzz_target("no"), nullptr);
}

}  // namespace
}  // namespace qkvet::fuzz::byte_checks_test
