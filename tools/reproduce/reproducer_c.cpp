// SPDX-License-Identifier: Apache-2.0
// One C file, C11 and C++17, whose tables a program walks: that of
// templates/reproducer.c, reproducer_backward.c, reproducer_layer.c or
// reproducer_story.c.
#include <fmt/core.h>

#include <filesystem>
#include <map>

#include "core/call/option_numbers.h"
#include "tools/base/lines.h"
#include "tools/kernels/compiler.h"
#include "tools/reproduce/c_text.h"
#include "tools/reproduce/reproducer.h"
#include "tools/reproduce/reproducer_calls_c.h"

namespace qkvet::tools {
namespace {

constexpr std::string_view kAttention =
#include "reproducer.c.inc"
    ;
constexpr std::string_view kBackward =
#include "reproducer_backward.c.inc"
    ;
constexpr std::string_view kLayer =
#include "reproducer_layer.c.inc"
    ;
constexpr std::string_view kStory =
#include "reproducer_story.c.inc"
    ;
// What they have in common.
constexpr std::string_view kTypes =
#include "reproducer_types.c.inc"
    ;
constexpr std::string_view kNumbers =
#include "reproducer_numbers.c.inc"
    ;
constexpr std::string_view kLibrary =
#include "reproducer_library.c.inc"
    ;
// Of attention and its gradient.
constexpr std::string_view kRows =
#include "reproducer_rows.c.inc"
    ;
constexpr std::string_view kCalls =
#include "reproducer_calls.c.inc"
    ;
constexpr std::string_view kPairs =
#include "reproducer_pairs.c.inc"
    ;
constexpr std::string_view kEnd =
#include "reproducer_end.c.inc"
    ;

std::string options_c() {
  std::string options;
  for (size_t n = 0; n < std::size(kOptionNumbers); ++n)
    options += fmt::format("{}args.{} = from->options[{}];",
                           n == 0 ? "" : "\n  ", kOptionNumbers[n].name, n);
  return options;
}

using Parts = std::vector<std::pair<std::string_view, std::string>>;

struct ProgramC {
  Subject subject;
  std::string_view text;
  Parts (*parts)();  // beside those that all have
  std::string (*call_row)(const WrittenCall& call);
  bool has_pairs, has_stages, has_config;  // tables
};

// What attention and its gradient have in common; markers inside of a part
// behind it.
Parts attention_parts() {
  return {{"/* ROWS */", plain_part(kRows)},
          {"/* CALLS */", plain_part(kCalls)},
          {"/* PAIRS */", plain_part(kPairs)},
          {"/* OPTIONS */", options_c()},
          {"/* OPTION COUNT */", std::to_string(std::size(kOptionNumbers))}};
}

Parts end_parts() { return {{"/* END */", plain_part(kEnd)}}; }

constexpr ProgramC kPrograms[] = {
    {Subject::kAttention, kAttention,
     [] {
       Parts parts = attention_parts();
       parts.push_back({"/* SLOTS */", std::to_string(kMostPlans)});
       return parts;
     },
     forward_row_c, true, false, false},
    {Subject::kBackward, kBackward, attention_parts, forward_row_c, true, false,
     false},
    {Subject::kLayer, kLayer, end_parts, layer_row_c, false, true, false},
    {Subject::kCache, kStory, end_parts, story_row_c, false, false, true}};

constexpr size_t kPerLine = 6;

// "4 x 8 x 1", for comments.
std::string extents_text(const std::vector<int64_t>& shape) {
  return joined(shape, " x ");
}

std::string numbers_text(const Extents& numbers) {
  return fmt::format("{{{}}}", joined(numbers));
}

class Tables {
 public:
  explicit Tables(const Reproducer& from)
      : from_(from), program_(row_about(from.subject, kPrograms)) {
    for (size_t i = 0; i < from.calls.size(); ++i) add_call(i);
    if (program_.has_pairs) add_pairs();
  }

  std::string text() const {
    std::string text =
        arrays_ + table("call_row calls", calls_) +
        table("tensor_row inputs",
              inputs_.empty() ? kNoTensor + ",\n" : inputs_) +
        table("output_row outputs",
              outputs_.empty() ? "    {\"\", \"\", " + kNoTensor + ", NULL},\n"
                               : outputs_);
    if (program_.has_stages) text += table("stage_row stages", stages_);
    if (program_.has_config)
      text += "static const config_row wanted_cache = " +
              config_row_c(from_.created) + ";\n";
    return text + pairs_;
  }

 private:
  // In the place of tables that would be empty, which C does not know.
  inline static const std::string kNoTensor =
      "{-1, 0, {0, 0, 1}, 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 0, 0, NULL}";

  static std::string table(const char* name, const std::string& rows) {
    return fmt::format("static const {}[] = {{\n{}}};\n\n", name, rows);
  }

  std::string row(size_t call, const CallTensor& tensor,
                  const std::string& memory) const {
    const TensorSpec& spec = tensor.spec;
    const Operation operation = from_.calls[call].plan.operation;
    return fmt::format(
        "{{{}, offsetof({}, {}), {}, {}, {}, {}, {}, {}, {}}}", call,
        arguments_c(operation), field_c(operation, tensor.tensor),
        dtype_c(spec.dtype), spec.ndim, numbers_text(spec.shape),
        numbers_text(spec.strides), spec.span(), tensor.start, memory);
  }

  // The name of an array with this memory: calls that share it do so here.
  std::string array(const std::string& name, const CallTensor& input) {
    const std::vector<std::byte> memory = memory_of(input);
    if (memory.empty()) return "\"\"";
    const std::string key =
        std::string(dtype_name(input.spec.dtype)) +
        std::string(reinterpret_cast<const char*>(memory.data()),
                    memory.size());
    if (const auto found = names_.find(key); found != names_.end())
      return found->second;
    names_[key] = name;
    const auto step = static_cast<size_t>(dtype_bytes(input.spec.dtype));
    arrays_ += fmt::format("/* {}, {} */\nstatic const {} {}[] = {{",
                           extents_text(input.values.shape),
                           dtype_name(input.spec.dtype),
                           type_c(input.spec.dtype), name);
    for (size_t n = 0; n < memory.size() / step; ++n)
      arrays_ += (n % kPerLine == 0 ? "\n    " : " ") +
                 element_c(memory.data() + n * step, input.spec.dtype) + ",";
    arrays_ += "\n};\n\n";
    return name;
  }

  void add_call(size_t number) {
    const WrittenCall& call = from_.calls[number];
    calls_ += "    " + program_.call_row(call) + ",\n";
    for (const CallTensor& input : call.inputs)
      inputs_ += "    " +
                 row(number, input,
                     array(fmt::format("{}_{}", input.name, number), input)) +
                 ",\n";
    for (const WrittenOutput& output : call.outputs) add_output(number, output);
  }

  // The name of an array with these rows.
  std::string add_wanted(const char* kind, size_t number,
                         const WrittenOutput& output,
                         const std::vector<Wanted>& rows) {
    const WrittenCall& call = from_.calls[number];
    const std::string name = fmt::format("{}_{}_{}", kind, output.name, number);
    arrays_ += fmt::format(
        "/* {}: what it must be, by how much it may be off, and the numbers\n"
        " * of its type between which it must lie. */\n"
        "static const wanted_row {}[] = {{\n",
        output.name, name);
    for (size_t n = 0; n < rows.size(); ++n)
      arrays_ += fmt::format("    {{{}, {}, {}, {}}}, /* {} */\n",
                             number_c(rows[n].value), number_c(rows[n].bound),
                             number_c(rows[n].low), number_c(rows[n].high),
                             element_text(call, output, n));
    if (rows.empty()) arrays_ += "    {0, 0, 0, 0},\n";
    arrays_ += "};\n\n";
    return name;
  }

  void add_output(size_t call, const WrittenOutput& output) {
    const Operation operation = from_.calls[call].plan.operation;
    const std::string wanted =
        add_wanted("wanted", call, output, output.wanted);
    outputs_ += fmt::format("    {{\"{}\", \"{}\", {}, {}}},\n", output.name,
                            index_letters(operation, output.tensor),
                            row(call, output, "NULL"), wanted);
    numbers_[{call, output.tensor}] = static_cast<int>(numbers_.size());
    if (operation == Operation::kLayer) add_stage(call, output);
  }

  void add_stage(size_t call, const WrittenOutput& output) {
    std::string staged = "NULL", recorded = "NULL";
    if (!output.staged.empty())
      staged = add_wanted("staged", call, output, output.staged);
    if (!output.numbers.empty()) {
      recorded = fmt::format("recorded_{}_{}", output.name, call);
      arrays_ += fmt::format("static const double {}[] = {{", recorded);
      for (size_t n = 0; n < output.numbers.size(); ++n)
        arrays_ += (n % kPerLine == 0 ? "\n    " : " ") +
                   number_c(output.numbers[n]) + ",";
      arrays_ += "\n};\n\n";
    }
    stages_ += fmt::format("    {{{}, {}}},\n", staged, recorded);
  }

  void add_pairs() {
    pairs_ =
        fmt::format("enum {{ pair_count = {} }};\n\n", from_.same_bits.size());
    pairs_ += "static const pair_row pairs[] = {\n";
    for (const SameBits& pair : from_.same_bits)
      pairs_ +=
          fmt::format("    {{{}, {}, {}, {}, {}}},\n",
                      numbers_[{pair.first_call, pair.tensor}], pair.first,
                      numbers_[{pair.second_call, pair.tensor}], pair.second,
                      number_c(pair.factor));
    if (from_.same_bits.empty()) pairs_ += "    {0, 0, 0, 0, 0},\n";
    pairs_ += "};\n";
  }

  const Reproducer& from_;
  const ProgramC& program_;
  std::map<std::string, std::string> names_;
  std::map<std::pair<size_t, TensorName>, int> numbers_;  // of outputs
  std::string arrays_, calls_, inputs_, outputs_, stages_, pairs_;
};

std::string program_of(const Reproducer& from, const std::string& head,
                       const std::string& data) {
  const ProgramC& program = row_about(from.subject, kPrograms);
  Parts parts = {{"/* HEAD */", head},
                 {"/* TYPES */", plain_part(kTypes)},
                 {"/* DATA */", data},
                 {"/* NUMBERS */", plain_part(kNumbers)},
                 {"/* LIBRARY */", plain_part(kLibrary)}};
  for (auto& part : program.parts()) parts.push_back(std::move(part));
  return filled_in(program.text, parts);
}

}  // namespace

std::string reproducer_c(const Reproducer& from) {
  const std::string file = shell_quoted(from.file);
  const std::string include = "-I" + shell_quoted(header_directory());
  const std::string head = reproducer_head(from) +
                           fmt::format(
                               "\n"
                               "compile  cc -std=c11 {0} {1} -o reproducer "
                               "-ldl -lm\n"
                               "         (or c++ -std=c++17 -x c++ {0} ...)\n"
                               "run      ./reproducer [LIBRARY [KERNEL "
                               "[CONFIG]]]\n"
                               "exit     1: something is wrong, 0: nothing "
                               "is, 2: the kernel cannot be called\n",
                               include, file);
  const std::string path =
      std::filesystem::absolute(from.library.path).lexically_normal().string();
  const std::string names = fmt::format(
      "static const char* const default_library = {};\n"
      "static const char* const default_kernel = {};\n"
      "static const char* const default_config = {};\n\n"
      "/* 1: bounds say nothing of how a number is stored. */\n"
      "enum {{ before_rounding = {} }};\n\n",
      string_c(path), string_c(from.kernel), string_c(from.library.config),
      from.subject == Subject::kBackward ? 1 : 0);
  return program_of(from, comment_c(head), names + Tables(from).text());
}

}  // namespace qkvet::tools
