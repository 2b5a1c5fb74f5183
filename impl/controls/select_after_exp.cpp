// SPDX-License-Identifier: Apache-2.0
// controls/select_after_exp: exponentials are taken of all scores and those of
// hidden keys are replaced by 0 afterwards, however large they came out. Their
// values are walked with that weight.
#include <cmath>

#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct SelectAfterExp {
  static constexpr bool kWalksHiddenKeys = true;

  static bool hidden(const Row& row, int64_t j) {
    return row.terms.bias[j] == -kInfinity;
  }

  // Hidden keys keep their score without a bias, and stay out of the maximum.
  static float scores(const Row& row) {
    float max = row.terms.sink;
    for (int64_t j = 0; j < row.keys; ++j) {
      const float dot =
          dot_ascending(row.q, row.k.row(j), row.k.step, row.width);
      const float s = dot * row.scale;
      row.scores[j] = hidden(row, j) ? s : row.score(s, j);
      max = hidden(row, j) ? max : std::fmax(max, row.scores[j]);
    }
    return max;
  }

  static void row(const Row& row) {
    const float max = scores(row);
    float sum = std::exp(row.terms.sink - max);
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float weight = std::exp(row.scores[j] - max);
      const float kept = hidden(row, j) ? 0 : weight;
      sum += kept;
      add_weighted(kept, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max + std::log(sum));
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::masked_nonfinite, QKVET_MASKED_NOT_IGNORED);

}  // namespace

extern constinit const qkvet_kernel controls_select_after_exp = dialect_kernel(
    "controls/select_after_exp", "weights of hidden keys are cleared after exp",
    {"impl/controls/select_after_exp.cpp", __LINE__}, &kDialect,
    kRowForward<SelectAfterExp>);

}  // namespace qkvet::impl
