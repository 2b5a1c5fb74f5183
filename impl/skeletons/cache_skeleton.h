// SPDX-License-Identifier: Apache-2.0
// The skeleton of the KV caches that differ in their memory: attends over the
// tokens in a storage. A cache is a class; it may replace the virtual
// functions, its hooks:
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
// kv_cache/contiguous.cpp computes the same in one file, with its arithmetic in
// sight; here the hooks are between the lines. With a window each query is
// attended on its own, over the one or two runs of keys that it sees.
//
// Contract: that of cache_book.h. Cost: 2 (d + dv) flops a visible pair; memory
// a step (L + group * Tq) (d + dv) floats, with a window (reach + group) (d +
// dv).
#ifndef QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_
#define QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_

#include <cstdint>

#include "impl/call/cache_call.h"
#include "impl/call/forward_view.h"
#include "impl/skeletons/cache_book.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

class Cache : public CacheBook {
 public:
  using CacheBook::CacheBook;

 protected:
  // Makes room for the first `tokens` tokens of a sequence, so that writing
  // cannot fail; returns NULL, or the reason of failure. Tokens are kept.
  virtual const char* reserve(int64_t sequence, int64_t tokens) = 0;
  // Stores the tokens of a step after the `before` ones that are held.
  virtual void write(const CacheStep& step, int64_t before) = 0;
  // Query heads of one key/value head, all f32.
  virtual qkvet_status attend_rows(const ForwardCall& call,
                                   qkvet_text* why) const;

  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override;
  qkvet_status attend(const CacheStep& step, int64_t held,
                      qkvet_text* why) const override;
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
  // Whether the sink joins the denominator of this step.
  virtual bool has_sink(const CacheStep&) const { return !sinks().empty(); }
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
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_SKELETON_H_
