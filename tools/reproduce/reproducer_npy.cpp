// SPDX-License-Identifier: Apache-2.0
// A folder of tensors.
#include <fmt/core.h>

#include "core/base/json.h"
#include "core/files/npy.h"
#include "tools/reproduce/reproducer_story.h"

namespace qkvet::tools {
namespace {

constexpr std::string_view kAttention =
#include "check.py.inc"
    ;
constexpr std::string_view kBackward =
#include "check_backward.py.inc"
    ;
constexpr std::string_view kLayer =
#include "check_layer.py.inc"
    ;
constexpr std::string_view kStory =
#include "check_story.py.inc"
    ;
// What they have in common.
constexpr std::string_view kNumbers =
#include "check_numbers.py.inc"
    ;
constexpr std::string_view kCalls =
#include "check_calls.py.inc"
    ;
constexpr std::string_view kRefusals =
#include "check_refusals.py.inc"
    ;

std::string npy(const TensorToWrite& tensor) {
  std::string error;
  // The extents are those of a tensor that there is.
  const auto file = npy_bytes(tensor, /*fortran_order=*/false, &error);
  return {reinterpret_cast<const char*>(file->data()), file->size()};
}

std::string npy(const std::vector<int64_t>& shape,
                const std::vector<double>& numbers) {
  return npy({FileDtype::kF64, shape, std::as_bytes(std::span(numbers))});
}

void add_wanted(const std::string& path, const std::string& name,
                const std::vector<int64_t>& shape,
                const std::vector<Wanted>& wanted,
                std::vector<NamedFile>& files) {
  const struct {
    const char* part;
    double Wanted::*number;
  } rows[] = {{"expected", &Wanted::value},
              {"bound", &Wanted::bound},
              {"least", &Wanted::low},
              {"largest", &Wanted::high}};
  for (const auto& row : rows) {
    std::vector<double> numbers;
    numbers.reserve(wanted.size());
    for (const Wanted& one : wanted) numbers.push_back(one.*row.number);
    files.push_back({path + row.part + name, npy(shape, numbers)});
  }
}

void add_output(const std::string& folder, const WrittenOutput& output,
                std::vector<NamedFile>& files) {
  const std::string name = "_" + output.name + ".npy";
  const std::vector<int64_t>& shape = output.values.shape;
  add_wanted(folder, name, shape, output.wanted, files);
  if (!output.staged.empty())
    add_wanted(folder + "staged_", name, shape, output.staged, files);
  if (output.numbers.empty() && output.spec.elements() > 0) return;  // refused
  const std::string actual = npy(output.values.written());
  files.push_back({folder + "actual" + name, actual});
  // What the next stage is judged by, and what stays when `actual` changes.
  if (output.tensor >= TensorName::kStageQ &&
      output.tensor <= TensorName::kAttended)
    files.push_back({folder + "recorded" + name, actual});
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json config_json(const Reproducer& from) {
  const CallPlan& made = from.created;
  Json config;
  for (const auto& [name, number] : config_numbers(made)) config[name] = number;
  if (made.scale) config["scale"] = static_cast<double>(*made.scale);
  if (made.softcap > 0) config["softcap"] = static_cast<double>(made.softcap);
  config["q"] = dtype_name(made.q_dtype);
  config["kv"] = dtype_name(made.kv_dtype);
  config["o"] = dtype_name(made.o_dtype);
  config["stored"] = text_or_null(stored_codes(made.cache));
  config["scales"] = text_or_null(stored_scales(made.cache));
  const RopeStyle rope = story_rope(from);
  config["rope"] = text_or_null(rope == RopeStyle::kNone   ? ""
                                : rope == RopeStyle::kHalf ? "half"
                                                           : "interleaved");
  config["lse_base2"] = from.dialect.lse_base == QKVET_LSE_BASE2;
  config["grows"] = from.grows;
  return config;
}

Json layer_json(const WrittenCall& call, const Reproducer&) {
  Json row;
  row["place"] = call.place;
  row["heads"] = call.plan.heads;
  row["kv_heads"] = call.plan.kv_heads;
  row["refusal"] = text_or_null(call.refusal);
  return row;
}

Json command_json(const WrittenCall& call, const Reproducer& from) {
  Json row;
  row["place"] = call.place;
  row["command"] = command_name(call.plan.operation);
  for (const auto& [name, number] : command_numbers(call.plan))
    row[name] = number;
  const auto parents = command_parents(call.plan, from.created.sequences);
  if (!parents.empty()) row["parents"] = parents;
  row["refusal"] = text_or_null(call.refusal);
  row["lengths"] = call.lengths;
  return row;
}

// The first of the outputs that pairs count.
TensorName first_output(Subject subject) {
  return subject == Subject::kBackward ? TensorName::kDQ : TensorName::kO;
}

// [n, 6]: output, call, call, element, element, factor.
std::string same_bits_npy(const Reproducer& from) {
  const std::vector<SameBits>& pairs = from.same_bits;
  std::vector<double> rows;
  for (const SameBits& pair : pairs)
    for (const double number :
         {static_cast<double>(pair.tensor) -
              static_cast<double>(first_output(from.subject)),
          static_cast<double>(pair.first_call),
          static_cast<double>(pair.second_call),
          static_cast<double>(pair.first), static_cast<double>(pair.second),
          pair.factor})
      rows.push_back(number);
  return npy({static_cast<int64_t>(pairs.size()), 6}, rows);
}

constexpr const char* kTensorsText =
    "\n"
    "q, k, v and what else is an input: one .npy file each, packed, in the\n"
    "storage of the case; bf16 as uint16 with its bits. A mask or bias has\n"
    "extents of 1 where it is broadcast. expected_*: what the definition\n"
    "gives, in float64; bound_*: by how much it may be off (inf: it is not\n"
    "judged); least_*, largest_*: the numbers of the output's type between\n"
    "which it must lie; actual_*: what the kernel gave. case.txt: extents,\n"
    "causal rule, scale and options.\n";

constexpr const char* kGradientText =
    "\n"
    "q, k, v, o and lse as forward() gave them, d_o and what else is an "
    "input:\n"
    "one .npy file each, packed, in the storage of the case; bf16 as uint16 "
    "with\n"
    "its bits. Of dq, dk, dv and, where the kernel returns them, dbias and\n"
    "dsink: expected_*: what the definition gives, in float64; bound_*: by "
    "how\n"
    "much it may be off (inf: it is not judged); least_*, largest_*: the\n"
    "numbers of the output's type between which it must lie; actual_*: what "
    "the\n"
    "kernel gave. case.txt: extents, causal rule, scale and options.\n";

constexpr const char* kLayerText =
    "\n"
    "x, the matrices and the biases: one .npy file each, packed, in the "
    "storage\n"
    "of the case; bf16 as uint16 with its bits. Of y and, where the layer\n"
    "returns them, of its stages q, k, v and attended: expected_*: what the\n"
    "definition gives, in float64; bound_*: by how much it may be off (inf: "
    "it\n"
    "is not judged); least_*, largest_*: the numbers of the output's type\n"
    "between which it must lie; actual_*: what the kernel gave. staged_*: the\n"
    "same for a kernel that has made the stages in front as recorded_* has\n"
    "them, bit for bit: errors do not pile up then. calls.json: heads, and "
    "why\n"
    "a call must be refused, if it must; answers.json: how it ended. "
    "case.txt:\n"
    "extents, causal rule, scale and options.\n";

constexpr const char* kStoryText =
    "\n"
    "calls.json: what the caches are made for, and the commands, one behind "
    "the\n"
    "other, with the tokens that every sequence must hold behind them, and "
    "why\n"
    "one must be refused, if it must; answers.json: how they ended and what "
    "the\n"
    "sequences held. A story begins where a cache is created. call0, call1, "
    "...:\n"
    "the tensors of the commands, one .npy file each, packed, in the storage "
    "of\n"
    "the case; bf16 as uint16 with its bits. k, v and q: what is appended, "
    "then\n"
    "what attends. expected_*: what the definition gives, in float64; "
    "bound_*:\n"
    "by how much it may be off (inf: it is not judged); least_*, largest_*: "
    "the\n"
    "numbers of the output's type between which it must lie; actual_*: what "
    "the\n"
    "kernel gave. expected_k, expected_v: what is read back.\n";

struct FolderNpy {
  Subject subject;
  std::string_view check;
  const char* text;  // of README.txt
  // What tensors do not say, a row a call of calls.json; null: nothing.
  Json (*row)(const WrittenCall& call, const Reproducer& from);
  bool has_commands;  // of which calls.json says all
};

constexpr FolderNpy kFolders[] = {
    {Subject::kAttention, kAttention, kTensorsText, nullptr, false},
    {Subject::kBackward, kBackward, kGradientText, nullptr, false},
    {Subject::kLayer, kLayer, kLayerText, layer_json, false},
    {Subject::kCache, kStory, kStoryText, command_json, true}};

// What to do, and what came of it, where tensors do not say it.
void add_index(const Reproducer& from, const FolderNpy& folder,
               std::vector<NamedFile>& files) {
  Json index, answers;
  if (folder.has_commands) index["config"] = config_json(from);
  for (const WrittenCall& call : from.calls) {
    index["calls"].push_back(folder.row(call, from));
    Json answer;
    answer["refused"] = call.refused ? Json(call.said) : Json();
    if (folder.has_commands) answer["lengths"] = call.found_lengths;
    answers.push_back(answer);
  }
  files.push_back({"calls.json", json_text(index, 1) + "\n"});
  files.push_back({"answers.json", json_text(answers, 1) + "\n"});
}

std::string readme(const Reproducer& from, const FolderNpy& folder) {
  std::string text = reproducer_head(from) + folder.text;
  if (from.calls.size() > 1 && !folder.has_commands)
    text += "call0, call1, ...: the calls of the law, in order.\n";
  if (!from.same_bits.empty())
    text += fmt::format(
        "same_bits.npy: rows of output ({}), call, call,\n"
        "element, element, factor: numbers that must agree bit for "
        "bit.\n",
        from.subject == Subject::kBackward
            ? "0 dq, 1 dk, 2 dv, 3 dbias, 4 dsink"
            : "0 o, 1 lse, 2 weights");
  text +=
      from.shows_failure
          ? "python3 check.py prints what is wrong and exits with 1.\n"
          : "No number leaves its bound: the law asks for more than that.\n";
  return text;
}

std::string check_of(const FolderNpy& folder) {
  std::vector<std::pair<std::string_view, std::string>> parts = {
      {"# NUMBERS", plain_part(kNumbers)}};
  if (folder.row != nullptr)
    parts.push_back({"# REFUSALS", plain_part(kRefusals)});
  else
    parts.push_back({"# CALLS", plain_part(kCalls)});
  return filled_in(folder.check, parts);
}

}  // namespace

std::vector<NamedFile> reproducer_npy(const Reproducer& from) {
  const FolderNpy& kind = row_about(from.subject, kFolders);
  std::vector<NamedFile> files = {
      {"README.txt", readme(from, kind)},
      {"check.py", check_of(kind)},
      {"case.txt", from.text + "\n"},
  };
  if (kind.row != nullptr) add_index(from, kind, files);
  for (size_t i = 0; i < from.calls.size(); ++i) {
    const WrittenCall& call = from.calls[i];
    const std::string folder =
        from.calls.size() == 1 ? "" : fmt::format("call{}/", i);
    if (!folder.empty() && !kind.has_commands)
      files.push_back({folder + "case.txt", to_string(call.value) + "\n"});
    for (const CallTensor& input : call.inputs)
      files.push_back(
          {folder + input.name + ".npy", npy(input.values.written())});
    for (const WrittenOutput& output : call.outputs)
      add_output(folder, output, files);
  }
  if (!from.same_bits.empty())
    files.push_back({"same_bits.npy", same_bits_npy(from)});
  return files;
}

}  // namespace qkvet::tools
