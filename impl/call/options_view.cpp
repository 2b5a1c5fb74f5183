// SPDX-License-Identifier: Apache-2.0
#include "impl/call/options_view.h"

#include <algorithm>
#include <limits>

#include "impl/call/call_rows.h"

namespace qkvet::impl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void fill_integers(const qkvet_tensor& t, FieldMasks::Integers* to) {
  if (t.dtype.bits == 32) {
    fill(t, &to->narrow);
  } else {
    fill(t, &to->wide);
  }
}

}  // namespace

bool FieldMasks::share_range(int64_t of, int64_t position, int64_t key) const {
  for (int64_t r = 0; r < ranges; ++r) {
    const int64_t begin = full_ranges.get(of, r, 0);
    const int64_t end = full_ranges.get(of, r, 1);
    if (begin <= position && position < end && begin <= key && key < end) {
      return true;
    }
  }
  return false;
}

bool FieldMasks::in_range(int64_t of, int64_t position, int64_t key) const {
  if (ranges == 0) {
    return true;
  }
  const bool near = in_window_of(position, key);
  if (in_past(position, key) && near) {
    return true;
  }
  return (near || !in_window) && share_range(of, position, key);
}

bool KeyLists::has(int64_t in_b, int64_t in_h, int64_t in_i,
                   int64_t in_j) const {
  const int64_t all = count(in_b, in_i);
  const int64_t wanted = (j + in_j) / block;
  for (int64_t n = 0; n < all; ++n) {
    if (entry(in_b, in_h, in_i, n) == wanted) {
      return true;
    }
  }
  return false;
}

bool Options::shows(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (mask.data != nullptr && mask.at(b, h, i)[j * mask.step[3]] == 0) {
    return false;
  }
  return !bias.present() || bias.get(b, h, i, j) != -kInfinity;
}

float Options::sink_of(int64_t h) const {
  return sink.present() ? sink.get(h) : -kInfinity;
}

Options Options::from(int64_t b, int64_t h, int64_t i, int64_t j) const {
  Options result = *this;
  if (mask.data != nullptr) {
    result.mask.data = mask.at(b, h, i) + j * mask.step[3];
  }
  result.bias = bias.from(b, h, i, j);
  result.sink = sink.from(h, 0, 0, 0);
  result.slopes = slopes.from(b, h, 0, 0);
  result.q_len = result.kv_len = result.cu_q = result.cu_k = {};
  result.members = 0;
  result.rope = rope.from(b, i, j);
  result.lists = lists.from(b, h, i, j);
  result.fields = fields.from(b, i, j);
  result.dropout = dropout.from(b, h, i, j);
  return result;
}

const char* unknown_field(const qkvet_forward_args& a, uint64_t declared) {
#define QKVET_FORWARD_TENSOR(field, tensor, options)                          \
  if ((options) != 0 && (declared & (options)) == 0 && !is_absent(a.field)) { \
    return #field " is not supported";                                        \
  }
#include "qkvet/tensors.def"
  const bool packed = !is_absent(a.cu_seqlens_q), paged = a.page_size != 0;
  const struct {
    bool set;
    uint64_t option;
    const char* name;
  } numbers[] = {
      {a.has_window != 0, QKVET_OPTION_WINDOW, "windows are not supported"},
      {a.slopes.ndim == 2, QKVET_OPTION_ALIBI_PER_MEMBER,
       "slopes of each sequence are not supported"},
      {a.rope != QKVET_ROPE_NONE, QKVET_OPTION_ROPE, "rope is not supported"},
      {turns_a_part(a.rope_cos, a.q), QKVET_OPTION_ROPE_PART,
       "rope over some channels is not supported"},
      {!(a.dropout_p == 0), QKVET_OPTION_DROPOUT, "dropout is not supported"},
      {a.key_block_size != 0, QKVET_OPTION_KEY_LIST_BLOCKS,
       "key_block_size is not supported"},
#define QKVET_FORWARD_NUMBER(field, option) \
  {a.field != 0, option, #field " is not supported"},
#include "qkvet/tensors.def"
      {paged, QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR,
       "page_size is not supported"},
      {packed && paged, QKVET_OPTION_PACKED_PAGES,
       "cu_seqlens_q with pages is not supported"},
      {packed && !paged, QKVET_OPTION_PACKED,
       "cu_seqlens_q without pages is not supported"}};
  for (const auto& number : numbers) {
    if (number.set && (declared & number.option) == 0) {
      return number.name;
    }
  }
  return nullptr;
}

void fill_options(const qkvet_forward_args& a, const Check& e,
                  Options* options) {
  if (a.has_window != 0) {
    // No key is further away than this, and sums stay far from overflow.
    const int64_t all = e["Tq"] + e["Tk"];
    options->window_left = std::min(a.window_left, all);
    options->window_right = std::min(a.window_right, all);
  }
  fill(a.mask, &options->mask);
  fill(a.bias, &options->bias);
  options->softcap = a.softcap;
  fill(a.sink, &options->sink);
  fill(a.slopes, &options->slopes);
  if (a.slopes.ndim == 1) {
    options->slopes.step[1] = options->slopes.step[0];
    options->slopes.step[0] = 0;
  }
  fill(a.q_len, &options->q_len);
  fill(a.kv_len, &options->kv_len);
  fill(a.cu_seqlens_q, &options->cu_q);
  fill(a.cu_seqlens_k, &options->cu_k);
  options->members = is_absent(a.cu_seqlens_q) ? 0 : e["sequences"];
  fill_rope(a.rope, a.rope_cos, a.rope_sin, &options->rope);
  fill(a.q_positions, &options->rope.q);
  fill(a.k_positions, &options->rope.k);
  KeyLists* const lists = &options->lists;
  fill(a.key_indices, &lists->keys);
  if (lists->present()) {
    fill(a.topk_length, &lists->counts);
    lists->entries = e["n"];
    lists->group = e["H"] / a.key_indices.shape[1];
    lists->block = std::max<int64_t>(a.key_block_size, 1);
  }
  FieldMasks* const fields = &options->fields;
  fill_integers(a.segments_q, &fields->segments_q);
  fill_integers(a.segments_k, &fields->segments_k);
  fill_integers(a.full_ranges, &fields->full_ranges);
  fields->ranges = is_absent(a.full_ranges) ? 0 : e["R"];
  fields->chunk = a.chunk;
  fill(a.tree_mask, &fields->tree);
  options->dropout = {a.dropout_p, a.dropout_seed, a.dropout_offset};
}

}  // namespace qkvet::impl
