// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_skeleton.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

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

void write_rows(const Rows& from, int64_t head, int64_t n, int64_t width,
                const Stored& to) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < width; ++c) {
      to.set(0, head, j, c, from.row(j)[c * from.step]);
    }
  }
}

}  // namespace

qkvet_status Cache::step(const qkvet_cache_args& args, qkvet_text* why) {
  CacheStep step;
  const int64_t n = has(args.sequence) ? length(args.sequence) : 0;
  const qkvet_status read =
      has(args.sequence)
          ? read_step(shape_, n, gaps(args.sequence).position(n), args, &step,
                      why)
          : refuse(why, QKVET_INVALID_ARGUMENT, "there is no such sequence");
  if (read != QKVET_OK) {
    return read;
  }
  const int64_t before = held(step.sequence);
  const int64_t first = before + step.tokens - step.queries;
  if (shape_.window > 0 && step.queries > 0 &&
      first < mark(step.sequence) - shape_.rollback - 1) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a query stands where the window has forgotten its keys");
  }
  if (step.tokens > 0) {
    const qkvet_status status = append(step, before, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  if (step.queries > 0) {
    const int64_t keys = attended(step, before + step.tokens);
    const qkvet_status status = attend(step, keys, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  advance(step);
  return QKVET_OK;
}

qkvet_status Cache::append(const CacheStep& step, int64_t before,
                           qkvet_text* why) {
  if (const char* full = reserve(step.sequence, before + step.tokens)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, full);
  }
  write(step, before);
  return QKVET_OK;
}

const char* Cache::keeps_more_than(int64_t sequence, int64_t tokens) const {
  if (tokens < 0 || tokens > length(sequence)) {
    return "truncate keeps between 0 and all of the tokens there are";
  }
  return shape_.window > 0 && tokens < mark(sequence) - shape_.rollback
             ? "truncate takes back more tokens than the window allows"
             : nullptr;
}

void Cache::reorder(const int64_t* parents) {
  std::vector<int64_t> lengths = lengths_, marks = marks_;
  std::vector<Gaps> gaps = gaps_;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const auto parent = static_cast<size_t>(counter(parents[s]));
    lengths[s] = lengths_[parent];
    marks[s] = marks_[parent];
    gaps[s] = gaps_[parent];
  }
  rearrange(parents);
  lengths_.swap(lengths);
  marks_.swap(marks);
  gaps_.swap(gaps);
}

const char* Cache::cannot_evict(int64_t sequence, int64_t first,
                                int64_t tokens) const {
  if (shape_.window > 0) {
    return "a cache with a window evicts by itself";
  }
  return first < 0 || tokens < 1 || first > length(sequence) ||
                 tokens > length(sequence) - first
             ? "evict takes tokens that are there, at least one"
             : nullptr;
}

void Cache::evict(int64_t sequence, int64_t first, int64_t tokens) {
  Gaps gaps = this->gaps(sequence);
  gaps.open(first, tokens);
  remove(sequence, first, tokens);
  gaps_[static_cast<size_t>(counter(sequence))] = std::move(gaps);
  set_held(sequence, held(sequence) - tokens);
}

qkvet_status Cache::read_back(int64_t sequence, const qkvet_tensor& k,
                              const qkvet_tensor& v, qkvet_text* why) const {
  const int64_t n = length(sequence);
  Stored k_out, v_out;
  const qkvet_status status =
      read_rows_out(shape_, n, k, v, &k_out, &v_out, why);
  if (status != QKVET_OK) {
    return status;
  }
  std::vector<float> room(
      static_cast<size_t>(n * std::max(shape_.width, shape_.value_width)));
  for (int64_t head = 0; n > 0 && head < shape_.kv_heads; ++head) {
    const Reading all = {sequence, head, n, {0, n}};
    write_rows(keys(all, room.data()), head, n, shape_.width, k_out);
    write_rows(values(all, room.data()), head, n, shape_.value_width, v_out);
  }
  return QKVET_OK;
}

qkvet_status Cache::attend_rows(const ForwardCall& call,
                                qkvet_text* why) const {
  return compute_rows<PlainRow>(call, why);
}

Sight Cache::sight(int64_t position) const {
  const int64_t end = position + 1;
  const int64_t first = std::min(shape_.first_tokens, end);
  const int64_t begin = std::max(first, end - std::min(shape_.window, end));
  Sight seen;
  if (first > 0 && first < begin) {
    seen.runs[seen.count++] = {0, first};
  }
  seen.runs[seen.count++] = {first < begin ? begin : 0, end};
  return seen;
}

// The queries of one group: each is rotated by its token's position.
void Cache::turn_queries(const CacheStep& step, int64_t keys,
                         const Block& block, float* q) const {
  for (int64_t row = 0; row < shape_.group() * block.queries; ++row) {
    const int64_t i = block.first + row % block.queries;
    const int64_t j = keys - step.queries + i;
    turn_row(step.rope, position(step, keys, j), shape_.width, q);
    q += shape_.width;
  }
}

// `stored` may be in `room` already.
Rows Cache::turned_keys(const CacheStep& step, int64_t keys, const Sight& sight,
                        const Rows& stored, float* room) const {
  copy_rows(stored, sight.keys(), shape_.width, room);
  float* row = room;
  for (int n = 0; n < sight.count; ++n) {
    for (int64_t j = sight.runs[n].begin; j < sight.runs[n].end; ++j) {
      turn_row(step.rope, position(step, keys, j), shape_.width, row);
      row += shape_.width;
    }
  }
  return {room, shape_.width, 1};
}

std::vector<float> Cache::copied(const View<const float>& from, int64_t count) {
  std::vector<float> all;
  for (int64_t h = 0; from.data != nullptr && h < count; ++h) {
    all.push_back(*from.at(h, 0, 0));
  }
  return all;
}

// ALiBi is part of the bias: positions of tokens have gaps. Steps may attend
// over rows past the end, which have neither bias nor mask.
float Cache::bias_of(const CacheStep& step, int64_t keys, int64_t h, int64_t i,
                     int64_t j) const {
  const bool biased = has_bias(step) && j < step.columns;
  const float bias = biased ? step.bias.get(0, h, i, j) : 0;
  if (slopes_.empty()) {
    return bias;
  }
  const int64_t far = apart(step, keys - step.queries + i, j);
  return bias - slopes_[static_cast<size_t>(h)] *
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
  const int64_t first_head = block.head * shape_.group();
  call.options.softcap = shape_.softcap;
  if (has_sink(step)) {
    call.options.sink = {const_cast<float*>(sink_.data()) + first_head,
                         Storage::kF32,
                         {1, 0, 0, 0}};
  }
  const bool biased = !slopes_.empty() || has_bias(step);
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
  const int64_t d = shape_.width, dv = shape_.value_width;
  const int64_t group = shape_.group(), first_head = block.head * group;
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
  call.scale = shape_.scale;
  call.causal = true;
  call.diagonal = diagonal(call.keys, block.queries);
  give_options(step, keys, block, room, call);
  const qkvet_status status = attend_rows(call, why);
  if (status == QKVET_OK) {
    store_outputs(step, first_head, group, block.first, block.queries, dv,
                  room.o);
  }
  return status;
}

int64_t Cache::most_seen(int64_t keys) const {
  return std::min(keys, shape_.reach());
}

qkvet_status Cache::attend(const CacheStep& step, int64_t keys,
                           qkvet_text* why) const {
  const int64_t d = shape_.width, dv = shape_.value_width;
  const bool whole = shape_.window == 0;
  const int64_t seen = most_seen(keys);
  const int64_t queries = whole ? step.queries : 1;
  const int64_t rows = shape_.group() * queries;
  const int64_t pairs = rows * seen;
  const int64_t biases = slopes_.empty() && !has_bias(step) ? 0 : pairs;
  const std::unique_ptr<float[]> memory(
      new (std::nothrow) float[static_cast<size_t>((seen + rows) * (d + dv) +
                                                   biases)]);
  const std::unique_ptr<uint8_t[]> mask(
      step.mask.data == nullptr ? nullptr
                                : new (std::nothrow)
                                      uint8_t[static_cast<size_t>(pairs)]);
  if (memory == nullptr || (mask == nullptr && step.mask.data != nullptr)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to attend");
  }
  Room room = {};
  room.mask = mask.get();
  room.q = memory.get();
  room.o = room.q + rows * d;
  room.keys = room.o + rows * dv;
  room.values = room.keys + seen * d;
  room.bias = room.values + seen * dv;
  for (int64_t head = 0; head < shape_.kv_heads; ++head) {
    for (int64_t first = 0; first < step.queries; first += queries) {
      Block block = {head, first, queries, {{{0, keys}, {}}, 1}};
      if (!whole) {
        block.sight = sight(keys - step.queries + first);
      }
      const qkvet_status status = attend_block(step, keys, block, room, why);
      if (status != QKVET_OK) {
        return status;
      }
    }
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl
