// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_book.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace qkvet::impl {
namespace {

void write_rows(const Rows& from, int64_t head, int64_t n, int64_t width,
                const Stored& to) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < width; ++c) {
      to.set(0, head, j, c, from.row(j)[c * from.step]);
    }
  }
}

}  // namespace

qkvet_status CacheBook::step(const qkvet_cache_args& args, qkvet_text* why) {
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
    QKVET_TRY(append(step, before, why));
  }
  if (step.queries > 0) {
    QKVET_TRY(attend(step, before + step.tokens, why));
  }
  advance(step);
  return QKVET_OK;
}

const char* CacheBook::keeps_more_than(int64_t sequence, int64_t tokens) const {
  if (tokens < 0 || tokens > length(sequence)) {
    return "truncate keeps between 0 and all of the tokens there are";
  }
  return shape_.window > 0 && tokens < mark(sequence) - shape_.rollback
             ? "truncate takes back more tokens than the window allows"
             : nullptr;
}

void CacheBook::reorder(const int64_t* parents) {
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

const char* CacheBook::cannot_evict(int64_t sequence, int64_t first,
                                    int64_t tokens) const {
  if (shape_.window > 0) {
    return "a cache with a window evicts by itself";
  }
  return first < 0 || tokens < 1 || first > length(sequence) ||
                 tokens > length(sequence) - first
             ? "evict takes tokens that are there, at least one"
             : nullptr;
}

void CacheBook::evict(int64_t sequence, int64_t first, int64_t tokens) {
  Gaps gaps = this->gaps(sequence);
  gaps.open(first, tokens);
  remove(sequence, first, tokens);
  gaps_[static_cast<size_t>(counter(sequence))] = std::move(gaps);
  set_held(sequence, held(sequence) - tokens);
}

qkvet_status CacheBook::read_back(int64_t sequence, const qkvet_tensor& k,
                                  const qkvet_tensor& v,
                                  qkvet_text* why) const {
  const int64_t n = length(sequence);
  Stored k_out, v_out;
  QKVET_TRY(read_rows_out(shape_, n, k, v, &k_out, &v_out, why));
  std::vector<float> room(
      static_cast<size_t>(n * std::max(shape_.width, shape_.value_width)));
  for (int64_t head = 0; n > 0 && head < shape_.kv_heads; ++head) {
    const Reading all = {sequence, head, n, {0, n}};
    write_rows(keys(all, room.data()), head, n, shape_.width, k_out);
    write_rows(values(all, room.data()), head, n, shape_.value_width, v_out);
  }
  return QKVET_OK;
}

std::vector<float> CacheBook::copied(const View<const float>& from,
                                     int64_t count) {
  std::vector<float> all;
  for (int64_t h = 0; from.data != nullptr && h < count; ++h) {
    all.push_back(*from.at(h, 0, 0));
  }
  return all;
}

Sight CacheBook::sight(int64_t position) const {
  const int64_t end = position + 1;
  if (shape_.window == 0) {
    return {{{0, end}, {}}, 1};
  }
  const int64_t first = std::min(shape_.first_tokens, end);
  const int64_t begin = std::max(first, end - std::min(shape_.window, end));
  Sight seen;
  if (first > 0 && first < begin) {
    seen.runs[seen.count++] = {0, first};
  }
  seen.runs[seen.count++] = {first < begin ? begin : 0, end};
  return seen;
}

}  // namespace qkvet::impl
