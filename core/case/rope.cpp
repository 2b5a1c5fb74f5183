// SPDX-License-Identifier: Apache-2.0
#include "core/case/rope.h"

#include <algorithm>

#include "core/case/case_text.h"
#include "core/case/option_data.h"

namespace qkvet {
namespace {

// In the order of RopeStyle.
constexpr std::array<std::string_view, kRopeStyleCount> kStyles = {
    "none", "half", "interleaved"};

// Tensors that no attention case has: their random numbers are free.
constexpr TensorName kQueryDraw = TensorName::kX;
constexpr TensorName kKeyDraw = TensorName::kWq;

// As a fraction of a turn falls from pair to pair: angle_n is about
// 10000^(-n / pairs), as the usual tables have it, but with a tangent of half
// the angle that is exact, so that cos and sin are two divisions and need no
// libm. Between powers of two it falls along a line.
double half_tangent(int64_t n, int64_t pairs) {
  constexpr int64_t kHalvings = 13;  // 2^13 = 8192
  const int64_t whole = kHalvings * n / pairs;
  const int64_t rest = kHalvings * n % pairs;
  const double slope = static_cast<double>(rest) / static_cast<double>(pairs);
  double tangent = 0.5 * (1 - slope / 2);
  for (int64_t i = 0; i < whole; ++i) tangent /= 2;
  return tangent;
}

// Row p of the tables is the p-th power of row 1, by repeated products. After
// 2^17 rows it is off by less than 2^-34. This is no error of the case: the
// tables are inputs, and any values in them are right.
void fill_tables(const Case& c, Inputs& inputs) {
  const int64_t rows = rope_rows(c);
  const int64_t pairs = rope_channels(c) / 2;
  inputs.rope_cos.resize(static_cast<size_t>(rows * pairs));
  inputs.rope_sin.resize(static_cast<size_t>(rows * pairs));
  for (int64_t n = 0; n < pairs; ++n) {
    const double t = half_tangent(n, pairs);
    const double turn_cos = (1 - t * t) / (1 + t * t);
    const double turn_sin = 2 * t / (1 + t * t);
    double x = 1;
    double y = 0;
    for (int64_t p = 0; p < rows; ++p) {
      const auto at = static_cast<size_t>(p * pairs + n);
      inputs.rope_cos[at] = x;
      inputs.rope_sin[at] = y;
      const double next = x * turn_cos - y * turn_sin;
      y = x * turn_sin + y * turn_cos;
      x = next;
    }
  }
}

// The positions of one member: Lq rows from `first_q` on, and Lk keys from
// `first_k` on.
void place_member(const Case& c, int64_t b, int64_t first_q, int64_t Lq,
                  int64_t first_k, int64_t Lk, Inputs& inputs) {
  const int64_t ahead = std::max<int64_t>(Lk - Lq, 0);
  for (int64_t i = 0; i < Lq; ++i)
    inputs.q_positions[static_cast<size_t>(b * c.shape.Tq + first_q + i)] =
        c.rope.first + ahead + i;
  for (int64_t j = 0; j < Lk; ++j)
    inputs.k_positions[static_cast<size_t>(b * c.shape.Tk + first_k + j)] =
        c.rope.first + j;
}

void place_in_order(const Case& c, Inputs& inputs) {
  for (int64_t b = 0; b < c.shape.B && c.cu_q.empty(); ++b)
    place_member(c, b, 0, counted_queries(c, b), 0, counted_keys(c, b), inputs);
  for (size_t m = 0; m + 1 < c.cu_q.size(); ++m)
    place_member(c, 0, c.cu_q[m], c.cu_q[m + 1] - c.cu_q[m], c.cu_k[m],
                 c.cu_k[m + 1] - c.cu_k[m], inputs);
}

void place_anywhere(const Case& c, TensorName draw, int64_t rows,
                    std::vector<int64_t>& positions) {
  const auto count = static_cast<uint64_t>(rope_rows(c));
  for (size_t n = 0; n < positions.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const uint64_t bits = random_bits(c.seed, draw, at / rows, 0, at % rows, 0);
    positions[n] = static_cast<int64_t>((bits >> 32) % count);
  }
}

}  // namespace

int64_t rope_rows(const Case& c) {
  // A story may try one token more than there is room for.
  const int64_t room =
      c.capacity > 0 ? c.capacity + 1 + story_evictions(c.story) : 0;
  const int64_t longest = std::max({c.shape.Tq, c.shape.Tk, room});
  if (c.rope.random_positions) return 2 * std::max<int64_t>(longest, 1);
  return c.rope.first + longest;
}

int64_t rope_channels(const Case& c) {
  if (c.rope.style == RopeStyle::kNone) return 0;
  return c.rope.channels != 0 ? c.rope.channels : c.shape.d;
}

std::string rope_text(const Rope& rope) {
  std::string text = "rope=";
  text += kStyles[static_cast<size_t>(rope.style)];
  if (rope.channels != 0) text += std::to_string(rope.channels);
  if (rope.random_positions) return text + ".random";
  return rope.first != 0 ? text + "." + std::to_string(rope.first) : text;
}

std::string read_rope(std::string_view text, std::string_view token,
                      Rope* rope) {
  const size_t dot = std::min(text.find('.'), text.size());
  const size_t end = std::min(text.find_first_of("0123456789"), dot);
  const auto* const style =
      std::find(kStyles.begin() + 1, kStyles.end(), text.substr(0, end));
  const auto channels = number<int64_t>(text.substr(end, dot - end));
  if (style == kStyles.end() || (end < dot && channels.value_or(0) <= 0))
    return quoted(token) +
           ": allowed rope=half, rope=interleaved, and after it the number of "
           "channels that are turned, if not all";
  *rope = {static_cast<RopeStyle>(style - kStyles.begin())};
  rope->channels = channels.value_or(0);
  if (dot == text.size()) return "";
  const std::string_view rest = text.substr(dot + 1);
  rope->random_positions = rest == "random";
  if (rope->random_positions) return "";
  const auto first = number<int64_t>(rest);
  rope->first = first.value_or(0);
  return first ? ""
               : quoted(token) +
                     ": behind the dot stands the first position, or random";
}

std::string rope_reason(const Case& c) {
  const Rope& rope = c.rope;
  if (rope.style == RopeStyle::kNone)
    return rope == Rope{} ? "" : "no rotation has positions";
  const std::string text = rope_text(rope);
  if (rope_channels(c) % 2 != 0 || rope_channels(c) < 0)
    return "d" + std::to_string(c.shape.d) + "," + text +
           ": a rotation turns pairs of channels, their number must be even";
  if (rope.channels >= std::max<int64_t>(c.shape.d, 1))
    return "d" + std::to_string(c.shape.d) + "," + text +
           ": fewer than d channels are turned, or all: rope=" +
           std::string(kStyles[static_cast<size_t>(rope.style)]);
  if (rope.random_positions && rope.first != 0)
    return text + ": random positions have no first one";
  if (rope.first < 0 || rope.first > kMaxExtent)
    return text + ": the first position is 0 .. " + std::to_string(kMaxExtent);
  const bool numbered = rope.random_positions || rope.first != 0;
  if (c.subject() == Subject::kCache && numbered)
    return text +
           ": the tokens of a story stand at 0, 1, ... of their sequence";
  if (rope_rows(c) > kMaxElements / std::max<int64_t>(rope_channels(c) / 2, 1))
    return text + ": its tables have more than " +
           std::to_string(kMaxElements) + " elements, the most allowed";
  return "";
}

void fill_rope(const Case& c, Inputs& inputs) {
  if (c.rope.style == RopeStyle::kNone) return;
  fill_tables(c, inputs);
  fill_positions(c, inputs);
}

void fill_positions(const Case& c, Inputs& inputs) {
  if (c.rope.style == RopeStyle::kNone) return;
  const Shape& s = c.shape;
  // Rows that do not count also have a valid position.
  inputs.q_positions.assign(static_cast<size_t>(s.B * s.Tq), 0);
  inputs.k_positions.assign(static_cast<size_t>(s.B * s.Tk), 0);
  if (!c.rope.random_positions) return place_in_order(c, inputs);
  place_anywhere(c, kQueryDraw, std::max<int64_t>(s.Tq, 1), inputs.q_positions);
  place_anywhere(c, kKeyDraw, std::max<int64_t>(s.Tk, 1), inputs.k_positions);
  // A token of a layer has one position, as query and as key.
  if (c.is_layer()) inputs.k_positions = inputs.q_positions;
}

}  // namespace qkvet
