// SPDX-License-Identifier: Apache-2.0
// The same call with q, k, v, the mask or the bias read from other places.
#include <algorithm>

#include "diagnosis/instead/reading.h"

namespace qkvet::diagnosis {
namespace {

// --- rows of q, k and v from elsewhere

// The row of [B,heads,T] that is read instead of (b, h, t); -1: zeros.
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
struct Read {
  int which;
  const char* text;
  Stage stage;
};
constexpr Read kReads[] = {
    {kOfKeys | kOfValues, "keys and values", Stage::kUnknown},
    {kOfKeys, "keys", Stage::kScores},
    {kOfValues, "values", Stage::kValues}};

// K, V or both, each row read from another one.
void gather_kv(Problem& p, Room& room, int which, const From& from) {
  const Shape& s = p.shape;
  if ((which & kOfKeys) != 0)
    p.k = room.keep(gathered(p.k, s.B, s.Hkv, s.Tk, s.d, from));
  if ((which & kOfValues) != 0)
    p.v = room.keep(gathered(p.v, s.B, s.Hkv, s.Tk, s.dv, from));
}

// K and V for every query head, read by another rule.
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
  for (const Read& read : kReads) {
    const auto add = [&](const char* whose,
                         int64_t (*head)(const Shape&, int64_t),
                         int64_t (*member)(int64_t)) {
      rows.push_back(
          {std::string("the result of the ") + read.text + " " + whose,
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
  for (const int which : {kOfKeys, kOfValues})
    for (const int64_t step : {1, -1})
      rows.push_back(
          {std::string("the result of the ") +
               (which == kOfKeys ? "key " : "value ") +
               (step > 0 ? "after" : "before") + " the one it should read",
           which == kOfKeys ? Stage::kScores : Stage::kValues,
           [which, step](Problem& p, Room& room) {
             const Shape s = p.shape;
             gather_kv(p, room, which, [=](int64_t b, int64_t h, int64_t t) {
               const int64_t at = t + step;
               return at < 0 || at >= s.Tk ? -1 : (b * s.Hkv + h) * s.Tk + at;
             });
           }});
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
  add_query("the result of the query of row 0", zero, same);
  add_query(
      "the result of the query before it", [](int64_t i) { return i - 1; },
      same);
  add_query(
      "the result of the query after it", [](int64_t i) { return i + 1; },
      same);
  add_query("the result of the query of head 0", same, zero);
}

// Keys and values of the next page, or of the first.
void add_pages(Readings& rows) {
  struct OfPage {
    const char* text;
    int64_t (*token)(int64_t t, int64_t page);
  };
  static constexpr OfPage kPages[] = {
      {"the page in front", [](int64_t t, int64_t page) { return t - page; }},
      {"the page after", [](int64_t t, int64_t page) { return t + page; }},
      {"the first page", [](int64_t t, int64_t page) { return t % page; }},
      {"the first slot of their page",
       [](int64_t t, int64_t page) { return t / page * page; }},
      {"their page, read backwards", [](int64_t t, int64_t page) {
         return t / page * page + page - 1 - t % page;
       }}};
  for (const Read& read : kReads)
    for (const OfPage& of : kPages)
      rows.push_back(
          {std::string("the result of the ") + read.text + " of " + of.text,
           read.stage,
           [which = read.which, token = of.token](Problem& p, Room& room) {
             if (room.page < 1) return;
             const Shape& s = p.shape;
             gather_kv(p, room, which, [&](int64_t b, int64_t h, int64_t t) {
               const int64_t at = token(t, room.page);
               const bool is_inside = at >= 0 && at < s.Tk;
               return (b * s.Hkv + h) * s.Tk + (is_inside ? at : t);
             });
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
                                          (step < 0 ? " in front" : " after");
      rows.push_back({"the result of the mask of " + whose, Stage::kKeys,
                      [axis, step](Problem& p, Room& room) {
                        if (p.mask == nullptr) return;
                        p.mask =
                            room.keep(pairs_of(p.mask, p.shape, axis, step));
                      }});
      rows.push_back({"the result of the bias of " + whose, Stage::kBias,
                      [axis, step](Problem& p, Room& room) {
                        if (p.bias == nullptr) return;
                        p.bias =
                            room.keep(pairs_of(p.bias, p.shape, axis, step));
                      }});
    }
}

}  // namespace

void add_readings_of_places(Readings& rows) {
  add_places(rows);
  add_pages(rows);
  add_pairs(rows);
}

}  // namespace qkvet::diagnosis
