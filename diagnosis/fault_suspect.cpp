// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "core/base/half.h"
#include "core/call/tensor_table.h"
#include "core/capability/capability.h"
#include "core/door/call_plan.h"
#include "diagnosis/in_f32.h"
#include "diagnosis/suspect.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/outputs.h"

namespace qkvet::diagnosis {
namespace {

std::string without_family(const std::string& name) {
  return name.substr(name.find('/') + 1);
}

// Whether it begins with a name in a formula, which keeps its small letter: a
// tensor ("dv is ..."), or a name before an equals sign, a product or its
// arguments.
bool begins_with_a_name(const std::string& text) {
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const std::string word = text.substr(0, end);
  for (const char* name : {"q", "k", "v", "o", "p", "x", "lse", "dq", "dk",
                           "dv", "dp", "ds", "exp", "tanh"})
    if (word == name) return true;
  const size_t next = text.find_first_not_of(' ', std::min(end, text.size()));
  return next != std::string::npos && text[next] != ' ' &&
         std::string("=*[").find(text[next]) != std::string::npos;
}

// "A sentence." of "a sentence"
std::string sentence(const std::string& text) {
  if (text.empty()) return text;
  std::string out = text;
  if (!begins_with_a_name(text))
    out[0] =
        static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out.back() == '.' ? out : out + ".";
}

std::vector<std::byte> in_storage(const std::vector<std::byte>& f32,
                                  Dtype dtype) {
  std::vector<std::byte> out;
  for (const double value : as_doubles(f32, Dtype::kF32)) {
    const uint16_t bits =
        dtype == Dtype::kF16 ? f16_from_double(value) : bf16_from_double(value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
    out.insert(out.end(), bytes, bytes + sizeof bits);
  }
  return out;
}

// Gives a prediction the form of the kernel's own outcome: its storage types,
// and the kernel's own values for outputs that the fault does not return.
void complete(const CallOutcome& actual, const KernelCall& call, bool in_f32,
              CallOutcome& predicted) {
  for (const TensorRow& row : kTensors) {
    // Bytes: the mask of dropout, which is the kernel's own.
    if (!is_output(row.tensor) || row.type == TensorType::kByte) continue;
    const auto output = output_member(row.tensor);
    const bool stays =
        row.type == TensorType::kLse || row.type == TensorType::kStage;
    if (const Dtype dtype = stored_type(call, row.type);
        in_f32 && !stays && dtype != Dtype::kF32)
      predicted.*output = in_storage(predicted.*output, dtype);
    if ((predicted.*output).size() != (actual.*output).size())
      predicted.*output = actual.*output;
  }
}

// The output of a row without a key depends on the dialect. The faults write 0
// and -infinity; if the kernel declares something else, and a fault follows its
// own dialect, the prediction takes the kernel's values.
void follow_dialect(const CallOutcome& actual, const KernelCall& call,
                    const EmptyRow& said, const std::vector<int64_t>& visible,
                    CallOutcome& predicted) {
  const auto o_bytes =
      static_cast<size_t>(call.shape.dv * dtype_bytes(call.o_dtype));
  const auto lse_bytes =
      static_cast<size_t>(dtype_bytes(lse_dtype(call.o_dtype)));
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  const auto take = [](const std::vector<std::byte>& from, size_t at, size_t n,
                       std::vector<std::byte>& to) {
    if (from.size() >= at + n && to.size() == from.size())
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), n,
                  to.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (size_t row = 0; row < visible.size(); ++row) {
    const size_t at = row * o_bytes;
    if (visible[row] != 0 || predicted.o.size() < at + o_bytes) continue;
    const auto* first = predicted.o.data() + at;
    if (!std::all_of(first, first + o_bytes, zero)) continue;
    if (said.o != QKVET_EMPTY_ROW_ZERO)
      take(actual.o, at, o_bytes, predicted.o);
    if (said.lse != QKVET_EMPTY_LSE_MINUS_INF)
      take(actual.lse, row * lse_bytes, lse_bytes, predicted.lse);
  }
}

}  // namespace

FaultSuspect::FaultSuspect(JudgedKernel fault, int index, Executor& executor,
                           std::string variant)
    : Suspect(
          {without_family(fault.info.name), sentence(fault.info.fault->cause),
           sentence(fault.info.fault->fix), fault.info.fault->killed_by},
          /*rank=*/0),
      fault_(std::move(fault)),
      index_(index),
      executor_(&executor) {
  if (!variant.empty()) cause_.cause += " Here with " + variant + ".";
}

bool FaultSuspect::converts(const std::vector<KernelCall>& calls) const {
  return std::any_of(calls.begin(), calls.end(), [&](const KernelCall& call) {
    return is_half(call) && !takes_storage(fault_.info, call);
  });
}

std::vector<CallOutcome> FaultSuspect::predict(const Evidence& evidence,
                                               const Witness& witness) {
  const auto ask = [&](std::vector<KernelCall>& calls) {
    for (KernelCall& call : calls) {
      call.want_lse &= wants_lse(fault_.info);
      call.want_weights &= wants_weights(fault_.info);
      call.want_stages = false;
    }
    const Stopwatch watch(witness.time().kernel);
    return executor_->run(index_, calls);
  };
  if (converts(evidence.calls)) {
    CallsInF32 converted(evidence.calls, witness.kernel().info);
    return ask(converted.calls());
  }
  std::vector<KernelCall> calls = evidence.calls;
  return ask(calls);
}

Word FaultSuspect::says(Evidence& evidence, const Witness& witness) {
  std::vector<CallOutcome> predicted = predict(evidence, witness);
  for (size_t n = 0; n < predicted.size(); ++n)
    if (says_nothing(evidence.calls[n], predicted[n])) return Word::kSilent;
  const bool in_f32 = converts(evidence.calls);
  for (size_t n = 0; n < predicted.size(); ++n) {
    const CallOutcome& actual = evidence.outcomes[n];
    complete(actual, evidence.calls[n], in_f32, predicted[n]);
    const CallBounds bounds =
        evidence.work->bounds(witness.kernel(), n, witness.kernel().model);
    follow_dialect(
        actual, evidence.calls[n],
        empty_row_of(witness.kernel().info.dialect, evidence.work->value()),
        bounds.visible, predicted[n]);
  }
  const Word word =
      compare_answers(evidence, witness.kernel(), fault_, predicted);
  if (word != Word::kPredicted || !evidence.failed()) return word;
  // The prediction is near the kernel's answer, which may be near the right
  // one. The fault explains the failure only if it fails as well, and not by
  // its rounding alone.
  JudgedKernel as_fault = witness.kernel();
  as_fault.model = fault_.model;
  for (const JudgedKernel* kernel :
       std::initializer_list<const JudgedKernel*>{&witness.kernel(), &as_fault})
    if (evidence.work->judge(*kernel, predicted).verdict != Verdict::kFailed)
      return Word::kSilent;
  return word;
}

}  // namespace qkvet::diagnosis
