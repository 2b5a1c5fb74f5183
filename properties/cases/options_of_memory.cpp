// SPDX-License-Identifier: Apache-2.0
// Options for where tensors are in memory, and how many of their rows and keys
// count.
#include <algorithm>

#include "core/case/paging.h"
#include "properties/cases/drawn_options.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

// Most lengths are short of the extent, some are 0, some all of it.
std::vector<int64_t> draw_lengths(Draw& draw, int64_t members, int64_t most) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < members; ++b)
    lengths.push_back(draw.chance(15)   ? 0
                      : draw.chance(20) ? most
                                        : draw.range(0, most));
  return lengths;
}

void draw_lengths(Draw& draw, Case& value) {
  if (static_cast<size_t>(value.shape.B) > kMaxMembers) return;
  const int64_t which = draw.range(0, 2);
  if (which != 0)
    value.q_len = draw_lengths(draw, value.shape.B, value.shape.Tq);
  if (which != 1)
    value.kv_len = draw_lengths(draw, value.shape.B, value.shape.Tk);
}

// One to four members, some of them empty, and now and then rows after them.
void draw_members(Draw& draw, Case& value) {
  Shape& s = value.shape;
  s.B = 1;
  const int64_t members = draw.range(1, 4);
  const bool same = draw.chance(40) && s.Tq == s.Tk;
  const auto draw_starts = [&](int64_t extent) {
    const int64_t end = draw.chance(80) ? extent : draw.range(0, extent);
    std::vector<int64_t> starts = {0};
    for (int64_t m = 1; m < members; ++m) starts.push_back(draw.range(0, end));
    starts.push_back(end);
    std::sort(starts.begin(), starts.end());
    return starts;
  };
  value.cu_q = draw_starts(s.Tq);
  value.cu_k = same ? value.cu_q : draw_starts(s.Tk);
}

// Strides with an offset of more than 32 bits are the rarest: they only show
// one family of mistakes.
Layout draw_strides(Draw& draw) {
  const int64_t percent = draw.range(0, 99);
  return percent < 12   ? Layout::kFar
         : percent < 50 ? Layout::kApart
                        : Layout::kGaps;
}

void draw_layout(Draw& draw, Case& value) {
  value.layout =
      static_cast<Layout>(draw.range(1, static_cast<int64_t>(Layout::kGaps)));
  if (value.layout == Layout::kGaps) value.layout = draw_strides(draw);
  fit_far(draw, value);
}

void draw_empty(Draw& draw, Case& value) {
  Shape& s = value.shape;
  int64_t* const extents[] = {&s.Tk, &s.Tk, &s.Tq, &s.B};
  *extents[draw.range(0, 3)] = 0;
}

// The sizes of real kernels, and those at which borders show soonest.
void draw_pages(Draw& draw, Case& value) {
  constexpr std::array<int64_t, 10> kSizes = {1, 2, 2, 3, 4, 4, 5, 8, 16, 32};
  constexpr std::array<PageOrder, 4> kOrders = {
      PageOrder::kPermuted, PageOrder::kPermuted, PageOrder::kInOrder,
      PageOrder::kReverse};
  value.paging = {draw.of(kSizes), draw.of(kOrders),
                  draw.chance(50) ? Unowned::kOthers : Unowned::kNan};
  if (value.kv_len.empty() && draw.chance(60) &&
      static_cast<size_t>(value.shape.B) <= kMaxMembers)
    value.kv_len = draw_lengths(draw, value.shape.B, value.shape.Tk);
}

// In the pages of the case, or in new ones.
void draw_groups(Draw& draw, Case& value) {
  if (value.paging.size == 0) draw_pages(draw, value);
  in_channel_groups(value);
}

// Steps of decoding, one query each, around a member in prefill; half the time,
// if there are rows for it.
void draw_packed_pages(Draw& draw, Case& value) {
  draw_members(draw, value);
  draw_pages(draw, value);
  value.kv_len.clear();
  std::vector<int64_t>& starts = value.cu_q;
  const auto members = static_cast<int64_t>(starts.size()) - 1;
  if (starts.back() < members || draw.chance(50)) return;
  const int64_t prompt = draw.range(0, members - 1);
  for (int64_t m = 1; m < members; ++m)
    starts[static_cast<size_t>(m)] =
        m <= prompt ? m : starts.back() - (members - m);
}

// As many as there are queries (a step of decoding), or any number.
void draw_append(Draw& draw, Case& value) {
  const Shape& s = value.shape;
  value.append = draw.chance(40) ? s.Tq : draw.range(1, 5);
  value.append = std::min(value.append, s.Tk);
  for (int64_t& length : value.kv_len) length = std::max(length, value.append);
}

// Three to eight calls in a process; now and then hundreds of small ones among
// them, more than a byte can count.
void draw_calls(Draw& draw, Case& value) {
  using enum CallStepKind;
  constexpr std::array<CallStepKind, 16> kKinds = {
      kAsIs, kAsIs, kAsIs, kOther, kOther,     kOther,   kNone, kNone,
      kWith, kWith, kMore, kMore,  kElsewhere, kContext, kFew,  kFew};
  constexpr int64_t kByte = 256;
  CallSequence calls = {{kAsIs}};
  for (int64_t more = draw.range(2, 7); more > 0; --more)
    calls.push_back({draw.of(kKinds)});
  if (draw.chance(10)) {
    calls.push_back({kFew, kByte + draw.range(0, 8)});
    calls.push_back({kAsIs});
  }
  value.calls = joined(calls);
}

// Lists instead of tables for some cases, and packed pages in either form of
// table. Draws nothing if no kernel has a choice.
void settle_lists(Draw& draw, uint64_t allows, Case& value) {
  if (value.int32_lengths && !gives_lengths(value))
    for (const uint64_t lists :
         {QKVET_OPTION_LENGTHS, QKVET_OPTION_PACKED, QKVET_OPTION_PAGED})
      if ((allows & lists) != 0) {
        draw_option(draw, lists, value);
        break;
      }
  if (!value.cu_q.empty() && value.paging.size > 0 &&
      (allows & QKVET_OPTION_PAGED_CSR) != 0 && draw.chance(50))
    value.paging.table = PageTable::kCsr;
  keep_table_allowed(allows, value);
}

// The second member has the length counted from the other end.
std::vector<int64_t> lengths_from(int64_t n, const Case& c) {
  std::vector<int64_t> out = {n};
  if (c.shape.B > 1) out.push_back(kSmallExtent - n);
  return out;
}

void add_lengths(const AddSetting& add) {
  for (int64_t n = 0; n <= kSmallExtent; ++n) {
    add([=](Case& c) { c.kv_len = lengths_from(n, c); });
    add([=](Case& c) { c.q_len = lengths_from(n, c); });
    for (int64_t m = 0; m <= kSmallExtent; ++m)
      add([=](Case& c) {
        c.q_len = lengths_from(n, c);
        c.kv_len = lengths_from(m, c);
      });
  }
}

void add_members(const AddSetting& add) {
  for (int64_t n = 0; n <= kSmallExtent; ++n)
    for (int64_t m = 0; m <= kSmallExtent; ++m)
      add([=](Case& c) {
        const Shape& s = c.shape;
        c.cu_q = {0, std::min(n, s.Tq), s.Tq};
        c.cu_k = {0, std::min(m, s.Tk), s.Tk};
      });
}

// One group of channels, and two: d follows from them.
void add_groups(const AddSetting& add) {
  for (int64_t groups = 1; groups <= 2; ++groups)
    add([=](Case& c) {
      if (c.paging.size == 0)
        c.paging = {2, PageOrder::kReverse, Unowned::kOthers, c.paging.table};
      const bool same_width = c.shape.dv == c.shape.d;
      c.paging.pool = PageForm::kGroups;
      c.shape.d = groups * channel_group_of(c);
      if (same_width) c.shape.dv = c.shape.d;
    });
}

void add_packed_pages(const AddSetting& add) {
  for (int64_t n = 0; n <= kSmallExtent; ++n)
    add([=](Case& c) {
      c.cu_q = {0, std::min<int64_t>(1, c.shape.Tq), c.shape.Tq};
      c.cu_k = {0, std::min(n, c.shape.Tk), c.shape.Tk};
      c.paging = {2, PageOrder::kReverse, Unowned::kOthers, c.paging.table,
                  c.paging.pool};
    });
}

void add_values_in_keys(const AddSetting& add) {
  add([](Case& c) {
    c.values_in_keys = true;
    c.v = {};
  });
}

void add_empty(const AddSetting& add) {
  for (const auto extent : {&Shape::B, &Shape::Tq, &Shape::Tk})
    add([=](Case& c) { c.shape.*extent = 0; });
}

// Uses the lists of the case, or adds one.
void add_int32(const AddSetting& add) {
  add([](Case& c) {
    if (!gives_lengths(c)) c.q_len = lengths_from(2, c);
    c.int32_lengths = true;
  });
}

}  // namespace

void fit_far(Draw& draw, Case& value) {
  Shape& s = value.shape;
  // Lists have a number for each member already.
  if (value.layout != Layout::kFar || gives_lengths(value) || s.B < 1) return;
  if (s.Hkv > 0 && draw.chance(50)) {
    s.B = 1;
    s.H = 2 * s.group();
    s.Hkv = 2;
  } else {
    s.B = draw.range(2, 3);
  }
}

std::vector<DrawnOption> options_of_memory() {
  return {
      {QKVET_OPTION_LENGTHS, draw_lengths, "", add_lengths},
      {QKVET_OPTION_PACKED, draw_members, "", add_members},
      {kOptionLayout, draw_layout,
       "layout={bthd,packed,gaps,apart,far,turned}"},
      {kOptionShare,
       [](Draw& draw, Case& c) {
         c.share = static_cast<uint8_t>(draw.range(1, kShareB | kShareH));
       },
       "share={b,h,bh}"},
      // Pages of one token, of some, and of more than there are.
      {QKVET_OPTION_PAGED, draw_pages,
       "page={1,2,3,4}+pages={perm+unowned=nan,reverse+unowned=others}"},
      {QKVET_OPTION_PAGED_CHANNEL_GROUPS, draw_groups, "", add_groups,
       [](const Case& c) { return c.paging.size > 0; }, 40, false},
      {QKVET_OPTION_PAGED_CSR,
       [](Draw& draw, Case& c) {
         draw_pages(draw, c);
         c.paging.table = PageTable::kCsr;
       },
       "page={1,2,3,4}+pages=reverse+unowned=others+table=csr"},
      {QKVET_OPTION_PACKED_PAGES, draw_packed_pages, "", add_packed_pages},
      {QKVET_OPTION_APPEND, draw_append, "append={1,2,3}"},
      {QKVET_OPTION_EMPTY_EXTENTS, draw_empty, "", add_empty},
      {QKVET_OPTION_VALUES_IN_KEYS,
       [](Draw&, Case& c) { c.values_in_keys = true; }, "", add_values_in_keys},
      // After all lists, which it refines.
      {QKVET_OPTION_INT32_LENGTHS,
       [](Draw&, Case& c) { c.int32_lengths = true; }, "", add_int32,
       gives_lengths, 50, true, nullptr, settle_lists},
      {kOptionCalls, draw_calls},
  };
}

}  // namespace qkvet::properties
