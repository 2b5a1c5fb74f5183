// SPDX-License-Identifier: Apache-2.0
// The part of a KV cache that is the same whatever its memory and its
// arithmetic are: it checks a call, and keeps the length of each sequence and
// the positions of its tokens. A cache is a class that stores tokens and
// attends over them; faults replace some of the virtual functions here.
//
// A step writes its tokens past the end of the sequence, attends over them too,
// and counts them last, when nothing can fail any more: a refused step leaves
// the cache as it was. Nothing past the end of a sequence is ever read, so
// reset and truncate just change a length.
//
// Evicted tokens leave gaps in the positions: a token is rotated by its
// position, and stored by its number.
//
// The mark of a sequence, the most tokens that it held since it was last empty,
// determines which tokens a storage with a window may forget; a fork takes the
// mark of its parent, because it has no older tokens either.
//
// Contract: any strides; f32, f16 or bf16 throughout, f32 arithmetic, o rounded
// once; lse f32. INVALID_ARGUMENT or OUT_OF_MEMORY as cache.h lists them; empty
// extents are refused.
#ifndef QKVET_IMPL_SKELETONS_CACHE_BOOK_H_
#define QKVET_IMPL_SKELETONS_CACHE_BOOK_H_

#include <cstdint>
#include <vector>

#include "impl/call/cache_call.h"
#include "impl/call/forward_view.h"
#include "impl/call/tensor_view.h"
#include "impl/skeletons/cache_gaps.h"
#include "impl/skeletons/row_skeleton.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Some rows of one head of a sequence.
struct Reading {
  int64_t sequence;
  int64_t head;
  int64_t held;  // tokens in the cache, including those of the step
  Run run;       // the tokens that are read
};

// The keys that a query sees, ascending.
struct Sight {
  Run runs[2];
  int count = 0;

  int64_t keys() const {
    return count == 1 ? runs[0].count() : runs[0].count() + runs[1].count();
  }
  const Run* begin() const { return runs; }
  const Run* end() const { return runs + count; }
};

class CacheBook {
 public:
  // Throws if there is no memory.
  explicit CacheBook(const CacheShape& shape)
      : shape_(shape),
        slopes_(copied(shape.slopes, shape.heads)),
        sink_(copied(shape.sink, shape.heads)),
        lengths_(static_cast<size_t>(shape.sequences)),
        marks_(static_cast<size_t>(shape.sequences)),
        gaps_(static_cast<size_t>(shape.sequences)) {}
  virtual ~CacheBook() = default;
  CacheBook(const CacheBook&) = delete;
  CacheBook& operator=(const CacheBook&) = delete;

  const CacheShape& shape() const { return shape_; }
  bool has(int64_t sequence) const {
    return 0 <= sequence && sequence < shape_.sequences;
  }

  // These throw if there is no memory, and have then changed nothing.
  qkvet_status step(const qkvet_cache_args& args, qkvet_text* why);
  // Every sequence s becomes a copy of the former parents[s].
  void reorder(const int64_t* parents);
  void evict(int64_t sequence, int64_t first, int64_t tokens);
  virtual qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                                 const qkvet_tensor& v, qkvet_text* why) const;
  // Why a sequence cannot be cut to `tokens` tokens; NULL: it can.
  const char* keeps_more_than(int64_t sequence, int64_t tokens) const;
  // Why these tokens cannot leave; NULL: they can.
  const char* cannot_evict(int64_t sequence, int64_t first,
                           int64_t tokens) const;

  // The length that the caller receives.
  virtual int64_t length(int64_t sequence) const { return held(sequence); }
  virtual void reset(int64_t sequence) { set_held(sequence, 0); }
  virtual void truncate(int64_t sequence, int64_t tokens) {
    set_held(sequence, tokens);
  }
  // Allocated for tokens, including free ones.
  virtual int64_t bytes() const = 0;

 protected:
  // Stores the tokens of a step after the `before` ones that are held, or
  // refuses and keeps the former tokens.
  virtual qkvet_status append(const CacheStep& step, int64_t before,
                              qkvet_text* why) = 0;
  // Attends over the `keys` tokens that the step leaves.
  virtual qkvet_status attend(const CacheStep& step, int64_t keys,
                              qkvet_text* why) const = 0;
  // Keys or values as rows of f32; `room` is for rows that must be converted or
  // gathered: [rows, d] or [rows, dv].
  virtual Rows keys(const Reading& reading, float* room) const = 0;
  virtual Rows values(const Reading& reading, float* room) const = 0;
  // The memory of every sequence s becomes that of parents[s], before any
  // length has changed. Throws if there is no memory, and has then changed
  // nothing.
  virtual void rearrange(const int64_t* parents) = 0;
  // Tokens [first, first + tokens) of a sequence leave, before its length has
  // changed: later ones take their places. Throws as rearrange().
  virtual void remove(int64_t sequence, int64_t first, int64_t tokens) = 0;

  // Nothing here may fail.
  virtual void advance(const CacheStep& step) {
    set_held(step.sequence, held(step.sequence) + step.tokens);
  }
  // The unused positions of a sequence.
  virtual const Gaps& gaps(int64_t sequence) const {
    return gaps_[static_cast<size_t>(counter(sequence))];
  }
  // The distance of the token of a query and token j, as for ALiBi.
  virtual int64_t apart(const CacheStep& step, int64_t query, int64_t j) const {
    const Gaps& of = gaps(step.sequence);
    return of.position(query) - of.position(j);
  }
  // The tokens that a query at `position` sees.
  virtual Sight sight(int64_t position) const;
  // The index of the length of a sequence.
  virtual int64_t counter(int64_t sequence) const { return sequence; }

  // Tokens in memory, as seen by every step.
  int64_t held(int64_t sequence) const {
    return lengths_[static_cast<size_t>(counter(sequence))];
  }
  void set_held(int64_t sequence, int64_t tokens) {
    const auto n = static_cast<size_t>(counter(sequence));
    lengths_[n] = tokens;
    marks_[n] = tokens == 0 || marks_[n] < tokens ? tokens : marks_[n];
    gaps_[n].cut(tokens);
  }
  // The most tokens that it held since it was last empty.
  int64_t mark(int64_t sequence) const {
    return marks_[static_cast<size_t>(counter(sequence))];
  }

  const std::vector<float>& slopes() const { return slopes_; }  // [H], or empty
  const std::vector<float>& sinks() const { return sink_; }     // the same

 private:
  static std::vector<float> copied(const View<const float>& from,
                                   int64_t count);

  CacheShape shape_;
  std::vector<float> slopes_, sink_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> marks_;
  std::vector<Gaps> gaps_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_BOOK_H_
