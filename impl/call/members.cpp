// SPDX-License-Identifier: Apache-2.0
#include "impl/call/members.h"

namespace qkvet::impl {
namespace {

bool is_packed(const ForwardCall& call) {
  return call.options.cu_q.data != nullptr;
}

int64_t element(const View<const int64_t>& list, int64_t n) {
  return *list.at(n, 0, 0);
}

bool fits(const View<const int64_t>& lengths, int64_t count, int64_t extent) {
  for (int64_t n = 0; lengths.data != nullptr && n < count; ++n) {
    if (element(lengths, n) < 0 || element(lengths, n) > extent) {
      return false;
    }
  }
  return true;
}

// Ascending from 0.
bool ascends(const View<const int64_t>& starts, int64_t members) {
  if (starts.data != nullptr && members >= 0 && element(starts, 0) != 0) {
    return false;
  }
  for (int64_t n = 0; n < members; ++n) {
    if (element(starts, n) > element(starts, n + 1)) {
      return false;
    }
  }
  return true;
}

template <class T>
View<T> part_of(View<T> view, int64_t b, int64_t first) {
  if (view.data != nullptr) {
    view.data = view.at(b, 0, first);
  }
  return view;
}

// [B, H, Tq, Tk]: the rows of the member become 0, and its part is returned.
template <class T>
View<T> cleared_part(const ForwardCall& call, View<T> weights,
                     const MemberExtent& e) {
  if (weights.data == nullptr) {
    return weights;
  }
  for (int64_t h = 0; h < call.heads; ++h) {
    for (int64_t i = 0; i < e.rows; ++i) {
      T* const row = weights.at(e.b, h, e.first_row + i);
      for (int64_t j = 0; j < call.keys; ++j) {
        row[j * weights.step[3]] = 0;
      }
    }
  }
  weights.data =
      weights.at(e.b, 0, e.first_row) + e.first_key * weights.step[3];
  return weights;
}

}  // namespace

MemberExtent extent_of(const ForwardCall& call, int64_t n) {
  const Options& o = call.options;
  MemberExtent e;
  if (is_packed(call)) {
    e.first_row = element(o.cu_q, n);
    e.rows = element(o.cu_q, n + 1) - e.first_row;
    e.first_key = element(o.cu_k, n);
    e.keys = element(o.cu_k, n + 1) - e.first_key;
    return e;
  }
  e.b = n;
  e.rows = o.q_len.data != nullptr ? element(o.q_len, n) : call.queries;
  e.keys = o.kv_len.data != nullptr ? element(o.kv_len, n) : call.keys;
  return e;
}

qkvet_status check_lengths(const ForwardCall& call, qkvet_text* why) {
  const Options& o = call.options;
  const int64_t count = is_packed(call) ? o.members + 1 : call.batch;
  if (!fits(o.q_len, count, call.queries) ||
      !fits(o.kv_len, count, call.keys)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a length is negative or beyond its extent");
  }
  if (!fits(o.cu_q, count, call.queries) || !fits(o.cu_k, count, call.keys)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "a member of a packed batch is beyond the extents");
  }
  return ascends(o.cu_q, o.members) && ascends(o.cu_k, o.members)
             ? QKVET_OK
             : refuse(why, QKVET_INVALID_ARGUMENT,
                      "the starts of a packed batch do not ascend from 0");
}

int64_t member_count(const ForwardCall& call) {
  return is_packed(call) ? call.options.members : call.batch;
}

ForwardCall member_of(const ForwardCall& call, int64_t n) {
  const MemberExtent e = extent_of(call, n);
  ForwardCall member = call;
  member.options = call.options.from(e.b, 0, e.first_row, e.first_key);
  member.options.slopes = call.options.slopes.from(n, 0, 0, 0);
  // Their keys are counted from the first key of the member.
  member.options.lists = call.options.lists.from(e.b, 0, e.first_row, 0);
  member.batch = 1;
  member.queries = e.rows;
  member.keys = e.keys;
  member.diagonal = call.top_left ? 0 : e.keys - e.rows;
  // So are their positions, of a chunk only: no packed batch has others.
  member.options.fields = call.options.fields.from(e.b, 0, 0);
  member.place_fields();
  member.q = part_of(call.q, e.b, e.first_row);
  member.k = part_of(call.k, e.b, e.first_key);
  member.v = part_of(call.v, e.b, e.first_key);
  member.o = part_of(call.o, e.b, e.first_row);
  member.lse = part_of(call.lse, e.b, e.first_row);
  member.weights = cleared_part(call, call.weights, e);
  member.half.q = part_of(call.half.q, e.b, e.first_row);
  member.half.k = part_of(call.half.k, e.b, e.first_key);
  member.half.v = part_of(call.half.v, e.b, e.first_key);
  member.half.o = part_of(call.half.o, e.b, e.first_row);
  member.half.weights = cleared_part(call, call.half.weights, e);
  return member;
}

}  // namespace qkvet::impl
