// SPDX-License-Identifier: Apache-2.0
#include "cli/identify/sums.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

// The terms of one sum: M = 2^exponent at `plus`, -M at `minus`, and ones.
struct Masked {
  int plus = 0, minus = 0;
  int exponent = 0;
  bool of_f16 = false;  // M fits into f16
};

// Results of sums, in ones; NaN if the answer shows nothing.
using Counts = std::vector<double>;
using AskSums = std::function<Counts(const std::vector<Masked>&)>;

bool is_near_integer(double count) {
  return std::fabs(count - std::round(count)) < 0.25;
}
bool is_count(double count, int terms) {
  return is_near_integer(count) && count > -0.25 && count < terms - 1.75;
}

// A case of `heads` heads, otherwise equal to the base of the kernel's calls.
Case with_heads(const Asker& asker, int64_t heads) {
  Case value = asker.base;
  value.shape.H = value.shape.Hkv = heads;
  value.q = value.k = value.v = {RecipeKind::kZero, 0};
  return value;
}

constexpr size_t kMostHeads = 256;

// Sums of channels, one per head. Key 0 has the score of interest and all
// others have 0; with v = 1 at key 0 alone, o is its weight. Scores are at most
// 0, so that o has all the digits of its type; M has the sign of ones.
Counts dot_counts(Asker& asker, int64_t d, const std::vector<Masked>& sums) {
  Counts counts;
  for (size_t from = 0; from < sums.size(); from += kMostHeads) {
    const size_t end = std::min(from + kMostHeads, sums.size());
    Case value = with_heads(asker, static_cast<int64_t>(end - from));
    value.shape.d = d;
    if (asker.base.shape.dv == asker.base.shape.d) value.shape.dv = d;
    const Shape s = value.shape;
    // A one is a power of two near 1/16 once it is scaled.
    const double scale = scale_of(value);
    const int one = -4 - static_cast<int>(std::lround(std::log2(scale)));
    const auto fill = [&](Inputs& inputs) {
      for (size_t n = from; n < end; ++n) {
        const int64_t h = static_cast<int64_t>(n - from);
        // Each factor of M has half of the exponent, because f16 stores at most
        // 2^15.
        const int high = (sums[n].exponent + one + 1) / 2;
        const int low = sums[n].exponent + one - high;
        for (int64_t c = 0; c < d; ++c) {
          const bool is_masked = c == sums[n].plus || c == sums[n].minus;
          for (int64_t i = 0; i < s.Tq; ++i)
            inputs.q[static_cast<size_t>((h * s.Tq + i) * d + c)] =
                is_masked ? std::ldexp(1, high) : 1;
          inputs.k[static_cast<size_t>(h * s.Tk * d + c)] =
              c == sums[n].plus    ? -std::ldexp(1, low)
              : c == sums[n].minus ? std::ldexp(1, low)
                                   : -std::ldexp(1, one);
        }
        for (int64_t c = 0; c < s.dv; ++c)
          inputs.v[static_cast<size_t>(h * s.Tk * s.dv + c)] = 1;
      }
    };
    const Reply reply = asker.ask(value, fill);
    for (size_t n = from; n < end; ++n) {
      if (!reply.done()) {
        counts.push_back(NAN);
        continue;
      }
      // The last row sees all keys under every rule.
      const size_t row = (n - from) * static_cast<size_t>(s.Tq) +
                         static_cast<size_t>(s.Tq - 1);
      const double w = reply.o[row * static_cast<size_t>(s.dv)];
      const double score =
          std::log(w / (1 - w)) + std::log(static_cast<double>(s.Tk - 1));
      counts.push_back(-score / (scale * std::ldexp(1, one)));
    }
  }
  return counts;
}

// Sums of keys, a column of v each. q = 0: all weights are equal.
Counts value_counts(Asker& asker, int64_t keys,
                    const std::vector<Masked>& sums) {
  Counts counts;
  const int64_t dv = asker.base.shape.dv;
  const auto in_call = kMostHeads * static_cast<size_t>(dv);
  const bool f16 = asker.base.kv_dtype == Dtype::kF16;
  for (size_t from = 0; from < sums.size(); from += in_call) {
    const size_t end = std::min(from + in_call, sums.size());
    const int64_t heads = (static_cast<int64_t>(end - from) + dv - 1) / dv;
    Case value = with_heads(asker, heads);
    value.shape.Tk = keys;
    if (!asker.takes_cross_lengths || value.causal != Causal::kNone)
      value.shape.Tq = keys;
    const Shape s = value.shape;
    // f16: M itself is 1.5 * 2^15, the middle of its binade.
    const auto one_of = [&](const Masked& sum) {
      return f16 || sum.of_f16 ? std::ldexp(1, 15 - sum.exponent) : 1.0;
    };
    const auto fill = [&](Inputs& inputs) {
      for (size_t n = from; n < end; ++n) {
        const int64_t h = static_cast<int64_t>(n - from) / dv,
                      c = static_cast<int64_t>(n - from) % dv;
        const double one = one_of(sums[n]);
        const bool small = f16 || sums[n].of_f16;
        const double M = std::ldexp(small ? 1.5 : 1.0, sums[n].exponent) * one;
        for (int64_t j = 0; j < keys; ++j)
          inputs.v[static_cast<size_t>((h * keys + j) * dv + c)] =
              j == sums[n].plus    ? M
              : j == sums[n].minus ? -M
                                   : one;
      }
    };
    const Reply reply = asker.ask(value, fill);
    for (size_t n = from; n < end; ++n) {
      const auto h = (n - from) / static_cast<size_t>(dv),
                 c = (n - from) % static_cast<size_t>(dv);
      const size_t row =
          h * static_cast<size_t>(s.Tq) + static_cast<size_t>(s.Tq - 1);
      counts.push_back(reply.done()
                           ? reply.o[row * static_cast<size_t>(dv) + c] *
                                 static_cast<double>(keys) / one_of(sums[n])
                           : NAN);
    }
  }
  return counts;
}

// The least power of two next to which the sum of ones is rounded: the number
// of significant bits of the sum's type. (A one that is half a unit of M's last
// place is a tie.) M is tried first and last: when it meets a one of the other
// sign, it has one bit more.
void find_bits(const AskSums& ask, int most, SumFound& found) {
  const int n = found.terms;
  for (int exponent = 7; exponent <= most; ++exponent) {
    std::vector<Masked> sums;
    for (int j = 1; j < n; ++j)
      for (const bool first : {true, false})
        sums.push_back(first ? Masked{0, j, exponent} : Masked{j, 0, exponent});
    for (const double count : ask(sums)) {
      if (!is_near_integer(count)) {
        found.why =
            fmt::format("a sum of {} terms came out as {:.4g}", n, count);
        return;
      }
      if (std::round(count) != n - 2) found.bits = exponent;
    }
    if (found.bits > 0) return;
  }
  found.bits = most;
  found.wider = true;
}

void find_order(const AskSums& ask, int exponent, SumFound& found) {
  const int n = found.terms;
  std::vector<Masked> sums;
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j)
      sums.push_back({i, j, exponent, /*of_f16=*/found.bits == 11});
  const Counts counts = ask(sums);
  Meetings meets(static_cast<size_t>(n),
                 std::vector<int>(static_cast<size_t>(n), 1));
  for (size_t m = 0; m < sums.size(); ++m) {
    if (!is_count(counts[m], n)) {
      found.why = fmt::format(
          "with M at terms {} and {} the sum came out as "
          "{:.4g} ones",
          sums[m].plus, sums[m].minus, counts[m]);
      return;
    }
    const auto i = static_cast<size_t>(sums[m].plus),
               j = static_cast<size_t>(sums[m].minus);
    meets[i][j] = meets[j][i] = n - static_cast<int>(std::round(counts[m]));
  }
  found.tree = tree_of(meets);
  found.order = name_of(meets);
  found.why =
      found.tree.empty()
          ? fmt::format("{} pairs of terms meet as in no tree", sums.size())
          : fmt::format(
                "{} pairs of terms, M = 2^{}: terms 0 and 1 meet above "
                "{}, 0 and {} above {}",
                sums.size(), exponent, meets[0][1], n - 1,
                meets[0][static_cast<size_t>(n - 1)]);
}

// The largest exponents of M: tried for bits, and storable.
struct Reach {
  int bits = 60, order = 70;
};
// For f16: two factors of 2^15, and a one of 2^-1; and 1.5 * 2^15, and a one of
// 2^-14, the smallest normal number.
constexpr Reach kF16Products = {28, 31}, kF16Values = {28, 29};

// M is too large for the sum to hold a one next to it, with room for all ones
// together; or no such M can be stored.
SumFound find(const AskSums& ask, int terms, const Reach& reach) {
  SumFound found;
  found.terms = terms;
  find_bits(ask, reach.bits, found);
  if (found.bits == 0) return found;
  const int room = static_cast<int>(std::ceil(std::log2(terms)));
  if (found.wider || found.bits + room > reach.order) {
    found.why = fmt::format("no M up to 2^{} swallows a one", reach.bits);
    return found;
  }
  // One more if M is at the end of its binade.
  find_order(ask, std::min(found.bits + room + 1, reach.order), found);
  return found;
}

}  // namespace

SumFound ask_dot_sum(Asker& asker, int64_t d) {
  const Case& base = asker.base;
  const bool f16 = base.q_dtype == Dtype::kF16 || base.kv_dtype == Dtype::kF16;
  return find(
      [&](const std::vector<Masked>& sums) {
        return dot_counts(asker, d, sums);
      },
      static_cast<int>(d), f16 ? kF16Products : Reach());
}

SumFound ask_value_sum(Asker& asker, int64_t keys) {
  return find(
      [&](const std::vector<Masked>& sums) {
        return value_counts(asker, keys, sums);
      },
      static_cast<int>(keys),
      asker.base.kv_dtype == Dtype::kF16 ? kF16Values : Reach());
}

// With a = 1 + 2^-12, a^2 = 1 + 2^-11 + 2^-24 is rounded to 1 + 2^-11. So a^2 -
// (1 + 2^-11) is 2^-24 if the product was not rounded, and 0 if it was, or if
// it was added to nothing.
Fused ask_fused_dot(Asker& asker, int64_t d) {
  const int64_t heads = 2 * (d - 1);
  Case value = with_heads(asker, heads);
  value.shape.d = d;
  if (asker.base.shape.dv == asker.base.shape.d) value.shape.dv = d;
  const Shape s = value.shape;
  const double scale = scale_of(value);
  // The rest becomes a score of about -1.
  const double up =
      std::ldexp(1, 24 - static_cast<int>(std::lround(std::log2(scale))));
  const Reply reply = asker.ask(value, [&](Inputs& inputs) {
    const double a = 1 + 0x1p-12;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t far = h / 2 + 1;
      const int64_t product = h % 2 == 0 ? far : 0, rest = far - product;
      const auto set = [&](int64_t c, double of_q, double of_k) {
        for (int64_t i = 0; i < s.Tq; ++i)
          inputs.q[static_cast<size_t>((h * s.Tq + i) * d + c)] = of_q;
        inputs.k[static_cast<size_t>(h * s.Tk * d + c)] = of_k;
      };
      set(product, a, -a * up);
      set(rest, 1, (1 + 0x1p-11) * up);
      for (int64_t c = 0; c < s.dv; ++c)
        inputs.v[static_cast<size_t>(h * s.Tk * s.dv + c)] = 1;
    }
  });
  if (!reply.done()) return Fused::kNotTold;
  int fused = 0;
  for (int64_t h = 0; h < heads; ++h) {
    const double w = reply.o[static_cast<size_t>((h * s.Tq + s.Tq - 1) * s.dv)];
    const double score =
        std::log(w / (1 - w)) + std::log(static_cast<double>(s.Tk - 1));
    const double left = -score / (scale * up * 0x1p-24);
    if (std::fabs(left) > 0.1 && std::fabs(left - 1) > 0.1)
      return Fused::kNotTold;
    if (left > 0.5) ++fused;
  }
  return fused > 0 ? Fused::kYes : Fused::kNo;
}

}  // namespace qkvet::cli
