// SPDX-License-Identifier: Apache-2.0
// For the tests of caches: a cache next to the history that it should hold, a
// list of the tokens of cache_words.h.
#ifndef QKVET_IMPL_TESTING_CACHE_FIXTURE_H_
#define QKVET_IMPL_TESTING_CACHE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "impl/testing/any_tensor.h"
#include "impl/testing/cache_words.h"
#include "impl/testing/family_fixture.h"
#include "impl/testing/rope_fixture.h"

namespace qkvet::impl {

// Positions in the tables of a rotation.
inline constexpr int64_t kRopeRows = 64;

using Tokens = std::vector<uint64_t>;
// Tokens first, first + 1, ...
Tokens tokens_from(uint64_t first, int64_t count);

// The tensors of one step, legal until a test spoils them.
struct StepCall {
  StepCall(const CacheProblem& problem, int64_t sequence, const Tokens& added,
           const Tokens& asking);
  // The mask and the bias of the problem, for the last of the tokens that are
  // held at these positions.
  void give_pairs(const CacheProblem& problem,
                  const std::vector<int64_t>& places);
  qkvet_cache_args args;
  AnyTensor k, v, q, o;
  GuardedTensor lse;
  RopeTables rope;
  std::unique_ptr<AnyTensor> bias;
  std::vector<uint8_t> shown;
  std::vector<int64_t> pairs, steps;  // extents and strides of the mask
};

class OpenCache {
 public:
  OpenCache(const qkvet_kernel* kernel, const CacheProblem& problem);
  ~OpenCache();
  OpenCache(const OpenCache&) = delete;
  OpenCache& operator=(const OpenCache&) = delete;

  const CacheProblem& problem() const { return problem_; }
  qkvet_status status() const { return status_; }
  const char* reason() const { return reason_.room; }
  const Tokens& history(int64_t s) const { return history_[size_t(s)]; }

  // Appends and lets the last `queries` tokens ask. The history changes if the
  // answer is OK.
  qkvet_status step(int64_t sequence, const Tokens& added, int64_t queries);
  qkvet_status step(const qkvet_cache_args& args);
  // Outputs of the last step: [H, Tq, dv] and [H, Tq].
  const std::vector<float>& o() const { return o_; }
  const std::vector<float>& lse() const { return lse_; }
  // The largest error of the last step against doubles over the history, in
  // units of what rounding allows roughly; NaN is infinite.
  double error() const;

  int64_t length(int64_t sequence);
  qkvet_status reset(int64_t sequence);
  qkvet_status truncate(int64_t sequence, int64_t tokens);
  qkvet_status evict(int64_t sequence, int64_t first, int64_t tokens);
  qkvet_status fork(int64_t from, int64_t to);
  qkvet_status reorder(const std::vector<int64_t>& parents);
  int64_t memory();

  // What the cache says of a sequence, keys and then values, in logical order.
  struct Contents {
    qkvet_status status = QKVET_OK;
    std::vector<float> k, v;
  };
  // `rows`: of the tensors; -1: as many as there are tokens.
  Contents read_back(int64_t sequence, Layout layout = Layout::kBhtd,
                     int64_t rows = -1);
  // Whether that is what it should say, as far as the next query can see it:
  // the bits that were given, or the nearest codes.
  bool holds_its_history(int64_t sequence);

 private:
  const qkvet_kernel* kernel_;
  CacheProblem problem_;
  qkvet_cache* cache_ = nullptr;
  qkvet_status status_ = QKVET_OK;
  Reason reason_;
  using Places = std::vector<int64_t>;
  std::vector<Tokens> history_;
  std::vector<Places> places_;  // where the tokens of a history stand
  Tokens asked_;                // the history of the last step's sequence
  Places asked_places_;
  int64_t queries_ = 0;
  std::vector<float> o_, lse_;
};

// Kernels with a cache: all that are not faulty, or the faults.
std::vector<const qkvet_kernel*> caches(bool faulty);

// The faults of caches that cache_faults_test asks; all others are in
// cache_story_faults_test.
inline constexpr const char* kLawFaults[] = {
    "cache_append_wrong_axis",      "stale_cache",
    "cache_length_not_advanced",    "cache_chunk_offset",
    "cache_truncate_keeps_values",  "cache_sequences_share_length",
    "cache_refused_append_written", "cache_rope_restarts"};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_CACHE_FIXTURE_H_
