// SPDX-License-Identifier: Apache-2.0
// Faults of the steps of a cache: lengths, where new tokens go, and what they
// attend to.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct CacheLengthNotAdvanced : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  void advance(const CacheStep& step) override {
    set_held(step.sequence, held(step.sequence) + (step.tokens > 0 ? 1 : 0));
  }
};
QKVET_FAULT(cache_length_not_advanced, kCacheFault<CacheLengthNotAdvanced>) = {
    .when = "commands(new > 1)",
    .cause = "the length grows by 1 whatever a step appends: ++length in the "
             "decode loop is reused for the prompt",
    .fix = "advance the length by the tokens of the step",
    .killed_by = {"cache_length_grows", "cache_chunks_equal_whole"},
};

struct CacheSequencesShareLength : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t counter(int64_t) const override { return 0; }
};
QKVET_FAULT(cache_sequences_share_length,
            kCacheFault<CacheSequencesShareLength>) = {
    .when = "B > 1 && commands(new > 0)",
    .cause = "one length is kept for all sequences of a batch",
    .fix = "keep a length a sequence",
    .killed_by = {"cache_sequences_are_separate", "cache_length_grows"},
};

struct CachePositionCollision : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t first_slot(int64_t, int64_t head, int64_t n) const override {
    return ContiguousCache::first_slot(/*sequence=*/0, head, n);
  }
  // Whatever becomes what another was finds it where all others are.
  void rearrange(const int64_t*) override {}
};
QKVET_FAULT(cache_position_collision, kCacheFault<CachePositionCollision>) = {
    .when = "B > 1 && commands(new > 0) > 1",
    .cause = "a pool that sequences share is looked up by position alone: the "
             "last write of position p wins for all",
    .fix = "make the sequence a part of the key",
    .source = "ggml-org/llama.cpp#27994",
    .killed_by = {"cache_sequences_are_separate", "cache_agrees_with_history"},
};

struct CacheAppendWrongAxis : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  // The memory of a sequence is taken for [Hkv, n, d] ...
  int64_t first_slot(int64_t sequence, int64_t head, int64_t n) const override {
    return ContiguousCache::first_slot(sequence, 0, n) + head * n;
  }
  // ... but a step was put behind all that was there, [Hkv, Tnew, d].
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return first_slot(step.sequence, 0, before) + shape().kv_heads * before +
           head * step.tokens + j;
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return key_slot(step, before, head, j);
  }
};
QKVET_FAULT(cache_append_wrong_axis, kCacheFault<CacheAppendWrongAxis>) = {
    .when = "Hkv > 1 && commands(before > 0 && (new > 0 || 0 < held && held < "
            "before))",
    .cause = "a step is concatenated along the heads and the result is read as "
             "[Hkv, L, d]",
    .fix = "concatenate along the tokens",
    .killed_by = {"cache_decode_equals_prefill", "cache_chunks_equal_whole"},
};

struct CacheRefusedAppendWritten : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    CacheStep first = step;
    first.tokens = shape().capacity - before;
    if (first.tokens < step.tokens) {
      write(first, before);
      advance(first);
    }
    return ContiguousCache::append(step, before, why);
  }
};
QKVET_FAULT(cache_refused_append_written,
            kCacheFault<CacheRefusedAppendWritten>) = {
    .when = "commands(new > 0 && before < capacity && before + new > capacity)",
    .cause = "an append beyond the capacity is refused after the room is used "
             "up: the check is inside of the copy",
    .fix = "check the whole step before the first write",
    .killed_by = {"cache_refuses_illegal_calls"},
};

struct CacheReasonEndsBeyond : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    const qkvet_status status = ContiguousCache::append(step, before, why);
    if (status != QKVET_OK && why != nullptr) why->data[why->capacity] = 0;
    return status;
  }
};
QKVET_FAULT(cache_reason_ends_beyond, kCacheFault<CacheReasonEndsBeyond>) = {
    .when = "commands(new > 0 && before + new > capacity)",
    .cause = "a refusal ends its text at [capacity], one byte past the "
             "caller's buffer",
    .fix = "write at most capacity bytes, the final zero among them",
    .killed_by = {"cache_refuses_illegal_calls"},
};

struct CacheTilePaddingOverwrites : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  // The rows that fill the last tile are zero, and may be of the next sequence.
  void write(const CacheStep& step, int64_t before) override {
    const int64_t padding = -step.tokens & (tile() - 1);
    const int64_t all = all_slots(shape(), shape().capacity);
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      const int64_t end =
          first_slot(step.sequence, head, 0) + before + step.tokens;
      const int64_t n = std::min(padding, all - end);
      clear_slots(shape(), memory(step.sequence), end, n);
    }
    ContiguousCache::write(step, before);
  }
};
QKVET_FAULT(cache_tile_padding_overwrites,
            kCacheFault<CacheTilePaddingOverwrites>) = {
    .when = "(B > 1 || Hkv > 1) && commands(new % 4 != 0 && held + 4 - new % 4 "
            "> capacity)",
    .cause = "a step is written in tiles of 4 rows, and the padding overwrites "
             "the next head or sequence",
    .fix = "write the last tile in part, or round the capacity up as well",
    .source = "tenstorrent/tt-metal#52671",
    .killed_by = {"cache_stores_what_it_is_given", "cache_agrees_with_history"},
    .tiled = true,
};

struct CacheChunkOffset : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t diagonal(int64_t keys, int64_t queries) const override {
    const int64_t right = ContiguousCache::diagonal(keys, queries);
    const bool chunk = queries > 1 && keys > queries;
    return chunk ? right - 1 : right;
  }
};
QKVET_FAULT(cache_chunk_offset, kCacheFault<CacheChunkOffset>) = {
    .when = "commands(queries > 1 && held > queries)",
    .cause = "row i of a chunk sees the keys before L + i without its own: the "
             "comparison is <",
    .fix = "row i sees the keys j <= L + i",
    .killed_by = {"cache_chunks_equal_whole", "cache_agrees_with_history"},
};

struct CacheChunkLengthTooLong : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t attended(const CacheStep& step, int64_t keys) const override {
    const int64_t whole = (keys + tile() - 1) / tile() * tile();
    return step.queries == 1 ? keys : std::min(whole, shape().capacity);
  }
};
QKVET_FAULT(cache_chunk_length_too_long,
            kCacheFault<CacheChunkLengthTooLong, /*kOptions=*/0>) = {
    .when = "commands(queries > 1 && held % 4 != 0 && held < capacity)",
    .cause = "prefill uses the length of the prompt in whole chunks, and reads "
             "slots that are not written",
    .fix = "the keys of a chunk end with its last token",
    .source = "GeeeekExplorer/nano-vllm#213",
    .killed_by = {"cache_decode_equals_prefill", "cache_reset_forgets"},
    .tiled = true,
};

struct CacheStaticTailAttended : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  // The slots behind the end are zero, and nothing masks them.
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    if (call.queries > 1) return ContiguousCache::attend_rows(call, why);
    std::vector<float> keys, values;
    ForwardCall all = call;
    all.k = widened(call.k, call.keys, call.width, &keys);
    all.v = widened(call.v, call.keys, call.value_width, &values);
    all.keys = shape().capacity;
    all.diagonal = all.keys - 1;
    return ContiguousCache::attend_rows(all, why);
  }
  View<const float> widened(const View<const float>& rows, int64_t n,
                            int64_t width, std::vector<float>* room) const {
    room->resize(static_cast<size_t>(shape().capacity * width));
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < width; ++c)
        (*room)[static_cast<size_t>(j * width + c)] =
            rows.at(0, 0, j)[c * rows.step[3]];
    return {room->data(), {0, 0, width, 1}};
  }
};
QKVET_FAULT(cache_static_tail_attended,
            kCacheFault<CacheStaticTailAttended>) = {
    .when = "commands(queries == 1 && held < capacity)",
    .cause = "a decode attends over every slot of the capacity, where empty "
             "slots are zero",
    .fix = "attend over the tokens that are held, or mask the rest",
    .source = "huggingface/transformers#30414, huggingface/transformers#45940",
    .killed_by = {"cache_decode_equals_prefill", "cache_agrees_with_history"},
};

struct CacheRopeRestarts : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t position(const CacheStep& step, int64_t keys,
                   int64_t j) const override {
    const int64_t before = keys - step.tokens;
    return j < before ? j : j - before;
  }
};
QKVET_FAULT(cache_rope_restarts, kCacheFault<CacheRopeRestarts>) = {
    .when = "rope && commands(new > 0 && before > 0)",
    .cause = "the tokens of a step are rotated from position 0: positions are "
             "counted in the step",
    .fix = "position = tokens held before the step + number in the step",
    .source = "textbook, cf. rope-offset bugs of serving systems",
    .killed_by = {"cache_chunks_equal_whole", "cache_decode_equals_prefill"},
};

struct CacheRopeOffsetAdvancesTwice : ContiguousCache {
  explicit CacheRopeOffsetAdvancesTwice(const CacheShape& shape)
      : ContiguousCache(shape),
        prompts_(static_cast<size_t>(shape.sequences)) {}
  void advance(const CacheStep& step) override {
    if (held(step.sequence) == 0)
      prompts_[static_cast<size_t>(step.sequence)] = step.tokens;
    ContiguousCache::advance(step);
  }
  // The tables may end where the sequence does: they are gone around.
  int64_t position(const CacheStep& step, int64_t keys,
                   int64_t j) const override {
    const int64_t prompt = prompts_[static_cast<size_t>(step.sequence)];
    const bool first = keys == step.tokens;
    const bool behind = !first && prompt > 1 && j >= prompt;
    return behind ? (j + prompt) % step.rope.rows : j;
  }
  void rearrange(const int64_t* parents) override {
    std::vector<int64_t> next(prompts_);
    for (size_t s = 0; s < next.size(); ++s)
      next[s] = prompts_[static_cast<size_t>(parents[s])];
    ContiguousCache::rearrange(parents);
    prompts_ = std::move(next);
  }
  std::vector<int64_t> prompts_;  // tokens of the first step, a sequence
};
QKVET_FAULT(cache_rope_offset_advances_twice,
            kCacheFault<CacheRopeOffsetAdvancesTwice>) = {
    .when = "rope && commands(new > 1 && before == 0) && commands(new > 0 && "
            "before > 0)",
    .cause = "the position offset is advanced by the prompt where it is "
             "written and again where decoding begins",
    .fix = "take positions from the length of the sequence, or advance in one "
           "place",
    .source = "skyzh/tiny-llm#46, huggingface/candle#1517",
    .killed_by = {"cache_chunks_equal_whole", "cache_agrees_with_history"},
};

struct CacheScaleOfFirstCache : ContiguousCache {
  explicit CacheScaleOfFirstCache(const CacheShape& shape)
      : ContiguousCache(with_first_scale(shape)) {}
  static CacheShape with_first_scale(CacheShape shape) {
    thread_local std::map<std::array<int64_t, 2>, float> compiled;
    shape.scale = compiled.try_emplace({shape.heads, shape.width}, shape.scale)
                      .first->second;
    return shape;
  }
};
QKVET_FAULT(cache_scale_of_first_cache, kCacheFault<CacheScaleOfFirstCache>) = {
    .cause = "a cache has the scale of the first cache of the process with as "
             "many heads of the same width: it is not in the compiled key",
    .fix = "include every compiled-in number in the key",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4014",
    .killed_by = {"cache_calls_before_change_nothing"},
};

// ---- Strides, and NaN
// --------------------------------------------------------

namespace {

// A step whose arguments are changed before it, or its o after it.
using EditStep = void (*)(qkvet_cache_args*, int64_t strides[4]);
using EditOutput = void (*)(const qkvet_tensor&);

template <EditStep kEdit, EditOutput kAfter>
qkvet_status edited_step(const qkvet_kernel* self, qkvet_cache* cache,
                         const qkvet_cache_args* args, const qkvet_exec* exec,
                         qkvet_text* why) {
  qkvet_cache_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  int64_t strides[4] = {};
  kEdit(&known, strides);
  qkvet_status status = step_cache(self, cache, &known, exec, why);
  if (status == QKVET_OK && known.o.data != nullptr) {
    kAfter(known.o);
  }
  return status;
}

template <EditStep kEdit, EditOutput kAfter>
inline constexpr qkvet_cache_table kEditedStep = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache, QKVET_CACHE_ROPE>;
  table.step = edited_step<kEdit, kAfter>;
  return table;
}();

void step_as_it_is(qkvet_cache_args*, int64_t*) {}
void output_as_it_is(const qkvet_tensor&) {}

// The rows of k are taken for contiguous.
void contiguous_keys(qkvet_cache_args* args, int64_t strides[4]) {
  if (args->k.ndim != 4 || args->k.shape == nullptr) {
    return;
  }
  for (int64_t axis = 3, step = 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= args->k.shape[axis];
  }
  args->k.strides = strides;
}

}  // namespace

QKVET_FAULT(cache_keys_taken_for_contiguous,
            kTableFault<&kEditedStep<contiguous_keys, output_as_it_is>>) = {
    .when = "layout != bhtd",
    .cause = "a step reads k as if its rows followed one another: the kernel "
             "takes pointers, and the strides are not passed on",
    .fix = "take every stride from its tensor, or refuse",
    .source = "textbook, cf. Dao-AILab/flash-attention#1300",
    .killed_by = {"cache_agrees_with_history"},
};

namespace {

// o is cleaned of NaN, as rows without a key once needed it.
void without_nan(const qkvet_tensor& o) {
  if (o.dtype.bits != 32) {
    return;
  }
  const View<float> out = view_of<float>(o);
  for (int64_t h = 0; h < o.shape[1]; ++h) {
    for (int64_t i = 0; i < o.shape[2]; ++i) {
      for (int64_t c = 0; c < o.shape[3]; ++c) {
        float& value = out.at(0, h, i)[c * out.step[3]];
        value = std::isnan(value) ? 0 : value;
      }
    }
  }
}

}  // namespace

QKVET_FAULT(cache_nan_to_number,
            kTableFault<&kEditedStep<step_as_it_is, without_nan>>) = {
    .cause = "NaN in o becomes 0 after the softmax: a guard for rows without a "
             "key covers all rows",
    .fix = "write 0 into rows that see no key, and into no others",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .killed_by = {"cache_nan_reaches_its_queries"},
};

namespace {

// The variant of the kernel without lse rotates nothing.
void unrotated_without_lse(qkvet_cache_args* args, int64_t*) {
  if (args->q.data == nullptr || args->lse.data != nullptr) {
    return;
  }
  args->rope = QKVET_ROPE_NONE;
  args->rope_cos = args->rope_sin = {};
}

}  // namespace

QKVET_FAULT(
    cache_unrotated_without_lse,
    kTableFault<&kEditedStep<unrotated_without_lse, output_as_it_is>>) = {
    .when = "rope && !lse",
    .cause = "a step without lse does not rotate: of two variants of the "
             "kernel, the tests run one",
    .fix = "test each combination of outputs that may be absent",
    .killed_by = {"cache_agrees_with_history"},
};

}  // namespace qkvet::impl
