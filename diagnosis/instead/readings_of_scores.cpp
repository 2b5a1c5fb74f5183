// SPDX-License-Identifier: Apache-2.0
// The same call with other scores, or with an option that is ignored or applied
// in another way.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/half.h"
#include "diagnosis/instead/reading.h"

namespace qkvet::diagnosis {

void turn_scale(Problem& p, double factor) {
  p.scale *= factor;
  p.scale_given = true;
}
void turn_bias(Problem& p, Room& room, double factor) {
  if (p.bias != nullptr)
    p.bias = room.changed(p.bias, p.shape.weights_elements(), [=](double x) {
      return std::isinf(x) ? x : x * factor;
    });
}
void turn_slopes(Problem& p, Room& room, double factor) {
  if (p.slopes != nullptr)
    p.slopes = room.changed(p.slopes, slope_count(p),
                            [=](double x) { return x * factor; });
}

namespace {

// --- scores

double width_of(const Problem& p) { return static_cast<double>(p.shape.d); }
double one_over_root(double x) { return 1 / std::sqrt(x); }
template <int kTo>
double of_padded_width(const Problem& p) {
  return one_over_root(std::ceil(width_of(p) / kTo) * kTo);
}

void add_scales(Readings& rows) {
  for (const OtherScale& other : other_scales())
    rows.push_back({std::string("the result of ") + other.text, Stage::kScores,
                    [of = other.of](Problem& p, Room&) {
                      turn_scale(p, of(p) / p.scale);
                    }});
  rows.push_back({"the result of powers of 2 in place of e", Stage::kScores,
                  [](Problem& p, Room& room) {
                    constexpr double kLn2 = std::numbers::ln2;
                    const Shape& s = p.shape;
                    if (p.softcap > 0) {
                      // The factor is applied after the tanh of the cap.
                      return;
                    }
                    turn_scale(p, kLn2);
                    const auto scaled = [&](const double* from, int64_t n) {
                      return room.changed(from, n,
                                          [](double x) { return kLn2 * x; });
                    };
                    if (p.bias != nullptr)
                      p.bias = scaled(p.bias, s.weights_elements());
                    if (p.slopes != nullptr)
                      p.slopes = scaled(p.slopes, slope_count(p));
                    if (p.sink != nullptr) p.sink = scaled(p.sink, s.H);
                  }});
}

// q with some channels set to 0: as if they were not in the sum.
void add_channels(Readings& rows) {
  using Keeps = bool (*)(int64_t c, int64_t d);
  const auto add = [&rows](const char* text, Keeps keeps) {
    rows.push_back({std::string("the result of scores ") + text, Stage::kScores,
                    [keeps](Problem& p, Room& room) {
                      turn_first(p, room);
                      std::vector<double> q(p.q, p.q + p.shape.q_elements());
                      for (int64_t n = 0; n < std::ssize(q); ++n)
                        if (!keeps(n % p.shape.d, p.shape.d))
                          q[static_cast<size_t>(n)] = 0;
                      p.q = room.keep(std::move(q));
                    }});
  };
  add("of 0, whatever q and k are", [](int64_t, int64_t) { return false; });
  add("without the last channel",
      [](int64_t c, int64_t d) { return c < d - 1; });
  add("without the first channel", [](int64_t c, int64_t) { return c > 0; });
  add("of the last channel alone",
      [](int64_t c, int64_t d) { return c == d - 1; });
  add("of the first channel alone", [](int64_t c, int64_t) { return c == 0; });
}

// --- options

// Slopes of members, looked up elsewhere in their list.
void add_member_slopes(Readings& rows) {
  // The index in the list, for head h of member m; of so many.
  using InList =
      int64_t (*)(const Shape& s, int64_t members, int64_t m, int64_t h);
  const auto add = [&rows](const char* text, InList place) {
    rows.push_back({std::string("the result of the ALiBi slopes ") + text,
                    Stage::kBias, [place](Problem& p, Room& room) {
                      if (p.slopes == nullptr || !p.member_slopes) return;
                      const int64_t H = p.shape.H, members = slope_count(p) / H;
                      std::vector<double> slopes;
                      for (int64_t n = 0; n < members * H; ++n)
                        slopes.push_back(
                            p.slopes[place(p.shape, members, n / H, n % H)]);
                      p.slopes = room.keep(std::move(slopes));
                    }});
  };
  add("of the first member in all",
      [](const Shape&, int64_t, int64_t, int64_t h) { return h; });
  add("of the next member",
      [](const Shape& s, int64_t members, int64_t m, int64_t h) {
        return (m + 1) % members * s.H + h;
      });
  add("of members that begin one number apart",
      [](const Shape&, int64_t, int64_t m, int64_t h) { return m + h; });
  add("of members that begin Hkv numbers apart",
      [](const Shape& s, int64_t, int64_t m, int64_t h) {
        return m * s.Hkv + h;
      });
  add("with heads before members", [](const Shape&, int64_t members, int64_t m,
                                      int64_t h) { return h * members + m; });
}

void add_windows_one_off(Readings& rows) {
  enum Side : uint8_t { kLeft = 1, kRight = 2 };
  struct Sides {
    int which;
    const char *text, *name;
  };
  for (const int64_t shift : {-1, 1})
    for (const Sides& of : {Sides{kLeft, "on its left", "left"},
                            Sides{kRight, "on its right", "right"},
                            Sides{kLeft | kRight, "on each side", "sides"}}) {
      const std::string width = shift > 0 ? "wide" : "narrow";
      rows.push_back(
          {"the result with the window one key " + width +
               (shift > 0 ? "r " : "er ") + of.text,
           Stage::kKeys,
           [shift, which = of.which](Problem& p, Room&) {
             if (!p.window) return;
             for (const int side : {kLeft, kRight}) {
               auto& keys = side == kLeft ? p.window->left : p.window->right;
               if ((which & side) != 0 && keys >= 0)
                 keys = std::max<int64_t>(0, keys + shift);
             }
           },
           {std::string("window_") + of.name + "_one_too_" + width,
            "The window is one key too " + width + " " + of.text + ".",
            "Both sides are inclusive counts of keys beside the row's own."}});
    }
}

void add_options(Readings& rows) {
  const auto add = [&rows](const char* text, Stage stage, Edit edit) {
    rows.push_back({std::string("the result ") + text, stage, std::move(edit)});
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
  add("without the bias", Stage::kBias,
      [](Problem& p, Room& room) { turn_bias(p, room, 0); });
  add("with minus the bias", Stage::kBias,
      [](Problem& p, Room& room) { turn_bias(p, room, -1); });
  add("with the bias times the scale", Stage::kBias,
      [](Problem& p, Room& room) { turn_bias(p, room, p.scale); });
  add("without the ALiBi slopes", Stage::kBias,
      [](Problem& p, Room&) { p.slopes = nullptr; });
  add("with minus the ALiBi slopes", Stage::kBias,
      [](Problem& p, Room& room) { turn_slopes(p, room, -1); });
  add("with the ALiBi slope of head 0", Stage::kBias,
      [](Problem& p, Room& room) {
        if (p.slopes == nullptr) return;
        p.slopes = room.keep(
            std::vector<double>(static_cast<size_t>(p.shape.H), p.slopes[0]));
        p.member_slopes = false;
      });
  add_member_slopes(rows);
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
  add("with a causal rule that is not asked for", Stage::kKeys,
      [](Problem& p, Room&) {
        if (p.causal == Causal::kNone) p.causal = Causal::kBottomRight;
      });
  add("with the mask inverted", Stage::kKeys, [](Problem& p, Room& room) {
    if (p.mask != nullptr)
      p.mask = room.changed(p.mask, p.shape.weights_elements(),
                            [](uint8_t x) { return uint8_t{x == 0}; });
  });
  add_windows_one_off(rows);
}

}  // namespace

std::span<const OtherScale> other_scales() {
  static constexpr OtherScale kScales[] = {
      {"no scale", [](const Problem&) { return 1.0; }},
      {"the scale squared", [](const Problem& p) { return p.scale * p.scale; }},
      {"1 / the scale", [](const Problem& p) { return 1 / p.scale; }},
      {"minus the scale", [](const Problem& p) { return -p.scale; }},
      {"twice the scale", [](const Problem& p) { return 2 * p.scale; }},
      {"half the scale", [](const Problem& p) { return p.scale / 2; }},
      {"the square root of the scale",
       [](const Problem& p) { return std::sqrt(p.scale); }},
      {"the scale times log2(e)",
       [](const Problem& p) { return p.scale * std::numbers::log2e; }},
      {"the scale times ln(2)",
       [](const Problem& p) { return p.scale * std::numbers::ln2; }},
      {"the scale rounded to bf16",
       [](const Problem& p) {
         return bf16_to_double(bf16_from_double(p.scale));
       }},
      {"the scale rounded to f16",
       [](const Problem& p) {
         return f16_to_double(f16_from_double(p.scale));
       }},
      {"the scale 1/d", [](const Problem& p) { return 1 / width_of(p); }},
      {"the scale sqrt(d)",
       [](const Problem& p) { return std::sqrt(width_of(p)); }},
      {"the scale 1/sqrt(d), not the one that is given",
       [](const Problem& p) {
         return p.scale_given ? one_over_root(width_of(p)) : p.scale;
       }},
      {"the scale 1/sqrt(H d)",
       [](const Problem& p) {
         return one_over_root(static_cast<double>(p.shape.H) * width_of(p));
       }},
      {"the scale 1/sqrt(2 d)",
       [](const Problem& p) { return one_over_root(2 * width_of(p)); }},
      {"the scale 1/sqrt(d rounded up to 8)", of_padded_width<8>},
      {"the scale 1/sqrt(d rounded up to 16)", of_padded_width<16>},
      {"the scale 1/sqrt(d rounded up to 32)", of_padded_width<32>},
      {"the scale 1/sqrt(d rounded up to 64)", of_padded_width<64>},
      {"the scale 1/sqrt(dv)",
       [](const Problem& p) {
         return one_over_root(static_cast<double>(p.shape.dv));
       }},
      {"the scale 1/sqrt(Tk)", [](const Problem& p) {
         return one_over_root(static_cast<double>(p.shape.Tk));
       }}};
  return kScales;
}

void add_readings_of_scores(Readings& rows) {
  add_options(rows);
  add_scales(rows);
  add_channels(rows);
}

}  // namespace qkvet::diagnosis
