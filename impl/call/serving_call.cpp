// SPDX-License-Identifier: Apache-2.0
#include "impl/call/serving_call.h"

#include <cstddef>

#include "impl/call/call_rows.h"
#include "impl/call/members.h"
#include "impl/call/scratch.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt32 = {QKVET_DTYPE_INT, 32, 1};

struct LengthsOf {
  qkvet_tensor qkvet_forward_args::*list;
  ServingCall::NarrowList ServingCall::*narrow;
};
constexpr LengthsOf kLengths[] = {
    {&qkvet_forward_args::q_len, &ServingCall::narrow_q_len},
    {&qkvet_forward_args::kv_len, &ServingCall::narrow_kv_len},
    {&qkvet_forward_args::cu_seqlens_q, &ServingCall::narrow_cu_q}};

// Turns lists of int32 into lists of int64. check_serving() widens their
// numbers; here none is read.
const char* take_narrow(uint64_t options, qkvet_forward_args* a) {
  int given = 0, narrow = 0;
  for (const LengthsOf& one : kLengths) {
    qkvet_tensor& list = a->*one.list;
    given += is_absent(list) ? 0 : 1;
    if (!is_absent(list) && is_same(list.dtype, kInt32)) {
      ++narrow;
      list.dtype.bits = 64;
    }
  }
  if (narrow > 0 && (options & QKVET_OPTION_INT32_LENGTHS) == 0) {
    return "lengths are int64";
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
  QKVET_TRY(
      allocate(list->count + 1, &list->wide, why, "no memory for the lengths"));
  for (int64_t n = 0; n < list->count; ++n) {
    list->wide[static_cast<size_t>(n)] = *list->given.at(n, 0, 0);
  }
  *view = {list->wide.get(), {list->count > 1 ? 1 : 0, 0, 0, 0}};
  return QKVET_OK;
}

void read_known(const qkvet_kernel* self, const qkvet_forward_args& given,
                Check* check, ServingCall* s) {
  Check& e = *check;
  const uint64_t declared = self->capabilities->options;
  qkvet_forward_args a = given;
  if (const char* wrong = take_narrow(declared, &a)) {
    return e.refuse(QKVET_INVALID_ARGUMENT, "%s", wrong);
  }
  read_attention(self, a, declared, check, &s->call);
  if (!e.ok()) {
    return;
  }
  for (const LengthsOf& one : kLengths) {
    const qkvet_tensor& list = given.*one.list;
    if (!is_absent(list) && is_same(list.dtype, kInt32)) {
      s->*one.narrow = {view_of<const int32_t>(list), list.shape[0], nullptr};
    }
  }
  Options* const options = &s->call.options;
  s->before = options->kv_len;
  s->page_size = a.page_size;
  s->pages = a.page_size > 0 ? e["pages"] : 0;
  if (has_page_lists(a)) {
    s->starts = view_of<const int32_t>(a.page_indptr);
    s->list = view_of<const int32_t>(a.page_indices);
    s->last = view_of<const int32_t>(a.last_page_len);
    s->entries = e["N"];
  } else if (a.page_size > 0) {
    s->columns = e["P"];
    s->table = view_of<const int32_t>(a.block_table);
    options->kv_len = s->packed() ? View<const int64_t>{} : options->kv_len;
  }
  const Storage type = s->call.storage;
  s->v = stored(a.v, type);
  if (a.channel_group == 0) {
    s->k = stored(a.k, type);
  } else {
    s->group = a.channel_group;
    s->group_step = step_of(a.k, 3);
    s->k = {
        first_element(a.k),
        type,
        {step_of(a.k, 0), step_of(a.k, 1), step_of(a.k, 2), step_of(a.k, 4)}};
  }
  if (!is_absent(a.k_new)) {
    s->k_new = stored(a.k_new, type);
    s->v_new = stored(a.v_new, type);
    s->new_tokens = e["Tnew"];
  }
  s->call.k = s->call.v = {};
  s->call.half.k = s->call.half.v = {};
}

}  // namespace

qkvet_status read_serving(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ServingCall* serving,
                          qkvet_text* why) {
  qkvet_forward_args known = {};
  Check check(*self->capabilities, why);
  check.copy(args, &known);
  if (check.ok()) {
    read_known(self, known, &check, serving);
  }
  return check.status;
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
  QKVET_TRY(widen(&s->narrow_q_len, &options->q_len, why));
  QKVET_TRY(widen(&s->narrow_cu_q, &options->cu_q, why));
  QKVET_TRY(widen(&s->narrow_kv_len, &s->before, why));
  if (const char* wrong = wrong_in_lists(*s)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  const int64_t batch = s->members();
  QKVET_TRY(allocate(batch + 1, &s->all, why, "no memory for the lengths"));
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
