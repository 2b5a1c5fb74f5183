// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_decode.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

#include "cli/base/checked.h"
#include "cli/base/read_loop.h"
#include "core/door/guarded.h"

namespace qkvet::cli {
namespace {

// The limit of the extents of a Case.

// A slow kernel takes this long for one channel of one pair. Its hang limit is
// much later (SandboxOptions).
constexpr double kSecondsPerChannel = 1e-9;

// Finite, no two rows alike, and no score so far above the others that exp()
// underflows, which could be faster.
std::vector<float> some_values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t bits = 0;
  for (float& value : values) {
    bits = bits * 1664525 + 1013904223;  // Numerical Recipes' generator
    value = static_cast<float>(bits >> 8) / (1 << 23) - 1;
  }
  return values;
}

// k and v of the first tokens are the first values: the layout is irrelevant,
// and the read loop reads the same values as the cache holds.
struct Data {
  std::vector<float> q, k, v;
};

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

struct Samples {
  std::vector<double> cached, recomputed, loop;
};

class Run {
 public:
  Run(const DecodeBench& bench, Executor& executor, int kernel)
      : bench_(bench),
        executor_(executor),
        kernel_(kernel),
        truncates_(
            executor.kernels()[static_cast<size_t>(kernel)].has_truncate) {
    const int64_t tokens = bench.contexts.back() + 1;
    data_.q = some_values(bench.H * tokens * bench.d);
    data_.k = some_values(bench.Hkv * tokens * bench.d);
    data_.v = some_values(bench.Hkv * tokens * bench.d);
  }

  DecodeResult run();

 private:
  int64_t bytes(int64_t tokens) const {
    return 2 * bench_.Hkv * tokens * bench_.d * int64_t{sizeof(float)};
  }
  KernelCall create(int64_t capacity) const;
  KernelCall step(int64_t tokens, int64_t queries, int64_t pairs) const;
  KernelCall truncate(int64_t tokens) const;
  bool done(std::span<const KernelCall> calls, int64_t length);
  bool one_step(int64_t* held, double* seconds);
  double read_loop(int64_t tokens);
  bool with_cache(int64_t context, Samples* samples);
  bool without_cache(int64_t context, Samples* samples);
  bool visits(int64_t context, Samples* samples);

  const DecodeBench& bench_;
  Executor& executor_;
  int kernel_;
  bool truncates_;
  Data data_;
  std::vector<CallOutcome> outcomes_;  // of the last calls
  volatile float sink_ = 0;            // keeps the loop from being optimised
                                       // away
  std::string error_;
  bool died_ = false;
};

KernelCall Run::create(int64_t capacity) const {
  KernelCall call;
  call.operation = Operation::kCacheCreate;
  call.shape = {1, bench_.H, bench_.Hkv, 0, 0, bench_.d, bench_.d};
  call.tokens = capacity;
  return call;
}

KernelCall Run::step(int64_t tokens, int64_t queries, int64_t pairs) const {
  KernelCall call;
  call.operation = Operation::kCacheStep;
  call.shape = {1, bench_.H, bench_.Hkv, queries, tokens, bench_.d, bench_.d};
  call.placement = Placement::kEndAligned;
  call.q = bytes_of(data_.q);
  call.k = bytes_of(data_.k);
  call.v = bytes_of(data_.v);
  // Appending takes time, too.
  call.oracle_seconds = kSecondsPerChannel * 2 *
                        static_cast<double>(bench_.d * bench_.H) *
                        static_cast<double>(pairs + tokens);
  return call;
}

KernelCall Run::truncate(int64_t tokens) const {
  KernelCall call;
  call.operation = Operation::kCacheTruncate;
  call.tokens = tokens;
  return call;
}

// Runs the calls. False with error_ if one of them fails, or if the cache does
// not have `length` tokens afterwards: the times would be of something else.
bool Run::done(std::span<const KernelCall> calls, int64_t length) {
  outcomes_ = executor_.run(kernel_, calls);
  for (const CallOutcome& outcome : outcomes_) {
    if (outcome.status == CallStatus::kDone) continue;
    error_ = outcome.text;
    died_ = outcome.status == CallStatus::kFault ||
            outcome.status == CallStatus::kCrash ||
            outcome.status == CallStatus::kHang;
    return false;
  }
  const std::vector<int64_t>& lengths = outcomes_.back().lengths;
  if (lengths.size() == 1 && lengths[0] == length) return true;
  error_ = "the cache should hold " + std::to_string(length) +
           " tokens and does not";
  return false;
}

// Appends one token, and removes it again if the cache can.
bool Run::one_step(int64_t* held, double* seconds) {
  std::vector<KernelCall> calls = {step(1, 1, *held + 1)};
  if (truncates_)
    calls.push_back(truncate(*held));
  else
    ++*held;
  if (!done(calls, *held)) return false;
  *seconds = outcomes_.front().seconds;
  return true;
}

double Run::read_loop(int64_t tokens) {
  const auto values = static_cast<size_t>(bench_.Hkv * tokens * bench_.d);
  const auto start = std::chrono::steady_clock::now();
  for (const std::vector<float>* from : {&data_.k, &data_.v})
    sink_ = sink_ + sum_of({from->data(), values});
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - start).count();
}

// Steps and read loops alternate, so that a slow machine slows both.
bool Run::with_cache(int64_t context, Samples* samples) {
  const int64_t room = truncates_ ? 1 : kStepsPerVisit + 1;
  const KernelCall filled[] = {create(context + room),
                               step(context, /*queries=*/0, /*pairs=*/0)};
  if (!done(filled, context)) return false;
  int64_t held = context;
  double seconds = 0;
  // One-time allocations and mappings do not count as part of a step.
  if (!one_step(&held, &seconds)) return false;
  read_loop(context + 1);
  for (int i = 0; i < kStepsPerVisit; ++i) {
    if (!one_step(&held, &seconds)) return false;
    samples->cached.push_back(seconds);
    samples->loop.push_back(read_loop(context + 1));
  }
  return true;
}

bool Run::without_cache(int64_t context, Samples* samples) {
  const int64_t tokens = context + 1;
  const KernelCall calls[] = {create(tokens),
                              step(tokens, tokens, tokens * (tokens + 1) / 2)};
  if (!done(calls, tokens)) return false;
  samples->recomputed.push_back(outcomes_.back().seconds);
  return true;
}

bool Run::visits(int64_t context, Samples* samples) {
  const auto start = std::chrono::steady_clock::now();
  for (int visit = 0; visit < kMostVisits; ++visit) {
    if (!with_cache(context, samples) || !without_cache(context, samples))
      return false;
    const std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - start;
    if (spent.count() > kSecondsPerContext) break;
  }
  return true;
}

DecodeResult Run::run() {
  std::vector<Samples> samples(bench_.contexts.size());
  for (int round = 0; round < bench_.repeat; ++round)
    for (size_t i = 0; i < samples.size(); ++i)
      if (!visits(bench_.contexts[i], &samples[i]))
        return {{}, truncates_, error_, died_};
  DecodeResult result;
  result.truncates = truncates_;
  for (size_t i = 0; i < samples.size(); ++i)
    result.rows.push_back({bench_.contexts[i], bytes(bench_.contexts[i] + 1),
                           spread_of(std::move(samples[i].cached)),
                           spread_of(std::move(samples[i].recomputed)),
                           spread_of(std::move(samples[i].loop))});
  return result;
}

}  // namespace

DecodeGrowth growth_of(const std::vector<DecodeTimes>& rows,
                       double Spread::*time) {
  std::vector<double> extents, cached, recomputed;
  for (const DecodeTimes& row : rows) {
    extents.push_back(static_cast<double>(row.context));
    cached.push_back(row.cached.*time);
    recomputed.push_back(row.recomputed.*time);
  }
  return {growth_exponent(extents, cached),
          growth_exponent(extents, recomputed)};
}

double noise_of(const std::vector<DecodeTimes>& rows) {
  double noise = 1;
  for (const DecodeTimes& row : rows)
    for (const Spread& spread : {row.cached, row.recomputed})
      if (spread.least > 0)
        noise = std::max(noise, spread.median / spread.least);
  return noise;
}

std::string too_large(const DecodeBench& bench) {
  const int64_t tokens = bench.contexts.back() + kStepsPerVisit + 1;
  // q and o, k and v: as given, in a window of up to twice the size, and as a
  // kernel's own copy; o is copied once more.
  constexpr int64_t kCopies = 4;
  const auto rows = checked_product({2, kCopies, bench.H + bench.Hkv, tokens});
  const auto bytes =
      rows ? checked_product({*rows, bench.d, int64_t{sizeof(float)}}) : rows;
  const int64_t available = available_memory();
  if (bytes && *bytes <= available) return "";
  const std::string lead =
      "a context of " + std::to_string(bench.contexts.back());
  if (!bytes) return lead + " takes more than any memory";
  return lead + " takes about " + bytes_text(*bytes) + ", " +
         bytes_text(available) + " are free";
}

DecodeResult bench_decode(const DecodeBench& bench, Executor& executor,
                          int kernel) {
  return Run(bench, executor, kernel).run();
}

}  // namespace qkvet::cli
