// SPDX-License-Identifier: Apache-2.0
#include "cli/judge/recorded_answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "core/base/read_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// Room for headers, in addition to the numbers.
constexpr size_t kMostHeader = size_t{1} << 20;
constexpr size_t kMostEntry = 1024;  // of headers of one tensor
constexpr const char* kRefusal = "refused.txt";
constexpr const char* kTensors = "t";  // the folder of the inputs
constexpr const char* kNpy = ".npy";
constexpr const char* kSafetensors = ".safetensors";
constexpr const char* kNpz = ".npz";
constexpr const char* kAnswers = "answers";  // to all calls, in one file

size_t bytes_of(const PlanTensor& tensor) {
  size_t bytes = 0;
  checked_bytes(tensor.values.dtype, tensor.values.shape, bytes);
  return bytes;
}

// "" or why it is not the requested output. `npy`: the format has no name for
// bf16, and bits of this type are uint16 there.
std::string misfit(const NamedTensor& wanted, const NamedTensor& found,
                   bool npy) {
  const bool is_type =
      found.dtype == wanted.dtype || (npy && wanted.dtype == FileDtype::kBf16 &&
                                      found.dtype == FileDtype::kUint16);
  if (is_type && found.shape == wanted.shape) return "";
  return file_tensor_text(found.dtype, found.shape) + " where " +
         file_tensor_text(wanted.dtype, wanted.shape) + " is asked for";
}

class Reader {
 public:
  Reader(const PlanFolder& plan, const fs::path& plan_folder, fs::path folder)
      : plan_(plan), folder_(std::move(folder)) {
    const std::vector<PlanCall>& calls = plan.calls.calls();
    for (size_t i = 0; i < calls.size(); ++i) numbers_[call_name(i)] = i;
    std::error_code code;
    is_own_ = fs::equivalent(plan_folder, folder_, code);
    answers_.resize(calls.size());
    files_ = plan_files(plan, &error_);
  }

  std::string read();
  std::vector<RecordedAnswer> take() { return std::move(answers_); }

 private:
  std::string read_entry(const fs::directory_entry& entry);
  std::string read_folder(const fs::path& path);
  std::string read_inputs(const fs::path& path);
  std::string read_one(size_t call, const std::string& file,
                       const fs::path& path);
  std::string read_npy(size_t call, const std::string& name,
                       const fs::path& path);
  std::string read_safetensors(size_t call, const fs::path& path);
  std::string read_all(const fs::path& path);
  std::string take_refusals(const SafetensorsMetadata& metadata);
  std::string take_all(NamedTensors tensors, bool npy);
  std::string take(size_t call, const std::string& name, NamedTensor found,
                   bool npy);
  bool keep(size_t call, const PlanTensor& wanted, NamedTensor found);
  const size_t* number_of(const std::string& call) const;
  std::string read_refusal(size_t call, const fs::path& path);
  std::string same_as_plan(const fs::path& path, const std::string& name);
  bool is_input(size_t call, const std::string& name,
                const NamedTensor& tensor) const;
  std::string allowed(size_t call) const;
  const PlanTensor* output(size_t call, const std::string& name) const;

  const PlanFolder& plan_;
  fs::path folder_;
  bool is_own_ = false;  // the answers are next to the inputs
  std::map<std::string, size_t> numbers_;
  std::map<std::string, std::string> files_;  // of the plan
  std::vector<RecordedAnswer> answers_;
  std::string error_;
};

std::vector<fs::path> entries_of(const fs::path& folder, std::string* error) {
  std::vector<fs::path> entries;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    entries.push_back(it->path());
  if (code) *error = folder.string() + ": " + code.message();
  // The same error on every machine.
  std::sort(entries.begin(), entries.end());
  return entries;
}

const PlanTensor* Reader::output(size_t call, const std::string& name) const {
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    if (one.name == name) return &one;
  return nullptr;
}

// Null: there is no such call.
const size_t* Reader::number_of(const std::string& call) const {
  const auto found = numbers_.find(call);
  return found == numbers_.end() ? nullptr : &found->second;
}

// "o.npy, lse.npy, refused.txt"
std::string Reader::allowed(size_t call) const {
  std::string text;
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    text += one.name + kNpy + ", ";
  return text + kRefusal;
}

bool Reader::is_input(size_t call, const std::string& name,
                      const NamedTensor& tensor) const {
  for (const PlanTensor& one : plan_.calls.calls()[call].inputs)
    if (one.name == name) return plan_.calls.stored()[one.stored] == tensor;
  return false;
}

// Inputs may come back with the answers, unchanged.
std::string Reader::same_as_plan(const fs::path& path,
                                 const std::string& name) {
  if (is_own_) return "";  // checked already
  const std::string& wanted = files_.at(name);
  std::string found;
  std::string error = read_file(path.string(), &found, wanted.size() + 1);
  if (!error.empty() || found == wanted) return error;
  return path.string() + ": is not the plan's " + name;
}

std::string Reader::read_refusal(size_t call, const fs::path& path) {
  std::string text;
  std::string error = read_file(path.string(), &text, kMostHeader);
  answers_[call].refusal = text.substr(0, text.find_first_of("\r\n"));
  return error;
}

std::string Reader::read_npy(size_t call, const std::string& name,
                             const fs::path& path) {
  const PlanTensor* wanted = output(call, name);
  std::string text;
  std::string error =
      read_file(path.string(), &text, bytes_of(*wanted) + kMostHeader);
  if (!error.empty()) return error;
  const auto file = std::as_bytes(std::span(text));
  const auto found = parse_npy(file, &error);
  if (!found) return path.string() + ": " + error;
  NamedTensor tensor = named_tensor(*found, file);
  error = misfit(wanted->values, tensor, /*npy=*/true);
  if (error.empty() && !keep(call, *wanted, std::move(tensor)))
    error = wanted->name + " is answered twice";
  return error.empty() ? "" : path.string() + ": " + error;
}

// False: it is answered already.
bool Reader::keep(size_t call, const PlanTensor& wanted, NamedTensor found) {
  return answers_[call]
      .outputs.try_emplace(wanted.tensor, std::move(found.data))
      .second;
}

std::string Reader::read_safetensors(size_t call, const fs::path& path) {
  size_t most = kMostHeader;
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    most += bytes_of(one);
  for (const PlanTensor& one : plan_.calls.calls()[call].inputs)
    most += bytes_of(one);
  std::string text;
  std::string error = read_file(path.string(), &text, most);
  if (!error.empty()) return error;
  const auto file = std::as_bytes(std::span(text));
  const auto found = parse_safetensors(file, &error);
  if (!found) return path.string() + ": " + error;
  for (auto& [name, tensor] : named_tensors(*found, file)) {
    error = take(call, name, std::move(tensor), /*npy=*/false);
    if (!error.empty()) return path.string() + ": " + shown(name) + " " + error;
  }
  return "";
}

// "" or an error.
std::string Reader::take(size_t call, const std::string& name,
                         NamedTensor found, bool npy) {
  const PlanTensor* wanted = output(call, name);
  if (wanted == nullptr)
    return is_input(call, name, found)
               ? ""
               : "is neither an output of this call nor its input";
  const std::string error = misfit(wanted->values, found, npy);
  if (!error.empty()) return "is " + error;
  return keep(call, *wanted, std::move(found)) ? "" : "is answered twice";
}

// Takes answers to any calls, "c0012/o".
std::string Reader::take_all(NamedTensors tensors, bool npy) {
  for (auto& [name, tensor] : tensors) {
    const size_t slash = name.find('/');
    const size_t* call = number_of(name.substr(0, slash));
    const std::string error =
        call == nullptr || slash == std::string::npos
            ? "belongs to no call of the plan; allowed is c0012/o"
            : take(*call, name.substr(slash + 1), std::move(tensor), npy);
    if (!error.empty()) return shown(name) + " " + error;
  }
  return "";
}

std::string Reader::take_refusals(const SafetensorsMetadata& metadata) {
  constexpr std::string_view kEnd = "/refused";
  for (const auto& [name, why] : metadata) {
    if (!name.ends_with(kEnd)) continue;
    const size_t* call = number_of(name.substr(0, name.size() - kEnd.size()));
    if (call == nullptr)
      return shown(name) +
             " belongs to no call of the plan; allowed is c0012/refused";
    answers_[*call].refusal = why.substr(0, why.find_first_of("\r\n"));
  }
  return "";
}

// Answers to all calls in one file.
std::string Reader::read_all(const fs::path& path) {
  size_t most = kMostHeader;
  for (const PlanCall& call : plan_.calls.calls())
    for (const PlanTensor& one : call.outputs)
      most += bytes_of(one) + kMostEntry;
  std::string text;
  std::string error = read_file(path.string(), &text, most);
  if (!error.empty()) return error;
  const auto file = std::as_bytes(std::span(text));
  if (path.extension() == kNpz) {
    if (const auto found = parse_npz(file, &error))
      error = take_all(named_tensors(*found), /*npy=*/true);
  } else if (const auto found = parse_safetensors(file, &error)) {
    error = take_all(named_tensors(*found, file), /*npy=*/false);
    if (error.empty()) error = take_refusals(found->metadata);
  }
  return error.empty() ? "" : path.string() + ": " + error;
}

// `file` is the name in the folder of the call, or the part after the call's
// name.
std::string Reader::read_one(size_t call, const std::string& file,
                             const fs::path& path) {
  if (file == kRefusal) return read_refusal(call, path);
  const std::string name = fs::path(file).stem().string();
  if (path.extension() == kNpy && output(call, name) != nullptr)
    return read_npy(call, name, path);
  return path.string() +
         ": belongs to no output of this call; allowed: " + allowed(call);
}

std::string Reader::read_inputs(const fs::path& path) {
  std::string error;
  for (const fs::path& entry : entries_of(path, &error)) {
    if (!error.empty()) break;
    const std::string name = kTensors + ("/" + entry.filename().string());
    error = files_.contains(name)
                ? same_as_plan(entry, name)
                : entry.string() + ": is no input of the plan";
  }
  return error;
}

std::string Reader::read_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == kTensors) return read_inputs(path);
  const size_t* call = number_of(name);
  if (call == nullptr)
    return path.string() + ": is the folder of no call of the plan";
  std::string error;
  for (const fs::path& entry : entries_of(path, &error)) {
    if (!error.empty()) break;
    error = read_one(*call, entry.filename().string(), entry);
  }
  return error;
}

// Files next to the calls that are no tensors are ignored.
std::string Reader::read_entry(const fs::directory_entry& entry) {
  const fs::path& path = entry.path();
  const std::string name = path.filename().string();
  std::error_code code;
  if (entry.is_directory(code)) return read_folder(path);
  if (files_.contains(name)) return same_as_plan(path, name);
  if (name == std::string(kAnswers) + kSafetensors ||
      name == std::string(kAnswers) + kNpz)
    return read_all(path);
  // "c0012.o.npy"
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string file = dot < name.size() ? name.substr(dot + 1) : "";
  const size_t* call = number_of(name.substr(0, dot));
  const bool is_answer = path.extension() == kNpy || path.extension() == kNpz ||
                         path.extension() == kSafetensors || file == kRefusal;
  if (!is_answer) return "";
  if (call == nullptr)
    return path.string() + ": belongs to no call of the plan";
  return path.extension() == kSafetensors ? read_safetensors(*call, path)
                                          : read_one(*call, file, path);
}

std::string Reader::read() {
  for (const fs::path& entry : entries_of(folder_, &error_)) {
    if (!error_.empty()) break;
    error_ = read_entry(fs::directory_entry(entry));
  }
  for (size_t i = 0; i < answers_.size() && error_.empty(); ++i)
    if (answers_[i].refusal && !answers_[i].outputs.empty())
      error_ = (folder_ / call_name(i)).string() + ": is refused and answered";
  return error_;
}

}  // namespace

std::string read_answers(const PlanFolder& plan, const std::string& plan_folder,
                         const std::string& folder,
                         std::vector<RecordedAnswer>* answers) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) return folder + ": is no folder";
  Reader reader(plan, plan_folder, folder);
  std::string error = reader.read();
  if (error.empty()) *answers = reader.take();
  return error;
}

std::vector<std::string> missing_answers(
    const PlanFolder& plan, const std::vector<RecordedAnswer>& answers) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < answers.size(); ++i)
    for (const PlanTensor& output : plan.calls.calls()[i].outputs)
      if (!answers[i].refusal && !answers[i].outputs.contains(output.tensor))
        missing.push_back(call_name(i) + "." + output.name + kNpy);
  return missing;
}

CallOutcome RecordedAnswers::answer(const KernelCall& call) const {
  CallOutcome outcome;
  outcome.status = CallStatus::kNotRun;
  PlanCall asked;
  if (!plan_call_of(call, infos_[0], &asked).empty()) return outcome;
  const size_t number = plan_.calls.find(asked.digest);
  if (number == answers_.size()) {
    outcome.text =
        "the dialect that is declared or found in the answers asks for a call "
        "that the plan does not have: emit it with that --dialect";
    return outcome;
  }
  const RecordedAnswer& answer = answers_[number];
  if (answer.refusal) {
    outcome.status = CallStatus::kUnsupported;
    outcome.text = *answer.refusal;
    outcome.gave_reason = !outcome.text.empty();
    outcome.asked_kernel = true;
    return outcome;
  }
  for (const PlanTensor& output : asked.outputs) {
    const auto found = answer.outputs.find(output.tensor);
    if (found == answer.outputs.end()) return outcome;
    outcome.*output_member(output.tensor) = found->second;
  }
  outcome.status = CallStatus::kDone;
  outcome.asked_kernel = true;
  return outcome;
}

std::vector<CallOutcome> RecordedAnswers::run(
    int, std::span<const KernelCall> calls) {
  std::vector<CallOutcome> outcomes;
  outcomes.reserve(calls.size());
  for (const KernelCall& call : calls) outcomes.push_back(answer(call));
  return outcomes;
}

}  // namespace qkvet::cli
