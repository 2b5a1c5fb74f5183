// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/reproducer_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Wanted kAnything{0, kInfinity, -kInfinity, kInfinity};

Wanted exactly(double value) { return {value, 0, value, value}; }

Wanted within(double value, double bound, Dtype dtype) {
  if (!(bound < kInfinity)) return kAnything;
  return {value, bound, round_to(dtype, value - bound),
          round_to(dtype, value + bound)};
}

std::vector<Wanted> all_within(const std::vector<double>& values,
                               const std::vector<double>& bounds, Dtype dtype) {
  std::vector<Wanted> wanted;
  wanted.reserve(values.size());
  for (size_t n = 0; n < values.size(); ++n)
    wanted.push_back(within(values[n], bounds[n], dtype));
  return wanted;
}

// Elements of rows and keys that do not count may have any value.
std::vector<Wanted> wanted_of(const Truth& truth, const KernelInfo& kernel,
                              const Case& value, const WrittenOutput& output) {
  const auto [values, bounds, reach] = truth_of_output(&truth, output.tensor);
  if (values == nullptr) return {};
  const Grid grid(value.shape, output.tensor);
  const std::optional<double> declared =
      declared_number(empty_row_of(kernel.dialect, value), output.tensor);
  const Wanted empty = declared ? exactly(*declared) : kAnything;
  std::vector<Wanted> wanted = all_within(*values, *bounds, output.spec.dtype);
  for (size_t n = 0; n < wanted.size(); ++n) {
    if (is_gradient(output.tensor)) {
      if (!gradient_counts(value, grid.at(n))) wanted[n] = kAnything;
      continue;
    }
    const int64_t visible =
        truth.oracle.visible[n / static_cast<size_t>(grid.width())];
    if (visible == kRowNotCounted) wanted[n] = kAnything;
    // With a sink, the value of the formula is right, too.
    if (visible == 0 && (*bounds)[n] < kInfinity)
      wanted[n] = value.sink && std::fabs(output.numbers[n] - (*values)[n]) <=
                                    (*bounds)[n]
                      ? kAnything
                      : empty;
  }
  return wanted;
}

bool any_wrong(const WrittenOutput& output) {
  for (size_t n = 0; n < output.numbers.size(); ++n)
    if (is_wrong(output.wanted_here()[n], output.numbers[n])) return true;
  return false;
}

// The range of f32 numbers within the error. The nearest code may be off by
// exactly that much, so the rounding of the sums must not exclude one.
Wanted near_enough(double value, double error) {
  const double least = std::nextafter(value - error, -kInfinity);
  const double most = std::nextafter(value + error, kInfinity);
  const float infinity = std::numeric_limits<float>::infinity();
  auto low = static_cast<float>(least), high = static_cast<float>(most);
  if (static_cast<double>(low) < least) low = std::nextafter(low, infinity);
  if (static_cast<double>(high) > most) high = std::nextafter(high, -infinity);
  return {value, error, static_cast<double>(low), static_cast<double>(high)};
}

// Values read back from one of the tensors: the given ones, or as near as its
// code can be.
std::vector<Wanted> wanted_of_stored(const Case& value,
                                     const Snapshot& snapshot,
                                     const std::vector<double>& given,
                                     const std::vector<double>& errors,
                                     int64_t width) {
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  std::vector<Wanted> wanted;
  for (size_t n = 0; n < given.size(); ++n) {
    const auto token = static_cast<int64_t>(n) / width % tokens;
    const double error = errors.empty() ? 0 : errors[n];
    if (!is_kept(value.cache, snapshot, token))
      wanted.push_back(kAnything);
    else if (error == 0)
      wanted.push_back(exactly(given[n]));
    else
      wanted.push_back(near_enough(given[n], error));
  }
  return wanted;
}

// The stages of a layer and y, in the order of computation.
class LayerOutputs {
 public:
  LayerOutputs(const CaseWork::WholeCall& whole, const JudgedKernel& kernel,
               WrittenCall& written)
      : problem_(layer_problem(whole.value, whole.inputs)),
        oracle_(plain_layer(problem_)),
        stage_(kernel.info.stage_dtype(whole.value.q_dtype)),
        y_(whole.value.o_dtype),
        model_(kernel.model),
        written_(written) {}

  void add() {
    const LayerBound bound =
        layer_bound(problem_, oracle_, for_storage(model_, stage_, y_), stage_);
    const std::pair<TensorName, Projection> projections[] = {
        {TensorName::kStageQ, Projection::kQ},
        {TensorName::kStageK, Projection::kK},
        {TensorName::kStageV, Projection::kV}};
    bool right = true;
    for (const auto& [name, which] : projections)
      if (WrittenOutput* output = find(name)) {
        const ProjectedStage stage = projected_stage(
            problem_, which, for_storage(model_, stage_, stage_), stage_);
        output->wanted = all_within(stage.truth, stage.bound, stage_);
        right = right && !any_wrong(*output);
      }
    WrittenOutput* attended = find(TensorName::kAttended);
    if (attended != nullptr) {
      attended->wanted = all_within(oracle_.attended.o, bound.attended, stage_);
      // Results of a wrong stage show nothing.
      if (right && !attended->numbers.empty()) add_staged(*attended);
      right = right && !any_wrong(*attended);
    }
    WrittenOutput* y = find(TensorName::kY);
    y->wanted = all_within(oracle_.y, bound.y, y_);
    if (attended != nullptr && right && !y->numbers.empty())
      add_staged(*y, attended->numbers);
  }

 private:
  WrittenOutput* find(TensorName name) {
    for (WrittenOutput& output : written_.outputs)
      if (output.tensor == name) return &output;
    return nullptr;
  }

  // Attention on the kernel's own q, k and v.
  void add_staged(WrittenOutput& attended) {
    const auto numbers = [this](TensorName name) {
      return find(name)->numbers.data();
    };
    const Problem attention = attention_stage(
        problem_, numbers(TensorName::kStageQ), numbers(TensorName::kStageK),
        numbers(TensorName::kStageV));
    const OracleOutput oracle = plain_forward(attention);
    const Bound bound =
        compute_bound(BoundFacts(attention, oracle),
                      for_storage(model_, stage_, stage_), false);
    attended.staged = all_within(oracle.o, bound.o, stage_);
  }

  // The last projection of the kernel's own heads.
  void add_staged(WrittenOutput& y, const std::vector<double>& heads) {
    const std::vector<double> merged = merge_heads(problem_.shape, heads);
    const LinearProblem linear =
        projection_stage(problem_, Projection::kO, merged.data());
    const std::vector<double> truth = plain_linear(linear);
    y.staged = all_within(
        truth, linear_bound(linear, truth, for_storage(model_, y_, y_)).bound,
        y_);
  }

  LayerProblem problem_;
  LayerOutput oracle_;
  Dtype stage_, y_;
  const PrecisionModel& model_;
  WrittenCall& written_;
};

}  // namespace

void add_outputs(const Case& value, const CaseWork::WholeCall& whole,
                 const CallOutcome& outcome, const JudgedKernel& kernel,
                 WrittenCall& written) {
  for (CallTensor& tensor : call_outputs(written.plan)) {
    // Tensors that a call appends to are inputs here.
    if (is_cache(tensor.tensor)) continue;
    WrittenOutput output{std::move(tensor), {}, {}, {}};
    output.name = tensor_name(output.tensor);  // "dq", as in reports
    output.values.data = outcome.*output_member(output.tensor);
    output.numbers = as_doubles(output.values.data, output.spec.dtype);
    written.outputs.push_back(std::move(output));
  }
  // In the order in which they are judged: the outputs of a layer come last.
  std::stable_partition(written.outputs.begin(), written.outputs.end(),
                        [](const WrittenOutput& output) {
                          return output.tensor != TensorName::kY;
                        });
  const Shape& shape = whole.value.shape;
  if (whole.planned.operation == Operation::kLayer &&
      !whole.planned.expects_refusal)
    LayerOutputs(whole, kernel, written).add();
  for (WrittenOutput& output : written.outputs) {
    if (whole.truth != nullptr)
      output.wanted = wanted_of(*whole.truth, kernel.info, whole.value, output);
    const bool is_k = output.tensor == TensorName::kStageK;
    if (whole.planned.operation == Operation::kCacheReadBack)
      output.wanted =
          wanted_of_stored(value, *whole.planned.snapshot,
                           is_k ? whole.inputs.k : whole.inputs.v,
                           is_k ? whole.inputs.k_error : whole.inputs.v_error,
                           is_k ? shape.d : shape.dv);
    // Nothing is expected if the call must be refused, or of results of NaN.
    output.wanted.resize(static_cast<size_t>(output.spec.elements()),
                         kAnything);
  }
}

}  // namespace qkvet::cli
