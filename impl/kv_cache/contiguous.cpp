// SPDX-License-Identifier: Apache-2.0
// kv_cache/contiguous: attention over a KV cache, in one file. All memory is
// allocated at once, [sequences, Hkv, capacity, d] and the same with dv, in the
// storage type; a sequence is a length.
//
//   append   the new tokens of a step go to the end of their sequence
//   attend   each query sees the tokens up to its own:
//
//     s_j = scale * q.k_j;  s_j = softcap * tanh(s_j / softcap)
//     s_j += bias_j - slope * |position of the query - position of j|
//     o   = sum_j exp(s_j - m) v_j / (exp(sink - m) + sum_j exp(s_j - m))
//
//     where m is the largest of all s_j and the sink
//   move     sequences become copies of others; tokens leave
//
// Keys are stored unrotated and rotated when they are read. Half tokens are
// converted to f32 once a step and key/value head, f32 tokens are read in
// place. Every sum is sequential and ascending, with the sink first.
//
// Contract: that of cache_book.h, which checks a step and counts its tokens; a
// step beyond the capacity is OUT_OF_MEMORY. Cost: 2 (d + dv) flops a visible
// pair; memory a step L (d + dv + 4) floats, of which rows of tokens are
// touched only if they are converted or rotated.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "impl/kv_cache/kernel.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One key/value head of a step, in f32, and memory for a query.
struct Head {
  const float* k;  // [L, d]
  const float* v;  // [L, dv]
  float *q, *acc;  // [d], [dv]
  float* scores;   // [L], of the seen tokens
  float* biases;   // [L], the same
  int64_t* seen;   // [L], the seen tokens
};

class Contiguous : public CacheBook {
 public:
  explicit Contiguous(const CacheShape& shape)
      : CacheBook(shape),
        memory_(TokenMemory::of(shape, all_slots(shape, shape.capacity))) {
    if (!memory_.present()) {
      throw std::bad_alloc();
    }
  }
  int64_t bytes() const override {
    return all_slots(shape(), shape().capacity) * bytes_of_slot(shape());
  }

 protected:
  int64_t slot(int64_t sequence, int64_t head, int64_t token) const {
    return (sequence * shape().kv_heads + head) * shape().capacity + token;
  }

  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    if (before + step.tokens > shape().capacity) {
      return refuse(why, QKVET_OUT_OF_MEMORY, kBeyondCapacity);
    }
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t t = 0; t < step.tokens; ++t) {
        const int64_t to = slot(step.sequence, head, before + t);
        store_token(shape(), step, head, t, memory_, to, to);
      }
    }
    return QKVET_OK;
  }

  qkvet_status attend(const CacheStep& step, int64_t keys,
                      qkvet_text*) const override {
    const int64_t d = shape().width, dv = shape().value_width;
    const std::unique_ptr<float[]> floats(
        new float[static_cast<size_t>((keys + 1) * (d + dv) + 2 * keys)]);
    const std::unique_ptr<int64_t[]> seen(
        new int64_t[static_cast<size_t>(keys)]);
    float* const k = floats.get();
    float* const v = k + keys * d;
    float* const q = v + keys * dv;
    float* const acc = q + d;
    float* const scores = acc + dv;
    Sight seen_by_any = sight(keys - step.queries);
    seen_by_any.runs[seen_by_any.count - 1].end = keys;
    for (int64_t kv = 0; kv < shape().kv_heads; ++kv) {
      Head head = {k, v, q, acc, scores, scores + keys, seen.get()};
      for (const Run& run : seen_by_any) {
        const Reading tokens = {step.sequence, kv, keys, run};
        head.k = this->keys(tokens, k + run.begin * d).data - run.begin * d;
        head.v = values(tokens, v + run.begin * dv).data - run.begin * dv;
        turn_keys(step, run, head.k, k);
      }
      head.k = step.rope.present() ? k : head.k;
      for (int64_t n = 0; n < shape().group() * step.queries; ++n) {
        attend_row(step, kv * shape().group() + n / step.queries,
                   n % step.queries, keys, head);
      }
    }
    return QKVET_OK;
  }

  // Query i of head h.
  void attend_row(const CacheStep& step, int64_t h, int64_t i, int64_t keys,
                  const Head& head) const {
    const CacheShape& s = shape();
    const int64_t own = keys - step.queries + i;  // the query's token
    for (int64_t c = 0; c < s.width; ++c) {
      head.q[c] = step.q.get(0, h, i, c);
    }
    turn(step, own, head.q);

    const float sink = sinks().empty() ? -kInfinity : sinks()[at(h)];
    float max = sink;
    int64_t count = 0;
    for (const Run& run : sight(own)) {
      for (int64_t j = run.begin; j < run.end; ++j) {
        const float bias = bias_of(step, h, i, own, j);
        if (bias == -kInfinity || masked(step, h, i, j)) {
          continue;
        }
        const float* const k = head.k + j * s.width;
        float dot = 0;
        for (int64_t c = 0; c < s.width; ++c) {
          dot += head.q[c] * k[c];
        }
        head.scores[count] = dot * s.scale;
        head.biases[count] = bias;
        head.seen[count++] = j;
      }
    }
    for (int64_t n = 0; n < count; ++n) {
      float& score = head.scores[n];
      if (s.softcap > 0) {
        score = s.softcap * std::tanh(score / s.softcap);
      }
      score += head.biases[n];
      max = std::fmax(max, score);
    }

    float sum = sink > -kInfinity ? std::exp(sink - max) : 0;
    std::fill_n(head.acc, s.value_width, 0.0f);
    for (int64_t n = 0; n < count; ++n) {
      const float* const v = head.v + head.seen[n] * s.value_width;
      const float weight = std::exp(head.scores[n] - max);
      sum += weight;
      for (int64_t c = 0; c < s.value_width; ++c) {
        head.acc[c] += weight * v[c];
      }
    }

    // A query that sees no token has o = 0, with a sink or without.
    for (int64_t c = 0; c < s.value_width; ++c) {
      step.o.set(0, h, i, c, count > 0 ? head.acc[c] / sum : 0);
    }
    if (step.lse.data != nullptr) {
      *step.lse.at(0, h, i) = count > 0 ? max + std::log(sum) : -kInfinity;
    }
  }

  static size_t at(int64_t head) { return static_cast<size_t>(head); }

  float bias_of(const CacheStep& step, int64_t h, int64_t i, int64_t own,
                int64_t j) const {
    const float bias = step.bias.present() ? step.bias.get(0, h, i, j) : 0;
    return slopes().empty()
               ? bias
               : bias - slopes()[at(h)] *
                            std::fabs(static_cast<float>(apart(step, own, j)));
  }
  static bool masked(const CacheStep& step, int64_t h, int64_t i, int64_t j) {
    return step.mask.data != nullptr &&
           step.mask.at(0, h, i)[j * step.mask.step[3]] == 0;
  }

  // Rotates a row by the position of its token.
  void turn(const CacheStep& step, int64_t token, float* row) const {
    if (step.rope.present()) {
      const int64_t position = gaps(step.sequence).position(token);
      turn_row(step.rope, position, shape().width, row);
    }
  }
  // Rotates keys `from`, [L, d], in `to`, which may be the same.
  void turn_keys(const CacheStep& step, const Run& run, const float* from,
                 float* to) const {
    const int64_t d = shape().width;
    for (int64_t j = run.begin; step.rope.present() && j < run.end; ++j) {
      if (from != to) {
        std::copy_n(from + j * d, d, to + j * d);
      }
      turn(step, j, to + j * d);
    }
  }

  // In place, or in `room`.
  Rows keys(const Reading& from, float* room) const override {
    return rows_of(shape().storage, memory_.keys,
                   slot(from.sequence, from.head, from.run.begin),
                   from.run.count(), shape().width, room);
  }
  Rows values(const Reading& from, float* room) const override {
    return rows_of(shape().storage, memory_.values,
                   slot(from.sequence, from.head, from.run.begin),
                   from.run.count(), shape().value_width, room);
  }

  void rearrange(const int64_t* parents) override {
    copy_sequences(shape(), memory_, shape().kv_heads * shape().capacity,
                   parents);
  }
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      const int64_t to = slot(sequence, head, first);
      copy_slots(shape(), memory_, to + tokens, memory_, to,
                 held(sequence) - first - tokens);
    }
  }

 private:
  TokenMemory memory_;
};

}  // namespace

extern constinit const qkvet_kernel kv_cache_contiguous =
    family_cache(QKVET_FAMILY "/contiguous",
                 "memory for the whole capacity, allocated at once",
                 {"impl/kv_cache/contiguous.cpp", __LINE__},
                 &kCacheTable<Contiguous, kCacheOptions | kCacheScores>);

}  // namespace qkvet::impl
