// SPDX-License-Identifier: Apache-2.0
// The same call with rows that see other keys.
#include <algorithm>
#include <cmath>

#include "diagnosis/instead/reading.h"

namespace qkvet::diagnosis {
namespace {

// --- which keys

// Changes the keys of a row, `seen`, in ascending order, among all Tk.
using Changes = std::function<void(std::vector<int64_t>& seen, int64_t keys)>;

// Visibility by this mask, which contains all other rules.
void see_alone(Problem& p, Room& room, std::vector<uint8_t> mask) {
  p.mask = room.keep(std::move(mask));
  p.listed = {};
  // Without causality, slopes keep their diagonal, except for top-left.
  if (p.causal == Causal::kTopLeft && p.slopes != nullptr) return;
  p.causal = Causal::kNone;
  p.window.reset();
}

// Changes the keys of every row.
void see_otherwise(Problem& p, Room& room, const Changes& change) {
  const OracleOutput known = plain_forward(p);
  const Shape& s = p.shape;
  std::vector<uint8_t> mask(known.sees.size());
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    std::vector<int64_t> seen;
    for (int64_t j = 0; j < s.Tk; ++j)
      if (known.sees[static_cast<size_t>(row * s.Tk + j)] != 0)
        seen.push_back(j);
    if (!seen.empty()) change(seen, s.Tk);
    for (const int64_t j : seen)
      if (j >= 0 && j < s.Tk) mask[static_cast<size_t>(row * s.Tk + j)] = 1;
  }
  see_alone(p, room, std::move(mask));
}

// Removes the keys [from, to) from every row.
void see_but(Problem& p, Room& room, int64_t from, int64_t to) {
  const OracleOutput known = plain_forward(p);
  std::vector<uint8_t> mask(known.sees.begin(), known.sees.end());
  for (int64_t n = 0; n < std::ssize(mask); ++n)
    if (n % p.shape.Tk >= from && n % p.shape.Tk < to)
      mask[static_cast<size_t>(n)] = 0;
  p.mask = room.keep(std::move(mask));
}

// The keys of another row, [B,H,Tq] for [B,H,Tq]; outside: those of the row
// itself.
using OtherRow = std::function<void(int64_t& b, int64_t& h, int64_t& i)>;
void see_as_another(Problem& p, Room& room, const OtherRow& other) {
  const OracleOutput known = plain_forward(p);
  const Shape& s = p.shape;
  std::vector<uint8_t> mask;
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    int64_t b = row / (s.H * s.Tq), h = row / s.Tq % s.H, i = row % s.Tq;
    other(b, h, i);
    const bool is_inside =
        b >= 0 && b < s.B && h >= 0 && h < s.H && i >= 0 && i < s.Tq;
    const int64_t from = is_inside ? (b * s.H + h) * s.Tq + i : row;
    for (int64_t j = 0; j < s.Tk; ++j)
      mask.push_back(known.sees[static_cast<size_t>(from * s.Tk + j)]);
  }
  see_alone(p, room, std::move(mask));
}

// All rows of a tile see the keys of its first or last row, where row i * group
// + g of a key/value head is row i of its query head g. The last tile may have
// fewer.
void see_as_in_tile_of_heads(Problem& p, Room& room, int64_t tile,
                             bool is_last) {
  const int64_t group = p.shape.H / p.shape.Hkv, all = group * p.shape.Tq;
  see_as_another(p, room, [=](int64_t&, int64_t& h, int64_t& i) {
    const int64_t g = h % group, row = i * group + g;
    const int64_t first = row - row % tile;
    const int64_t other = is_last ? std::min(first + tile, all) - 1 : first;
    i = other / group;
    h += other % group - g;
  });
}

void add_rows_of_keys(Readings& rows) {
  const auto add = [&rows](const std::string& whose, OtherRow other) {
    rows.push_back({"the result of the keys that " + whose + " sees",
                    Stage::kKeys,
                    [other = std::move(other)](Problem& p, Room& room) {
                      see_as_another(p, room, other);
                    }});
  };
  add("row 0", [](int64_t&, int64_t&, int64_t& i) { i = 0; });
  add("the row in front", [](int64_t&, int64_t&, int64_t& i) { --i; });
  add("the row after", [](int64_t&, int64_t&, int64_t& i) { ++i; });
  add("head 0", [](int64_t&, int64_t& h, int64_t&) { h = 0; });
  add("member 0", [](int64_t& b, int64_t&, int64_t&) { b = 0; });
  add("the row with head and row exchanged",
      [](int64_t&, int64_t& h, int64_t& i) { std::swap(h, i); });
  add("the row with member and head exchanged",
      [](int64_t& b, int64_t& h, int64_t&) { std::swap(b, h); });
  add("the row with member and row exchanged",
      [](int64_t& b, int64_t&, int64_t& i) { std::swap(b, i); });
  // Rows that a kernel processes together, of one head, or of all heads that
  // share keys, which are then adjacent.
  for (const int64_t tile : {2, 4, 6, 8, 16, 32, 64, 128}) {
    const std::string of_tile = " of its " + std::to_string(tile) + " rows";
    add("the first" + of_tile,
        [tile](int64_t&, int64_t&, int64_t& i) { i -= i % tile; });
    add("the last" + of_tile,
        [tile](int64_t&, int64_t&, int64_t& i) { i += tile - 1 - i % tile; });
    for (const bool is_last : {false, true})
      rows.push_back(
          {std::string("the result of the keys that the ") +
               (is_last ? "last" : "first") + of_tile +
               " (query heads of a key/value head side by side) sees",
           Stage::kKeys, [tile, is_last](Problem& p, Room& room) {
             see_as_in_tile_of_heads(p, room, tile, is_last);
           }});
  }
}

// Counts keys `times` as often, by a bias; only if the bias is added last.
void weigh_end(Problem& p, Room& room, bool is_last, double times) {
  if (p.softcap > 0 && p.softcap_after_bias) return;
  const OracleOutput known = plain_forward(p);
  const Shape& s = p.shape;
  std::vector<double> bias(known.sees.size());
  if (p.bias != nullptr) bias.assign(p.bias, p.bias + bias.size());
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    int64_t end = -1;
    for (int64_t j = 0; j < s.Tk; ++j)
      if (known.sees[static_cast<size_t>(row * s.Tk + j)] != 0 &&
          (end < 0 || is_last))
        end = j;
    if (end >= 0)
      bias[static_cast<size_t>(row * s.Tk + end)] += std::log(times);
  }
  p.bias = room.keep(std::move(bias));
}

void add_changed(Readings& rows, std::string text, Changes change) {
  rows.push_back({std::move(text), Stage::kKeys,
                  [change = std::move(change)](Problem& p, Room& room) {
                    see_otherwise(p, room, change);
                  }});
}

// Sets of visible keys that mistakes with tiles may leave.
void add_tiles(Readings& rows) {
  using Seen = std::vector<int64_t>;
  for (const int64_t tile : {4, 8, 16, 32, 64, 128, 256}) {
    const std::string keys = std::to_string(tile) + " keys";
    const auto add = [&](const std::string& text, auto keeps) {
      add_changed(rows, "the result " + text,
                  [tile, keeps](Seen& seen, int64_t all) {
                    std::erase_if(
                        seen, [&](int64_t j) { return !keeps(j, tile, all); });
                  });
    };
    add("of the first " + keys + " alone",
        [](int64_t j, int64_t n, int64_t) { return j < n; });
    add("without the first " + keys,
        [](int64_t j, int64_t n, int64_t) { return j >= n; });
    add("without the last tile of " + keys + ", which is not full",
        [](int64_t j, int64_t n, int64_t all) { return j < all / n * n; });
    add("of the last tile of " + keys + " alone",
        [](int64_t j, int64_t n, int64_t all) {
          return j >= (all - 1) / n * n;
        });
    add("of the keys j with j mod " + std::to_string(2 * tile) + " < " +
            std::to_string(tile) + " alone",
        [](int64_t j, int64_t n, int64_t) { return j % (2 * n) < n; });
  }
}

void add_keys(Readings& rows) {
  const auto add = [&rows](const char* text, Changes change) {
    add_changed(rows, text, std::move(change));
  };
  using Seen = std::vector<int64_t>;
  add("the result without the last key that a row sees",
      [](Seen& seen, int64_t) { seen.pop_back(); });
  add("the result without the first key that a row sees",
      [](Seen& seen, int64_t) { seen.erase(seen.begin()); });
  add("the result of the first key that a row sees alone",
      [](Seen& seen, int64_t) { seen.resize(1); });
  add("the result of the last key that a row sees alone",
      [](Seen& seen, int64_t) { seen = {seen.back()}; });
  add("the result of one key more, the next after those that a row sees",
      [](Seen& seen, int64_t) { seen.push_back(seen.back() + 1); });
  add("the result of one key more, the next before those that a row sees",
      [](Seen& seen, int64_t) { seen.push_back(seen.front() - 1); });
  add("the result of every key, hidden or not", [](Seen& seen, int64_t keys) {
    seen.clear();
    for (int64_t j = 0; j < keys; ++j) seen.push_back(j);
  });
  add("the result of the keys that the row should not see, alone",
      [](Seen& seen, int64_t keys) {
        Seen others;
        for (int64_t j = 0; j < keys; ++j)
          if (!std::binary_search(seen.begin(), seen.end(), j))
            others.push_back(j);
        seen = others;
      });
}

void add_own_tokens(Readings& rows) {
  rows.push_back({"the result without the call's own tokens, the last Tq keys",
                  Stage::kKeys, [](Problem& p, Room& room) {
                    see_but(p, room, p.shape.Tk - p.shape.Tq, p.shape.Tk);
                  }});
  rows.push_back({"the result of the call's own tokens alone, the last Tq keys",
                  Stage::kKeys, [](Problem& p, Room& room) {
                    see_but(p, room, 0, p.shape.Tk - p.shape.Tq);
                  }});
}

// Another extent is taken for the number of keys.
void add_other_extents(Readings& rows) {
  rows.push_back({"the result of the first Tq keys alone", Stage::kKeys,
                  [](Problem& p, Room& room) {
                    if (p.shape.Tq < p.shape.Tk)
                      see_but(p, room, p.shape.Tq, p.shape.Tk);
                  }});
  rows.push_back({"the result of the first H keys alone", Stage::kKeys,
                  [](Problem& p, Room& room) {
                    if (p.shape.H < p.shape.Tk)
                      see_but(p, room, p.shape.H, p.shape.Tk);
                  }});
}

void add_counts(Readings& rows) {
  for (const bool is_last : {true, false})
    rows.push_back({std::string("the result with the ") +
                        (is_last ? "last" : "first") +
                        " key that a row sees counted twice",
                    Stage::kKeys, [is_last](Problem& p, Room& room) {
                      weigh_end(p, room, is_last, 2);
                    }});
  const auto add_padding = [&rows](const std::string& text,
                                   std::function<int64_t(int64_t)> more) {
    rows.push_back(
        {text, Stage::kKeys, [more = std::move(more)](Problem& p, Room& room) {
           const int64_t n = more(p.shape.Tk);
           if (p.sink != nullptr || n < 1) return;
           p.sink =
               room.keep(std::vector<double>(static_cast<size_t>(p.shape.H),
                                             std::log(static_cast<double>(n))));
         }});
  };
  add_padding("the result of one key more, of score 0 and value 0",
              [](int64_t) { return int64_t{1}; });
  for (const int64_t tile : {2, 4, 8, 16, 32, 64, 128})
    add_padding(
        "the result of as many keys of score 0 and value 0 more as make Tk a "
        "multiple of " +
            std::to_string(tile),
        [tile](int64_t keys) { return (tile - keys % tile) % tile; });
  for (const int64_t shift : {-1, 1})
    rows.push_back(
        {std::string("the result of lengths of keys that are one ") +
             (shift > 0 ? "more" : "less"),
         Stage::kKeys, [shift](Problem& p, Room& room) {
           if (p.kv_len == nullptr) return;
           p.kv_len = room.changed(p.kv_len, p.shape.B, [&](int64_t n) {
             return std::clamp<int64_t>(n + shift, 0, p.shape.Tk);
           });
         }});
}

// --- lists of keys

using List = std::vector<int32_t>;

// Changes each row's list of keys: `list` has the entries that count, `all`
// also the rest. The new list is padded with -1.
void list_otherwise(Problem& p, Room& room,
                    const std::function<void(List& list, const List& all,
                                             int64_t keys)>& change) {
  const ListedKeys listed = p.listed;
  if (listed.keys == nullptr) return;
  const Shape& s = p.shape;
  const int64_t entries = listed.entries;
  const auto width = static_cast<size_t>(entries + s.Tk + 1);
  List lists;
  for (int64_t row = 0; row < s.B * listed.heads * s.Tq; ++row) {
    const int64_t b = row / (listed.heads * s.Tq), i = row % s.Tq;
    const int32_t* from = listed.keys + row * entries;
    const List all(from, from + entries);
    List list = all;
    if (listed.counts != nullptr)
      list.resize(static_cast<size_t>(listed.counts[b * s.Tq + i]));
    change(list, all, s.Tk);
    list.resize(width, -1);
    lists.insert(lists.end(), list.begin(), list.end());
  }
  p.listed.keys = room.keep(std::move(lists));
  p.listed.entries = static_cast<int64_t>(width);
  p.listed.counts = nullptr;
}

// The list of another row: of [B,heads,Tq].
void list_of_another(Problem& p, Room& room,
                     int64_t (*other)(const Problem& p, int64_t b, int64_t head,
                                      int64_t i)) {
  const ListedKeys listed = p.listed;
  if (listed.keys == nullptr) return;
  List lists;
  for (int64_t b = 0; b < p.shape.B; ++b)
    for (int64_t h = 0; h < listed.heads; ++h)
      for (int64_t i = 0; i < p.shape.Tq; ++i) {
        const int32_t* from = listed.keys + other(p, b, h, i) * listed.entries;
        lists.insert(lists.end(), from, from + listed.entries);
      }
  p.listed.keys = room.keep(std::move(lists));
}

void add_lists(Readings& rows) {
  using Change = void (*)(List & list, const List& all, int64_t keys);
  const auto add = [&rows](const char* text, Change change) {
    rows.push_back({std::string("the result of lists of keys ") + text,
                    Stage::kKeys, [change](Problem& p, Room& room) {
                      list_otherwise(p, room, change);
                    }});
  };
  add("in which -1 is the last key", [](List& list, const List&, int64_t keys) {
    for (int32_t& j : list)
      if (j < 0) j = static_cast<int32_t>(keys - 1);
  });
  add("in which -1 is key 0", [](List& list, const List&, int64_t) {
    for (int32_t& j : list)
      if (j < 0) j = 0;
  });
  add("that end at the first -1", [](List& list, const List&, int64_t) {
    list.erase(std::find(list.begin(), list.end(), -1), list.end());
  });
  add("without their last entry", [](List& list, const List&, int64_t) {
    if (!list.empty()) list.pop_back();
  });
  add("without their first entry", [](List& list, const List&, int64_t) {
    if (!list.empty()) list.erase(list.begin());
  });
  add("with one entry more than count",
      [](List& list, const List& all, int64_t) {
        if (list.size() < all.size()) list.push_back(all[list.size()]);
      });
  add("with all entries counted",
      [](List& list, const List& all, int64_t) { list = all; });
  using Other = int64_t (*)(const Problem& p, int64_t b, int64_t h, int64_t i);
  const auto add_other = [&rows](const char* text, Other other) {
    rows.push_back(
        {std::string("the result of the list of keys of ") + text, Stage::kKeys,
         [other](Problem& p, Room& room) { list_of_another(p, room, other); }});
  };
  add_other("head 0", [](const Problem& p, int64_t b, int64_t, int64_t i) {
    return b * p.listed.heads * p.shape.Tq + i;
  });
  add_other("row 0", [](const Problem& p, int64_t b, int64_t h, int64_t) {
    return (b * p.listed.heads + h) * p.shape.Tq;
  });
  add_other("member 0", [](const Problem& p, int64_t, int64_t h, int64_t i) {
    return h * p.shape.Tq + i;
  });
  add_other("the row with head and row exchanged",
            [](const Problem& p, int64_t b, int64_t h, int64_t i) {
              return b * p.listed.heads * p.shape.Tq + i * p.listed.heads + h;
            });
  rows.push_back(
      {"the result of lists of keys that are lists of blocks", Stage::kKeys,
       [](Problem& p, Room& room) {
         if (room.block == 1) return;
         const auto block = static_cast<size_t>(room.block);
         list_otherwise(p, room, [block](List& list, const List&, int64_t) {
           for (size_t n = 0; n * block < list.size(); ++n)
             if (const int32_t key = list[n] = list[n * block]; key > 0)
               list[n] = key / static_cast<int32_t>(block);
           list.resize((list.size() + block - 1) / block);
         });
       }});
  rows.push_back({"the result without the lists of keys", Stage::kKeys,
                  [](Problem& p, Room&) { p.listed = {}; }});
  rows.push_back(
      {"the result of lists of keys without the causal rule and the window",
       Stage::kKeys, [](Problem& p, Room&) {
         if (p.listed.keys == nullptr || p.slopes != nullptr) return;
         p.causal = Causal::kNone;
         p.window.reset();
       }});
}

// Windows, chunks and ranges depend on the diagonal as well.
void add_shifted_diagonals(Readings& rows) {
  constexpr int64_t kMostShift = 8;
  const auto shifted = [](int64_t shift) {
    return [shift](Problem& p, Room& room) {
      if (p.causal == Causal::kNone || p.window || p.q_len != nullptr ||
          p.kv_len != nullptr || p.members != 0 || p.listed.keys != nullptr ||
          p.fields.ranges != 0 || p.fields.chunk != 0 ||
          p.fields.tree != nullptr)
        return;
      const Shape& s = p.shape;
      const int64_t first =
          p.causal == Causal::kBottomRight ? s.Tk - s.Tq + shift : shift;
      std::vector<uint8_t> mask(static_cast<size_t>(s.weights_elements()));
      for (size_t n = 0; n < mask.size(); ++n) {
        const auto pair = static_cast<int64_t>(n);
        mask[n] = pair % s.Tk <= pair / s.Tk % s.Tq + first &&
                  (p.mask == nullptr || p.mask[n] != 0);
      }
      p.mask = room.keep(std::move(mask));
      p.causal = Causal::kNone;
    };
  };
  for (int64_t shift = -kMostShift; shift <= kMostShift; ++shift) {
    if (shift == 0) continue;
    const std::string by = std::to_string(std::abs(shift));
    const bool is_far = shift > 0;
    const std::string keys = by + (by == "1" ? " key" : " keys");
    const std::string too = is_far ? "far" : "short";
    rows.push_back({"the result with the diagonal " + keys + " too " + too,
                    Stage::kKeys,
                    shifted(shift),
                    {"diagonal_too_" + too + "_by_" + by,
                     "The causal rule is shifted: each row sees " + keys +
                         (is_far ? " too many, of the future." : " too few."),
                     "Compare the key with the row's own position."}});
  }
}

void add_lost_keys(Readings& rows) {
  const auto add = [&](const std::string& text, std::string name,
                       std::string cause, std::string fix, Changes change) {
    rows.push_back({"the result " + text,
                    Stage::kKeys,
                    [change = std::move(change)](Problem& p, Room& room) {
                      // Lists have an order of their own.
                      if (p.listed.keys == nullptr)
                        see_otherwise(p, room, change);
                    },
                    {std::move(name), std::move(cause), std::move(fix)}});
  };
  using Seen = std::vector<int64_t>;
  for (const int64_t n : {1, 2, 3}) {
    const std::string count = n == 1 ? "key" : std::to_string(n) + " keys";
    add("without the last " + count + " that a row sees",
        "last_keys_lost_" + std::to_string(n),
        "The last " + count + " that a row sees are left out.",
        "End the loop over keys after the last one.", [n](Seen& seen, int64_t) {
          seen.erase(seen.end() - std::min(n, std::ssize(seen)), seen.end());
        });
    add("without the first " + count + " that a row sees",
        "first_keys_lost_" + std::to_string(n),
        "The first " + count + " that a row sees are left out.",
        "Begin the loop over keys at the first one.", [n](Seen& seen, int64_t) {
          seen.erase(seen.begin(),
                     seen.begin() + std::min(n, std::ssize(seen)));
        });
  }
  for (int64_t tile = 2; tile <= 256; tile *= 2) {
    const std::string of = std::to_string(tile);
    add("of the whole tiles of " + of + " keys that a row sees",
        "rest_of_tile_lost_" + of,
        "Only whole tiles of " + of + " keys are computed: the rest is lost.",
        "Compute the last, partly filled tile as well, its rest masked.",
        [tile](Seen& seen, int64_t) {
          const int64_t keys = std::ssize(seen);
          if (keys >= tile)
            seen.resize(static_cast<size_t>(keys / tile * tile));
        });
    add("of the first " + of + " keys alone",
        "keys_after_first_tile_lost_" + of,
        "No more than " + of + " keys are computed.",
        "Loop over all tiles of keys.", [tile](Seen& seen, int64_t) {
          std::erase_if(seen, [&](int64_t j) { return j >= tile; });
        });
  }
}

}  // namespace

Edit seeing_every_key() {
  return [](Problem& p, Room& room) {
    see_otherwise(p, room, [](std::vector<int64_t>& seen, int64_t keys) {
      seen.clear();
      for (int64_t j = 0; j < keys; ++j) seen.push_back(j);
    });
  };
}

void add_readings_of_key_sets(Readings& rows) {
  add_lists(rows);
  add_keys(rows);
  add_own_tokens(rows);
  add_other_extents(rows);
  add_tiles(rows);
  add_rows_of_keys(rows);
}

void add_readings_of_keys(Readings& rows) {
  add_counts(rows);
  add_readings_of_key_sets(rows);
  add_shifted_diagonals(rows);
  add_lost_keys(rows);
}

}  // namespace qkvet::diagnosis
