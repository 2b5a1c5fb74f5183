// SPDX-License-Identifier: Apache-2.0
// The roundings inside a kernel, and the number of keys that share a maximum,
// read off single weights.
#ifndef QKVET_CLI_IDENTIFY_ROUNDINGS_H_
#define QKVET_CLI_IDENTIFY_ROUNDINGS_H_

#include <optional>
#include <string>

#include "cli/identify/asking.h"

namespace qkvet::cli {

// A type that something is rounded to; absent with `told`: only to that of the
// accumulators.
struct RoundingFound {
  bool told = false;
  std::optional<Dtype> to;
  bool normalised = false;  // P is rounded after its division by the sum
  std::string why;
};

// For f32 storage: q, k and v before their products.
RoundingFound ask_operands(Asker& asker);
// Scores, or their parts, before the softmax.
RoundingFound ask_scores(Asker& asker);
// P before its product with v. `operands`: the result of ask_operands().
RoundingFound ask_weights_rounding(Asker& asker, std::optional<Dtype> operands);

// lse, before it is returned in f32; if it is not rounded, the error of the
// logarithm.
struct LseFound : RoundingFound {
  double error = 0;  // of an lse x, natural, in units of max(1, |x|)
};
LseFound ask_lse(Asker& asker);

// softcap * tanh(score / softcap), by the lse of equal scores, if that is exact
// to f32: the largest relative error, and the error of tanh(0).
struct TanhFound {
  bool told = false;
  double error = 0;
  double floor = 0;
  std::string why;
};
TanhFound ask_tanh(Asker& asker);

// For f32 storage, where scores are exact: the largest relative error of a
// ratio of two weights, in units of 2^-24.
struct ExpFound {
  bool told = false;
  double units = 0;
  double at = 0;     // exp(-at)
  double floor = 0;  // the largest exp(-x) that is 0
  std::string why;
};
ExpFound ask_exp(Asker& asker);

// Number of keys with a common maximum, taken before any of them is weighed; 0:
// all of the keys, up to the tried number `keys`.
struct TileFound {
  bool told = false;
  int64_t tile = 0;
  bool from_the_end = false;
  std::string why;
};
// f32 or bf16 storage, and sums of 24 bits.
TileFound ask_tile(Asker& asker, int64_t keys);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_ROUNDINGS_H_
