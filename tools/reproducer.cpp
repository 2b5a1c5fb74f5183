// SPDX-License-Identifier: Apache-2.0
#include "tools/reproducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/half.h"
#include "properties/compare.h"
#include "properties/shrink.h"

namespace qkvet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Wanted kAnything{0, kInfinity, -kInfinity, kInfinity};

// Whatever page a tensor begins in, a cache line is what vectors can tell.
constexpr int64_t kAddressPeriod = 64;

Wanted exactly(double value) { return {value, 0, value, value}; }

// What the kernel declares of a row that sees no key.
Wanted wanted_of_empty_row(const qkvet_dialect& dialect, TensorName tensor) {
  if (tensor == TensorName::kO) {
    if (dialect.empty_row == QKVET_EMPTY_ROW_ZERO) return exactly(0);
    if (dialect.empty_row == QKVET_EMPTY_ROW_NAN) return exactly(kNan);
  } else if (tensor == TensorName::kLse) {
    switch (dialect.empty_row_lse) {
      case QKVET_EMPTY_LSE_MINUS_INF:
        return exactly(-kInfinity);
      case QKVET_EMPTY_LSE_PLUS_INF:
        return exactly(kInfinity);
      case QKVET_EMPTY_LSE_NAN:
        return exactly(kNan);
      default:
        break;
    }
  }
  return kAnything;
}

struct Truths {
  const std::vector<double>& values;
  const std::vector<double>& bounds;
};

Truths truths_of(const Truth& truth, TensorName tensor) {
  switch (tensor) {
    case TensorName::kLse:
      return {truth.oracle.lse, truth.bound->lse};
    case TensorName::kWeights:
      return {truth.oracle.weights, truth.bound->weights};
    default:
      return {truth.oracle.o, truth.bound->o};
  }
}

std::vector<Wanted> wanted_of(const Truth& truth, const KernelInfo& kernel,
                              const WrittenOutput& output, int64_t per_row) {
  const auto [values, bounds] = truths_of(truth, output.name);
  const Dtype dtype = output.spec.dtype;
  std::vector<Wanted> wanted;
  for (size_t n = 0; n < values.size(); ++n) {
    const int64_t visible =
        truth.oracle.visible[n / static_cast<size_t>(per_row)];
    if (visible == kRowNotCounted || !(bounds[n] < kInfinity))
      wanted.push_back(kAnything);
    else if (visible == 0)
      wanted.push_back(wanted_of_empty_row(kernel.dialect, output.name));
    else
      wanted.push_back({values[n], bounds[n],
                        round_to(dtype, values[n] - bounds[n]),
                        round_to(dtype, values[n] + bounds[n])});
  }
  return wanted;
}

const std::vector<std::byte>& bytes_of(const CallOutcome& outcome,
                                       TensorName tensor) {
  return tensor == TensorName::kO     ? outcome.o
         : tensor == TensorName::kLse ? outcome.lse
                                      : outcome.weights;
}

void add_inputs(const KernelCall& call, WrittenCall& written) {
  for (int t = 0; t < kTensorCount; ++t) {
    const auto name = static_cast<TensorName>(t);
    const TensorSpec& spec = written.plan.tensors[t];
    const std::byte* content = content_of(call, name);
    if (!spec.present() || content == nullptr) continue;
    WrittenInput input{name, spec, given_part(call, name, spec), {}, 0};
    input.packed.assign(
        content, content + input.given.elements() * dtype_bytes(spec.dtype));
    input.start = written.plan.places[t].start % kAddressPeriod;
    written.inputs.push_back(std::move(input));
  }
}

void add_outputs(const CallOutcome& outcome, const Truth& truth,
                 const KernelInfo& kernel, WrittenCall& written) {
  const Shape& s = written.value.shape;
  const struct {
    TensorName name;
    int64_t per_row;
  } rows[] = {{TensorName::kO, s.dv},
              {TensorName::kLse, 1},
              {TensorName::kWeights, s.Tk}};
  for (const auto& row : rows) {
    const auto t = static_cast<size_t>(row.name);
    if (!written.plan.tensors[t].present()) continue;
    WrittenOutput output{row.name, written.plan.tensors[t], 0, {}, {}, {}};
    output.start = written.plan.places[t].start % kAddressPeriod;
    output.wanted = wanted_of(truth, kernel, output, row.per_row);
    output.actual = bytes_of(outcome, row.name);
    output.numbers = as_doubles(output.actual, output.spec.dtype);
    written.outputs.push_back(std::move(output));
  }
}

bool has_wrong_number(const WrittenCall& call) {
  for (const WrittenOutput& output : call.outputs)
    for (size_t n = 0; n < output.wanted.size(); ++n)
      if (is_wrong(output.wanted[n], output.numbers[n])) return true;
  return false;
}

bool differs(const Reproducer& from, const SameBits& pair) {
  const auto number = [&](size_t call, int64_t n) {
    return from.calls[call].output(pair.tensor)->numbers[n];
  };
  return differ(number(pair.first_call, pair.first), pair.factor,
                number(pair.second_call, pair.second));
}

// "" or why no reproducer can be made of what the calls did.
std::string unfit_reason(const Judgement& judgement,
                         const std::vector<KernelCall>& calls,
                         const std::vector<CallOutcome>& outcomes) {
  if (judgement.verdict != Verdict::kFailed)
    return "the second time the verdict was: " +
           std::string(verdict_name(judgement.verdict));
  if (judgement.kind != FailureKind::kLaw)
    return "the failure is no number but what the kernel did to memory or to "
           "its process; allowed: wrong numbers (debug it with --in-process)";
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].operation != Operation::kForward ||
        calls[i].mistake != Mistake::kNone ||
        outcomes[i].status != CallStatus::kDone)
      return "a call of the law is refused, or has to be; allowed: laws about "
             "the numbers of forward()";
  return "";
}

}  // namespace

const WrittenInput* WrittenCall::input(TensorName name) const {
  for (const WrittenInput& one : inputs)
    if (one.name == name) return &one;
  return nullptr;
}

const WrittenOutput* WrittenCall::output(TensorName name) const {
  for (const WrittenOutput& one : outputs)
    if (one.name == name) return &one;
  return nullptr;
}

int64_t Reproducer::numbers() const {
  int64_t sum = static_cast<int64_t>(same_bits.size());
  for (const WrittenCall& call : calls) {
    for (const WrittenInput& input : call.inputs)
      sum += std::max(input.spec.span(), input.given.elements());
    for (const WrittenOutput& output : call.outputs)
      sum += output.spec.elements();
  }
  return sum;
}

bool is_wrong(const Wanted& wanted, double actual) {
  if (wanted.bound == kInfinity) return false;
  if (std::isnan(wanted.value)) return !std::isnan(actual);
  return !(wanted.low <= actual && actual <= wanted.high);
}

double ratio_of(const Wanted& wanted, double actual, Dtype dtype) {
  const double error = std::fabs(actual - wanted.value);
  const bool half = dtype == Dtype::kF16 || dtype == Dtype::kBf16;
  double rounding = half ? underflow_error(dtype) : 0;
  if (half && actual != 0 && std::isfinite(actual))
    rounding = std::max(rounding,
                        std::ldexp(unit_roundoff(dtype), std::ilogb(actual)));
  return error - rounding > 0 ? (error - rounding) / wanted.bound : kInfinity;
}

bool differ(double first, double factor, double second) {
  const double expected = first * factor;
  if (expected == second) return false;
  return !(std::isnan(expected) && std::isnan(second));
}

std::string make_reproducer(const Law& law, const Case& value,
                            const KernelUnderTest& kernel, Executor& executor,
                            TimeUse& time, Reproducer* out) {
  CaseWork work(law, value, /*with_twin=*/true, time);
  if (work.settled(kernel.judged)) return "the law says nothing of this case";
  const std::vector<KernelCall> calls = work.calls_for(kernel.judged);
  const std::vector<CallOutcome> outcomes = executor.run(kernel.index, calls);
  const Judgement judgement =
      work.judge(kernel.judged, outcomes, &out->same_bits);
  std::string why = unfit_reason(judgement, calls, outcomes);
  if (!why.empty()) return why;
  out->law = &law;
  out->text = to_string(value);
  out->digest = input_digest(make_inputs(value));
  out->kernel = kernel.judged.info.name;
  out->dialect = kernel.judged.info.dialect;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto whole = work.whole_call(kernel.judged, i);
    if (!whole.twin_disagrees.empty()) return whole.twin_disagrees;
    WrittenCall written{whole.value, {}, {}, {}};
    if (!plan_call(calls[i], kernel.judged.info, &written.plan, &why))
      return why;
    add_inputs(calls[i], written);
    add_outputs(outcomes[i], whole.truth, kernel.judged.info, written);
    out->calls.push_back(std::move(written));
  }
  out->shows_failure =
      std::any_of(out->calls.begin(), out->calls.end(), has_wrong_number);
  if (out->shows_failure) {
    out->same_bits.clear();
    return "";
  }
  out->shows_failure =
      std::any_of(out->same_bits.begin(), out->same_bits.end(),
                  [&](const SameBits& pair) { return differs(*out, pair); });
  if (!out->shows_failure) out->same_bits.clear();
  return "";
}

std::string reproducer_head(const Reproducer& from) {
  return fmt::format(
      "law      {}: {}\n"
      "case     {}\n"
      "inputs   digest {:08x}{}\n"
      "kernel   {}\n"
      "again    qkvet replay {} --law {} {}\n"
      "written by QKVet {}\n",
      from.law->id, from.law->sentence, from.text, from.digest,
      from.law->aim.free_data && from.law->aim.free_v ? ""
                                                      : "; the law sets some",
      from.kernel, from.text, from.law->id, from.again, QKVET_VERSION);
}

std::string abi_name(TensorName tensor) {
  if (tensor == TensorName::kCuQ) return "cu_seqlens_q";
  if (tensor == TensorName::kCuK) return "cu_seqlens_k";
  return tensor_name(tensor);
}

std::string hex_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

std::string filled_in(
    std::string_view pattern,
    const std::vector<std::pair<std::string_view, std::string>>& parts) {
  // The first line is the licence of the pattern: what is made of it is the
  // user's.
  std::string text(pattern.substr(pattern.find('\n') + 1));
  for (const auto& [marker, part] : parts)
    text.replace(text.find(marker), marker.size(), part);
  return text;
}

}  // namespace qkvet
