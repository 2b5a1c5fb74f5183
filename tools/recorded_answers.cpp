// SPDX-License-Identifier: Apache-2.0
#include "tools/recorded_answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "core/call_plan.h"
#include "core/npy.h"
#include "core/safetensors.h"
#include "core/tensor.h"

namespace qkvet {
namespace {

namespace fs = std::filesystem;

// Room for headers, beside the numbers.
constexpr size_t kMostHeader = size_t{1} << 20;
constexpr const char* kRefusal = "refused.txt";
constexpr const char* kNpy = ".npy";
constexpr const char* kSafetensors = ".safetensors";

size_t bytes_of(const PlanTensor& tensor) {
  size_t bytes = 0;
  checked_bytes(tensor.dtype, tensor.shape, bytes);
  return bytes;
}

// What bits of this type are called in files of a format that has no name for
// it.
bool is_stored_as(FileDtype wanted, FileDtype found, bool npy) {
  return found == wanted ||
         (npy && wanted == FileDtype::kBf16 && found == FileDtype::kUint16);
}

// "" or why it is not the output that was asked for.
std::string misfit(const PlanTensor& wanted, const FileTensor& found,
                   bool npy) {
  if (is_stored_as(wanted.dtype, found.dtype, npy) &&
      found.shape == wanted.shape)
    return "";
  return file_tensor_text(found.dtype, found.shape) + " where " +
         file_tensor_text(wanted.dtype, wanted.shape) + " is asked for";
}

// Row by row, whichever index runs fastest in the file.
std::vector<std::byte> row_by_row(const PlanTensor& wanted,
                                  std::span<const std::byte> data,
                                  bool fortran_order) {
  std::vector<std::byte> packed(data.begin(), data.end());
  if (!fortran_order || packed.empty()) return packed;
  TensorSpec spec;
  spec.ndim = static_cast<int>(wanted.shape.size());
  // Only the size of an element counts.
  spec.dtype = dtype_of_file(wanted.dtype).value_or(Dtype::kF32);
  int64_t stride = 1;
  for (size_t i = 0; i < wanted.shape.size(); ++i) {
    spec.shape[i] = wanted.shape[i];
    spec.strides[i] = stride;
    stride *= wanted.shape[i];
  }
  gather(spec, data.data(), packed.data());
  return packed;
}

class Reader {
 public:
  Reader(const PlanFolder& plan, const fs::path& plan_folder, fs::path folder)
      : plan_(plan), folder_(std::move(folder)) {
    const std::vector<PlanCall>& calls = plan.calls.calls();
    for (size_t i = 0; i < calls.size(); ++i) numbers_[plan_folder_name(i)] = i;
    std::error_code code;
    is_own_ = fs::equivalent(plan_folder, folder_, code);
    answers_.resize(calls.size());
    files_ = plan_files(plan, &error_);
  }

  std::string read();
  std::vector<RecordedAnswer> take() { return std::move(answers_); }

 private:
  std::string read_entry(const fs::directory_entry& entry);
  std::string read_call(size_t call, const fs::path& path);
  std::string read_one(size_t call, const fs::path& path);
  std::string read_npy(size_t call, const fs::path& path);
  std::string read_safetensors(size_t call, const fs::path& path);
  std::string read_refusal(size_t call, const fs::path& path);
  std::string same_as_plan(const fs::path& path, const std::string& name);
  bool is_input(size_t call, const std::string& name, const FileTensor& tensor,
                std::span<const std::byte> data) const;
  std::string allowed(size_t call) const;
  const PlanTensor* output(size_t call, const std::string& name) const;

  const PlanFolder& plan_;
  fs::path folder_;
  bool is_own_ = false;  // the answers lie beside the inputs
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
  // The same complaint on every machine.
  std::sort(entries.begin(), entries.end());
  return entries;
}

const PlanTensor* Reader::output(size_t call, const std::string& name) const {
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    if (one.name == name) return &one;
  return nullptr;
}

// "o.npy, lse.npy, refused.txt"
std::string Reader::allowed(size_t call) const {
  std::string text;
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    text += one.name + kNpy + ", ";
  return text + kRefusal;
}

bool Reader::is_input(size_t call, const std::string& name,
                      const FileTensor& tensor,
                      std::span<const std::byte> data) const {
  for (const PlanTensor& one : plan_.calls.calls()[call].inputs)
    if (one.name == name)
      return one.dtype == tensor.dtype && one.shape == tensor.shape &&
             std::equal(one.data.begin(), one.data.end(), data.begin(),
                        data.end());
  return false;
}

// Inputs may come back with the answers, as they were.
std::string Reader::same_as_plan(const fs::path& path,
                                 const std::string& name) {
  if (is_own_) return "";  // looked at already
  const std::string& wanted = files_.at(name);
  std::string found;
  std::string error = read_file(path.string(), wanted.size() + 1, &found);
  if (!error.empty() || found == wanted) return error;
  return path.string() + ": is not the plan's " + name;
}

std::string Reader::read_refusal(size_t call, const fs::path& path) {
  std::string text;
  std::string error = read_file(path.string(), kMostHeader, &text);
  answers_[call].refusal = text.substr(0, text.find_first_of("\r\n"));
  return error;
}

std::string Reader::read_npy(size_t call, const fs::path& path) {
  const PlanTensor* wanted = output(call, path.stem().string());
  std::string text;
  std::string error =
      read_file(path.string(), bytes_of(*wanted) + kMostHeader, &text);
  if (!error.empty()) return error;
  const auto file = std::as_bytes(std::span(text));
  const auto found = parse_npy(file, &error);
  if (found) error = misfit(*wanted, found->tensor, /*npy=*/true);
  if (!error.empty()) return path.string() + ": " + error;
  auto& place = answers_[call].outputs;
  if (place.contains(wanted->tensor))
    return path.string() + ": " + wanted->name + " is answered twice";
  place[wanted->tensor] =
      row_by_row(*wanted, found->tensor.data(file), found->fortran_order);
  return "";
}

std::string Reader::read_safetensors(size_t call, const fs::path& path) {
  size_t most = kMostHeader;
  for (const PlanTensor& one : plan_.calls.calls()[call].outputs)
    most += bytes_of(one);
  for (const PlanTensor& one : plan_.calls.calls()[call].inputs)
    most += bytes_of(one);
  std::string text;
  std::string error = read_file(path.string(), most, &text);
  if (!error.empty()) return error;
  const auto file = std::as_bytes(std::span(text));
  const auto found = parse_safetensors(file, &error);
  if (!found) return path.string() + ": " + error;
  for (const auto& [name, tensor] : found->tensors) {
    const PlanTensor* wanted = output(call, name);
    const std::string lead = path.string() + ": " + shown(name);
    const auto data = tensor.data(file);
    if (wanted == nullptr && is_input(call, name, tensor, data)) continue;
    if (wanted == nullptr)
      return lead + " is neither an output of this call nor its input";
    error = misfit(*wanted, tensor, /*npy=*/false);
    if (!error.empty()) return fmt::format("{}: {}", lead, error);
    auto& place = answers_[call].outputs;
    if (place.contains(wanted->tensor)) return lead + " is answered twice";
    place[wanted->tensor].assign(data.begin(), data.end());
  }
  return "";
}

std::string Reader::read_one(size_t call, const fs::path& path) {
  const std::string file = path.filename().string();
  const std::string name = plan_folder_name(call) + "/" + file;
  if (files_.contains(name)) return same_as_plan(path, name);
  if (file == kRefusal) return read_refusal(call, path);
  if (path.extension() == kNpy && output(call, path.stem().string()) != nullptr)
    return read_npy(call, path);
  return path.string() +
         ": belongs to no output of this call; allowed: " + allowed(call);
}

std::string Reader::read_call(size_t call, const fs::path& path) {
  std::string error;
  for (const fs::path& entry : entries_of(path, &error)) {
    if (!error.empty()) break;
    error = read_one(call, entry);
  }
  return error;
}

// What stands beside the calls and is no tensor is nobody's business.
std::string Reader::read_entry(const fs::directory_entry& entry) {
  const fs::path& path = entry.path();
  const std::string name = path.filename().string();
  std::error_code code;
  const bool is_folder = entry.is_directory(code);
  const auto call = numbers_.find(is_folder ? name : path.stem().string());
  if (is_folder)
    return call != numbers_.end()
               ? read_call(call->second, path)
               : path.string() + ": is the folder of no call of the plan";
  const bool is_tensors = path.extension() == kSafetensors;
  // In another folder the outputs may stand beside the inputs in one file.
  if (files_.contains(name) && (is_own_ || !is_tensors))
    return same_as_plan(path, name);
  if (is_tensors && call != numbers_.end())
    return read_safetensors(call->second, path);
  if (is_tensors || path.extension() == kNpy)
    return path.string() + ": belongs to no call of the plan";
  return "";
}

std::string Reader::read() {
  for (const fs::path& entry : entries_of(folder_, &error_)) {
    if (!error_.empty()) break;
    error_ = read_entry(fs::directory_entry(entry));
  }
  for (size_t i = 0; i < answers_.size() && error_.empty(); ++i)
    if (answers_[i].refusal && !answers_[i].outputs.empty())
      error_ = (folder_ / plan_folder_name(i)).string() +
               ": is refused and answered";
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
        missing.push_back(plan_folder_name(i) + "/" + output.name + kNpy);
  return missing;
}

CallOutcome RecordedAnswers::answer(const KernelCall& call) const {
  CallOutcome outcome;
  outcome.status = CallStatus::kNotRun;
  PlanCall asked;
  if (!plan_call_of(call, infos_[0], &asked).empty()) return outcome;
  const size_t number = plan_.calls.find(asked.digest);
  if (number == answers_.size()) return outcome;
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

}  // namespace qkvet
