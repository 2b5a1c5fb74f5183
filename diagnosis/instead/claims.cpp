// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/claims.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/half.h"
#include "core/door/canary.h"
#include "diagnosis/instead/collector.h"

namespace qkvet::diagnosis {

Claim claim_of(const Description& description) {
  return {description.text,
          [description](const WrongAnswer& answer, const WrongOutput& output) {
            return fits(description, answer, output);
          },
          description.stage};
}

bool is_true_of_all(const Claim& claim, const Wrongs& wrongs) {
  return std::all_of(wrongs.begin(), wrongs.end(), [&](const auto& one) {
    return claim.is_true_of(*one.first, *one.second);
  });
}

namespace {

// --- what is one number throughout, or written too coarsely

bool all_are(const WrongOutput& output, const std::function<bool(double)>& is) {
  return std::all_of(output.wrong.begin(), output.wrong.end(),
                     [&](size_t n) { return is(output.actual[n]); });
}

Claim claim_of_number(std::string text, std::function<bool(double)> is) {
  return {std::move(text),
          [is = std::move(is)](const WrongAnswer&, const WrongOutput& output) {
            return all_are(output, is);
          }};
}

// Whether all wrong elements still have their bytes from before the call.
bool are_untouched(const WrongAnswer& answer, const WrongOutput& output) {
  const auto& bytes = answer.outcome().*output_member(output.name);
  const int64_t width = dtype_bytes(output.dtype);
  const Canary canary(width);
  return std::ssize(bytes) == std::ssize(output.actual) * width &&
         std::all_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
           return canary.first_untouched(
                      bytes.data() + static_cast<int64_t>(n) * width, 1,
                      width) == 0;
         });
}

// `unwritten` names only the first of several outputs. A kernel that computes
// in f32 next to a tensor in half storage may leave anything in unwritten rows
// of o; then the lse of these rows decides.
bool is_unwritten(const WrongAnswer& answer, const WrongOutput& output) {
  const auto& unwritten = answer.outcome().unwritten;
  if (!unwritten) return false;
  if (*unwritten == output.name &&
      all_are(output, [](double x) { return std::isnan(x); }))
    return true;
  if (are_untouched(answer, output)) return true;
  const bool is_half =
      output.dtype == Dtype::kF16 || output.dtype == Dtype::kBf16;
  return output.name == TensorName::kO && is_half && !answer.lse.empty() &&
         std::all_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
           const int64_t row =
               static_cast<int64_t>(n) / answer.value().shape.dv;
           return std::isnan(answer.lse[static_cast<size_t>(row)]);
         });
}

// The bits of the narrowest significand that holds a number.
int bits_of(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  int exponent = 0;
  auto whole = static_cast<int64_t>(
      std::ldexp(std::fabs(std::frexp(value, &exponent)), 53));
  int bits = 53;
  while (whole % 2 == 0) whole /= 2, --bits;
  return bits;
}

// Numbers that are right to `bits` bits.
bool are_rounded_to(int bits, const WrongOutput& output) {
  for (const size_t n : output.wrong) {
    const double actual = output.actual[n], right = output.right[n];
    const double step = std::ldexp(std::fabs(right), 1 - bits);
    if (bits_of(actual) > bits ||
        !(std::fabs(actual - right) <= step + output.bound[n]))
      return false;
  }
  return true;
}

std::string rounded_text(int bits) {
  const char* type = bits == 8 ? " (bf16)" : bits == 11 ? " (f16, tf32)" : "";
  return fmt::format("the right value with {} bits{}", bits, type);
}

int bits_of_storage(Dtype dtype) {
  return static_cast<int>(std::lround(-std::log2(unit_roundoff(dtype))));
}

}  // namespace

std::optional<Claim> claim_of_rounding(const Wrongs& wrongs) {
  int bits = 0;
  int64_t rows = 0;
  for (const auto& [answer, output] : wrongs)
    for (const size_t n : output->wrong)
      bits = std::max(bits, bits_of(output->actual[n])), ++rows;
  constexpr int kFewestBits = 3, kFewer = 4;
  constexpr int64_t kFewestElements = 12;
  if (bits < kFewestBits || rows < kFewestElements ||
      bits + kFewer > bits_of_storage(wrongs[0].second->dtype))
    return std::nullopt;
  return Claim{rounded_text(bits),
               [bits](const WrongAnswer&, const WrongOutput& output) {
                 return are_rounded_to(bits, output);
               },
               Stage::kOutput};
}

namespace {

// --- a factor that has no name

// A number and its size in units of its uncertainty.
struct MeasuredAt {
  double number, sure;
};
// The number of the most informative wrong element; nullopt: none is sure.
template <class At>
std::optional<double> measured(const Wrongs& wrongs, At at) {
  constexpr double kSure = 256;
  MeasuredAt best{0, kSure};
  for (const auto& [answer, output] : wrongs)
    for (const size_t n : output->wrong) {
      if (!std::isfinite(output->actual[n])) continue;
      const MeasuredAt here = at(*answer, *output, n);
      if (here.sure > best.sure) best = here;
    }
  return best.sure > kSure ? std::optional(best.number) : std::nullopt;
}

Claim claim_of_this_factor(double factor) {
  return {fmt::format("the right value times {:.5g}", factor),
          [factor](const WrongAnswer&, const WrongOutput& output) {
            return std::all_of(
                output.wrong.begin(), output.wrong.end(), [&](size_t n) {
                  return is_near(output.actual[n], factor * output.right[n],
                                 std::fabs(factor) * output.bound[n],
                                 output.dtype);
                });
          }};
}

}  // namespace

std::optional<Claim> claim_of_factor(const Wrongs& wrongs) {
  const auto factor = measured(
      wrongs, [](const WrongAnswer&, const WrongOutput& output, size_t n) {
        const double size = std::fabs(output.right[n]);
        const double unsure =
            output.bound[n] + unit_roundoff(output.dtype) * size + 1e-300;
        return MeasuredAt{output.actual[n] / output.right[n], size / unsure};
      });
  return factor.value_or(0) != 0 ? std::optional(claim_of_this_factor(*factor))
                                 : std::nullopt;
}

std::optional<Claim> claim_of_constant(const Wrongs& wrongs) {
  const auto added = measured(
      wrongs, [](const WrongAnswer&, const WrongOutput& output, size_t n) {
        const double apart = output.actual[n] - output.right[n];
        return MeasuredAt{apart, std::fabs(apart) / (output.bound[n] + 1e-300)};
      });
  if (!added) return std::nullopt;
  return Claim{fmt::format("the right value {} {:.5g}",
                           *added < 0 ? "minus" : "plus", std::fabs(*added)),
               [added = *added](const WrongAnswer&, const WrongOutput& output) {
                 return std::all_of(
                     output.wrong.begin(), output.wrong.end(), [&](size_t n) {
                       return is_near(output.actual[n], output.right[n] + added,
                                      output.bound[n], output.dtype);
                     });
               }};
}

namespace {

// Whether each row is its right one times its own factor; counts elements that
// could have contradicted this: not the first of a row, nor one with the same
// right number, as for equal values.
bool are_rows_scaled(const WrongOutput& output, int64_t* told) {
  const int64_t width = output.extents[3];
  std::map<int64_t, std::vector<size_t>> rows;
  for (const size_t n : output.wrong)
    rows[static_cast<int64_t>(n) / width].push_back(n);
  for (const auto& [row, wrong] : rows) {
    const auto size = [&](size_t n) { return std::fabs(output.right[n]); };
    const size_t largest = *std::max_element(
        wrong.begin(), wrong.end(),
        [&](size_t a, size_t b) { return size(a) < size(b); });
    const double factor = output.actual[largest] / output.right[largest];
    for (const size_t n : wrong)
      if (!is_near(
              output.actual[n], factor * output.right[n],
              std::fabs(factor) * (output.bound[n] + output.bound[largest]),
              output.dtype))
        return false;
    constexpr double kAlike = 0.9;
    *told += std::count_if(wrong.begin(), wrong.end(), [&](size_t n) {
      return output.right[n] / output.right[largest] < kAlike;
    });
  }
  return true;
}

}  // namespace

std::optional<Claim> claim_of_rows(const Wrongs& wrongs) {
  constexpr int64_t kFewest = 12;
  int64_t told = 0, telling_cases = 0;
  for (const auto& [answer, output] : wrongs) {
    const int64_t before = told;
    if (!are_rows_scaled(*output, &told)) return std::nullopt;
    telling_cases += told > before;
  }
  if (told < kFewest || telling_cases < kFewestCases) return std::nullopt;
  return Claim{"the right row times a factor of its own",
               [](const WrongAnswer&, const WrongOutput& output) {
                 int64_t of_no_interest = 0;
                 return are_rows_scaled(output, &of_no_interest);
               }};
}

std::vector<Claim> claims_of_one_number(const Wrongs& wrongs) {
  const double first = wrongs[0].second->actual[wrongs[0].second->wrong[0]];
  std::vector<Claim> claims = {
      // A sum that includes the earlier NaN has its bits.
      {"what stood there before: it is not written, or is computed from that",
       is_unwritten, Stage::kOutput},
      claim_of_number(kNoNumber, [](double x) { return std::isnan(x); }),
      claim_of_number("0", [](double x) { return x == 0; })};
  if (std::isnan(first) || std::isinf(first))
    claims.push_back(
        claim_of_number("no finite number, but NaN or infinite",
                        [](double x) { return !std::isfinite(x); }));
  if (std::isfinite(first) || std::isinf(first))
    claims.insert(
        claims.begin() + 3,
        claim_of_number(fmt::format("{:.8g}, whatever is right", first),
                        [first](double x) { return x == first; }));
  for (Claim& one : claims) one.is_cheap = one.of_one_number = true;
  return claims;
}

std::vector<Claim> claims_of_means() {
  return {{"the mean of the values of all Tk keys",
           [](const WrongAnswer& answer, const WrongOutput& o) {
             if (o.name != TensorName::kO) return false;
             const Shape& s = answer.value().shape;
             return std::all_of(o.wrong.begin(), o.wrong.end(), [&](size_t n) {
               const auto at = static_cast<int64_t>(n);
               const int64_t c = at % s.dv, row = at / s.dv;
               const int64_t kv = kv_head_of(s, row);
               double sum = 0, size = 0;
               for (int64_t j = 0; j < s.Tk; ++j) {
                 const double v =
                     answer.inputs
                         ->v[static_cast<size_t>((kv * s.Tk + j) * s.dv + c)];
                 sum += v, size += std::fabs(v);
               }
               const auto keys = static_cast<double>(s.Tk);
               return is_near(o.actual[n], sum / keys,
                              size * unit_roundoff(Dtype::kF32), o.dtype);
             });
           }}};
}

namespace {

// The two parts of lse: the row's largest score, or its sink, and the logarithm
// of the remaining sum.
struct LseParts {
  double largest = 0, log_of_sum = 0;
};
std::optional<LseParts> parts_of_lse(const WrongAnswer& answer,
                                     const WrongOutput& lse, size_t n) {
  if (answer.truth == nullptr || answer.truth->oracle.visible[n] <= 0)
    return std::nullopt;
  const double below = std::log(largest_share(answer, static_cast<int64_t>(n)));
  return LseParts{lse.right[n] + below, -below};
}
double part_of(const LseParts& parts, bool is_largest) {
  return is_largest ? parts.largest : parts.log_of_sum;
}

// The factor of one part, from the row in which that part is largest.
std::optional<double> factor_of_part(const Wrongs& wrongs, bool is_largest) {
  return measured(
      wrongs, [&](const WrongAnswer& answer, const WrongOutput& lse, size_t n) {
        const auto parts = parts_of_lse(answer, lse, n);
        const double part = parts ? part_of(*parts, is_largest) : 0;
        return MeasuredAt{1 + (lse.actual[n] - lse.right[n]) / part,
                          std::fabs(part) / (lse.bound[n] + 1e-300)};
      });
}

}  // namespace

std::vector<Claim> claims_of_lse_parts(const Wrongs& wrongs) {
  std::vector<Claim> claims;
  for (const bool is_largest : {true, false}) {
    const auto factor = factor_of_part(wrongs, is_largest);
    if (!factor) continue;
    const char* form =
        is_largest ? "the largest score times {:.5g} plus the logarithm "
                     "of the sum"
                   : "the largest score plus {:.5g} times the logarithm "
                     "of the sum";
    claims.push_back(
        {fmt::format(fmt::runtime(form), *factor),
         [is_largest, factor = *factor](const WrongAnswer& answer,
                                        const WrongOutput& lse) {
           return std::all_of(
               lse.wrong.begin(), lse.wrong.end(), [&](size_t n) {
                 const auto parts = parts_of_lse(answer, lse, n);
                 return parts &&
                        is_near(lse.actual[n],
                                lse.right[n] +
                                    (factor - 1) * part_of(*parts, is_largest),
                                std::max(1.0, std::fabs(factor)) * lse.bound[n],
                                lse.dtype);
               });
         },
         Stage::kLse});
  }
  return claims;
}

}  // namespace qkvet::diagnosis
