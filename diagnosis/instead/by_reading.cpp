// SPDX-License-Identifier: Apache-2.0
// Descriptions that are the numbers of another call: the same one, with one
// thing read otherwise. The oracle answers it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "diagnosis/instead/reading.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// --- scores

void multiply_scale(Problem& p, double factor) {
  p.scale *= factor;
  p.scale_given = true;
}

void add_scales(Readings& rows) {
  struct OtherScale {
    const char* text;
    double (*of)(const Problem& p);
  };
  static constexpr OtherScale kScales[] = {
      {"no scale", [](const Problem& p) { return 1 / p.scale; }},
      {"the scale squared", [](const Problem& p) { return p.scale; }},
      {"1 / the scale",
       [](const Problem& p) { return 1 / (p.scale * p.scale); }},
      {"minus the scale", [](const Problem&) { return -1.0; }},
      {"twice the scale", [](const Problem&) { return 2.0; }},
      {"half the scale", [](const Problem&) { return 0.5; }},
      {"the scale times log2(e)",
       [](const Problem&) { return std::numbers::log2e; }},
      {"the scale times ln(2)",
       [](const Problem&) { return std::numbers::ln2; }},
      {"the scale 1/d",
       [](const Problem& p) {
         return 1 / (p.scale * static_cast<double>(p.shape.d));
       }},
      {"the scale 1/sqrt(d), not the one that is given",
       [](const Problem& p) {
         return p.scale_given
                    ? 1 / (p.scale * std::sqrt(static_cast<double>(p.shape.d)))
                    : 1;
       }},
      {"the scale 1/sqrt(dv)",
       [](const Problem& p) {
         return 1 / (p.scale * std::sqrt(static_cast<double>(p.shape.dv)));
       }},
      {"the scale 1/sqrt(Tk)",
       [](const Problem& p) {
         return 1 / (p.scale * std::sqrt(static_cast<double>(p.shape.Tk)));
       }},
      {"the scale 1/sqrt(H d)", [](const Problem& p) {
         return 1 / (p.scale *
                     std::sqrt(static_cast<double>(p.shape.H * p.shape.d)));
       }}};
  for (const OtherScale& other : kScales)
    rows.push_back(
        {std::string("what comes of ") + other.text, Stage::kScores,
         [of = other.of](Problem& p, Room&) { multiply_scale(p, of(p)); }});
  rows.push_back({"what comes of powers of 2 in place of e", Stage::kScores,
                  [](Problem& p, Room& room) {
                    const double ln2 = std::numbers::ln2;
                    const Shape& s = p.shape;
                    if (p.softcap > 0) {
                      // The cap is multiplied behind its tanh.
                      return;
                    }
                    multiply_scale(p, ln2);
                    const auto scaled = [&](const double* from, int64_t n) {
                      std::vector<double> values(from, from + n);
                      for (double& x : values) x *= ln2;
                      return room.keep(std::move(values));
                    };
                    if (p.bias != nullptr)
                      p.bias = scaled(p.bias, s.weights_elements());
                    if (p.slopes != nullptr) p.slopes = scaled(p.slopes, s.H);
                    if (p.sink != nullptr) p.sink = scaled(p.sink, s.H);
                  }});
}

// q with some channels set to 0: as if they were not in the sum.
void add_channels(Readings& rows) {
  using Keeps = bool (*)(int64_t c, int64_t d);
  const auto add = [&rows](const char* text, Keeps keeps) {
    rows.push_back({std::string("what comes of scores ") + text, Stage::kScores,
                    [keeps](Problem& p, Room& room) {
                      const int64_t d = p.shape.d;
                      bool keeps_any = false;
                      for (int64_t c = 0; c < d; ++c) keeps_any |= keeps(c, d);
                      if (p.rotation.style != RopeStyle::kNone && keeps_any)
                        return;
                      std::vector<double> q(p.q, p.q + p.shape.q_elements());
                      for (int64_t n = 0; n < std::ssize(q); ++n)
                        if (!keeps(n % p.shape.d, p.shape.d))
                          q[static_cast<size_t>(n)] = 0;
                      p.q = room.keep(std::move(q));
                    }});
  };
  add("of 0", [](int64_t, int64_t) { return false; });
  add("without the last channel",
      [](int64_t c, int64_t d) { return c < d - 1; });
  add("without the first channel", [](int64_t c, int64_t) { return c > 0; });
  add("of the last channel alone",
      [](int64_t c, int64_t d) { return c == d - 1; });
  add("of the first channel alone", [](int64_t c, int64_t) { return c == 0; });
}

// --- rows of q, k and v from elsewhere

// The row of [B,heads,T] that is read in the place of one; -1: of zeros.
using From = std::function<int64_t(int64_t b, int64_t h, int64_t t)>;

std::vector<double> gathered(const double* from, int64_t members, int64_t heads,
                             int64_t tokens, int64_t width, const From& comes) {
  std::vector<double> out;
  for (int64_t b = 0; b < members; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t row = comes(b, h, t);
        for (int64_t c = 0; c < width; ++c)
          out.push_back(row < 0 ? 0 : from[row * width + c]);
      }
  return out;
}

enum Which : uint8_t { kOfKeys = 1, kOfValues = 2 };

// K and V of every query head's own, read by another rule.
void read_kv(Problem& p, Room& room, int which,
             int64_t (*head)(const Shape& s, int64_t h),
             int64_t (*member)(int64_t b)) {
  const Shape s = p.shape;
  const auto of = [&](bool is_moved) {
    return From([=](int64_t b, int64_t h, int64_t t) {
      const int64_t kv = is_moved ? head(s, h) : h / (s.H / s.Hkv);
      const int64_t from = is_moved ? member(b) : b;
      return (from * s.Hkv + kv) * s.Tk + t;
    });
  };
  p.k =
      room.keep(gathered(p.k, s.B, s.H, s.Tk, s.d, of((which & kOfKeys) != 0)));
  p.v = room.keep(
      gathered(p.v, s.B, s.H, s.Tk, s.dv, of((which & kOfValues) != 0)));
  p.shape.Hkv = s.H;
}

void add_places(Readings& rows) {
  struct Read {
    int which;
    const char* text;
    Stage stage;
  };
  constexpr Read kReads[] = {
      {kOfKeys | kOfValues, "keys and values", Stage::kUnknown},
      {kOfKeys, "keys", Stage::kScores},
      {kOfValues, "values", Stage::kValues}};
  for (const Read& read : kReads) {
    const auto add = [&](const char* whose,
                         int64_t (*head)(const Shape&, int64_t),
                         int64_t (*member)(int64_t)) {
      rows.push_back(
          {std::string("what comes of the ") + read.text + " " + whose,
           read.stage,
           [which = read.which, head, member](Problem& p, Room& room) {
             read_kv(p, room, which, head, member);
           }});
    };
    const auto own_head = [](const Shape& s, int64_t h) {
      return h / (s.H / s.Hkv);
    };
    const auto own_member = [](int64_t b) { return b; };
    add(
        "of kv head 0", [](const Shape&, int64_t) { return int64_t{0}; },
        own_member);
    add(
        "of kv head h % Hkv",
        [](const Shape& s, int64_t h) { return h % s.Hkv; }, own_member);
    add(
        "of the last kv head",
        [](const Shape& s, int64_t) { return s.Hkv - 1; }, own_member);
    add("of member 0", own_head, [](int64_t) { return int64_t{0}; });
  }
  const auto add_step = [&](const char* text, Stage stage, bool of_keys,
                            int64_t step) {
    rows.push_back(
        {text, stage, [of_keys, step](Problem& p, Room& room) {
           const Shape& s = p.shape;
           const From from = [&](int64_t b, int64_t h, int64_t t) {
             const int64_t at = t + step;
             return at < 0 || at >= s.Tk ? -1 : (b * s.Hkv + h) * s.Tk + at;
           };
           if (of_keys)
             p.k = room.keep(gathered(p.k, s.B, s.Hkv, s.Tk, s.d, from));
           else
             p.v = room.keep(gathered(p.v, s.B, s.Hkv, s.Tk, s.dv, from));
         }});
  };
  add_step("what comes of the key behind the one it should read",
           Stage::kScores, true, 1);
  add_step("what comes of the key in front of the one it should read",
           Stage::kScores, true, -1);
  add_step("what comes of the value behind the one it should read",
           Stage::kValues, false, 1);
  add_step("what comes of the value in front of the one it should read",
           Stage::kValues, false, -1);
  const auto add_query = [&](const char* text, int64_t (*row)(int64_t i),
                             int64_t (*head)(int64_t h)) {
    rows.push_back(
        {text, Stage::kScores, [row, head](Problem& p, Room& room) {
           const Shape& s = p.shape;
           p.q = room.keep(gathered(
               p.q, s.B, s.H, s.Tq, s.d, [&](int64_t b, int64_t h, int64_t t) {
                 const int64_t i = row(t);
                 return i < 0 || i >= s.Tq ? -1
                                           : (b * s.H + head(h)) * s.Tq + i;
               }));
         }});
  };
  const auto same = [](int64_t n) { return n; };
  const auto zero = [](int64_t) { return int64_t{0}; };
  add_query("what comes of the query of row 0", zero, same);
  add_query(
      "what comes of the query in front of it", [](int64_t i) { return i - 1; },
      same);
  add_query(
      "what comes of the query behind it", [](int64_t i) { return i + 1; },
      same);
  add_query("what comes of the query of head 0", same, zero);
}

// --- options

void add_options(Readings& rows) {
  const auto add = [&rows](const char* text, Stage stage, Edit edit) {
    rows.push_back({std::string("what comes ") + text, stage, std::move(edit)});
  };
  add("without the mask", Stage::kKeys,
      [](Problem& p, Room&) { p.mask = nullptr; });
  add("without the causal rule", Stage::kKeys,
      [](Problem& p, Room&) { p.causal = Causal::kNone; });
  add("without the window", Stage::kKeys,
      [](Problem& p, Room&) { p.window.reset(); });
  add("without the window's left side", Stage::kKeys, [](Problem& p, Room&) {
    if (p.window) p.window->left = -1;
  });
  add("without the window's right side", Stage::kKeys, [](Problem& p, Room&) {
    if (p.window) p.window->right = -1;
  });
  add("without the bias", Stage::kBias, [](Problem& p, Room& room) {
    if (p.bias == nullptr) return;
    std::vector<double> bias(p.bias, p.bias + p.shape.weights_elements());
    for (double& x : bias) x = std::isinf(x) ? x : 0;
    p.bias = room.keep(std::move(bias));
  });
  add("with minus the bias", Stage::kBias, [](Problem& p, Room& room) {
    if (p.bias == nullptr) return;
    std::vector<double> bias(p.bias, p.bias + p.shape.weights_elements());
    for (double& x : bias) x = std::isinf(x) ? x : -x;
    p.bias = room.keep(std::move(bias));
  });
  add("with the bias times the scale", Stage::kBias,
      [](Problem& p, Room& room) {
        if (p.bias == nullptr) return;
        std::vector<double> bias(p.bias, p.bias + p.shape.weights_elements());
        for (double& x : bias) x = std::isinf(x) ? x : x * p.scale;
        p.bias = room.keep(std::move(bias));
      });
  add("without the ALiBi slopes", Stage::kBias,
      [](Problem& p, Room&) { p.slopes = nullptr; });
  add("with minus the ALiBi slopes", Stage::kBias, [](Problem& p, Room& room) {
    if (p.slopes == nullptr) return;
    std::vector<double> slopes(p.slopes, p.slopes + p.shape.H);
    for (double& x : slopes) x = -x;
    p.slopes = room.keep(std::move(slopes));
  });
  add("with the ALiBi slope of head 0", Stage::kBias,
      [](Problem& p, Room& room) {
        if (p.slopes == nullptr) return;
        p.slopes = room.keep(
            std::vector<double>(static_cast<size_t>(p.shape.H), p.slopes[0]));
      });
  add("without the cap of the scores", Stage::kScores,
      [](Problem& p, Room&) { p.softcap = 0; });
  add("with the cap on the other side of the bias", Stage::kScores,
      [](Problem& p, Room&) { p.softcap_after_bias = !p.softcap_after_bias; });
  add("without the sink", Stage::kSoftmax,
      [](Problem& p, Room&) { p.sink = nullptr; });
  add("with the sink of head 0", Stage::kSoftmax, [](Problem& p, Room& room) {
    if (p.sink == nullptr) return;
    p.sink = room.keep(
        std::vector<double>(static_cast<size_t>(p.shape.H), p.sink[0]));
  });
  add("with the sink counted otherwise in lse", Stage::kLse,
      [](Problem& p, Room&) { p.sink_in_lse = !p.sink_in_lse; });
  add("without the rotation", Stage::kScores,
      [](Problem& p, Room&) { p.rotation = {}; });
  add("with the other pairs of channels rotated", Stage::kScores,
      [](Problem& p, Room&) {
        if (p.rotation.style == RopeStyle::kNone) return;
        p.rotation.style = p.rotation.style == RopeStyle::kInterleaved
                               ? RopeStyle::kHalf
                               : RopeStyle::kInterleaved;
      });
  add("with the causal rule of the other corner", Stage::kKeys,
      [](Problem& p, Room&) {
        if (p.causal == Causal::kNone) return;
        p.causal = p.causal == Causal::kTopLeft ? Causal::kBottomRight
                                                : Causal::kTopLeft;
      });
  for (const int64_t shift : {-1, 1})
    for (const bool left : {true, false})
      add((std::string("with the window one key ") +
           (shift > 0 ? "wider" : "narrower") + " on its " +
           (left ? "left" : "right"))
              .c_str(),
          Stage::kKeys, [shift, left](Problem& p, Room&) {
            if (!p.window) return;
            auto& side = left ? p.window->left : p.window->right;
            if (side >= 0) side = std::max<int64_t>(0, side + shift);
          });
}

// --- which keys

// A row's keys, of all Tk, which may be changed; `seen` ascends.
using Changes = void (*)(std::vector<int64_t>& seen, int64_t keys);

// The keys that every row sees, changed; all other rules of who sees what are
// in the mask then.
void see_otherwise(Problem& p, Room& room, Changes change) {
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
  p.mask = room.keep(std::move(mask));
  // The diagonal that slopes count from stays, but for its corner.
  if (p.causal == Causal::kTopLeft && p.slopes != nullptr) return;
  p.causal = Causal::kNone;
  p.window.reset();
}

// The keys that another row sees, [B,H,Tq] for [B,H,Tq]; outside: those of its
// own.
void see_as_another(Problem& p, Room& room,
                    void (*other)(int64_t& b, int64_t& h, int64_t& i)) {
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
  p.mask = room.keep(std::move(mask));
  if (p.causal == Causal::kTopLeft && p.slopes != nullptr) return;
  p.causal = Causal::kNone;
  p.window.reset();
}

void add_rows_of_keys(Readings& rows) {
  using Other = void (*)(int64_t & b, int64_t & h, int64_t & i);
  const auto add = [&rows](const char* whose, Other other) {
    rows.push_back(
        {std::string("what comes of the keys that ") + whose + " sees",
         Stage::kKeys,
         [other](Problem& p, Room& room) { see_as_another(p, room, other); }});
  };
  add("row 0", [](int64_t&, int64_t&, int64_t& i) { i = 0; });
  add("the row in front", [](int64_t&, int64_t&, int64_t& i) { --i; });
  add("the row behind", [](int64_t&, int64_t&, int64_t& i) { ++i; });
  add("head 0", [](int64_t&, int64_t& h, int64_t&) { h = 0; });
  add("member 0", [](int64_t& b, int64_t&, int64_t&) { b = 0; });
  add("the row with head and row exchanged",
      [](int64_t&, int64_t& h, int64_t& i) { std::swap(h, i); });
  add("the row with member and head exchanged",
      [](int64_t& b, int64_t& h, int64_t&) { std::swap(b, h); });
  add("the row with member and row exchanged",
      [](int64_t& b, int64_t&, int64_t& i) { std::swap(b, i); });
}

// `times` as often as once, by a bias; only where that is added last.
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

void add_keys(Readings& rows) {
  const auto add = [&rows](const char* text, Changes change) {
    rows.push_back({text, Stage::kKeys, [change](Problem& p, Room& room) {
                      see_otherwise(p, room, change);
                    }});
  };
  using Seen = std::vector<int64_t>;
  add("what comes without the last key that a row sees",
      [](Seen& seen, int64_t) { seen.pop_back(); });
  add("what comes without the first key that a row sees",
      [](Seen& seen, int64_t) { seen.erase(seen.begin()); });
  add("what comes of the first key that a row sees alone",
      [](Seen& seen, int64_t) { seen.resize(1); });
  add("what comes of the last key that a row sees alone",
      [](Seen& seen, int64_t) { seen = {seen.back()}; });
  add("what comes of one key more, the next behind those that a row sees",
      [](Seen& seen, int64_t) { seen.push_back(seen.back() + 1); });
  add("what comes of one key more, the next in front of those that a row sees",
      [](Seen& seen, int64_t) { seen.push_back(seen.front() - 1); });
  add("what comes of every key, hidden or not", [](Seen& seen, int64_t keys) {
    seen.clear();
    for (int64_t j = 0; j < keys; ++j) seen.push_back(j);
  });
  add("what comes of the keys that the row should not see, alone",
      [](Seen& seen, int64_t keys) {
        Seen others;
        for (int64_t j = 0; j < keys; ++j)
          if (!std::binary_search(seen.begin(), seen.end(), j))
            others.push_back(j);
        seen = others;
      });
  for (const bool is_last : {true, false})
    rows.push_back({std::string("what comes with the ") +
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
  add_padding("what comes of one key more, of score 0 and value 0",
              [](int64_t) { return int64_t{1}; });
  for (const int64_t tile : {2, 4, 8, 16, 32, 64, 128})
    add_padding(
        "what comes of as many keys of score 0 and value 0 more as "
        "make Tk a multiple of " +
            std::to_string(tile),
        [tile](int64_t keys) { return (tile - keys % tile) % tile; });
  for (const int64_t shift : {-1, 1})
    rows.push_back({std::string("what comes of lengths of keys that are one ") +
                        (shift > 0 ? "more" : "less"),
                    Stage::kKeys, [shift](Problem& p, Room& room) {
                      if (p.kv_len == nullptr) return;
                      std::vector<int64_t> lengths(p.kv_len,
                                                   p.kv_len + p.shape.B);
                      for (int64_t& n : lengths)
                        n = std::clamp<int64_t>(n + shift, 0, p.shape.Tk);
                      p.kv_len = room.keep(std::move(lengths));
                    }});
}

// A mask or bias, read at the place of another pair.
template <class T>
std::vector<T> pairs_of(const T* from, const Shape& s, int axis, int64_t step) {
  std::vector<T> out;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j) {
          int64_t at[] = {b, h, i, j};
          const int64_t extents[] = {s.B, s.H, s.Tq, s.Tk};
          at[axis] = step == 0 ? 0
                               : std::clamp<int64_t>(at[axis] + step, 0,
                                                     extents[axis] - 1);
          out.push_back(
              from[((at[0] * s.H + at[1]) * s.Tq + at[2]) * s.Tk + at[3]]);
        }
  return out;
}

void add_pairs(Readings& rows) {
  constexpr const char* kAxes[] = {"member", "head", "row", "key"};
  for (int axis = 0; axis < 4; ++axis)
    for (const int64_t step : {0, -1, 1}) {
      const std::string whose = step == 0
                                    ? std::string(kAxes[axis]) + " 0"
                                    : "the " + std::string(kAxes[axis]) +
                                          (step < 0 ? " in front" : " behind");
      rows.push_back({"what comes of the mask of " + whose, Stage::kKeys,
                      [axis, step](Problem& p, Room& room) {
                        if (p.mask == nullptr) return;
                        p.mask =
                            room.keep(pairs_of(p.mask, p.shape, axis, step));
                      }});
      rows.push_back({"what comes of the bias of " + whose, Stage::kBias,
                      [axis, step](Problem& p, Room& room) {
                        if (p.bias == nullptr) return;
                        p.bias =
                            room.keep(pairs_of(p.bias, p.shape, axis, step));
                      }});
    }
}

// The right row, divided by the sum that another row of keys has: what comes of
// keys that are hidden once they have been summed.
std::optional<Predicted> divided_as(const Edit& edit,
                                    const JudgedKernel& kernel, TimeUse& time,
                                    const WrongAnswer& answer,
                                    const WrongOutput& output) {
  if (output.name != TensorName::kO || answer.truth == nullptr)
    return std::nullopt;
  const WrongOutput lse{TensorName::kLse, {}, {}, {}, {}, {}, {}};
  const auto other = read_as(edit, kernel, time, answer, lse);
  const std::vector<double>& right = answer.truth->oracle.lse;
  if (!other || other->values.size() != right.size()) return std::nullopt;
  const bool in_base2 = kernel.info.dialect.lse_base == QKVET_LSE_BASE2;
  Predicted out{output.right, output.bound};
  const auto width = static_cast<size_t>(answer.value().shape.dv);
  for (size_t n = 0; n < out.values.size(); ++n) {
    const double apart = right[n / width] - other->values[n / width];
    out.values[n] *= in_base2 ? std::exp2(apart) : std::exp(apart);
  }
  return out;
}

}  // namespace

std::optional<Predicted> read_as(const Edit& edit, const JudgedKernel& kernel,
                                 TimeUse& time, const WrongAnswer& answer,
                                 const WrongOutput& output) {
  if (answer.value().subject() != Subject::kAttention) return std::nullopt;
  Room room;
  CaseWork work(agreement_about(Subject::kAttention), answer.value(),
                /*with_twin=*/false, time, plain_forward, [&](Problem p) {
                  edit(p, room);
                  return p;
                });
  const Truth* truth = work.whole_call(kernel, 0).truth;
  if (truth == nullptr) return std::nullopt;
  Predicted out;
  if (output.name == TensorName::kO)
    out = {truth->oracle.o,   truth->bound->o,       truth->oracle.lse,
           truth->bound->lse, truth->oracle.weights, truth->bound->weights};
  else if (output.name == TensorName::kLse)
    out = {truth->oracle.lse, truth->bound->lse};
  else
    return std::nullopt;
  for (size_t n = 0; room.has_own_scores && n < out.bounds.size(); ++n)
    if (std::isfinite(output.bound[n]))
      out.bounds[n] = std::max(out.bounds[n], output.bound[n]);
  if (room.has_own_scores) out.lse.clear(), out.weights.clear();
  return out;
}

std::vector<Description> descriptions_by_reading(const JudgedKernel& kernel,
                                                 TimeUse& time) {
  Readings rows;
  add_options(rows);
  add_scales(rows);
  add_keys(rows);
  add_rows_of_keys(rows);
  add_channels(rows);
  add_places(rows);
  add_pairs(rows);
  add_formulas(rows);
  std::vector<Description> out;
  for (Reading& row : rows)
    out.push_back({std::move(row.text), row.stage,
                   [edit = std::move(row.edit), &kernel, &time](
                       const WrongAnswer& answer, const WrongOutput& output) {
                     return read_as(edit, kernel, time, answer, output);
                   }});
  const Edit all = [](Problem& p, Room& room) {
    see_otherwise(p, room, [](std::vector<int64_t>& seen, int64_t keys) {
      seen.clear();
      for (int64_t j = 0; j < keys; ++j) seen.push_back(j);
    });
  };
  out.push_back({"divided by the sum over all keys, hidden ones with them",
                 Stage::kSoftmax,
                 [all, &kernel, &time](const WrongAnswer& answer,
                                       const WrongOutput& output) {
                   return divided_as(all, kernel, time, answer, output);
                 }});
  add_strides(kernel, time, out);
  return out;
}

}  // namespace qkvet::diagnosis
