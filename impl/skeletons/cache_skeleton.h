// SPDX-License-Identifier: Apache-2.0
// The skeleton of every KV cache here: checks a call, keeps the lengths of the
// sequences, and attends over the tokens in a storage. A cache is a class; it
// may replace the virtual functions, its hooks:
//
//   reserve         room for so many tokens            a storage has these
//   write           the tokens of a step to the end
//   keys, values    rows of one head in f32, in place or gathered
//   rearrange       sequences become copies of others
//   remove          tokens leave, later ones close up
//   bytes           memory for tokens
//   attend_rows     the arithmetic                     a control may have this
//   the others      bookkeeping                        faults replace one
//
// A step writes its tokens past the end of the sequence, attends over them too,
// and counts them last, when nothing can fail any more: a refused step leaves
// the cache as it was. Nothing past the end of a sequence is ever read, so
// reset and truncate just change a length.
//
// Evicted tokens leave gaps in the positions, which the skeleton keeps: a token
// is turned by its position, and stored by its number.
//
// With a window each query is attended on its own, over the one or two runs of
// keys that it sees. The mark of a sequence, the most tokens that it held since
// it was last empty, determines which tokens a storage may forget; a fork takes
// the mark of its parent, because it has no older tokens either.
//
// Contract: any strides; f32, f16 or bf16 throughout, f32 arithmetic, o rounded
// once; lse f32. INVALID_ARGUMENT or OUT_OF_MEMORY as cache.h lists them; empty
// extents are refused. Cost: 2 (d + dv) flops a visible pair; memory a step
// (L + group * Tq) (d + dv) floats, with a window (reach + group) (d + dv).
#ifndef QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_
#define QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_

#include <cstdint>
#include <vector>

#include "impl/abi/cache_call.h"
#include "impl/abi/forward_view.h"
#include "impl/abi/tensor_view.h"
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
};

class Cache {
 public:
  // Throws if there is no memory.
  explicit Cache(const CacheShape& shape)
      : shape_(shape),
        slopes_(copied(shape.slopes, shape.heads)),
        sink_(copied(shape.sink, shape.heads)),
        lengths_(static_cast<size_t>(shape.sequences)),
        marks_(static_cast<size_t>(shape.sequences)),
        gaps_(static_cast<size_t>(shape.sequences)) {}
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

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
  // Makes room for the first `tokens` tokens of a sequence, so that writing
  // cannot fail; returns NULL, or the reason of failure. Tokens are kept.
  virtual const char* reserve(int64_t sequence, int64_t tokens) = 0;
  // Stores the tokens of a step after the `before` ones that are held.
  virtual void write(const CacheStep& step, int64_t before) = 0;
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

  // Query heads of one key/value head, all f32.
  virtual qkvet_status attend_rows(const ForwardCall& call,
                                   qkvet_text* why) const;

  virtual qkvet_status append(const CacheStep& step, int64_t before,
                              qkvet_text* why);
  // Nothing here may fail.
  virtual void advance(const CacheStep& step) {
    set_held(step.sequence, held(step.sequence) + step.tokens);
  }
  // The keys that a query at `position` sees.
  virtual Sight sight(int64_t position) const;
  // The most of `keys` keys that a query sees; memory is sized for them.
  virtual int64_t most_seen(int64_t keys) const;
  // How many tokens a step attends over if it leaves `keys` tokens. More than
  // these require a storage with rows past the end.
  virtual int64_t attended(const CacheStep&, int64_t keys) const {
    return keys;
  }
  // Row i of `queries` sees the keys j <= i + diagonal.
  virtual int64_t diagonal(int64_t keys, int64_t queries) const {
    return keys - queries;
  }
  // The position of token j of a sequence, for its rotation. Keys are stored
  // unrotated and turned when they are read.
  virtual int64_t position(const CacheStep& step, int64_t /*keys*/,
                           int64_t j) const {
    return gaps(step.sequence).position(j);
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
  // Whether the sink joins the denominator of this step.
  virtual bool has_sink(const CacheStep&) const { return !sink_.empty(); }
  // Whether the bias of this step is added.
  virtual bool has_bias(const CacheStep& step) const {
    return step.bias.present();
  }
  // The column of the step's mask for token j; below 0 none hides it.
  virtual int64_t mask_column(const CacheStep&, int64_t /*keys*/,
                              int64_t j) const {
    return j;
  }
  // Whether stored keys are turned already.
  virtual bool stores_turned() const { return false; }
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

 private:
  // Queries that are attended at once, over the same keys.
  struct Block {
    int64_t head;     // key/value head
    int64_t first;    // query
    int64_t queries;  // 1 with a window
    Sight sight;
  };
  // Memory of a step.
  struct Room {
    float* q;       // [group * queries, d]
    float* o;       // [group * queries, dv]
    float* keys;    // [keys, d]
    float* values;  // [keys, dv]
    // [group * queries, keys]
    float* bias;    // with ALiBi or a bias
    uint8_t* mask;  // with a mask
  };

  qkvet_status attend(const CacheStep& step, int64_t keys,
                      qkvet_text* why) const;
  qkvet_status attend_block(const CacheStep& step, int64_t keys,
                            const Block& block, const Room& room,
                            qkvet_text* why) const;
  void give_options(const CacheStep& step, int64_t keys, const Block& block,
                    const Room& room, ForwardCall& call) const;
  // The bias with ALiBi of the score of head h, query i and token j.
  float bias_of(const CacheStep& step, int64_t keys, int64_t h, int64_t i,
                int64_t j) const;
  bool shows(const CacheStep& step, int64_t keys, int64_t h, int64_t i,
             int64_t j) const;
  void turn_queries(const CacheStep& step, int64_t keys, const Block& block,
                    float* q) const;
  Rows turned_keys(const CacheStep& step, int64_t keys, const Sight& sight,
                   const Rows& stored, float* room) const;

  static std::vector<float> copied(const View<const float>& from,
                                   int64_t count);

  CacheShape shape_;
  std::vector<float> slopes_, sink_;  // [H], or empty
  std::vector<int64_t> lengths_;
  std::vector<int64_t> marks_;
  std::vector<Gaps> gaps_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_
