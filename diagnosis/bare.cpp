// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/bare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/call/tensor_table.h"
#include "core/door/call_plan.h"
#include "properties/judging/compare.h"
#include "properties/judging/outputs.h"

namespace qkvet::diagnosis {
namespace {

// One output of a call.
struct Output {
  TensorName name;
  std::vector<double> actual;
  Dtype dtype;
  // Outputs of the oracle and its bound; null until they are needed.
  const std::vector<double>* right = nullptr;
  const std::vector<double>* bound = nullptr;
};

bool is_one_number(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double value) {
    return std::isnan(value) ? std::isnan(values[0]) : value == values[0];
  });
}

bool is_right(const Output& output) {
  if (output.right == nullptr || output.bound == nullptr ||
      output.right->size() != output.actual.size() ||
      output.bound->size() != output.actual.size())
    return false;
  for (size_t n = 0; n < output.actual.size(); ++n) {
    const double a = output.actual[n], b = (*output.right)[n];
    const double bound = (*output.bound)[n];
    if (a == b || std::isnan(bound) || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!(std::fabs(a - b) <= allowed_difference(a, b, bound, output.dtype)))
      return false;
  }
  return true;
}

// A single number is informative, unless it is NaN or 0.
bool is_bare(const Output& output) {
  if (!is_one_number(output.actual)) return false;
  const double number = output.actual[0];
  if (std::isnan(number) || number == 0) return true;
  return output.right != nullptr && !is_one_number(*output.right);
}

std::vector<Output> outputs_of(Evidence& evidence, size_t n,
                               const Truth* truth) {
  std::vector<TensorName> names;
  for (const Outputs some : {kForwardOutputs, kY, kGradients, kLayerGradients})
    names.insert(names.end(), some.begin(), some.end());
  std::vector<Output> outputs;
  for (const TensorName name : names) {
    const auto& bytes = evidence.outcomes[n].*output_member(name);
    if (bytes.empty()) continue;
    const Dtype dtype = stored_type(evidence.calls[n], tensor_row(name).type);
    Output output{name, as_doubles(bytes, dtype), dtype};
    if (truth != nullptr && name == TensorName::kO)
      output.right = &truth->oracle.o, output.bound = &truth->bound->o;
    if (truth != nullptr && name == TensorName::kLse)
      output.right = &truth->oracle.lse, output.bound = &truth->bound->lse;
    if (truth != nullptr && name == TensorName::kWeights)
      output.right = &truth->oracle.weights,
      output.bound = &truth->bound->weights;
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace

std::optional<Bare> bare_answer(Evidence& evidence,
                                const JudgedKernel& kernel) {
  if (evidence.judgement.kind != FailureKind::kLaw) return std::nullopt;
  // For a story, the set of wrong answers is more informative than their
  // values.
  const bool story = evidence.value().subject() == Subject::kCache;
  std::optional<Bare> bare;
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    if (evidence.outcomes[n].status != CallStatus::kDone) return std::nullopt;
    const Truth* truth = evidence.work->whole_call(kernel, n).truth;
    for (const Output& output : outputs_of(evidence, n, truth)) {
      const bool right = is_right(output);
      if (story && right && output.name == TensorName::kO) return std::nullopt;
      if (right) continue;
      if (!is_bare(output)) return std::nullopt;
      const double number = output.actual[0];
      if (!bare)
        bare = {tensor_name(output.name),
                std::isnan(number) ? "NaN" : fmt::format("{:.8g}", number + 0)};
    }
  }
  return bare;
}

}  // namespace qkvet::diagnosis
