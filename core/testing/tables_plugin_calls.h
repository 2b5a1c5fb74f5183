// SPDX-License-Identifier: Apache-2.0
// Calls to the kernels of testdata/tables_plugin.cpp, for tests. Token n has
// the key 1000 e_n and the value {10 n + 1, 10 n + 2}; a query e_n returns it
// exactly, because exp(-500) is zero in f32.
#ifndef QKVET_CORE_TESTING_TABLES_PLUGIN_CALLS_H_
#define QKVET_CORE_TESTING_TABLES_PLUGIN_CALLS_H_

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/testing/bad_plugin_calls.h"
#include "core/testing/case_calls.h"

namespace qkvet {

inline std::unique_ptr<Executor> tables(
    const SandboxOptions& options = patient_options()) {
  return sandbox(options, "tables");
}

inline constexpr int64_t kKeyWidth = 4;  // of keys: as many tokens differ
inline constexpr int64_t kHeads = 2;
using Lengths = std::vector<int64_t>;

class CacheCalls {
 public:
  CacheCalls& create(int64_t sequences = 2, int64_t capacity = 4) {
    KernelCall& call = add(Operation::kCacheCreate);
    call.shape.B = sequences;
    call.tokens = capacity;
    return *this;
  }
  CacheCalls& step(int64_t sequence, const std::vector<int>& tokens,
                   const std::vector<int>& queries) {
    KernelCall& call = add(Operation::kCacheStep);
    call.sequence = sequence;
    call.shape.Tk = static_cast<int64_t>(tokens.size());
    call.shape.Tq = static_cast<int64_t>(queries.size());
    std::vector<float> k, v, q;
    for (const int token : tokens) {
      for (int c = 0; c < kKeyWidth; ++c)
        k.push_back(c == token ? 1000.f : 0.f);
      for (int c = 1; c <= 2; ++c) v.push_back(value(token, c));
    }
    for (int h = 0; h < kHeads; ++h)
      for (const int query : queries)
        for (int c = 0; c < kKeyWidth; ++c) q.push_back(c == query ? 1.f : 0.f);
    call.k = keep(std::move(k));
    call.v = keep(std::move(v));
    call.q = keep(std::move(q));
    return *this;
  }
  CacheCalls& reset(int64_t sequence) {
    add(Operation::kCacheReset).sequence = sequence;
    return *this;
  }
  CacheCalls& truncate(int64_t sequence, int64_t tokens) {
    KernelCall& call = add(Operation::kCacheTruncate);
    call.sequence = sequence;
    call.tokens = tokens;
    return *this;
  }
  CacheCalls& evict(int64_t sequence, int64_t first, int64_t tokens) {
    KernelCall& call = add(Operation::kCacheEvict);
    call.sequence = sequence;
    call.first = first;
    call.tokens = tokens;
    return *this;
  }
  CacheCalls& fork(int64_t from, int64_t to) {
    KernelCall& call = add(Operation::kCacheFork);
    call.sequence = from;
    call.other = to;
    return *this;
  }
  CacheCalls& reorder(const std::string& parents) {
    KernelCall& call = add(Operation::kCacheReorder);
    for (const char parent : parents) call.parents.push_back(parent - 'a');
    return *this;
  }
  CacheCalls& read_back(int64_t sequence, int64_t tokens) {
    KernelCall& call = add(Operation::kCacheReadBack);
    call.sequence = sequence;
    call.shape.Tk = tokens;
    return *this;
  }
  CacheCalls& change(const std::function<void(KernelCall&)>& change) {
    change(calls.back());
    return *this;
  }

  static float value(int token, int c) {
    return static_cast<float>(10 * token + c);
  }
  std::vector<CallOutcome> run(Executor& executor,
                               const std::string& kernel) const {
    auto outcomes = executor.run(number_of(executor, kernel, "tables"), calls);
    EXPECT_EQ(outcomes.size(), calls.size());
    return outcomes;
  }

  std::vector<KernelCall> calls;

 private:
  KernelCall& add(Operation operation) {
    KernelCall& call = calls.emplace_back();
    call.operation = operation;
    call.shape = {1, kHeads, 1, 0, 0, kKeyWidth, 2};
    return call;
  }
  const std::byte* keep(std::vector<float> values) {
    return reinterpret_cast<const std::byte*>(
        data_.emplace_back(std::move(values)).data());
  }
  std::deque<std::vector<float>> data_;
};

// The values of these tokens, once per head.
inline std::vector<float> values_of(const std::vector<int>& tokens) {
  std::vector<float> values;
  for (int h = 0; h < kHeads; ++h)
    for (const int token : tokens)
      for (int c = 1; c <= 2; ++c)
        values.push_back(CacheCalls::value(token, c));
  return values;
}

inline void expect_done(const CallOutcome& outcome, const Lengths& lengths,
                        const std::vector<int>& tokens = {}) {
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_EQ(outcome.lengths, lengths);
  EXPECT_EQ(floats(outcome.o), values_of(tokens));
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  EXPECT_FALSE(outcome.dirty_environment);
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_TABLES_PLUGIN_CALLS_H_
