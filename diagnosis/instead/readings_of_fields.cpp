// SPDX-License-Identifier: Apache-2.0
// The same call with another reading of masks given as a few numbers
// (kernel.h): windows, segments, ranges visible both ways, chunks, trees of
// drafts.
#include <algorithm>

#include "diagnosis/instead/reading.h"
#include "reference/attention/plain.h"

namespace qkvet::diagnosis {
namespace {

using reference::PlainHooks;
using reference::PlainPlace;

// A pair of a row and a key, counted from the first of their member.
struct PairAt {
  PlainPlace row;
  int64_t diagonal = 0;  // position of the row
  int64_t j = 0;
};
// Whether a row sees a key under this rule.
using Rule = bool (*)(const Problem& p, const PairAt& at);

// `p` with its mask and the rule, for every pair [B,H,Tq,Tk]. Rows and keys
// outside every member are unchanged.
const uint8_t* masked_by(const Problem& p, Room& room, Rule rule) {
  const Shape& s = p.shape;
  std::vector<uint8_t> mask(static_cast<size_t>(s.weights_elements()), 1);
  if (p.mask != nullptr) mask.assign(p.mask, p.mask + mask.size());
  for (int64_t n = 0; n < std::ssize(mask); ++n) {
    const int64_t row = n / s.Tk;
    const PlainPlace place =
        PlainHooks::place(p, row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq);
    const int64_t j = n % s.Tk - place.first_k;
    if (place.i < place.Lq && j >= 0 && j < place.Lk &&
        !rule(p, {place, PlainHooks::diagonal(p, place), j}))
      mask[static_cast<size_t>(n)] = 0;
  }
  return room.keep(std::move(mask));
}

// Replaces the segment number of each row and key.
using Number = int64_t (*)(const Problem& p, const int64_t* of, int64_t b,
                           int64_t t, int64_t extent);
const int64_t* numbered(const Problem& p, Room& room, const int64_t* of,
                        int64_t extent, const Number& number) {
  std::vector<int64_t> out;
  for (int64_t b = 0; b < p.shape.B; ++b)
    for (int64_t t = 0; t < extent; ++t)
      out.push_back(number(p, of, b, t, extent));
  return room.keep(std::move(out));
}

void add_windows(Readings& rows) {
  rows.push_back(
      {"the result with the window counted from the top left", Stage::kKeys,
       [](Problem& p, Room& room) {
         if (!p.window) return;
         p.mask = masked_by(p, room, [](const Problem& of, const PairAt& at) {
           return PlainHooks::in_window(*of.window, at.row.i, at.j);
         });
         p.window.reset();
       }});
}

// --- segments

void add_segments(Readings& rows) {
  rows.push_back(
      {"the result without the segments", Stage::kKeys, [](Problem& p, Room&) {
         p.fields.segments_q = p.fields.segments_k = nullptr;
       }});
  enum Side : uint8_t { kOfRows = 1, kOfKeys = 2 };
  const auto add = [&rows](const char* text, int sides, Number number) {
    rows.push_back({std::string("the result of segments ") + text, Stage::kKeys,
                    [sides, number](Problem& p, Room& room) {
                      const FieldMasks f = p.fields;
                      if (f.segments_q == nullptr) return;
                      if ((sides & kOfRows) != 0)
                        p.fields.segments_q =
                            numbered(p, room, f.segments_q, p.shape.Tq, number);
                      if ((sides & kOfKeys) != 0)
                        p.fields.segments_k =
                            numbered(p, room, f.segments_k, p.shape.Tk, number);
                    }});
  };
  add("with padding, the numbers below 0, as segments like others",
      kOfRows | kOfKeys,
      [](const Problem&, const int64_t* of, int64_t b, int64_t t, int64_t n) {
        constexpr int64_t kBeyondAll = int64_t{1} << 62;
        const int64_t number = of[b * n + t];
        return number < 0 ? kBeyondAll + number : number;
      });
  add("with numbers that are cut to 32 bits", kOfRows | kOfKeys,
      [](const Problem&, const int64_t* of, int64_t b, int64_t t, int64_t n) {
        return int64_t{static_cast<int32_t>(of[b * n + t])};
      });
  add("of member 0", kOfRows | kOfKeys,
      [](const Problem&, const int64_t* of, int64_t, int64_t t, int64_t) {
        return of[t];
      });
  add("with those of keys read from the list of the rows", kOfKeys,
      [](const Problem& p, const int64_t*, int64_t b, int64_t t, int64_t) {
        return p.fields
            .segments_q[b * p.shape.Tq + std::min(t, p.shape.Tq - 1)];
      });
  add("with those of rows read from the list of the keys", kOfRows,
      [](const Problem& p, const int64_t* of, int64_t b, int64_t t, int64_t n) {
        return p.shape.Tk == 0
                   ? of[b * n + t]
                   : p.fields.segments_k[b * p.shape.Tk +
                                         std::min(t, p.shape.Tk - 1)];
      });
  // Tiles for which only one number is read.
  for (const int64_t tile : {2, 4, 8, 16, 32, 64, 128})
    for (const bool of_keys : {true, false})
      rows.push_back(
          {"the result of segments that change at multiples of " +
               std::to_string(tile) + (of_keys ? " keys" : " rows") + " alone",
           Stage::kKeys, [tile, of_keys](Problem& p, Room& room) {
             const int64_t*& of =
                 of_keys ? p.fields.segments_k : p.fields.segments_q;
             const int64_t extent = of_keys ? p.shape.Tk : p.shape.Tq;
             if (of == nullptr) return;
             std::vector<int64_t> out(of, of + p.shape.B * extent);
             for (int64_t n = 0; n < std::ssize(out); ++n)
               out[static_cast<size_t>(n)] = of[n - n % extent % tile];
             of = room.keep(std::move(out));
           }});
  rows.push_back(
      {"the result of keys of segments with lower numbers, too", Stage::kKeys,
       [](Problem& p, Room& room) {
         if (p.fields.segments_q == nullptr) return;
         p.mask = masked_by(p, room, [](const Problem& of, const PairAt& at) {
           const FieldMasks& f = of.fields;
           const int64_t key = f.segments_k[at.row.b * of.shape.Tk + at.j];
           return key >= 0 &&
                  key <= f.segments_q[at.row.b * of.shape.Tq + at.row.i];
         });
         p.fields.segments_q = p.fields.segments_k = nullptr;
       }});
}

// --- ranges

// The ranges of member b, each [begin, end), changed.
void range_otherwise(Problem& p, Room& room,
                     void (*change)(const Problem& p, int64_t b, int64_t r,
                                    int64_t* range)) {
  const FieldMasks f = p.fields;
  if (f.full_ranges == nullptr) return;
  std::vector<int64_t> out(f.full_ranges,
                           f.full_ranges + 2 * p.shape.B * f.ranges);
  for (int64_t n = 0; n < p.shape.B * f.ranges; ++n)
    change(p, n / f.ranges, n % f.ranges, out.data() + 2 * n);
  p.fields.full_ranges = room.keep(std::move(out));
}

// The range that contains a position; -1: none.
int64_t range_at(const Problem& p, int64_t b, int64_t at) {
  for (int64_t r = 0; r < p.fields.ranges; ++r) {
    const int64_t* range = p.fields.full_ranges + 2 * (b * p.fields.ranges + r);
    if (range[0] <= at && at < range[1]) return r;
  }
  return -1;
}

// Applies another rule to the pairs that ranges make visible again.
void take_back(Problem& p, Room& room, Rule rule) {
  // Slopes would be counted from another diagonal.
  if (p.fields.full_ranges == nullptr ||
      (p.causal == Causal::kTopLeft && p.slopes != nullptr))
    return;
  Problem asked = p;
  asked.mask = nullptr;
  const uint8_t* taken = masked_by(asked, room, rule);
  const uint8_t* near =
      masked_by(asked, room, [](const Problem& of, const PairAt& at) {
        return !of.window || !of.fields.in_window ||
               PlainHooks::in_window(*of.window, at.diagonal, at.j);
      });
  p.fields.full_ranges = nullptr, p.fields.ranges = 0;
  const OracleOutput narrow = plain_forward(p);
  p.causal = Causal::kNone;
  p.window.reset();
  const OracleOutput wide = plain_forward(p);
  std::vector<uint8_t> mask(narrow.sees.begin(), narrow.sees.end());
  for (size_t n = 0; n < mask.size(); ++n)
    if (wide.sees[n] != 0 && taken[n] != 0 && near[n] != 0) mask[n] = 1;
  p.mask = room.keep(std::move(mask));
}

void add_ranges(Readings& rows) {
  const auto add = [&rows](const char* text, Edit edit) {
    rows.push_back(
        {std::string("the result ") + text, Stage::kKeys, std::move(edit)});
  };
  add("of a window that hides keys of a row's range, too",
      [](Problem& p, Room&) { p.fields.in_window = true; });
  add("of ranges that are seen whole, within the window or not",
      [](Problem& p, Room&) { p.fields.in_window = false; });
  // After these, because both hold for a window that hides all of a range.
  add("without the ranges that are seen both ways", [](Problem& p, Room&) {
    p.fields.full_ranges = nullptr, p.fields.ranges = 0;
  });
  using Change =
      void (*)(const Problem& p, int64_t b, int64_t r, int64_t* range);
  const auto add_changed = [&add](const char* text, Change change) {
    add(text,
        [change](Problem& p, Room& room) { range_otherwise(p, room, change); });
  };
  add_changed("of the ranges of member 0",
              [](const Problem& p, int64_t, int64_t r, int64_t* range) {
                const int64_t* first = p.fields.full_ranges + 2 * r;
                range[0] = first[0], range[1] = first[1];
              });
  add_changed("of the first range of each member alone",
              [](const Problem&, int64_t, int64_t r, int64_t* range) {
                if (r > 0) range[1] = range[0];
              });
  add_changed("of ranges that hold their end, too",
              [](const Problem&, int64_t, int64_t, int64_t* range) {
                if (range[1] > range[0]) ++range[1];
              });
  add_changed("of ranges without their last position",
              [](const Problem&, int64_t, int64_t, int64_t* range) {
                if (range[1] > range[0]) --range[1];
              });
  add_changed("of ranges without their first position",
              [](const Problem&, int64_t, int64_t, int64_t* range) {
                if (range[1] > range[0]) ++range[0];
              });
  add_changed("of ranges that are a begin and a length",
              [](const Problem&, int64_t, int64_t, int64_t* range) {
                if (range[1] > range[0]) range[1] += range[0];
              });
  const auto add_rule = [&add](const char* text, Rule rule) {
    add(text, [rule](Problem& p, Room& room) { take_back(p, room, rule); });
  };
  add_rule("of ranges that a row is looked up in by its number in the call",
           [](const Problem& p, const PairAt& at) {
             const int64_t own = range_at(p, at.row.b, at.row.i);
             return own >= 0 && own == range_at(p, at.row.b, at.j);
           });
  add_rule("of ranges that see one another",
           [](const Problem& p, const PairAt& at) {
             return range_at(p, at.row.b, at.diagonal) >= 0 &&
                    range_at(p, at.row.b, at.j) >= 0;
           });
  add_rule("of ranges that every row sees",
           [](const Problem& p, const PairAt& at) {
             return range_at(p, at.row.b, at.j) >= 0;
           });
  add_rule("of ranges with rows that see every key",
           [](const Problem& p, const PairAt& at) {
             return range_at(p, at.row.b, at.diagonal) >= 0;
           });
}

// --- chunks

void add_chunks(Readings& rows) {
  const auto add = [&rows](const char* text, int64_t (*other)(int64_t chunk)) {
    rows.push_back({std::string("the result ") + text, Stage::kKeys,
                    [other](Problem& p, Room&) {
                      if (p.fields.chunk > 0)
                        p.fields.chunk = other(p.fields.chunk);
                    }});
  };
  add("without the chunk", [](int64_t) { return int64_t{0}; });
  add("of chunks that are twice as long", [](int64_t n) { return 2 * n; });
  add("of chunks that are half as long",
      [](int64_t n) { return std::max<int64_t>(n / 2, 1); });
  add("of chunks of one key more", [](int64_t n) { return n + 1; });
  add("of chunks of one key less",
      [](int64_t n) { return std::max<int64_t>(n - 1, 1); });
  const auto add_rule = [&rows](const char* text, Rule rule) {
    rows.push_back({std::string("the result of ") + text, Stage::kKeys,
                    [rule](Problem& p, Room& room) {
                      if (p.fields.chunk == 0) return;
                      p.mask = masked_by(p, room, rule);
                      p.fields.chunk = 0;
                    }});
  };
  static constexpr auto kChunkOf = PlainHooks::chunk_of;
  add_rule("a window of a chunk's length that ends at the row",
           [](const Problem& p, const PairAt& at) {
             return at.j <= at.diagonal && at.diagonal - at.j < p.fields.chunk;
           });
  add_rule("a window of a chunk's length on each side of the row",
           [](const Problem& p, const PairAt& at) {
             return std::abs(at.j - at.diagonal) < p.fields.chunk;
           });
  add_rule("chunks that are counted from the last key",
           [](const Problem& p, const PairAt& at) {
             const int64_t last = at.row.Lk - 1, n = p.fields.chunk;
             return kChunkOf(last - at.j, n) == kChunkOf(last - at.diagonal, n);
           });
  add_rule("chunks that are counted from the call's first row",
           [](const Problem& p, const PairAt& at) {
             const int64_t first = at.diagonal - at.row.i, n = p.fields.chunk;
             return kChunkOf(at.j - first, n) == kChunkOf(at.row.i, n);
           });
  add_rule("the chunk that has a row's number in the call",
           [](const Problem& p, const PairAt& at) {
             const int64_t n = p.fields.chunk;
             return kChunkOf(at.j, n) == kChunkOf(at.row.i, n);
           });
}

// --- trees

// Replaces each entry of the tree: for row i and draft n.
void tree_otherwise(Problem& p, Room& room,
                    uint8_t (*other)(const uint8_t* tree, int64_t drafts,
                                     int64_t b, int64_t i, int64_t n)) {
  if (p.fields.tree == nullptr) return;
  const int64_t drafts = p.shape.Tq;
  std::vector<uint8_t> out;
  for (int64_t at = 0; at < p.shape.B * drafts * drafts; ++at)
    out.push_back(other(p.fields.tree, drafts, at / drafts / drafts,
                        at / drafts % drafts, at % drafts));
  p.fields.tree = room.keep(std::move(out));
}

void add_trees(Readings& rows) {
  rows.push_back({"the result without the tree", Stage::kKeys,
                  [](Problem& p, Room&) { p.fields.tree = nullptr; }});
  using Other = uint8_t (*)(const uint8_t* tree, int64_t drafts, int64_t b,
                            int64_t i, int64_t n);
  const auto add = [&rows](const char* text, Other other) {
    rows.push_back(
        {std::string("the result of ") + text, Stage::kKeys,
         [other](Problem& p, Room& room) { tree_otherwise(p, room, other); }});
  };
  static constexpr auto kAt = [](const uint8_t* tree, int64_t drafts, int64_t b,
                                 int64_t i, int64_t n) {
    return tree[(b * drafts + i) * drafts + n];
  };
  add("the tree with rows and drafts exchanged",
      [](const uint8_t* tree, int64_t drafts, int64_t b, int64_t i, int64_t n) {
        return kAt(tree, drafts, b, n, i);
      });
  add("the tree of member 0",
      [](const uint8_t* tree, int64_t drafts, int64_t, int64_t i, int64_t n) {
        return kAt(tree, drafts, 0, i, n);
      });
  add("a row that sees all drafts before it, on its branch or not",
      [](const uint8_t* tree, int64_t drafts, int64_t b, int64_t i, int64_t n) {
        return n < i ? uint8_t{1} : kAt(tree, drafts, b, i, n);
      });
  add("a row that sees the draft before it, on its branch or not",
      [](const uint8_t* tree, int64_t drafts, int64_t b, int64_t i, int64_t n) {
        return n == i - 1 ? uint8_t{1} : kAt(tree, drafts, b, i, n);
      });
  add("drafts that do not see themselves",
      [](const uint8_t* tree, int64_t drafts, int64_t b, int64_t i, int64_t n) {
        return n == i ? uint8_t{0} : kAt(tree, drafts, b, i, n);
      });
  add("drafts that see themselves alone, after the history",
      [](const uint8_t*, int64_t, int64_t, int64_t i, int64_t n) {
        return static_cast<uint8_t>(i == n);
      });
  const auto add_rule = [&rows](const char* text, Rule rule) {
    rows.push_back({std::string("the result of ") + text, Stage::kKeys,
                    [rule](Problem& p, Room& room) {
                      if (p.fields.tree == nullptr) return;
                      p.mask = masked_by(p, room, rule);
                      p.fields.tree = nullptr;
                    }});
  };
  static constexpr auto kFollows = [](const Problem& p, const PairAt& at,
                                      int64_t draft) {
    const int64_t drafts = p.shape.Tq;
    return draft < 0 || (draft < drafts &&
                         kAt(p.fields.tree, drafts, at.row.b, at.row.i, draft));
  };
  add_rule(
      "drafts that are counted from the first key",
      [](const Problem& p, const PairAt& at) { return kFollows(p, at, at.j); });
  add_rule("drafts that are the last Tq of all Tk keys",
           [](const Problem& p, const PairAt& at) {
             return kFollows(p, at, at.j - (p.shape.Tk - p.shape.Tq));
           });
  add_rule("drafts without the history",
           [](const Problem& p, const PairAt& at) {
             const int64_t draft = at.j - (at.row.Lk - at.row.Lq);
             return draft >= 0 && kFollows(p, at, draft);
           });
}

}  // namespace

void add_readings_of_fields(const KernelInfo& kernel, Readings& rows) {
  if (kernel.has_option(QKVET_OPTION_WINDOW)) add_windows(rows);
  if (kernel.has_option(QKVET_OPTION_SEGMENTS)) add_segments(rows);
  if (kernel.has_option(QKVET_OPTION_FULL_RANGES)) add_ranges(rows);
  if (kernel.has_option(QKVET_OPTION_CHUNK)) add_chunks(rows);
  if (kernel.has_option(QKVET_OPTION_TREE_MASK)) add_trees(rows);
}

}  // namespace qkvet::diagnosis
