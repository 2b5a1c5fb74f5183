// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/train_data.h"

#include <cmath>

#include "core/base/philox.h"

namespace qkvet::cli {
namespace {

// Apart from the numbers that a model begins with.
constexpr uint32_t kOfData = 1 << 16;

int draw(uint64_t seed, int64_t row, int64_t place, uint32_t what,
         int64_t below) {
  return static_cast<int>(philox_u64(seed, kOfData + what,
                                     static_cast<uint32_t>(row),
                                     static_cast<uint32_t>(place)) %
                          static_cast<uint64_t>(below));
}

}  // namespace

int token_behind(TrainTask task, int64_t vocabulary, int token) {
  if (task == TrainTask::kRepeat) return token;
  return static_cast<int>((token + 1) % vocabulary);
}

std::vector<int> train_rows(TrainTask task, int64_t vocabulary, int64_t length,
                            int64_t first, int64_t rows, uint64_t seed) {
  constexpr uint32_t kToken = 0, kJump = 1;
  std::vector<int> tokens;
  for (int64_t row = first; row < first + rows; ++row)
    for (int64_t t = 0; t < length; ++t) {
      const bool fresh = t == 0 || (task == TrainTask::kCount &&
                                    draw(seed, row, t, kJump, 100) < kJumps);
      tokens.push_back(fresh ? draw(seed, row, t, kToken, vocabulary)
                             : token_behind(task, vocabulary, tokens.back()));
    }
  return tokens;
}

double least_loss(TrainTask task, int64_t vocabulary) {
  if (task == TrainTask::kRepeat) return 0;
  const auto V = static_cast<double>(vocabulary);
  const double other = kJumps / 100.0 / V;
  const double next = 1 - (V - 1) * other;
  return -(next * std::log(next) + (V - 1) * other * std::log(other));
}

}  // namespace qkvet::cli
