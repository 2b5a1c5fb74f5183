// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/options_view.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kBool = {QKVET_DTYPE_BOOL, 8, 1};
constexpr qkvet_dtype kUint8 = {QKVET_DTYPE_UINT, 8, 1};
constexpr qkvet_dtype kInt32 = {QKVET_DTYPE_INT, 32, 1};
constexpr qkvet_dtype kInt64 = {QKVET_DTYPE_INT, 64, 1};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_shape(const qkvet_tensor& t, std::initializer_list<int64_t> extents) {
  const int64_t* shape = t.shape;
  for (const int64_t extent : extents) {
    if (*shape++ != extent) {
      return false;
    }
  }
  return true;
}

qkvet_status read_window(const qkvet_forward_args& a, Options* options,
                         qkvet_text* why) {
  if (a.has_window == 0) {
    return QKVET_OK;
  }
  if (a.window_left < -1 || a.window_right < -1) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a window counts keys; -1 stands for all of them");
  }
  // No key is further away than this, and sums stay far from overflow.
  const int64_t all = a.q.shape[2] + a.k.shape[2];
  options->window_left = a.window_left < all ? a.window_left : all;
  options->window_right = a.window_right < all ? a.window_right : all;
  return QKVET_OK;
}

// A tensor of f32 or of the type of q.
qkvet_status read_stored(const qkvet_forward_args& a, const qkvet_tensor& t,
                         std::initializer_list<int64_t> shape, Stored* to,
                         qkvet_text* why) {
  if (is_absent(t)) {
    return QKVET_OK;
  }
  if (const char* wrong =
          wrong_with(t, static_cast<int32_t>(shape.size()), Empty::kAllowed)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  Storage type = Storage::kF32;
  if (!storage_of(t.dtype, &type) ||
      (type != Storage::kF32 && !is_same(t.dtype, a.q.dtype))) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "bias, sink and slopes must be f32 or of the type of q");
  }
  if (!has_shape(t, shape)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "bias must be [B, H, Tq, Tk], sink [H], slopes [H] or "
                  "[B, H]");
  }
  *to = stored(t, type);
  return QKVET_OK;
}

qkvet_status read_lengths(const qkvet_forward_args& a, Options* options,
                          qkvet_text* why) {
  const int64_t batch = a.q.shape[0];
  qkvet_status status = read_integers(a.q_len, batch, &options->q_len, why);
  if (status == QKVET_OK) {
    status = read_integers(a.kv_len, batch, &options->kv_len, why);
  }
  if (status == QKVET_OK) {
    status = read_integers(a.cu_seqlens_q, -1, &options->cu_q, why);
  }
  if (status == QKVET_OK) {
    status = read_integers(a.cu_seqlens_k, -1, &options->cu_k, why);
  }
  const bool packed = !is_absent(a.cu_seqlens_q);
  if (status != QKVET_OK || (!packed && is_absent(a.cu_seqlens_k))) {
    return status;
  }
  if (!packed || is_absent(a.cu_seqlens_k) ||
      a.cu_seqlens_q.shape[0] != a.cu_seqlens_k.shape[0]) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a packed batch has one list of starts for q and one for k, "
                  "equally long");
  }
  if (batch != 1 || !is_absent(a.q_len) || !is_absent(a.kv_len)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a packed batch has B = 1 and no other lengths");
  }
  options->members = a.cu_seqlens_q.shape[0] - 1;
  return QKVET_OK;
}

// Their numbers are trusted, like those of pages.
qkvet_status read_lists(const qkvet_forward_args& a, KeyLists* lists,
                        qkvet_text* why) {
  const qkvet_tensor &keys = a.key_indices, &counts = a.topk_length;
  if (is_absent(keys)) {
    return is_absent(counts) && a.key_block_size == 0
               ? QKVET_OK
               : refuse(why, QKVET_INVALID_ARGUMENT,
                        "topk_length or key_block_size, and no key_indices");
  }
  if (a.key_block_size < 0) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "key_block_size is negative");
  }
  const char* wrong = wrong_with(keys, 4, Empty::kAllowed);
  if (wrong == nullptr && !is_absent(counts)) {
    wrong = wrong_with(counts, 2, Empty::kAllowed);
  }
  if (wrong != nullptr) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (!is_same(keys.dtype, kInt32) ||
      (!is_absent(counts) && !is_same(counts.dtype, kInt32))) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "key_indices and topk_length are int32");
  }
  const int64_t heads = keys.shape[1], entries = keys.shape[3];
  if ((heads != 1 && heads != a.k.shape[1]) ||
      !has_shape(keys, {a.q.shape[0], heads, a.q.shape[2], entries}) ||
      (!is_absent(counts) &&
       !has_shape(counts, {a.q.shape[0], a.q.shape[2]}))) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "key_indices are [B, Hkv or 1, Tq, n], topk_length [B, Tq]");
  }
  lists->keys = view_of<const int32_t>(keys);
  if (!is_absent(counts)) {
    lists->counts = view_of<const int32_t>(counts);
  }
  lists->entries = entries;
  lists->group = a.q.shape[1] / heads;
  lists->block = a.key_block_size > 1 ? a.key_block_size : 1;
  return QKVET_OK;
}

const char* wrong_integers(const qkvet_tensor& t, int32_t rank,
                           std::initializer_list<int64_t> shape) {
  if (const char* wrong = wrong_with(t, rank, Empty::kAllowed)) {
    return wrong;
  }
  if (!is_same(t.dtype, kInt32) && !is_same(t.dtype, kInt64)) {
    return "segments and ranges are int32 or int64";
  }
  return has_shape(t, shape)
             ? nullptr
             : "segments_q are [B, Tq], segments_k [B, Tk], full_ranges [B, R, "
               "2]";
}

FieldMasks::Integers integers(const qkvet_tensor& t) {
  FieldMasks::Integers to;
  if (is_same(t.dtype, kInt32)) {
    to.narrow = view_of<const int32_t>(t);
  } else {
    to.wide = view_of<const int64_t>(t);
  }
  return to;
}

}  // namespace

// `keys`: Tk; with pages only the caller can determine it.
qkvet_status read_fields(const qkvet_forward_args& a, int64_t keys,
                         FieldMasks* fields, qkvet_text* why) {
  const int64_t batch = a.q.shape[0], queries = a.q.shape[2];
  const bool packed = !is_absent(a.cu_seqlens_q);
  const auto refuse_if = [&](const char* wrong) {
    return wrong == nullptr ? QKVET_OK
                            : refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  };
  const char* wrong = nullptr;
  if (is_absent(a.segments_q) != is_absent(a.segments_k)) {
    wrong = "segments are those of q and of k, or of neither";
  } else if (a.chunk < 0) {
    wrong = "chunk is negative";
  } else if (packed && !(is_absent(a.segments_q) && is_absent(a.full_ranges) &&
                         is_absent(a.tree_mask))) {
    wrong = "a packed batch has no segments, ranges and trees";
  } else if (a.chunk > 0 && !is_absent(a.full_ranges)) {
    wrong = "chunks and ranges come one without the other";
  }
  if (wrong == nullptr && !is_absent(a.segments_q)) {
    wrong = wrong_integers(a.segments_q, 2, {batch, queries});
    wrong = wrong == nullptr ? wrong_integers(a.segments_k, 2, {batch, keys})
                             : wrong;
    if (wrong == nullptr && !is_same(a.segments_q.dtype, a.segments_k.dtype)) {
      wrong = "segments of q and k have one type";
    }
    if (wrong == nullptr) {
      fields->segments_q = integers(a.segments_q);
      fields->segments_k = integers(a.segments_k);
    }
  }
  if (wrong == nullptr && !is_absent(a.full_ranges)) {
    const int64_t ranges = a.full_ranges.ndim == 3 ? a.full_ranges.shape[1] : 0;
    wrong = wrong_integers(a.full_ranges, 3, {batch, ranges, 2});
    if (wrong == nullptr) {
      fields->full_ranges = integers(a.full_ranges);
      fields->ranges = ranges;
    }
  }
  if (wrong == nullptr && !is_absent(a.tree_mask)) {
    wrong = wrong_with(a.tree_mask, 3, Empty::kAllowed);
    if (wrong == nullptr && !is_same(a.tree_mask.dtype, kBool) &&
        !is_same(a.tree_mask.dtype, kUint8)) {
      wrong = "a tree is bool or uint8";
    }
    if (wrong == nullptr &&
        !has_shape(a.tree_mask, {batch, queries, queries})) {
      wrong = "the tree is not [B, Tq, Tq]";
    }
    if (wrong == nullptr) {
      fields->tree = view_of<const uint8_t>(a.tree_mask);
    }
  }
  fields->chunk = a.chunk;
  return refuse_if(wrong);
}

namespace {

qkvet_status read_rotation(const qkvet_forward_args& a, Options* options,
                           qkvet_text* why) {
  Rope* const rope = &options->rope;
  const char* wrong =
      read_rope(a.rope, a.rope_cos, a.rope_sin, a.q.shape[3], rope);
  if (wrong == nullptr && !rope->present() &&
      !(is_absent(a.q_positions) && is_absent(a.k_positions))) {
    wrong = "positions, and no rotation";
  }
  if (wrong == nullptr && rope->present()) {
    wrong = read_positions(a.q_positions, a.q.shape[0], a.q.shape[2], &rope->q);
  }
  if (wrong == nullptr && rope->present()) {
    wrong = read_positions(a.k_positions, a.k.shape[0], a.k.shape[2], &rope->k);
  }
  return wrong == nullptr ? QKVET_OK
                          : refuse(why, QKVET_INVALID_ARGUMENT, wrong);
}

}  // namespace

qkvet_status read_mask(const qkvet_forward_args& a, View<const uint8_t>* mask,
                       qkvet_text* why) {
  if (is_absent(a.mask)) {
    return QKVET_OK;
  }
  if (const char* wrong = wrong_with(a.mask, 4, Empty::kAllowed)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (!is_same(a.mask.dtype, kBool) && !is_same(a.mask.dtype, kUint8)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "a mask is bool or uint8");
  }
  if (!has_shape(a.mask,
                 {a.q.shape[0], a.q.shape[1], a.q.shape[2], a.k.shape[2]})) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the mask is not [B, H, Tq, Tk]");
  }
  *mask = view_of<const uint8_t>(a.mask);
  return QKVET_OK;
}

qkvet_status read_slopes(const qkvet_forward_args& a, int64_t members,
                         Stored* slopes, qkvet_text* why) {
  const int64_t heads = a.q.shape[1];
  if (a.slopes.ndim == 2) {
    return read_stored(a, a.slopes, {members, heads}, slopes, why);
  }
  const qkvet_status status = read_stored(a, a.slopes, {heads}, slopes, why);
  slopes->step[1] = slopes->step[0];
  slopes->step[0] = 0;
  return status;
}

qkvet_status read_integers(const qkvet_tensor& t, int64_t extent,
                           View<const int64_t>* to, qkvet_text* why) {
  if (is_absent(t)) {
    return QKVET_OK;
  }
  if (const char* wrong = wrong_with(t, 1, Empty::kAllowed)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (!is_same(t.dtype, kInt64)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "lengths are int64");
  }
  if (extent >= 0 ? t.shape[0] != extent : t.shape[0] < 1) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "lengths are [B], cumulative ones [members + 1]");
  }
  *to = view_of<const int64_t>(t);
  return QKVET_OK;
}

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
  // Only serving_call.h reads pages and new tokens.
  constexpr uint64_t kServing = QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR |
                                QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_APPEND;
  const uint64_t taken = declared & ~kServing;
#define QKVET_FORWARD_TENSOR(field, tensor, options)                       \
  if ((options) != 0 && (taken & (options)) == 0 && !is_absent(a.field)) { \
    return #field " is not supported";                                     \
  }
#include "qkvet/tensors.def"
  const struct {
    bool set;
    uint64_t option;  // 0: never taken here
    const char* name;
  } numbers[] = {
      {a.has_window != 0, QKVET_OPTION_WINDOW, "windows are not supported"},
      {a.slopes.ndim == 2, QKVET_OPTION_ALIBI_PER_MEMBER,
       "ALiBi slopes of each member are not supported"},
      {a.rope != QKVET_ROPE_NONE, QKVET_OPTION_ROPE, "RoPE is not supported"},
      {!(a.dropout_p == 0), QKVET_OPTION_DROPOUT, "dropout is not supported"},
      {a.key_block_size != 0, QKVET_OPTION_KEY_LIST_BLOCKS,
       "lists of blocks of keys are not supported"},
      {a.page_size != 0, 0, "paged keys are not supported"},
      {a.channel_group != 0, 0, "keys in groups of channels are not supported"},
#define QKVET_FORWARD_NUMBER(field, option) \
  {a.field != 0, option, #field " is not supported"},
#include "qkvet/tensors.def"
  };
  for (const auto& number : numbers) {
    if (number.set && (taken & number.option) == 0) {
      return number.name;
    }
  }
  return nullptr;
}

qkvet_status read_options(const qkvet_forward_args& a, Options* options,
                          qkvet_text* why) {
  const int64_t heads = a.q.shape[1];
  if (!(a.softcap >= 0 && a.softcap < kInfinity)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "softcap must be positive and finite, or 0 for none");
  }
  options->softcap = a.softcap;
  if (!(a.dropout_p >= 0 && a.dropout_p < 1)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the probability of dropout is at least 0 and below 1");
  }
  options->dropout = {a.dropout_p, a.dropout_seed, a.dropout_offset};
  qkvet_status status = read_window(a, options, why);
  if (status == QKVET_OK) {
    status = read_mask(a, &options->mask, why);
  }
  if (status == QKVET_OK) {
    status = read_stored(a, a.bias,
                         {a.q.shape[0], heads, a.q.shape[2], a.k.shape[2]},
                         &options->bias, why);
  }
  if (status == QKVET_OK) {
    status = read_stored(a, a.sink, {heads}, &options->sink, why);
  }
  if (status == QKVET_OK) {
    status = read_rotation(a, options, why);
  }
  if (status == QKVET_OK) {
    status = read_lengths(a, options, why);
  }
  if (status == QKVET_OK) {
    status = read_lists(a, &options->lists, why);
  }
  if (status == QKVET_OK) {
    status = read_fields(a, a.k.shape[2], &options->fields, why);
  }
  const bool packed = !is_absent(a.cu_seqlens_q);
  const int64_t members = packed ? options->members : a.q.shape[0];
  return status == QKVET_OK ? read_slopes(a, members, &options->slopes, why)
                            : status;
}

}  // namespace qkvet::impl
