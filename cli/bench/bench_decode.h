// SPDX-License-Identifier: Apache-2.0
// The benefit of a KV cache: the time of one more token with a warm cache, and
// without one, with attention over the whole prefix again; compared with a
// plain loop over as many bytes as the step has to read. With N tokens in the
// cache a step scores one row against N + 1 keys, and recomputing scores
// (N + 1)(N + 2) / 2 pairs: in theory times grow as N and as N^2. Both give the
// output of the same token.
#ifndef QKVET_CLI_BENCH_BENCH_DECODE_H_
#define QKVET_CLI_BENCH_BENCH_DECODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/growth.h"
#include "core/door/executor.h"

namespace qkvet::cli {

constexpr int64_t kMostContext = int64_t{1} << 24;

struct DecodeBench {
  std::vector<int64_t> contexts;  // N
  int64_t H = 1;
  int64_t Hkv = 1;
  int64_t d = 16;  // also dv
  int repeat = 3;  // rounds over all contexts
};

// A visit of a context fills a cache, takes steps in turns with read loops, and
// recomputes once. Short contexts are visited more than once in every round, so
// that a busy moment of the machine does not affect all of their visits.
inline constexpr int kStepsPerVisit = 16;
inline constexpr int kMostVisits = 16;
inline constexpr double kSecondsPerContext = 0.5;  // in every round

struct DecodeTimes {
  int64_t context = 0;
  int64_t bytes = 0;  // of the keys and values that a step reads
  Spread cached;      // seconds
  Spread recomputed;
  Spread loop;
};

struct DecodeResult {
  std::vector<DecodeTimes> rows;  // one for each context
  bool truncates = true;          // or the context grows from step to step
  std::string error;              // one line; if set, ignore the other fields
  bool died = false;              // the kernel, which is the error
};

// Both columns: a busy machine adds time, so if the least times and the medians
// differ, the least times are more reliable.
struct DecodeGrowth {
  std::optional<double> cached;
  std::optional<double> recomputed;
};
DecodeGrowth growth_of(const std::vector<DecodeTimes>& rows,
                       double Spread::*time);

// The largest median / least of steps and of recomputing; 1: no noise.
double noise_of(const std::vector<DecodeTimes>& rows);

// "" or why this machine cannot hold the largest context; an estimate.
std::string too_large(const DecodeBench& bench);

// Times are those inside the kernel. Only one process works at a time.
DecodeResult bench_decode(const DecodeBench& bench, Executor& executor,
                          int kernel);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BENCH_BENCH_DECODE_H_
