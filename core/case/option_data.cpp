// SPDX-License-Identifier: Apache-2.0
#include "core/case/option_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "core/base/half.h"
#include "core/base/philox.h"
#include "core/call/layout.h"
#include "core/case/key_lists.h"
#include "core/case/layer_storage.h"
#include "core/case/mask_fields.h"
#include "core/case/merge.h"
#include "core/case/paging.h"

namespace qkvet {
namespace {

// `percent` in a hundred, decided by the upper 32 bits.
bool chance(uint64_t bits, int64_t percent) {
  return ((bits >> 32) * 100) >> 32 < static_cast<uint64_t>(percent);
}

// Whether a document, or a range, begins at the token: one in N does.
bool begins(const Case& c, int64_t b, int64_t token) {
  const int64_t n = c.mask.parameter;
  return token == 0 ||
         (n > 0 && below(random_bits(c.seed, TensorName::kMask, b, 0, 0, token),
                         n) == 0);
}

// Whether the range that begins at the token is seen both ways: every other.
bool is_both_ways(const Case& c, int64_t b, int64_t token) {
  return chance(random_bits(c.seed, TensorName::kMask, b, 0, 1, token), 50);
}

int64_t drawn_parent(const Case& c, int64_t b, int64_t n) {
  const int64_t children = c.mask.parameter;
  if (children > 0) return n == 0 ? -1 : (n - 1) / children;
  return below(random_bits(c.seed, TensorName::kMask, b, 0, 0, n), n + 1) - 1;
}

std::vector<TokenRange> ranges_of(const Case& c, int64_t b) {
  std::vector<TokenRange> ranges(static_cast<size_t>(c.shape.Tk));
  for (int64_t from = 0; from < c.shape.Tk;) {
    int64_t end = from + 1;
    while (end < c.shape.Tk && !begins(c, b, end)) ++end;
    const TokenRange range = {from, end, is_both_ways(c, b, from)};
    for (; from < end; ++from) ranges[static_cast<size_t>(from)] = range;
  }
  return ranges;
}

// The structure of a member's text, for masks that follow it.
class MaskedText {
 public:
  MaskedText(const Case& value, int64_t b)
      : c_(value), history_(value.shape.Tk - value.shape.Tq) {
    if (kind() == MaskKind::kDocsN || kind() == MaskKind::kRangesN)
      ranges_ = ranges_of(value, b);
    if (kind() != MaskKind::kTreeN) return;
    for (int64_t n = 0; n < value.shape.Tq; ++n)
      parents_.push_back(drawn_parent(value, b, n));
  }

  // Rows before the first token see only a prefix.
  bool attends(int64_t i, int64_t j) const {
    const int64_t n = c_.mask.parameter;
    const int64_t token = i + history_;
    const bool is_ahead = j > token;
    if (kind() == MaskKind::kPrefixN) return j < n || !is_ahead;
    if (token < 0) return false;
    if (kind() == MaskKind::kChunkN) return n == 0 || j / n == token / n;
    if (kind() == MaskKind::kTreeN)
      return j < history_ || (!is_ahead && is_on_branch(j - history_, i));
    const bool is_range = kind() == MaskKind::kRangesN;
    if (is_range && !is_ahead) return true;
    const TokenRange& range = ranges_[static_cast<size_t>(token)];
    return range.from <= j && j < range.end && (range.both_ways || !is_range);
  }

 private:
  MaskKind kind() const { return c_.mask.kind; }
  bool is_on_branch(int64_t draft, int64_t of) const {
    if (c_.mask.parameter == 1) return draft <= of;
    while (of > draft) of = parents_[static_cast<size_t>(of)];
    return of == draft;
  }

  const Case& c_;
  int64_t history_;
  std::vector<TokenRange> ranges_;  // [Tk]
  std::vector<int64_t> parents_;    // [Tq]
};

// Whether the pair attends; an index that is broadcast is 0. Extents of 0 have
// no pairs.
bool attends(const Case& c, const MaskedText& text, int64_t b, int64_t h,
             int64_t i, int64_t j) {
  const int64_t n = c.mask.parameter;
  const int64_t row = n % std::max<int64_t>(c.shape.Tq, 1);
  const int64_t key = n % std::max<int64_t>(c.shape.Tk, 1);
  switch (c.mask.kind) {
    case MaskKind::kRandomN:
      return chance(random_bits(c.seed, TensorName::kMask, b, h, i, j), n);
    case MaskKind::kBandN:
      return std::abs(i - j) <= n;
    case MaskKind::kOnlyN:
      return j == key;
    case MaskKind::kButN:
      return j != key;
    case MaskKind::kEmptyRowN:
      return i != row;
    case MaskKind::kPaddingN:
      return j < c.shape.Tk - n;
    case MaskKind::kPrefixN:
    case MaskKind::kRangesN:
    case MaskKind::kDocsN:
    case MaskKind::kChunkN:
    case MaskKind::kTreeN:
      return text.attends(i, j);
    case MaskKind::kNone:
    case MaskKind::kFile:
      break;
  }
  return true;
}

// Calls visit(b, h, i, j) for all indices, in row-major order.
template <class Visit>
void for_each_index(const std::array<int64_t, 4>& extents, Visit visit) {
  for (int64_t b = 0; b < extents[0]; ++b)
    for (int64_t h = 0; h < extents[1]; ++h)
      for (int64_t i = 0; i < extents[2]; ++i)
        for (int64_t j = 0; j < extents[3]; ++j) visit(b, h, i, j);
}

template <class Value>
std::vector<Value> expanded(const Case& c, TensorName tensor, uint8_t own,
                            const std::vector<Value>& values) {
  const Shape& s = c.shape;
  const auto extents = tensor_extents(c, tensor);
  std::vector<Value> all;
  all.reserve(static_cast<size_t>(s.weights_elements()));
  for_each_index({s.B, s.H, s.Tq, s.Tk},
                 [&](int64_t b, int64_t h, int64_t i, int64_t j) {
                   const int64_t index[] = {b, h, i, j};
                   int64_t at = 0;
                   for (size_t n = 0; n < 4; ++n) {
                     const bool is_own = (own >> n & 1) != 0;
                     at = at * extents[n] + (is_own ? index[n] : 0);
                   }
                   all.push_back(values[static_cast<size_t>(at)]);
                 });
  return all;
}

void fill_mask(const Case& c, std::vector<uint8_t>& out) {
  const auto e = tensor_extents(c, TensorName::kMask);
  for (int64_t member = 0; member < e[0]; ++member) {
    const MaskedText text(c, member);
    for_each_index({1, e[1], e[2], e[3]},
                   [&](int64_t, int64_t h, int64_t i, int64_t j) {
                     out.push_back(attends(c, text, member, h, i, j) ? 1 : 0);
                   });
  }
}

// Some recipes go beyond the largest number of a type.
void keep_finite(const Case& c, std::vector<double>& bias) {
  if (!is_of_bias_alone(c.score_bias->kind)) return;
  const double largest = largest_finite(c.q_dtype);
  for (double& x : bias) x = std::clamp(x, -largest, largest);
}

void fill_bias(const Case& c, std::vector<double>& out) {
  const auto e = tensor_extents(c, TensorName::kBias);
  out.resize(static_cast<size_t>(e[0] * e[1] * e[2] * e[3]));
  double* at = out.data();
  for_each_index({e[0], e[1], e[2], e[3] > 0 ? 1 : 0},
                 [&](int64_t b, int64_t h, int64_t i, int64_t) {
                   recipe_row(*c.score_bias, c.seed, TensorName::kBias, b, h, i,
                              {at, static_cast<size_t>(e[3])});
                   at += e[3];
                 });
  keep_finite(c, out);
}

// Positions that a sequence of the story has, those of `keys` at least. Not by
// the number of its tokens, which laws change.
int64_t positions_of(const Case& story, std::span<const int64_t> keys) {
  const int64_t room = story.capacity + story_evictions(story.story);
  return std::max(room, keys.empty() ? 0 : keys.back() + 1);
}

// Calls visit(h, i, j) for heads, positions of queries and positions of keys,
// row by row; what is not its own has the index 0.
template <class Visit>
void for_each_place(const Case& c, uint8_t own,
                    std::span<const int64_t> queries,
                    std::span<const int64_t> keys, Visit visit) {
  constexpr std::array<int64_t, 1> kFirst = {0};
  const int64_t heads = (own & kOwnH) != 0 ? c.shape.H : 1;
  const auto rows = (own & kOwnQ) != 0 ? queries : std::span(kFirst);
  const auto columns = (own & kOwnK) != 0 ? keys : std::span(kFirst);
  for (int64_t h = 0; h < heads; ++h)
    for (const int64_t i : rows)
      for (const int64_t j : columns) visit(h, i, j);
}

// The first member has those that all have where they have the same.
void fill_slopes(const Case& c, std::vector<double>& out) {
  const auto extents = tensor_extents(c, TensorName::kSlopes);
  const auto heads = static_cast<size_t>(extents[1]);
  out.resize(static_cast<size_t>(extents[0]) * heads);
  for (int64_t b = 0; b < extents[0]; ++b)
    recipe_row(*c.slopes, c.seed, TensorName::kSlopes, b, 0, 0,
               std::span(out).subspan(static_cast<size_t>(b) * heads, heads));
}

// [B,heads,rows,width]; the first row of head h of member b.
double* row_at(std::vector<double>& values, int64_t heads, int64_t rows,
               int64_t width, int64_t b, int64_t h, int64_t row) {
  return values.data() + ((b * heads + h) * rows + row) * width;
}

void share(const Case& c, int64_t width, std::vector<double>& values) {
  const Shape& s = c.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.Hkv; ++h) {
      const double* from =
          row_at(values, s.Hkv, s.Tk, width, (c.share & kShareB) != 0 ? 0 : b,
                 (c.share & kShareH) != 0 ? 0 : h, 0);
      double* to = row_at(values, s.Hkv, s.Tk, width, b, h, 0);
      if (from != to) std::copy_n(from, s.Tk * width, to);
    }
}

// Calls visit(tensor, t, row, width) for each row that does not count.
template <class Visit, class Counted>
void visit_rows(const Case& c, TensorName tensor, std::vector<double>& values,
                Counted counted, Visit visit) {
  const auto [members, heads, rows, width] = tensor_extents(c.shape, tensor);
  for (int64_t b = 0; b < members; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = counted(b); t < rows; ++t)
        visit(tensor, t, row_at(values, heads, rows, width, b, h, t), width);
}

template <class Visit>
void visit_rows_beyond(const Case& c, Inputs& inputs, Visit visit) {
  const auto queries = [&](int64_t b) { return counted_queries(c, b); };
  if (!c.q_len.empty() || !c.cu_q.empty()) {
    visit_rows(c, TensorName::kQ, inputs.q, queries, visit);
    if (c.backward) visit_rows(c, TensorName::kDO, inputs.d_o, queries, visit);
  }
  if (c.kv_len.empty() && c.cu_k.empty()) return;
  // A row that all members share counts as long as one of them needs it.
  int64_t longest = 0;
  for (int64_t b = 0; b < c.shape.B; ++b)
    longest = std::max(longest, counted_keys(c, b));
  const auto keys = [&](int64_t b) {
    return (c.share & kShareB) != 0 ? longest : counted_keys(c, b);
  };
  visit_rows(c, TensorName::kK, inputs.k, keys, visit);
  visit_rows(c, TensorName::kV, inputs.v, keys, visit);
}

// An input without elements is still present: its pointer is not null.
const std::byte* given(std::span<const std::byte> bytes) {
  static constexpr std::byte kNothing{};
  return bytes.empty() ? &kNothing : bytes.data();
}

const std::byte* given_or_null(std::span<const std::byte> bytes) {
  return bytes.empty() ? nullptr : bytes.data();
}

// Adds the tensors of the case, from the first to the last.
void give(const Case& c, const Inputs& inputs, TensorName first,
          TensorName last, KernelCall& call) {
  for (auto t = static_cast<int>(first); t <= static_cast<int>(last); ++t)
    if (const auto name = static_cast<TensorName>(t); has_tensor(c, name))
      call.*input_member(name) = given(inputs.bytes(name));
}

// A layer has one row of positions for both; a step has none.
void fill_rope_options(const Case& c, const Inputs& inputs, KernelCall& call) {
  if (!takes_options(call.operation) && !is_layer(call.operation) &&
      call.operation != Operation::kCacheStep)
    return;
  call.rope = c.rope.style;
  call.rope_channels = rope_channels(c);
  call.rope_rows = static_cast<int64_t>(inputs.rope_cos.size()) /
                   std::max<int64_t>(call.rope_channels / 2, 1);
  call.rope_cos = given(inputs.rope_cos_bytes);
  call.rope_sin = given(inputs.rope_sin_bytes);
  if (call.operation == Operation::kCacheStep) return;
  call.q_positions = given(inputs.q_positions_bytes);
  if (takes_options(call.operation))
    call.k_positions = given(inputs.k_positions_bytes);
}

void fill_served_options(const Case& c, const Inputs& inputs,
                         KernelCall& call) {
  call.k = given(inputs.k_cache_bytes);
  call.v = given(inputs.v_cache_bytes);
  call.cu_k = nullptr;  // replaced by the other lengths of members
  call.page_size = c.paging.size;
  call.channel_group = channel_group_of(c);
  call.pages = inputs.pages;
  call.table_columns = inputs.table_columns;
  if (c.paging.table == PageTable::kCsr) {
    // A table beside it is a mistake that a law makes.
    call.kv_len = given_or_null(inputs.kv_len_bytes);
    call.block_table = given_or_null(inputs.block_table_bytes);
    call.page_entries = inputs.page_entries;
    call.page_indptr = given(inputs.page_indptr_bytes);
    call.page_indices = given(inputs.page_indices_bytes);
    call.last_page_len = given(inputs.last_page_len_bytes);
  } else {
    call.kv_len = given(inputs.kv_len_bytes);
    if (c.paging.size > 0) call.block_table = given(inputs.block_table_bytes);
  }
  call.new_tokens = inputs.new_tokens;
  if (call.new_tokens == 0) return;
  call.k_new = given(inputs.k_new_bytes);
  call.v_new = given(inputs.v_new_bytes);
}

}  // namespace

TokenRange range_of_token(const Case& c, int64_t b, int64_t token) {
  return ranges_of(c, b)[static_cast<size_t>(token)];
}

int64_t parent_of_draft(const Case& c, int64_t b, int64_t n) {
  return drawn_parent(c, b, n);
}

void fill_step_options(const Case& story, std::span<const int64_t> queries,
                       std::span<const int64_t> keys, Inputs& inputs) {
  Case places = story;
  places.shape.Tq = places.shape.Tk = positions_of(story, keys);
  if (story.mask.kind != MaskKind::kNone) {
    const MaskedText text(places, 0);
    for_each_place(places, story.mask.own, queries, keys,
                   [&](int64_t h, int64_t i, int64_t j) {
                     inputs.mask.push_back(attends(places, text, 0, h, i, j));
                   });
  }
  if (!story.score_bias) return;
  for_each_place(
      places, story.score_bias_own, queries, keys,
      [&](int64_t h, int64_t i, int64_t j) {
        inputs.bias.push_back(recipe_value(*story.score_bias, story.seed,
                                           TensorName::kBias, 0, h, i, j));
      });
  keep_finite(story, inputs.bias);
}

void fill_hidden_keys(const Case& c, Inputs& inputs) {
  const bool story = c.subject() == Subject::kCache;  // each step has its own
  if (c.mask.kind != MaskKind::kNone && !story) fill_mask(c, inputs.mask);
  fill_key_lists(c, inputs);
  fill_mask_fields(c, inputs);
}

void fill_option_data(const Case& c, Inputs& inputs) {
  fill_hidden_keys(c, inputs);
  if (c.score_bias && c.subject() != Subject::kCache) fill_bias(c, inputs.bias);
  if (c.sink) {
    inputs.sink.resize(static_cast<size_t>(c.shape.H));
    recipe_row(*c.sink, c.seed, TensorName::kSink, 0, 0, 0, inputs.sink);
  }
  if (c.slopes) fill_slopes(c, inputs.slopes);
}

void share_and_poison(const Case& c, Inputs& inputs) {
  const Shape& s = c.shape;
  if (c.share != 0) {
    share(c, s.d, inputs.k);
    share(c, s.dv, inputs.v);
  }
  visit_rows_beyond(
      c, inputs, [](TensorName, int64_t, double* row, int64_t width) {
        std::fill_n(row, width, std::numeric_limits<double>::quiet_NaN());
      });
}

// The same for all members and heads, as k and v may be shared.
bool put_numbers_beyond_lengths(const Case& c, Inputs& inputs) {
  bool any = false;
  std::vector<double> numbers;
  visit_rows_beyond(
      c, inputs, [&](TensorName tensor, int64_t t, double* row, int64_t width) {
        numbers.resize(static_cast<size_t>(width));
        recipe_row({}, ~c.seed, tensor, 0, 0, t, numbers);
        for (int64_t n = 0; n < width; ++n)
          if (std::isnan(row[n])) row[n] = numbers[static_cast<size_t>(n)];
        any = true;
      });
  return any;
}

std::vector<uint8_t> full_mask(const Case& c, const Inputs& inputs) {
  if (c.mask.kind == MaskKind::kNone) return {};
  return expanded(c, TensorName::kMask, c.mask.own, inputs.mask);
}

std::vector<double> full_bias(const Case& c, const Inputs& inputs) {
  if (!c.score_bias) return {};
  return expanded(c, TensorName::kBias, c.score_bias_own, inputs.bias);
}

namespace {

void fill_options(const Case& c, const Inputs& inputs, KernelCall& call) {
  if (c.rope.style != RopeStyle::kNone) fill_rope_options(c, inputs, call);
  if (call.operation == Operation::kLayerBackward)
    call.d_y = given(inputs.d_y_bytes);
  if (call.operation == Operation::kLayer) fill_layer_storage(c, inputs, call);
  if (call.operation == Operation::kMerge)
    fill_merge_call(c, inputs, /*in_place=*/false, call);
  if (!takes_options(call.operation)) {
    // Layers and steps have a layout; a merge has a layout of its own.
    if (call.operation != Operation::kMerge) call.layout = c.layout;
    return;
  }
  if (call.operation == Operation::kBackward)
    for (const TensorName name :
         {TensorName::kDO, TensorName::kGivenO, TensorName::kGivenLse})
      call.*input_member(name) = given(inputs.bytes(name));
  call.mask_own = c.mask.own;
  call.bias_own = c.score_bias_own;
  // Laws make calls of other extents out of a case.
  const bool fits = fit_one_block(c.shape, c.q_dtype, c.kv_dtype);
  call.layout = c.layout == Layout::kPacked && !fits ? Layout::kBthd : c.layout;
  call.share = c.share;
  call.values_in_keys = c.values_in_keys;
  call.members = c.cu_q.empty() ? 0 : static_cast<int64_t>(c.cu_q.size()) - 1;
  give(c, inputs, TensorName::kMask, TensorName::kSlopes, call);
  give(c, inputs, TensorName::kKeyIndices,
       static_cast<TensorName>(kInputCount - 1), call);
  call.member_slopes = c.member_slopes;
  call.int32_lengths = c.int32_lengths;
  call.q_len = given_or_null(inputs.q_len_bytes);
  call.kv_len = given_or_null(inputs.kv_len_bytes);
  call.cu_q = given_or_null(inputs.cu_q_bytes);
  call.cu_k = given_or_null(inputs.cu_k_bytes);
  if (is_served(c)) fill_served_options(c, inputs, call);
  call.listed = c.listed;
  call.fields = c.fields;
  if (c.dropout) call.dropout = Dropout{*c.dropout, c.seed, 0};
}

}  // namespace

KernelCall call_of(const Case& c, const Inputs& inputs, Operation operation) {
  KernelCall call;
  static_cast<ScoreRule&>(call) = c;
  call.operation = operation;
  call.shape = c.shape;
  call.q_dtype = c.q_dtype;
  call.kv_dtype = c.kv_dtype;
  call.o_dtype = c.o_dtype;
  for (auto t = static_cast<int>(TensorName::kQ);
       t <= static_cast<int>(TensorName::kBo); ++t) {
    const auto name = static_cast<TensorName>(t);
    call.*input_member(name) = given_or_null(inputs.bytes(name));
  }
  call.unbatched = c.unbatched;
  fill_options(c, inputs, call);
  return call;
}

}  // namespace qkvet
