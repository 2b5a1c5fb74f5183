// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/serving_call.h"

#include <cstddef>
#include <limits>
#include <new>

#include "impl/abi/members.h"
#include "impl/abi/options_view.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt32 = {QKVET_DTYPE_INT, 32, 1};

// Substitutes for k and v if they are pages: tensors of a call that has the
// tokens as rows of a member.
struct Rows4 {
  int64_t shape[4];
  int64_t strides[4];

  qkvet_tensor of(const qkvet_tensor& pages, int64_t batch, int64_t keys) {
    qkvet_tensor rows = pages;
    shape[0] = batch;
    shape[1] = pages.shape[1];
    shape[2] = keys;
    shape[3] = pages.shape[3];
    for (int64_t& stride : strides) {
      stride = 0;
    }
    rows.shape = shape;
    rows.strides = strides;
    return rows;
  }
};

// Keys in groups of channels as if they were rows: a tensor of rank 4; its last
// step is the one within a group.
struct FoldedGroups {
  int64_t shape[4];
  int64_t strides[4];

  qkvet_tensor of(const qkvet_tensor& k) {
    qkvet_tensor rows = k;
    for (int axis = 0; axis < 3; ++axis) {
      shape[axis] = k.shape[axis];
      strides[axis] = k.strides[axis];
    }
    shape[3] = k.shape[3] * k.shape[4];
    strides[3] = k.strides[4];
    rows.ndim = 4;
    rows.shape = shape;
    rows.strides = strides;
    return rows;
  }
};

const char* wrong_with_groups(const qkvet_forward_args& a) {
  constexpr int64_t kGroupBits = 128;
  if (a.page_size == 0) {
    return "groups of channels are those of keys in pages";
  }
  if (const char* wrong = wrong_with(a.k, 5, Empty::kAllowed)) {
    return wrong;
  }
  return a.channel_group == kGroupBits / a.k.dtype.bits &&
                 a.k.shape[4] == a.channel_group
             ? nullptr
             : "groups of channels are 16 bytes each";
}

// Turns lists of int32 into lists of int64. Their numbers are widened later,
// when they are read; here none is read.
const char* take_narrow(uint64_t options, qkvet_forward_args* a,
                        ServingCall* s) {
  const struct {
    qkvet_tensor* list;
    ServingCall::NarrowList* to;
  } lists[] = {{&a->q_len, &s->narrow_q_len},
               {&a->kv_len, &s->narrow_kv_len},
               {&a->cu_seqlens_q, &s->narrow_cu_q}};
  int given = 0, narrow = 0;
  for (const auto& one : lists) {
    given += is_absent(*one.list) ? 0 : 1;
    if (is_absent(*one.list) || !is_same(one.list->dtype, kInt32)) {
      continue;
    }
    if ((options & QKVET_OPTION_INT32_LENGTHS) == 0) {
      return "lengths are int64";
    }
    if (const char* wrong = wrong_with(*one.list, 1, Empty::kAllowed)) {
      return wrong;
    }
    ++narrow;
    one.to->given = view_of<const int32_t>(*one.list);
    one.to->count = one.list->shape[0];
    one.list->dtype.bits = 64;
  }
  return narrow == 0 || narrow == given
             ? nullptr
             : "lengths are int32 or int64, all alike";
}

qkvet_status widen(ServingCall::NarrowList* list, View<const int64_t>* view,
                   qkvet_text* why) {
  if (list->given.data == nullptr) {
    return QKVET_OK;
  }
  list->wide.reset(new (std::nothrow)
                       int64_t[static_cast<size_t>(list->count) + 1]);
  if (list->wide == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the lengths");
  }
  for (int64_t n = 0; n < list->count; ++n) {
    list->wide[static_cast<size_t>(n)] = *list->given.at(n, 0, 0);
  }
  *view = {list->wide.get(), {list->count > 1 ? 1 : 0, 0, 0, 0}};
  return QKVET_OK;
}

bool has_lists(const qkvet_forward_args& a) {
  return !is_absent(a.page_indptr) || !is_absent(a.page_indices) ||
         !is_absent(a.last_page_len);
}

// Members of a packed batch over pages, or B. Only the extent of a list of
// starts is read.
int64_t members_of(const qkvet_forward_args& a) {
  const qkvet_tensor& starts = a.cu_seqlens_q;
  const bool paged = !is_absent(a.block_table) || has_lists(a);
  return paged && !is_absent(starts) && starts.ndim == 1 &&
                 starts.shape != nullptr
             ? starts.shape[0] - 1
             : a.q.shape[0];
}

const char* wrong_with_blocks(const qkvet_forward_args& a) {
  if (const char* wrong = wrong_with(a.block_table, 2, Empty::kAllowed)) {
    return wrong;
  }
  if (!is_same(a.block_table.dtype, kInt32)) {
    return "a block table is int32";
  }
  if (a.block_table.shape[0] != members_of(a)) {
    return "a block table has a row for each member";
  }
  return is_absent(a.kv_len) ? "pages come with kv_len" : nullptr;
}

const char* wrong_with_lists(const qkvet_forward_args& a) {
  for (const qkvet_tensor* t :
       {&a.page_indptr, &a.page_indices, &a.last_page_len}) {
    if (const char* wrong = wrong_with(*t, 1, Empty::kAllowed)) {
      return wrong;
    }
    if (!is_same(t->dtype, kInt32)) {
      return "lists of pages are int32";
    }
  }
  const int64_t members = members_of(a);
  if (a.page_indptr.shape[0] != members + 1 ||
      a.last_page_len.shape[0] != members) {
    return "lists of pages have a start for each member and the end, and a "
           "number of tokens for each";
  }
  return is_absent(a.block_table) && is_absent(a.kv_len)
             ? nullptr
             : "pages are in a block table with kv_len or in lists, not in "
               "both";
}

const char* wrong_with_table(const qkvet_forward_args& a) {
  const bool lists = has_lists(a);
  if (is_absent(a.block_table) && !lists) {
    return a.page_size == 0 ? nullptr : "a page size, and no block table";
  }
  if (const char* wrong = lists ? wrong_with_lists(a) : wrong_with_blocks(a)) {
    return wrong;
  }
  for (const qkvet_tensor* t : {&a.k, &a.v}) {
    if (const char* wrong = wrong_with(*t, 4, Empty::kAllowed)) {
      return wrong;
    }
  }
  if (a.page_size < 1 || a.k.shape[2] != a.page_size ||
      a.v.shape[2] != a.page_size || a.v.shape[0] != a.k.shape[0]) {
    return "k and v are not pages of page_size tokens";
  }
  return nullptr;
}

const char* wrong_with_new(const qkvet_forward_args& a) {
  if (is_absent(a.k_new) && is_absent(a.v_new)) {
    return nullptr;
  }
  for (const qkvet_tensor* t : {&a.k_new, &a.v_new}) {
    if (const char* wrong = wrong_with(*t, 4, Empty::kAllowed)) {
      return wrong;
    }
    if (!is_same(t->dtype, a.k.dtype)) {
      return "new tokens have the storage type of k and v";
    }
  }
  const int64_t* const k = a.k_new.shape;
  const int64_t* const v = a.v_new.shape;
  if (k[0] != members_of(a) || v[0] != k[0] || k[1] != a.k.shape[1] ||
      v[1] != k[1] || v[2] != k[2] || k[3] != a.k.shape[3] ||
      v[3] != a.v.shape[3]) {
    return "new tokens are not [B, Hkv, Tnew, d] and [B, Hkv, Tnew, dv]";
  }
  return is_absent(a.kv_len) && !has_lists(a) ? "new tokens come with kv_len"
                                              : nullptr;
}

// Tk: the extent in other tensors of the call, or the room of a table.
int64_t keys_of(const qkvet_forward_args& a) {
  const bool lists = has_lists(a);
  if (is_absent(a.block_table) && !lists) {
    return a.k.shape[2];
  }
  for (const qkvet_tensor* t : {&a.mask, &a.bias, &a.weights, &a.k_positions}) {
    if (!is_absent(*t) && t->ndim > 0 && t->shape != nullptr) {
      return t->shape[t->ndim - 1];
    }
  }
  const int64_t rows = lists || is_absent(a.cu_seqlens_q) ? 1 : members_of(a);
  const int64_t pages =
      lists ? a.page_indices.shape[0] : a.block_table.shape[1];
  int64_t keys = 0;
  return __builtin_mul_overflow(pages, a.page_size, &keys) ||
                 __builtin_mul_overflow(keys, rows, &keys)
             ? std::numeric_limits<int64_t>::max() / 4
             : keys;
}

const char* refused_field(const qkvet_forward_args& a, uint64_t options) {
  const bool lists = has_lists(a);
  const bool blocks = !is_absent(a.block_table) || (a.page_size != 0 && !lists);
  const bool paged = lists || blocks;
  if (blocks && (options & QKVET_OPTION_PAGED) == 0) {
    return "paged keys are not supported";
  }
  if (lists && (options & QKVET_OPTION_PAGED_CSR) == 0) {
    return "lists of pages are not supported";
  }
  if (a.channel_group != 0 &&
      (options & QKVET_OPTION_PAGED_CHANNEL_GROUPS) == 0) {
    return "keys in groups of channels are not supported";
  }
  const bool packed = !is_absent(a.cu_seqlens_q) || !is_absent(a.cu_seqlens_k);
  if (paged && packed && (options & QKVET_OPTION_PACKED_PAGES) == 0) {
    return "packed batches over pages are not supported";
  }
  const bool appends = !is_absent(a.k_new) || !is_absent(a.v_new);
  return appends && (options & QKVET_OPTION_APPEND) == 0
             ? "appending keys is not supported"
             : nullptr;
}

// k and v have four dimensions; their shapes are read below.
bool has_four(const qkvet_tensor& t) {
  return t.ndim == 4 && t.shape != nullptr && t.strides != nullptr;
}

// Reads the members that own the rows of q: they replace B.
qkvet_status read_packed(const qkvet_forward_args& a, ServingCall* s,
                         qkvet_text* why) {
  Options* const options = &s->call.options;
  if (s->call.batch != 1 || !is_absent(a.q_len) || !is_absent(a.cu_seqlens_k)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a packed batch over pages has B = 1, cu_seqlens_q and "
                  "kv_len, and no other lengths");
  }
  qkvet_status status = read_integers(a.cu_seqlens_q, -1, &options->cu_q, why);
  if (status == QKVET_OK) {
    options->members = a.cu_seqlens_q.shape[0] - 1;
    status = read_integers(a.kv_len, options->members, &s->before, why);
  }
  return status;
}

qkvet_status read_known(const qkvet_kernel* self,
                        const qkvet_forward_args& given, ServingCall* s,
                        qkvet_text* why) {
  qkvet_forward_args a = given;
  if (const char* wrong = take_narrow(self->capabilities->options, &a, s)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  if (const char* field = refused_field(a, self->capabilities->options)) {
    return refuse(why, QKVET_UNSUPPORTED, field);
  }
  FoldedGroups folded;
  if (a.channel_group != 0) {
    if (const char* wrong = wrong_with_groups(a)) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
    s->group = a.channel_group;
    s->group_step = step_of(a.k, 3);
    a.k = folded.of(a.k);
  }
  if (!has_four(a.q) || !has_four(a.k) || !has_four(a.v)) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "a tensor has the wrong rank or no shape and strides");
  }
  for (const char* wrong : {wrong_with_table(a), wrong_with_new(a)}) {
    if (wrong != nullptr) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
  }
  const bool cut = !is_absent(a.cu_seqlens_q);
  const bool fields = !is_absent(a.segments_q) || !is_absent(a.full_ranges) ||
                      !is_absent(a.tree_mask);
  if ((cut && fields) || (a.page_size > 0 && !is_absent(a.segments_q))) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a packed batch has no segments, ranges and trees, and pages "
                  "no segments");
  }
  qkvet_forward_args plain = a;
  plain.struct_size = sizeof(plain);  // checked again, with no further fields
  plain.page_size = plain.channel_group = 0;
  plain.block_table = plain.k_new = plain.v_new = {};
  plain.page_indptr = plain.page_indices = plain.last_page_len = {};
  Rows4 k_rows, v_rows;
  s->page_size = a.page_size;
  const bool packed = a.page_size > 0 && (!is_absent(a.cu_seqlens_q) ||
                                          !is_absent(a.cu_seqlens_k));
  // Slopes of each member: read below, with the number of members.
  const bool sloped =
      packed && a.slopes.ndim == 2 &&
      (self->capabilities->options & QKVET_OPTION_ALIBI_PER_MEMBER) != 0;
  if (packed) {
    plain.cu_seqlens_q = plain.cu_seqlens_k = {};
    plain.q_len = plain.kv_len = {};
    if (sloped) {
      plain.slopes = {};
    }
  }
  if (a.page_size > 0) {
    plain.k = k_rows.of(a.k, a.q.shape[0], keys_of(a));
    plain.v = v_rows.of(a.v, a.q.shape[0], keys_of(a));
    s->pages = a.k.shape[0];
  }
  if (has_lists(a)) {
    s->starts = view_of<const int32_t>(a.page_indptr);
    s->list = view_of<const int32_t>(a.page_indices);
    s->last = view_of<const int32_t>(a.last_page_len);
    s->entries = a.page_indices.shape[0];
  } else if (a.page_size > 0) {
    s->columns = a.block_table.shape[1];
    s->table = view_of<const int32_t>(a.block_table);
  }
  qkvet_status status = read_forward(self, &plain, &s->call, why);
  s->before = s->call.options.kv_len;
  if (status == QKVET_OK && packed) {
    status = read_packed(a, s, why);
  }
  if (status == QKVET_OK && sloped) {
    Options* const options = &s->call.options;
    status = read_slopes(a, options->members, &options->slopes, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  s->k = stored(a.k, s->call.storage);
  s->v = stored(a.v, s->call.storage);
  if (!is_absent(a.k_new)) {
    s->k_new = stored(a.k_new, s->call.storage);
    s->v_new = stored(a.v_new, s->call.storage);
    s->new_tokens = a.k_new.shape[2];
  }
  s->call.k = s->call.v = {};
  s->call.half.k = s->call.half.v = {};
  return QKVET_OK;
}

}  // namespace

qkvet_status read_serving(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ServingCall* serving,
                          qkvet_text* why) {
  qkvet_forward_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  return status == QKVET_OK ? read_known(self, known, serving, why) : status;
}

qkvet_status supports_serving(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why) {
  ServingCall serving;
  return read_serving(self, args, &serving, why);
}

// Sets the lengths, or the starts of members, as for k and v in rows.
void show_lengths(ServingCall* s) {
  Options* const options = &s->call.options;
  int64_t* const all = s->all.get();
  if (!s->packed()) {
    options->kv_len = {all, {s->call.batch == 1 ? 0 : 1, 0, 0, 0}};
    return;
  }
  int64_t first = 0;
  for (int64_t m = 0; m < s->members(); ++m) {
    const int64_t keys = all[m];
    all[m] = first;
    first += keys;
  }
  all[s->members()] = first;
  options->cu_k = {all, {1, 0, 0, 0}};
}

// Why the numbers of the lists of pages are invalid.
const char* wrong_in_lists(const ServingCall& s) {
  if (!s.csr()) {
    return nullptr;
  }
  if (s.first_page(0) != 0) {
    return "a list of pages begins at 0";
  }
  for (int64_t b = 0; b < s.members(); ++b) {
    if (s.page_count(b) < 0 || s.first_page(b + 1) > s.entries) {
      return "the pages of a member end before they begin, or behind the list";
    }
    const int64_t last = *s.last.at(b, 0, 0);
    if (s.page_count(b) > 0 && (last < 1 || last > s.page_size)) {
      return "a last page has no token, or more than a page has";
    }
  }
  return nullptr;
}

qkvet_status check_serving(ServingCall* s, qkvet_text* why) {
  Options* const options = &s->call.options;
  qkvet_status status = widen(&s->narrow_q_len, &options->q_len, why);
  status =
      status == QKVET_OK ? widen(&s->narrow_cu_q, &options->cu_q, why) : status;
  status =
      status == QKVET_OK ? widen(&s->narrow_kv_len, &s->before, why) : status;
  if (status != QKVET_OK) {
    return status;
  }
  if (const char* wrong = wrong_in_lists(*s)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  const int64_t batch = s->members();
  s->all.reset(new (std::nothrow) int64_t[static_cast<size_t>(batch) + 1]);
  if (s->all == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the lengths");
  }
  int64_t room = s->call.keys;
  if (s->page_size > 0 && !s->csr() && s->columns <= room / s->page_size) {
    room = s->columns * s->page_size;
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t held = s->held(b);
    if (held < 0 || held > room - s->new_tokens) {
      return refuse(why, QKVET_INVALID_ARGUMENT,
                    "a length is negative, or there is no room for it");
    }
    s->all[static_cast<size_t>(b)] = held + s->new_tokens;
    for (int64_t j = 0; s->page_size > 0 && j < held + s->new_tokens;
         j += s->page_size) {
      const int64_t page = s->slot(b, j).block;
      if (page < 0 || page >= s->pages) {
        return refuse(why, QKVET_INVALID_ARGUMENT,
                      "a block table names a page that is not there");
      }
    }
  }
  show_lengths(s);
  return check_lengths(s->call, why);
}

ForwardCall served_member(const ServingCall& serving, int64_t b) {
  return member_of(serving.call, b);
}

void store_new_key(const ServingCall& s, int64_t b, int64_t n, Slot to) {
  for (int64_t h = 0; h < s.call.kv_heads; ++h) {
    for (int64_t c = 0; c < s.call.width; ++c) {
      store(s.k.type, s.k.data, s.key_at(h, to, c), s.k_new.get(b, h, n, c));
    }
  }
}

void store_new_value(const ServingCall& s, int64_t b, int64_t n, Slot to) {
  for (int64_t h = 0; h < s.call.kv_heads; ++h) {
    for (int64_t c = 0; c < s.call.value_width; ++c) {
      s.v.set(to.block, h, to.row, c, s.v_new.get(b, h, n, c));
    }
  }
}

}  // namespace qkvet::impl
