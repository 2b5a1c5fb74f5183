// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_skeleton.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "impl/skeletons/plain_row.h"

namespace qkvet::impl {
namespace {

// Queries [first, first + count) of some heads.
void load_queries(const CacheStep& step, int64_t first_head, int64_t heads,
                  int64_t first, int64_t count, int64_t width, float* q) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = first; i < first + count; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        *q++ = step.q.get(0, first_head + h, i, c);
      }
    }
  }
}

void store_outputs(const CacheStep& step, int64_t first_head, int64_t heads,
                   int64_t first, int64_t count, int64_t width,
                   const float* o) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = first; i < first + count; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        step.o.set(0, first_head + h, i, c, *o++);
      }
    }
  }
}

// Copies n rows to contiguous memory, unless they are there already.
void copy_rows(const Rows& from, int64_t n, int64_t width, float* to) {
  if (from.data == to) {
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < width; ++c) {
      to[j * width + c] = from.row(j)[c * from.step];
    }
  }
}

// The rows of a sight, contiguous; `read` returns those of a run.
template <class Read>
Rows gathered(const Sight& sight, int64_t width, float* room, Read read) {
  if (sight.count == 1) {
    return read(sight.runs[0], room);
  }
  const int64_t first = sight.runs[0].count();
  copy_rows(read(sight.runs[0], room), first, width, room);
  float* const rest = room + first * width;
  copy_rows(read(sight.runs[1], rest), sight.runs[1].count(), width, rest);
  return {room, width, 1};
}

}  // namespace

qkvet_status Cache::append(const CacheStep& step, int64_t before,
                           qkvet_text* why) {
  if (const char* full = reserve(step.sequence, before + step.tokens)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, full);
  }
  write(step, before);
  return QKVET_OK;
}

qkvet_status Cache::attend_rows(const ForwardCall& call,
                                qkvet_text* why) const {
  return compute_rows<PlainRow>(call, why);
}

// The queries of one group: each is rotated by its token's position.
void Cache::turn_queries(const CacheStep& step, int64_t keys,
                         const Block& block, float* q) const {
  for (int64_t row = 0; row < shape().group() * block.queries; ++row) {
    const int64_t i = block.first + row % block.queries;
    const int64_t j = keys - step.queries + i;
    turn_row(step.rope, position(step, keys, j), shape().width, q);
    q += shape().width;
  }
}

// `stored` may be in `room` already.
Rows Cache::turned_keys(const CacheStep& step, int64_t keys, const Sight& sight,
                        const Rows& stored, float* room) const {
  copy_rows(stored, sight.keys(), shape().width, room);
  float* row = room;
  for (const Run& run : sight) {
    for (int64_t j = run.begin; j < run.end; ++j) {
      turn_row(step.rope, position(step, keys, j), shape().width, row);
      row += shape().width;
    }
  }
  return {room, shape().width, 1};
}

// ALiBi is part of the bias: positions of tokens have gaps. Steps may attend
// over rows past the end, which have neither bias nor mask.
float Cache::bias_of(const CacheStep& step, int64_t keys, int64_t h, int64_t i,
                     int64_t j) const {
  const bool biased = has_bias(step) && j < step.columns;
  const float bias = biased ? step.bias.get(0, h, i, j) : 0;
  if (slopes().empty()) {
    return bias;
  }
  const int64_t far = apart(step, keys - step.queries + i, j);
  return bias - slopes()[static_cast<size_t>(h)] *
                    static_cast<float>(far < 0 ? -far : far);
}

bool Cache::shows(const CacheStep& step, int64_t keys, int64_t h, int64_t i,
                  int64_t j) const {
  const int64_t column = mask_column(step, keys, j);
  return column < 0 || column >= step.columns ||
         step.mask.at(0, h, i)[column * step.mask.step[3]] != 0;
}

// Sets the options of a block in `call`; its pairs are contiguous.
void Cache::give_options(const CacheStep& step, int64_t keys,
                         const Block& block, const Room& room,
                         ForwardCall& call) const {
  const int64_t first_head = block.head * shape().group();
  call.options.softcap = shape().softcap;
  if (has_sink(step)) {
    call.options.sink = {const_cast<float*>(sinks().data()) + first_head,
                         Storage::kF32,
                         {1, 0, 0, 0}};
  }
  const bool biased = !slopes().empty() || has_bias(step);
  const bool masked = step.mask.data != nullptr;
  int64_t pair = 0;
  for (int64_t h = first_head; h < first_head + call.heads; ++h) {
    for (int64_t i = block.first; i < block.first + block.queries; ++i) {
      for (int n = 0; (biased || masked) && n < block.sight.count; ++n) {
        const Run& run = block.sight.runs[n];
        for (int64_t j = run.begin; j < run.end; ++j, ++pair) {
          if (biased) {
            room.bias[pair] = bias_of(step, keys, h, i, j);
          }
          if (masked) {
            room.mask[pair] = shows(step, keys, h, i, j) ? 1 : 0;
          }
        }
      }
    }
  }
  const int64_t head = call.queries * call.keys;
  if (biased) {
    call.options.bias = {room.bias, Storage::kF32, {0, head, call.keys, 1}};
  }
  if (masked) {
    call.options.mask = {room.mask, {0, head, call.keys, 1}};
  }
}

qkvet_status Cache::attend_block(const CacheStep& step, int64_t keys,
                                 const Block& block, const Room& room,
                                 qkvet_text* why) const {
  const int64_t d = shape().width, dv = shape().value_width;
  const int64_t group = shape().group(), first_head = block.head * group;
  load_queries(step, first_head, group, block.first, block.queries, d, room.q);
  const auto reading = [&](const Run& run) {
    return Reading{step.sequence, block.head, keys, run};
  };
  Rows k = gathered(block.sight, d, room.keys, [&](const Run& run, float* to) {
    return this->keys(reading(run), to);
  });
  if (step.rope.present()) {
    turn_queries(step, keys, block, room.q);
    k = stores_turned() ? k
                        : turned_keys(step, keys, block.sight, k, room.keys);
  }
  const Rows v = gathered(
      block.sight, dv, room.values,
      [&](const Run& run, float* to) { return values(reading(run), to); });
  ForwardCall call;
  call.batch = call.kv_heads = 1;
  call.heads = group;
  call.queries = block.queries;
  call.keys = block.sight.keys();
  call.width = d;
  call.value_width = dv;
  call.q = {room.q, {0, block.queries * d, d, 1}};
  call.k = {k.data, {0, 0, k.row_step, k.step}};
  call.v = {v.data, {0, 0, v.row_step, v.step}};
  call.o = {room.o, {0, block.queries * dv, dv, 1}};
  if (step.lse.data != nullptr) {
    call.lse = step.lse;
    call.lse.data = step.lse.at(0, first_head, block.first);
  }
  call.scale = shape().scale;
  call.causal = true;
  call.diagonal = diagonal(call.keys, block.queries);
  give_options(step, keys, block, room, call);
  QKVET_TRY(attend_rows(call, why));
  store_outputs(step, first_head, group, block.first, block.queries, dv,
                room.o);
  return QKVET_OK;
}

int64_t Cache::most_seen(int64_t keys) const {
  return std::min(keys, shape().reach());
}

qkvet_status Cache::attend(const CacheStep& step, int64_t held,
                           qkvet_text* why) const {
  const int64_t keys = attended(step, held);
  const int64_t d = shape().width, dv = shape().value_width;
  const bool whole = shape().window == 0;
  const int64_t seen = most_seen(keys);
  const int64_t queries = whole ? step.queries : 1;
  const int64_t rows = shape().group() * queries;
  const int64_t pairs = rows * seen;
  const int64_t biases = slopes().empty() && !has_bias(step) ? 0 : pairs;
  std::unique_ptr<float[]> memory;
  std::unique_ptr<uint8_t[]> mask;
  QKVET_TRY(allocate((seen + rows) * (d + dv) + biases, &memory, why,
                     "no memory to attend"));
  if (step.mask.data != nullptr) {
    QKVET_TRY(allocate(pairs, &mask, why, "no memory to attend"));
  }
  Room room = {};
  room.mask = mask.get();
  room.q = memory.get();
  room.o = room.q + rows * d;
  room.keys = room.o + rows * dv;
  room.values = room.keys + seen * d;
  room.bias = room.values + seen * dv;
  for (int64_t head = 0; head < shape().kv_heads; ++head) {
    for (int64_t first = 0; first < step.queries; first += queries) {
      Block block = {head, first, queries, {{{0, keys}, {}}, 1}};
      if (!whole) {
        block.sight = sight(keys - step.queries + first);
      }
      QKVET_TRY(attend_block(step, keys, block, room, why));
    }
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl
