// SPDX-License-Identifier: Apache-2.0
#include "golden/import/source_view.h"

#include <algorithm>

#include "core/door/call_plan.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::golden {
namespace {

bool all_in_f64(const GoldenSet& set) {
  return std::all_of(
      set.recording.outputs.begin(), set.recording.outputs.end(),
      [](const auto& output) { return output.second.dtype == Dtype::kF64; });
}

bool has_output(const GoldenSet& set, TensorName tensor) {
  return std::any_of(set.recording.outputs.begin(), set.recording.outputs.end(),
                     [&](const auto& output) {
                       return parse_output_name(output.first)->tensor == tensor;
                     });
}

// The case as the source had it.
Case seen_case(const GoldenSet& set) {
  Case value = set.value();
  const bool in_any_type = value.subject() == Subject::kAttention ||
                           value.subject() == Subject::kMerge;
  if (in_any_type && all_in_f64(set))
    value.q_dtype = value.kv_dtype = value.o_dtype = Dtype::kF64;
  return value;
}

// A kernel that takes every option, and returns the outputs of the set.
JudgedKernel source_kernel(const GoldenSet& set) {
  JudgedKernel kernel;
  kernel.info.name = "golden/" + set.name;
  kernel.info.dialect = set.dialect;
  kernel.info.capabilities.options = ~uint64_t{0};
  if (!has_output(set, TensorName::kLse))
    kernel.info.capabilities.options &= ~QKVET_OPTION_LSE;
  if (!has_output(set, TensorName::kWeights))
    kernel.info.capabilities.options &= ~QKVET_OPTION_WEIGHTS;
  kernel.info.has_layer = kernel.info.has_cache = kernel.info.has_merge = true;
  kernel.info.merge_options = ~uint64_t{0};
  kernel.model = generic_precision();
  return kernel;
}

// The law about merges plans a second call, with other data: a source has only
// the first one.
const Law& agreement_of_source(Subject subject) {
  static const Law first_merge = [] {
    Law law = agreement_about(Subject::kMerge);
    law.own_plan = [](const Case& value, const KernelInfo& kernel) {
      Plan plan = agreement_about(Subject::kMerge).plan(value, kernel);
      plan.calls.resize(1);
      return plan;
    };
    return law;
  }();
  return subject == Subject::kMerge ? first_merge : agreement_about(subject);
}

}  // namespace

size_t call_of(const OutputName& name) {
  return name.command < 0 ? 0 : static_cast<size_t>(name.command) + 1;
}

SourceView::SourceView(const GoldenSet& set, TimeUse& time)
    : value_(seen_case(set)),
      kernel_(source_kernel(set)),
      work_(agreement_of_source(value_.subject()), value_, /*with_twin=*/true,
            time) {
  if (value_.o_dtype != set.value().o_dtype) {
    Inputs inputs = make_inputs(set.value());
    store_inputs(value_, inputs);
    work_.take_inputs(std::move(inputs));
  }
  outcomes_.resize(set.value().story.size() + 1);
  for (const auto& [name, output] : set.recording.outputs)
    put(*parse_output_name(name), output);
}

void SourceView::put(const OutputName& name, const RecordedOutput& output) {
  const size_t call = call_of(name);
  std::vector<double> values = as_doubles(output.bytes, output.dtype);
  const Dtype dtype = output_dtype(value_, name.tensor);
  outcomes_[call].*output_member(name.tensor) = stored_as(dtype, values);
  numbers_.push_back({call, name.tensor, std::move(values)});
}

const std::vector<double>* SourceView::numbers(size_t call,
                                               TensorName output) const {
  for (const Numbers& one : numbers_)
    if (one.call == call && one.output == output) return &one.values;
  return nullptr;
}

Judgement SourceView::judge() {
  if (auto settled = work_.settled(kernel_)) return *settled;
  return work_.judge(kernel_, outcomes_);
}

}  // namespace qkvet::golden
