// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_call.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "cli/base/read_loop.h"

namespace qkvet::cli {
namespace {

// Times that are shorter than this say little of a clock and of a call's cost.
constexpr double kSecondsPerVisit = 0.01;
constexpr int kMostCalls = 64;
// A slow kernel takes this long for one operation (SandboxOptions).
constexpr double kSecondsPerOperation = 1e-9;
// The backward pass of a product is two products; attention computes its scores
// once more.
constexpr double kAttentionGradient = 2.5, kProjectionGradient = 2;

double pairs_of(const Case& value) {
  const Shape& s = value.shape;
  const auto Tq = static_cast<double>(s.Tq), Tk = static_cast<double>(s.Tk);
  if (value.causal == Causal::kNone) return Tq * Tk;
  const int64_t diagonal =
      value.causal == Causal::kBottomRight ? s.Tk - s.Tq : 0;
  double pairs = 0;
  for (int64_t i = 0; i < s.Tq; ++i)
    pairs +=
        static_cast<double>(std::clamp<int64_t>(i + diagonal + 1, 0, s.Tk));
  return pairs;
}

// Eight at a time on a CPU that has AVX2; ten chains hide the latency.
constexpr int kChains = 10, kWide = 8;
constexpr int64_t kTurns = 20000;
using Wide = float __attribute__((vector_size(kWide * sizeof(float))));

// In registers, and so unrolled.
[[gnu::always_inline]] inline float run_chains(float x) {
  Wide sum[kChains];  // all different, or they would be computed once
  for (int i = 0; i < kChains; ++i) sum[i] = Wide{} + static_cast<float>(i);
  const Wide factor = Wide{} + x, term = Wide{} + 0.25F;
  for (int64_t n = 0; n < kTurns; ++n) {
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) sum[i] = sum[i] * factor + term;
  }
  float total = 0;
  for (const Wide& one : sum) total += one[0];
  return total;
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] float chains_avx2(float x) { return run_chains(x); }
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
float chains_avx2(float) { return 0; }
bool has_avx2() { return false; }
#endif
float chains(float x) { return run_chains(x); }

template <class Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - start).count();
}

Operation operation_of(const Case& value) {
  return value.is_layer()
             ? (value.backward ? Operation::kLayerBackward : Operation::kLayer)
         : value.backward ? Operation::kBackward
                          : Operation::kForward;
}

bool done(const CallOutcome& outcome, TimedKernel& kernel) {
  if (outcome.status == CallStatus::kDone) return true;
  kernel.error = outcome.text.empty() ? "does not take it" : outcome.text;
  kernel.died = outcome.status == CallStatus::kFault ||
                outcome.status == CallStatus::kCrash ||
                outcome.status == CallStatus::kHang;
  return false;
}

// A gradient is given the o and lse of the same kernel, which *own keeps.
bool give_outputs(KernelCall& call, TimedKernel& kernel, CallOutcome* own) {
  if (call.operation != Operation::kBackward) return true;
  KernelCall forward = call;
  forward.operation = Operation::kForward;
  forward.want_lse = true;
  *own = kernel.executor->run(kernel.kernel, {&forward, 1})[0];
  call.given_o = own->o.data();
  call.given_lse = own->lse.data();
  return done(*own, kernel);
}

// Appends the seconds of `count` calls. False with an error if one fails.
bool visit(const KernelCall& call, int count, TimedKernel& kernel,
           std::vector<double>& seconds) {
  const std::vector<KernelCall> calls(static_cast<size_t>(count), call);
  for (const CallOutcome& outcome :
       kernel.executor->run(kernel.kernel, calls)) {
    if (!done(outcome, kernel)) return false;
    seconds.push_back(outcome.seconds);
  }
  return true;
}

}  // namespace

double operations_of(const Case& value) {
  const Shape& s = value.shape;
  const auto B = static_cast<double>(s.B), T = static_cast<double>(s.Tq);
  const double attention = 2 * B * static_cast<double>(s.H) *
                           static_cast<double>(s.d + s.dv) * pairs_of(value);
  const double projections = 4 * B * T * static_cast<double>(s.D) *
                             static_cast<double>((s.H + s.Hkv) * s.d);
  return value.backward ? kAttentionGradient * attention +
                              kProjectionGradient * projections
                        : attention + projections;
}

double bytes_of(const Case& value) {
  const Shape& s = value.shape;
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double queries = number(s.B) * number(s.Tq);
  const double keys = number(s.B) * number(s.Tk) * number(s.Hkv);
  const double q =
      value.is_layer()
          ? (queries + 2 * number((s.H + s.Hkv) * s.d)) * number(s.D)
          : queries * number(s.H) * number(s.d);
  const double kv = value.is_layer() ? 0 : keys * number(s.d + s.dv);
  return q * number(dtype_bytes(value.q_dtype)) +
         kv * number(dtype_bytes(value.kv_dtype));
}

double peak_operations() {
  volatile float x = 0.5F;
  const bool wide = has_avx2();
  const double seconds =
      seconds_of([&] { x = wide ? chains_avx2(x) : chains(x); });
  return 2.0 * kWide * kChains * kTurns / std::max(seconds, 1e-9);
}

const char* peak_instructions() {
  return has_avx2() ? "AVX2 and FMA" : "baseline instructions";
}

void stay_on_this_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(std::max(0, sched_getcpu())), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);  // best effort
}

TimedCall time_call(const Case& value, int rounds,
                    std::vector<TimedKernel>& kernels) {
  const Inputs inputs = make_inputs(value);
  KernelCall call = call_of(value, inputs, operation_of(value));
  call.oracle_seconds = kSecondsPerOperation * operations_of(value);
  std::vector<KernelCall> calls(kernels.size(), call);
  std::vector<CallOutcome> own(kernels.size());
  const std::vector<float> read(
      static_cast<size_t>(bytes_of(value)) / sizeof(float), 1);
  volatile float sink = 0;
  std::vector<double> peak, loop;
  std::vector<std::vector<double>> seconds(kernels.size());
  std::vector<int> visits(kernels.size(), 1);
  for (TimedKernel& kernel : kernels) kernel.error.clear();
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (size_t n = 0; n < kernels.size(); ++n) {
      TimedKernel& kernel = kernels[n];
      const bool first = round < 0;
      if (first && !give_outputs(calls[n], kernel, &own[n])) continue;
      if (!kernel.error.empty() ||
          !visit(calls[n], visits[n], kernel, seconds[n]) || !first)
        continue;
      const double least =
          std::max(seconds[n][0], kSecondsPerVisit / kMostCalls);
      visits[n] = 1 + static_cast<int>(kSecondsPerVisit / least);
      seconds[n].clear();
    }
    peak.push_back(peak_operations());
    loop.push_back(seconds_of([&] { sink = sink + sum_of(read); }));
  }
  for (size_t n = 0; n < kernels.size(); ++n)
    kernels[n].seconds = spread_of(std::move(seconds[n]));
  return {spread_of(std::move(peak)), spread_of(std::move(loop))};
}

std::string compared(const Spread& before, const Spread& now) {
  if (now.least <= before.median && before.least <= now.median) return "noise";
  return fmt::format("{:.2f} times as fast", before.median / now.median);
}

}  // namespace qkvet::cli
