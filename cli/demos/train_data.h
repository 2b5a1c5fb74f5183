// SPDX-License-Identifier: Apache-2.0
// What the training demonstration learns from: rows of tokens that are a
// function of (task, seed, row).
#ifndef QKVET_CLI_DEMOS_TRAIN_DATA_H_
#define QKVET_CLI_DEMOS_TRAIN_DATA_H_

#include <cstdint>
#include <vector>

namespace qkvet::cli {

enum class TrainTask : uint8_t {
  kRepeat,  // one random token, again and again
  kCount    // the next token is one larger, but for one in ten, which is random
};

// In percent, of kCount: the share that the past does not predict.
inline constexpr int kJumps = 10;

// [rows,length], the first of them row number `first`.
std::vector<int> train_rows(TrainTask task, int64_t vocabulary, int64_t length,
                            int64_t first, int64_t rows, uint64_t seed);

// The token after `token` if nothing jumps.
int token_behind(TrainTask task, int64_t vocabulary, int token);

// The least possible mean of -ln p without knowledge of the future, in nats per
// token; 0 for kRepeat.
double least_loss(TrainTask task, int64_t vocabulary);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_TRAIN_DATA_H_
