// SPDX-License-Identifier: Apache-2.0
// For tests: kernels that are functions. By default the oracle itself, rounded
// to f32 (in f64 storage: as it is), which every law must pass; a test spoils
// its answer to see a law fail.
#ifndef QKVET_PROPERTIES_FAKE_EXECUTOR_H_
#define QKVET_PROPERTIES_FAKE_EXECUTOR_H_

#include <cstring>
#include <functional>

#include "core/executor.h"
#include "properties/fake_options.h"
#include "properties/runner.h"
#include "reference/oracle.h"
#include "reference/precision.h"

namespace qkvet {

inline std::vector<std::byte> doubles_as_floats(
    const std::vector<double>& values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

class FakeExecutor : public Executor {
 public:
  // Called before the oracle, to spoil the question, and after it, to spoil
  // the answer.
  using Question = std::function<void(KernelCall&, Problem&)>;
  using Answer =
      std::function<void(const KernelCall&, OracleOutput&, CallOutcome&)>;

  explicit FakeExecutor(Question question = {}, Answer answer = {})
      : question_(std::move(question)), answer_(std::move(answer)) {
    infos_.push_back(info());
  }

  static KernelInfo info() {
    KernelInfo info;
    info.name = "fake/oracle";
    info.capabilities.struct_size = sizeof(qkvet_capabilities);
    info.capabilities.options =
        QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
        QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
        QKVET_OPTION_WEIGHTS | QKVET_OPTION_GROUPED_HEADS |
        QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS |
        QKVET_OPTION_WINDOW | QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
        QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | QKVET_OPTION_ALIBI |
        QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED | QKVET_OPTION_EMPTY_EXTENTS;
    info.capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
    return info;
  }
  static KernelUnderTest under_test() {
    KernelUnderTest kernel;
    kernel.judged = {info(), generic_precision(), false};
    return kernel;
  }

  const std::vector<KernelInfo>& kernels() const override { return infos_; }

  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes;
    for (const KernelCall& call : calls) outcomes.push_back(one(call));
    return outcomes;
  }

 private:
  CallOutcome one(KernelCall call) {
    const Shape& s = call.shape;
    const bool f64 = call.q_dtype == Dtype::kF64;
    const auto read = [f64](const std::byte* data, int64_t count) {
      if (!f64) return floats_as_doubles(data, count);
      std::vector<double> values(static_cast<size_t>(count));
      std::memcpy(values.data(), data, values.size() * sizeof(double));
      return values;
    };
    const auto stored = [f64](const std::vector<double>& values) {
      if (!f64) return doubles_as_floats(values);
      const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
      return std::vector<std::byte>(bytes,
                                    bytes + values.size() * sizeof(double));
    };
    const auto q = read(call.q, s.q_elements());
    const auto k = read(call.k, s.k_elements());
    const auto v = read(call.v, s.v_elements());
    Problem problem =
        make_problem(s, call.causal, call.scale, q.data(), k.data(), v.data());
    const FakeOptions options(call, problem);
    if (question_) question_(call, problem);
    OracleOutput oracle = plain_forward(problem);
    CallOutcome outcome;
    if (answer_) answer_(call, oracle, outcome);
    if (outcome.status != CallStatus::kDone) return outcome;
    outcome.o = stored(oracle.o);
    if (call.want_lse) outcome.lse = stored(oracle.lse);
    if (call.want_weights) outcome.weights = stored(oracle.weights);
    return outcome;
  }

  Question question_;
  Answer answer_;
  std::vector<KernelInfo> infos_;
};

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_FAKE_EXECUTOR_H_
