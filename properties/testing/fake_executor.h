// SPDX-License-Identifier: Apache-2.0
// For tests: kernels that are functions. By default the oracle itself, rounded
// to f32 (in f64 storage: as it is), which every law must pass; a test corrupts
// its answer to see a law fail.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_EXECUTOR_H_
#define QKVET_PROPERTIES_TESTING_FAKE_EXECUTOR_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/half.h"
#include "core/base/philox.h"
#include "core/call/call.h"
#include "core/door/executor.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_options.h"
#include "properties/testing/fake_pages.h"
#include "qkvet/plan.h"
#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"
#include "reference/options/dropout.h"

namespace qkvet::properties {

// The dropout mask of a call, from a generator of our own.
class FakeDropout {
 public:
  explicit FakeDropout(const KernelCall& call)
      : drops_(call.dropout.has_value()), p_(0) {
    if (!drops_) return;
    const Shape& s = call.shape;
    p_ = static_cast<double>(call.dropout->p);
    const uint64_t seed =
        call.dropout->seed + call.dropout->offset * 0x9E3779B9;
    for (int64_t head = 0; head < s.B * s.H; ++head)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j) {
          const uint64_t bits =
              philox_u64(seed, static_cast<uint32_t>(head),
                         static_cast<uint32_t>(i), static_cast<uint32_t>(j));
          kept.push_back(std::ldexp(static_cast<double>(bits), -64) >= p_);
        }
  }

  OracleOutput forward(const Problem& problem) const {
    return drops_ ? plain_dropout({problem, p_, kept.data()})
                  : plain_forward(problem);
  }
  GradientOutput backward(const GradientProblem& problem) const {
    return drops_ ? plain_dropout_backward({problem.forward, p_, kept.data()},
                                           problem.d_o)
                  : plain_backward(problem);
  }
  std::vector<std::byte> mask(const KernelCall& call) const {
    std::vector<std::byte> bytes;
    for (const uint8_t one : kept)
      if (call.want_dropout_mask) bytes.push_back(std::byte{one});
    return bytes;
  }

  std::vector<uint8_t> kept;  // [B,H,Tq,Tk]

 private:
  bool drops_;
  double p_;
};

inline std::vector<std::byte> doubles_as_floats(
    const std::vector<double>& values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

// In f64, f32, f16 or bf16.
inline std::vector<std::byte> doubles_as(Dtype dtype,
                                         const std::vector<double>& values) {
  if (dtype == Dtype::kF32) return doubles_as_floats(values);
  if (dtype == Dtype::kF64) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    return {bytes, bytes + values.size() * sizeof(double)};
  }
  std::vector<std::byte> out(values.size() * sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = dtype == Dtype::kF16 ? f16_from_double(values[i])
                                               : bf16_from_double(values[i]);
    std::memcpy(out.data() + i * sizeof bits, &bits, sizeof bits);
  }
  return out;
}

// A kernel that answers each call by itself.
class FakeKernel : public Executor {
 public:
  explicit FakeKernel(KernelInfo info) { infos_.push_back(std::move(info)); }

  const std::vector<KernelInfo>& kernels() const override { return infos_; }

  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes;
    for (const KernelCall& call : calls) outcomes.push_back(answer_to(call));
    return outcomes;
  }

 private:
  virtual CallOutcome answer_to(const KernelCall& call) = 0;

  std::vector<KernelInfo> infos_;
};

inline KernelUnderTest fake_under_test(KernelInfo info) {
  KernelUnderTest kernel;
  kernel.judged = {std::move(info), generic_precision(), false};
  return kernel;
}

// A kernel that a test corrupts: the question is called before the oracle, and
// the answer after it.
template <class Asked, class Problem, class Output>
class SpoiltKernel : public FakeKernel {
 public:
  using Question = std::function<void(Asked&, Problem&)>;
  using Answer = std::function<void(const KernelCall&, Output&, CallOutcome&)>;

  SpoiltKernel(KernelInfo info, Question question, Answer answer)
      : FakeKernel(std::move(info)),
        question_(std::move(question)),
        answer_(std::move(answer)) {}

 protected:
  Question question_;
  Answer answer_;
};

class FakeExecutor : public SpoiltKernel<KernelCall, Problem, OracleOutput> {
 public:
  explicit FakeExecutor(Question question = {}, Answer answer = {})
      : SpoiltKernel(info(), std::move(question), std::move(answer)) {}

  static KernelInfo info() {
    KernelInfo info;
    info.name = "fake/oracle";
    info.capabilities.struct_size = sizeof(qkvet_capabilities);
    info.capabilities.flags =
        QKVET_FLAG_REENTRANT | QKVET_FLAG_OTHER_DATA_INVARIANT |
        QKVET_FLAG_POWER_OF_TWO_INVARIANT | QKVET_FLAG_REFUSES_MALFORMED |
        QKVET_FLAG_BATCH_MATES_INVARIANT;
    info.capabilities.options =
        QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
        QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
        QKVET_OPTION_WEIGHTS | QKVET_OPTION_GROUPED_HEADS |
        QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS |
        QKVET_OPTION_WINDOW | QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
        QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | QKVET_OPTION_ALIBI |
        QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED |
        QKVET_OPTION_EMPTY_EXTENTS | QKVET_OPTION_ROPE |
        QKVET_OPTION_ROPE_PART | QKVET_OPTION_PAGED | QKVET_OPTION_APPEND |
        QKVET_OPTION_DROPOUT | QKVET_OPTION_DROPOUT_MASK |
        QKVET_OPTION_PAGED_CSR | QKVET_OPTION_INT32_LENGTHS |
        QKVET_OPTION_ALIBI_PER_MEMBER | QKVET_OPTION_KEY_LISTS |
        QKVET_OPTION_KEY_LIST_LENGTHS | QKVET_OPTION_KEY_LIST_BLOCKS |
        QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
        QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES | QKVET_OPTION_CHUNK |
        QKVET_OPTION_TREE_MASK;
    info.capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
    info.has_plan = true;
    info.plan_options = QKVET_PLAN_UPDATE_INVARIANT;
    return info;
  }
  static KernelUnderTest under_test() {
    KernelUnderTest kernel = fake_under_test(info());
    // The dialect of the oracle.
    qkvet_dialect& dialect = kernel.judged.info.dialect;
    dialect.empty_row = QKVET_EMPTY_ROW_NAN;
    dialect.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
    dialect.masked_nonfinite = QKVET_MASKED_IGNORED;
    return kernel;
  }

 private:
  // There is no answer to contradictory tensors.
  CallOutcome refused(const KernelCall& call) {
    OracleOutput nothing;
    CallOutcome outcome;
    outcome.status = CallStatus::kRefused;
    outcome.gave_reason = outcome.asked_kernel = true;
    outcome.text = "the tensors contradict each other";
    if (answer_) answer_(call, nothing, outcome);
    return outcome;
  }

  // A plan is for the extents and options of the call that it was made for.
  bool is_planned_for(const KernelCall& call) {
    KernelCall& planned = planned_[call.plan_slot];
    if (call.plan_use == PlanUse::kNone) return true;
    if (call.plan_use == PlanUse::kMake) planned = call;
    return planned.shape == call.shape && planned.causal == call.causal &&
           planned.scale == call.scale && planned.window == call.window;
  }

  CallOutcome answer_to(const KernelCall& asked) override {
    KernelCall call = asked;
    if (call.mistake != Mistake::kNone || !is_planned_for(call))
      return refused(call);
    const Shape& s = call.shape;
    const auto q = stored_as_doubles(call.q, s.q_elements(), call.q_dtype);
    const FakePages pages(call);
    const auto k = pages.k();
    const auto v = pages.v();
    Problem problem =
        make_problem(s, call.causal, call.scale, q.data(), k.data(), v.data());
    const FakeOptions options(call, problem);
    const std::vector<int64_t> lengths = pages.lengths();
    if (!lengths.empty()) problem.kv_len = lengths.data();
    const std::vector<int64_t> starts = pages.starts();
    if (!starts.empty()) {
      problem.kv_len = nullptr;
      problem.cu_k = starts.data();
    }
    if (question_) question_(call, problem);
    const FakeDropout dropout(call);
    OracleOutput oracle = dropout.forward(problem);
    CallOutcome outcome;
    outcome.dropout_mask = dropout.mask(call);
    if (call.new_tokens > 0) {
      outcome.k_cache = pages.k_cache();
      outcome.v_cache = pages.v_cache();
    }
    if (answer_) answer_(call, oracle, outcome);
    if (outcome.status != CallStatus::kDone) return outcome;
    outcome.o = doubles_as(call.o_dtype, oracle.o);
    if (call.want_lse)
      outcome.lse = doubles_as(lse_dtype(call.o_dtype), oracle.lse);
    if (call.want_weights)
      outcome.weights = doubles_as(call.o_dtype, oracle.weights);
    return outcome;
  }

  KernelCall planned_[kMostPlans];
};

// Laws of attention, by name.
inline RunOptions options_for(std::initializer_list<const char*> laws,
                              int64_t cases) {
  RunOptions options;
  for (const char* law : laws) options.laws.push_back(find_law(law));
  options.cases = cases;
  return options;
}

inline RunResult run_fake(const RunOptions& options,
                          const FakeExecutor::Question& question = {},
                          const FakeExecutor::Answer& answer = {},
                          KernelUnderTest kernel = FakeExecutor::under_test()) {
  return run_plan(
      {kernel},
      [&](size_t) {
        return Opened{std::make_unique<FakeExecutor>(question, answer), ""};
      },
      options);
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_EXECUTOR_H_
