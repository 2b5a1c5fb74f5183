// SPDX-License-Identifier: Apache-2.0
#include "impl/call/forward_view.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "impl/call/call_rows.h"
namespace qkvet::impl {
namespace {

#define ROW(field, ...) QKVET_ROW(qkvet_forward_args, field, __VA_ARGS__)
constexpr TensorRow kQueries[] = {ROW(q, "B,H,Tq,d", kOfCall, Need::kRequired)};
constexpr TensorRow kInRows[] = {
    ROW(k, "B,Hkv,Tk,d", kOfCall, Need::kRequired),
    ROW(v, "B,Hkv,Tk,dv", kOfCall, Need::kRequired)};
constexpr TensorRow kInPages[] = {
    ROW(k, "pages,Hkv,page_size,d", kOfCall, Need::kRequired),
    ROW(v, "pages,Hkv,page_size,dv", kOfCall, Need::kRequired)};
constexpr TensorRow kInGroups[] = {
    ROW(k, "pages,Hkv,page_size,groups,x", kOfCall, Need::kRequired),
    ROW(v, "pages,Hkv,page_size,dv", kOfCall, Need::kRequired)};
// They determine Tk of a call over pages, and the number of sequences.
constexpr TensorRow kTables[] = {ROW(o, "B,H,Tq,dv", kOfCall, Need::kRequired),
                                 ROW(cu_seqlens_q, "sequences+1", kTypeInt64),
                                 ROW(cu_seqlens_k, "sequences+1", kTypeInt64),
                                 ROW(q_len, "B", kTypeInt64),
                                 ROW(kv_len, "sequences", kTypeInt64),
                                 ROW(block_table, "sequences,P", kTypeInt32),
                                 ROW(page_indptr, "sequences+1", kTypeInt32),
                                 ROW(page_indices, "N", kTypeInt32),
                                 ROW(last_page_len, "sequences", kTypeInt32),
                                 ROW(k_new, "sequences,Hkv,Tnew,d", kOfCall),
                                 ROW(v_new, "sequences,Hkv,Tnew,dv", kOfCall)};
constexpr TensorRow kOthers[] = {
    ROW(lse, "B,H,Tq", kTypeF32),
    ROW(weights, "B,H,Tq,Tk", kOfCall),
    ROW(dropout_mask, "B,H,Tq,Tk", kTypeUint8),
    ROW(mask, "B,H,Tq,Tk", kBytes),
    ROW(bias, "B,H,Tq,Tk", kF32OrOfCall),
    ROW(sink, "H", kF32OrOfCall),
    ROW(slopes, "H;sequences,H", kF32OrOfCall),
    ROW(rope_cos, "positions,pairs", kTypeF32),
    ROW(rope_sin, "positions,pairs", kTypeF32),
    ROW(q_positions, "B,Tq", kTypeInt64),
    ROW(k_positions, "B,Tk", kTypeInt64),
    ROW(key_indices, "B,Hkv|1,Tq,n", kTypeInt32),
    ROW(topk_length, "B,Tq", kTypeInt32),
    ROW(segments_q, "B,Tq", kTypeInt32 | kTypeInt64),
    ROW(segments_k, "B,Tk", kTypeInt32 | kTypeInt64),
    ROW(full_ranges, "B,R,2", kTypeInt32 | kTypeInt64),
    ROW(tree_mask, "B,Tq,Tq", kBytes)};
#undef ROW
// No kernel declares scales of quantised storage.
#define QKVET_FORWARD_SCALE(...)
#define QKVET_FORWARD_TENSOR(field, ...)                               \
  static_assert(has_row(offsetof(qkvet_forward_args, field), kQueries, \
                        kInRows, kTables, kOthers),                    \
                #field " is not checked");
#include "qkvet/tensors.def"

bool present(const qkvet_tensor& t) { return !is_absent(t); }

// Contradictions between fields, before any tensor is read.
void check_fields(const qkvet_forward_args& a, Check* check) {
  const bool lists = has_page_lists(a), blocks = present(a.block_table);
  const bool paged = lists || blocks;
  const bool packed = present(a.cu_seqlens_q);
  const bool more_fields =
      present(a.segments_q) || present(a.full_ranges) || present(a.tree_mask);
  check->rules(
      QKVET_INVALID_ARGUMENT,
      {{paged ? a.page_size < 1 : a.page_size != 0,
        "page_size: a block table or lists of pages have one, 1 or more, and "
        "no other call has"},
       {lists && !(present(a.page_indptr) && present(a.page_indices) &&
                   present(a.last_page_len)),
        "page_indptr, page_indices and last_page_len come together"},
       {lists && (blocks || present(a.kv_len)),
        "pages are in a block table with kv_len or in lists, not in both"},
       {blocks && is_absent(a.kv_len), "pages come with kv_len"},
       {a.channel_group != 0 && !paged,
        "channel_group: only keys in pages are in groups of channels"},
       {is_absent(a.k_new) != is_absent(a.v_new),
        "k_new and v_new come together"},
       {present(a.k_new) && is_absent(a.kv_len) && !lists,
        "new tokens come with kv_len"},
       {present(a.cu_seqlens_k) != (packed && !paged),
        "a packed batch has cu_seqlens_q, and without pages cu_seqlens_k"},
       {packed && (present(a.q_len) || (present(a.kv_len) && !paged)),
        "a packed batch has no q_len, and kv_len only with pages"},
       {(packed && more_fields) || (paged && present(a.segments_q)),
        "a packed batch has no segments, ranges and trees, and pages no "
        "segments"},
       {is_absent(a.segments_q) != is_absent(a.segments_k),
        "segments are those of q and of k, or of neither"},
       {present(a.segments_q) &&
            !is_same(a.segments_q.dtype, a.segments_k.dtype),
        "segments of q and k have one type"},
       {a.chunk < 0, "chunk is negative"},
       {a.chunk > 0 && present(a.full_ranges),
        "chunks and ranges come one without the other"},
       {is_absent(a.key_indices) &&
            (present(a.topk_length) || a.key_block_size != 0),
        "topk_length or key_block_size, and no key_indices"},
       {a.key_block_size < 0, "key_block_size is negative"},
       {!(a.softcap >= 0 && a.softcap < std::numeric_limits<float>::infinity()),
        "softcap must be positive and finite, or 0 for none"},
       {!(a.dropout_p >= 0 && a.dropout_p < 1),
        "dropout_p is at least 0 and below 1"},
       {a.has_window != 0 && (a.window_left < -1 || a.window_right < -1),
        "a window counts keys; -1 is all of them"},
       {wrong_rope(a.rope,
                   {&a.rope_cos, &a.rope_sin, &a.q_positions, &a.k_positions}),
        kWrongRope}});
}

// Tk of a call over pages: the extent in its other tensors, or the room of its
// table.
int64_t keys_in_pages(const qkvet_forward_args& a, const Check& e) {
  const struct {
    const qkvet_tensor& tensor;
    int32_t rank;
  } others[] = {{a.mask, 4}, {a.bias, 4}, {a.weights, 4}, {a.k_positions, 2}};
  for (const auto& [t, rank] : others) {
    if (t.ndim == rank && t.shape != nullptr) {
      return t.shape[rank - 1];
    }
  }
  const bool lists = has_page_lists(a);
  const int64_t rows = lists || is_absent(a.cu_seqlens_q) ? 1 : e["sequences"];
  int64_t keys = 0;
  return __builtin_mul_overflow(lists ? e["N"] : e["P"], a.page_size, &keys) ||
                 __builtin_mul_overflow(keys, rows, &keys)
             ? std::numeric_limits<int64_t>::max() / 4
             : keys;
}

// The rules about extents that are not in the tables.
void check_extents(const qkvet_forward_args& a, uint64_t options,
                   Check* check) {
  constexpr int64_t kGroupBits = 128;
  const Check& e = *check;
  const int64_t x = a.channel_group;
  if (!e.ok()) {
    return;
  }
  check->rules(
      QKVET_INVALID_ARGUMENT,
      {{e["Hkv"] > 0 && e["H"] % e["Hkv"] != 0, "Hkv does not divide H"},
       {a.rope != QKVET_ROPE_NONE && 2 * e["pairs"] > e["d"], kWideRope},
       {x != 0 && (x != kGroupBits / a.k.dtype.bits || x != e["x"]),
        "channel_group: groups of channels are 16 bytes each"},
       {x != 0 && (e["d"] % x != 0 || e["d"] / x != e["groups"]),
        "k: its groups of channels are not d channels together"},
       {present(a.cu_seqlens_q) && e["B"] != 1, "a packed batch has B = 1"}});
  check->rules(
      QKVET_UNSUPPORTED,
      {{a.causal < QKVET_CAUSAL_NONE || a.causal > QKVET_CAUSAL_BOTTOM_RIGHT,
        "causal: this mode is not known"},
       {e["H"] < 1 || e["Hkv"] < 1 || e["d"] < 1 || e["dv"] < 1,
        "no heads, or heads without a width, are not supported"},
       {(options & QKVET_OPTION_EMPTY_EXTENTS) == 0 &&
            (e["B"] < 1 || e["Tq"] < 1 || e["Tk"] < 1),
        "empty extents are not supported"},
       {(options & QKVET_OPTION_CROSS_LENGTHS) == 0 && e["Tq"] != e["Tk"],
        "as many keys as queries are needed: Tq = Tk"}});
}

// The views of the storage type; the others have no data.
void fill_views(const qkvet_forward_args& a, ForwardCall* call) {
  const bool in_rows = a.page_size == 0;
  if (call->storage == Storage::kF32) {
    call->q = view_of<const float>(a.q);
    call->k = in_rows ? view_of<const float>(a.k) : View<const float>{};
    call->v = in_rows ? view_of<const float>(a.v) : View<const float>{};
    call->o = view_of<float>(a.o);
    fill(a.weights, &call->weights);
  } else {
    call->half.q = view_of<const uint16_t>(a.q);
    call->half.k =
        in_rows ? view_of<const uint16_t>(a.k) : View<const uint16_t>{};
    call->half.v =
        in_rows ? view_of<const uint16_t>(a.v) : View<const uint16_t>{};
    call->half.o = view_of<uint16_t>(a.o);
    fill(a.weights, &call->half.weights);
  }
  fill(a.lse, &call->lse);
  fill(a.dropout_mask, &call->dropout_mask);
}

void fill_call(const qkvet_kernel* self, const qkvet_forward_args& a,
               const Check& e, ForwardCall* call) {
  call->batch = e["B"];
  call->heads = e["H"];
  call->kv_heads = e["Hkv"];
  call->queries = e["Tq"];
  call->keys = e["Tk"];
  call->width = e["d"];
  call->value_width = e["dv"];
  call->storage = e.storage;
  fill_views(a, call);
  call->scale_given = a.scale_given != 0;
  call->scale = call->scale_given ? a.scale : default_scale(call->width);
  call->causal = a.causal != QKVET_CAUSAL_NONE;
  call->top_left = a.causal == QKVET_CAUSAL_TOP_LEFT;
  call->diagonal = call->top_left ? 0 : call->keys - call->queries;
  call->user = self->user;
  fill_options(a, e, &call->options);
  call->options.fields.in_window =
      self->dialect != nullptr &&
      self->dialect->ranges_and_window == QKVET_RANGES_IN_WINDOW;
  call->place_fields();
}

}  // namespace

void read_attention(const qkvet_kernel* self, const qkvet_forward_args& a,
                    uint64_t options, Check* check, ForwardCall* call) {
  Check& e = *check;
  if (const char* unknown = e.ok() ? unknown_field(a, options) : nullptr) {
    e.refuse(QKVET_UNSUPPORTED, "%s", unknown);
  }
  check_fields(a, check);
  e.rows(kQueries, &a);
  if (is_absent(a.cu_seqlens_q)) {
    e["sequences"] = e["B"];
  }
  if (a.page_size == 0) {
    e.rows(kInRows, &a);
  } else {
    e["page_size"] = a.page_size;
    e.rows(a.channel_group == 0 ? kInPages : kInGroups, &a);
  }
  e.rows(kTables, &a);
  if (e.ok() && a.page_size != 0) {
    e["Tk"] = keys_in_pages(a, e);
  }
  e.rows(kOthers, &a);
  check_extents(a, options, check);
  if (e.ok()) {
    fill_call(self, a, e, call);
  }
}

void ForwardCall::place_fields() {
  FieldMasks& fields = options.fields;
  fields.diagonal = diagonal;
  fields.drafts = keys - queries;
  fields.causal = causal;
  fields.window_left = options.window_left;
  fields.window_right = options.window_right;
}

Run ForwardCall::in_reach(int64_t i) const {
  if (options.fields.ranges > 0) {
    return {0, keys};
  }
  Run run = {0, visible(i)};
  if (options.window_left >= 0) {
    run.begin = std::clamp<int64_t>(position(i) - options.window_left, 0, keys);
  }
  if (options.window_right >= 0) {
    run.end = std::min(run.end, position(i) + options.window_right + 1);
  }
  if (const int64_t chunk = options.fields.chunk; chunk > 0) {
    const int64_t behind = options.fields.j;  // the first key of this call
    const int64_t first =
        options.fields.chunk_of(position(i) + behind) * chunk - behind;
    run.begin = std::max(run.begin, std::clamp<int64_t>(first, 0, keys));
    run.end = std::min(run.end, std::clamp<int64_t>(first + chunk, 0, keys));
  }
  return {run.begin, std::max(run.begin, run.end)};
}

int64_t ForwardCall::list_keys(int64_t b, int64_t h, int64_t i,
                               int64_t* list) const {
  const Run run = in_reach(i);
  int64_t count = 0;
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (options.allows(b, h, i, j)) {
      list[count++] = j;
    }
  }
  return count;
}

float with_options(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j, float scaled) {
  const Options& options = call.options;
  float s = scaled;
  if (options.softcap > 0) {
    s = options.softcap * std::tanh(s / options.softcap);
  }
  if (options.bias.present()) {
    s += options.bias.get(b, h, i, j);
  }
  if (options.slopes.present()) {
    const int64_t distance = std::abs(call.position(i) - j);
    s -= options.slopes.get(b, h) * static_cast<float>(distance);
  }
  return s;
}

void write_dropout_mask(const ForwardCall& call) {
  write_dropout_mask(call, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return call.options.dropout.keeps(b, h, i, j);
  });
}

float default_scale(int64_t width) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
}

qkvet_status read_forward(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ForwardCall* call,
                          qkvet_text* why) {
  const qkvet_capabilities& can = *self->capabilities;
  qkvet_forward_args known = {};
  Check check(can, why);
  check.copy(args, &known);
  read_attention(self, known, can.options & ~kPageOptions, &check, call);
  return check.status;
}

qkvet_status supports_forward(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why) {
  ForwardCall call;
  return read_forward(self, args, &call, why);
}

}  // namespace qkvet::impl
