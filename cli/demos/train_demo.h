// SPDX-License-Identifier: Apache-2.0
// The training demonstration: the purpose of a causal mask, seen in a loss, in
// generated tokens, and in the weights before and after.
#ifndef QKVET_CLI_DEMOS_TRAIN_DEMO_H_
#define QKVET_CLI_DEMOS_TRAIN_DEMO_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/demos/train_data.h"
#include "cli/demos/train_model.h"

namespace qkvet::cli {

struct TrainPlan {
  TrainShape shape;
  TrainTask task = TrainTask::kRepeat;
  bool causal = true;
  int64_t epochs = 3;
  int64_t rows = 2048;  // per epoch, the same in each
  int64_t batch = 32;
  double rate = 0.01;
  uint64_t seed = 1;

  int64_t steps_per_epoch() const { return rows / batch; }
};

struct TrainResult {
  std::string error;           // "" or why it ended early
  std::vector<double> losses;  // one a step
  std::vector<double> epochs;  // mean of the last eighth of each epoch
  // The share of generated tokens that are right for the row.
  double right = 0;
  std::vector<int> row;  // a row that was not trained on, T tokens
  std::vector<float> weights_before, weights_after;  // [H,T,T] of that row
  // Generated from the first token of that row, T tokens with it.
  std::vector<int> generated;
};

// Rows with a given first token, to be continued.
inline constexpr int64_t kGeneratedRows = 64;

// Calls `epoch_done(number, loss)` after each epoch.
TrainResult train(const TrainPlan& plan, AttentionCalls& attention,
                  const std::function<void(int64_t, double)>& epoch_done);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_TRAIN_DEMO_H_
