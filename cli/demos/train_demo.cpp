// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/train_demo.h"

#include <algorithm>
#include <numeric>

namespace qkvet::cli {
namespace {

// Rows [batch,T+1] as inputs and as the tokens to predict.
struct Batch {
  std::vector<int> ids, targets;
};

Batch batch_of(const TrainPlan& plan, int64_t first, int64_t rows) {
  const int64_t T = plan.shape.T;
  const std::vector<int> tokens = train_rows(plan.task, plan.shape.vocabulary,
                                             T + 1, first, rows, plan.seed);
  Batch batch;
  for (size_t n = 0; n < tokens.size(); ++n) {
    const auto t = static_cast<int64_t>(n) % (T + 1);
    if (t < T) batch.ids.push_back(tokens[n]);
    if (t > 0) batch.targets.push_back(tokens[n]);
  }
  return batch;
}

// Continues rows that begin with the tokens 0, 1, 2, ... by the model's most
// likely token; false if the kernel fails.
bool generate(const TrainPlan& plan, TrainModel& model,
              const std::vector<int>& first, std::vector<int>* rows) {
  std::vector<std::vector<int>> made(first.size());
  for (size_t r = 0; r < first.size(); ++r) made[r] = {first[r]};
  for (int64_t t = 1; t < plan.shape.T; ++t) {
    std::vector<int> ids;
    for (const auto& row : made) ids.insert(ids.end(), row.begin(), row.end());
    const auto next = model.next(ids, t);
    if (!next) return false;
    for (size_t r = 0; r < made.size(); ++r) made[r].push_back((*next)[r]);
  }
  rows->clear();
  for (const auto& row : made)
    rows->insert(rows->end(), row.begin(), row.end());
  return true;
}

// The share of generated tokens that follow the previous one by the task's
// rule.
double share_right(const TrainPlan& plan, const std::vector<int>& rows) {
  const auto T = static_cast<size_t>(plan.shape.T);
  int64_t right = 0, all = 0;
  for (size_t n = 0; n + 1 < rows.size(); ++n) {
    if (n % T == T - 1) continue;
    ++all;
    right +=
        rows[n + 1] == token_behind(plan.task, plan.shape.vocabulary, rows[n]);
  }
  return static_cast<double>(right) /
         static_cast<double>(std::max<int64_t>(all, 1));
}

double mean_of_last(const std::vector<double>& losses, size_t count) {
  count = std::min(std::max<size_t>(count, 1), losses.size());
  return std::accumulate(losses.end() - static_cast<std::ptrdiff_t>(count),
                         losses.end(), 0.0) /
         static_cast<double>(count);
}

bool run_epoch(const TrainPlan& plan, TrainModel& model, TrainResult* result) {
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    const Batch batch = batch_of(plan, step * plan.batch, plan.batch);
    const auto loss = model.step(batch.ids, batch.targets, plan.rate);
    if (!loss) return false;
    result->losses.push_back(*loss);
  }
  result->epochs.push_back(mean_of_last(
      result->losses, static_cast<size_t>(plan.steps_per_epoch() / 8)));
  return true;
}

bool look_at(TrainModel& model, const std::vector<int>& row,
             std::vector<float>* weights) {
  auto seen = model.weights(row);
  if (seen) *weights = std::move(*seen);
  return seen.has_value();
}

}  // namespace

TrainResult train(const TrainPlan& plan, AttentionCalls& attention,
                  const std::function<void(int64_t, double)>& epoch_done) {
  TrainResult result;
  TrainModel model(plan.shape, plan.causal, plan.seed, attention);
  result.row = batch_of(plan, plan.rows, 1).ids;
  bool good = look_at(model, result.row, &result.weights_before);
  for (int64_t epoch = 1; good && epoch <= plan.epochs; ++epoch) {
    good = run_epoch(plan, model, &result);
    if (good && epoch_done) epoch_done(epoch, result.epochs.back());
  }
  good = good && look_at(model, result.row, &result.weights_after);
  std::vector<int> first(
      static_cast<size_t>(std::min(kGeneratedRows, plan.shape.vocabulary)));
  std::iota(first.begin(), first.end(), 0);
  std::vector<int> rows;
  good = good && generate(plan, model, first, &rows);
  if (good) result.right = share_right(plan, rows);
  good = good && generate(plan, model, {result.row[0]}, &result.generated);
  if (!good) result.error = attention.error();
  return result;
}

}  // namespace qkvet::cli
