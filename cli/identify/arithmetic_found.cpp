// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a kernel, in knobs of a precision as far as there are any
// for it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/identify/parts_found.h"
#include "cli/identify/roundings.h"
#include "cli/identify/sums.h"
#include "properties/cases/scope.h"

namespace qkvet::cli {
namespace {

class Arithmetic {
 public:
  Arithmetic(Asker& asker, Identified& found) : asker_(asker), found_(found) {}

  void find() {
    base_ = asker_.base;
    find_exact_scale();
    const Case first = asker_.base;
    const int64_t d = widest(), keys = most_keys(64);
    dot_ = ask_dot_sum(asker_, d);
    say_sum(dot_, "dot_sum", "q.k");
    const bool f16 = first.kv_dtype == Dtype::kF16;
    value_ = ask_value_sum(asker_, most_keys(f16 ? 32 : 64));
    say_sum(value_, "value_sum", "P v");
    say_width();
    say_fused(d);
    say_operands();
    say_scores();
    say_weights();
    say_exp();
    say_lse();
    say_tile(keys);
    not_told("denominator",
             "the order in which weights are added: they have "
             "one sign, and nothing cancels");
    asker_.base = base_;
  }

 private:
  void say(const char* field, std::string value, std::string evidence) {
    found_.fields.push_back(
        {Part::kPrecision, field, std::move(value), std::move(evidence)});
  }
  void usual(std::string what, std::string why) {
    found_.rest.push_back(
        {NotFound::Why::kUsual, std::move(what), std::move(why)});
  }
  void not_told(std::string what, std::string why) {
    found_.rest.push_back(
        {NotFound::Why::kNotTold, std::move(what), std::move(why)});
  }

  bool is_said(const std::string& field) const {
    return std::any_of(
        found_.fields.begin(), found_.fields.end(), [&](const FoundField& one) {
          return one.part == Part::kPrecision && one.field == field;
        });
  }

  // Makes scores multiples of a power of two, if a scale can be given.
  void find_exact_scale() {
    if (is_found(found_, "options", "scale")) asker_.base.scale = 0.125f;
  }

  int64_t widest() {
    for (const int64_t d : {64, 128, 32, 16}) {
      Case value = asker_.base;
      value.shape.d = value.shape.dv = d;
      if (asker_.judged(value).agrees()) return d;
    }
    return asker_.base.shape.d;
  }
  int64_t most_keys(int64_t most) {
    for (int64_t keys = most; keys > 4; keys /= 2) {
      Case value = asker_.base;
      value.shape.Tk = keys;
      if (!asker_.takes_cross_lengths) value.shape.Tq = keys;
      if (asker_.judged(value).agrees()) return keys;
    }
    return 4;
  }

  void say_sum(const SumFound& sum, const char* field, const char* of) {
    const bool is_named = !sum.order.words.empty();
    if (sum.tree.empty() || !is_named) {
      not_told(field, fmt::format("the order of {}: {}{}", of, sum.why,
                                  sum.tree.empty() ? ""
                                                   : "; no order that has a "
                                                     "name: " +
                                                         sum.tree));
      return;
    }
    const std::string evidence = fmt::format(
        "{} of {} terms: {} ({})", of, sum.terms, sum.order.words, sum.why);
    if (sum.order.sum == QKVET_SUM_PAIRWISE)
      return say(field, "pairwise", evidence);
    // Sums over keys have no lanes but one.
    const bool is_dot = std::string(field) == "dot_sum";
    if (sum.order.sum != QKVET_SUM_LANES || (!is_dot && sum.order.lanes > 1))
      return say(field, "any", evidence);
    // If the channels are no multiple of the lanes, the rest may be added in
    // another way.
    if (is_dot && sum.order.lanes > 1) {
      const SumFound rest = ask_dot_sum(asker_, sum.terms - 3);
      if (rest.order.words != sum.order.words)
        return say(field, "any",
                   evidence + fmt::format("; of {} terms: {}", rest.terms,
                                          rest.order.words.empty()
                                              ? rest.why
                                              : rest.order.words));
    }
    say(field, "lanes", evidence);
    if (is_dot)
      say("dot_lanes", std::to_string(sum.order.lanes), "of the same sums");
  }

  std::string bits_text(const SumFound& sum) const {
    if (sum.bits == 0) return "not told (" + sum.why + ")";
    return fmt::format("{}{} bits", sum.wider ? "more than " : "", sum.bits);
  }

  // A one next to 2^n is lost in sums of n bits.
  void say_width() {
    const std::string evidence = "a one vanishes beside 2^n: q.k is kept in " +
                                 bits_text(dot_) + ", P v in " +
                                 bits_text(value_);
    const std::pair<const SumFound*, const char*> sums[] = {
        {&dot_, "dot_sum_dtype"}, {&value_, "value_sum_dtype"}};
    for (const auto& [sum, field] : sums) {
      if (sum->wider || (sum->bits != 8 && sum->bits != 11)) continue;
      say(field, sum->bits == 8 ? "bf16" : "f16", evidence);
    }
    const bool f64 = asker_.base.q_dtype == Dtype::kF64;
    const auto is = [&](int bits) {
      return !dot_.wider && !value_.wider && dot_.bits == bits &&
             value_.bits == bits;
    };
    if (is(24) || (f64 && is(53)))
      say("accumulator_u",
          is(24) ? "5.9604644775390625e-08" : "1.1102230246251565e-16",
          evidence);
    else if (dot_.bits != 8 && dot_.bits != 11 && value_.bits != 8 &&
             value_.bits != 11)
      not_told("accumulator_u", evidence);
  }

  void say_fused(int64_t d) {
    if (dot_.bits != 24 || dot_.wider || asker_.base.q_dtype != Dtype::kF32)
      return not_told("fma", "asked of f32 storage and sums of 24 bits alone");
    const Fused fused = ask_fused_dot(asker_, d);
    const char* const pairs =
        "(1 + 2^-12)^2 - (1 + 2^-11) in q.k, at pairs of channels: ";
    if (fused == Fused::kNo)
      return say("fma", "0", std::string(pairs) + "0 at all of them");
    if (fused == Fused::kYes)
      return not_told("fma",
                      std::string(pairs) +
                          "2^-24 at some of them: products of q.k are not "
                          "rounded. Those of P v are not told");
    not_told("fma", std::string(pairs) + "neither 0 nor 2^-24");
  }

  void say_operands() {
    operands_ = ask_operands(asker_);
    if (!operands_.told) return not_told("operand_dtype", operands_.why);
    if (!operands_.to) return usual("operand_dtype", "none: " + operands_.why);
    say("operand_dtype", std::string(dtype_name(*operands_.to)), operands_.why);
  }

  void say_scores() {
    const RoundingFound scores = ask_scores(asker_);
    if (!scores.told) return not_told("score_dtype", scores.why);
    if (!scores.to) return usual("score_dtype", "none: " + scores.why);
    say("score_dtype", std::string(dtype_name(*scores.to)), scores.why);
  }

  // In half storage, too, because P is rounded there.
  void say_weights() {
    std::optional<RoundingFound> told;
    Case own = asker_.base;
    std::vector<Dtype> storages = {own.kv_dtype};
    for (const Dtype half : {Dtype::kF16, Dtype::kBf16})
      if (half != own.kv_dtype &&
          is_found(found_, "dtypes", std::string(dtype_name(half))))
        storages.push_back(half);
    for (const Dtype storage : storages) {
      const std::string word(dtype_name(storage));
      asker_.base = own;
      if (storage != own.kv_dtype) store_as(StorageTypes(storage), asker_.base);
      const RoundingFound p = ask_weights_rounding(
          asker_, storage == own.kv_dtype ? operands_.to : std::nullopt);
      asker_.base = own;
      if (!p.told) {
        not_told("p_dtype", "of " + word + " storage: " + p.why);
        continue;
      }
      if (!p.to) {
        usual("p_dtype", "none, of " + word + " storage: " + p.why);
        continue;
      }
      // One declaration for all storage types: if it follows the storage in
      // both half types, the storage determines it.
      if (told) {
        if (told->to != p.to) follows_storage_ = true;
        continue;
      }
      told = p;
      told->why = "of " + word + " storage: " + p.why;
    }
    if (!told) return;
    if (follows_storage_ && !told->normalised)
      return say("preset", "flash_half",
                 told->why + "; in each half type it is that type");
    say("p_dtype", std::string(dtype_name(*told->to)), told->why);
    if (told->normalised) say("p_normalised", "1", told->why);
  }

  static std::string power_above(double x) {
    return fmt::format("{:.17g}", std::exp2(std::ceil(std::log2(x))));
  }

  // Above the noise of f32 and above the assumptions about an undeclared
  // kernel.
  static constexpr double kNoise = 0x1p-20, kMostDeclared = 0x1p-8;

  void say_lse() {
    if (!is_found(found_, "options", "lse")) return;
    const LseFound lse = ask_lse(asker_);
    if (!lse.told) return not_told("lse_dtype", lse.why);
    if (lse.to)
      return say("lse_dtype", std::string(dtype_name(*lse.to)), lse.why);
    if (lse.error <= kNoise) {
      usual("lse_dtype", "none: " + lse.why);
      return say_tanh();
    }
    const bool hidden = is_said("score_dtype") || is_said("operand_dtype") ||
                        is_said("dot_sum_dtype") || is_said("exp_error");
    if (hidden || lse.error > kMostDeclared)
      return not_told("lse_dtype", lse.why + ": something else is off");
    say("log_error", power_above(lse.error), lse.why);
  }

  void say_tanh() {
    if (!is_found(found_, "options", "softcap")) return;
    const TanhFound tanh = ask_tanh(asker_);
    if (!tanh.told) return not_told("tanh_error", tanh.why);
    if (tanh.error <= kNoise) return usual("tanh_error", tanh.why);
    if (is_said("score_dtype") || tanh.error > kMostDeclared)
      return not_told("tanh_error", tanh.why + ": something else is rounded");
    say("tanh_error", power_above(tanh.error), tanh.why);
    if (tanh.floor > 0)
      say("tanh_floor", power_above(tanh.floor), "of the same scores");
  }

  void say_exp() {
    for (const char* field : {"operand_dtype", "score_dtype", "p_dtype",
                              "dot_sum_dtype", "value_sum_dtype", "preset"})
      if (is_said(field))
        return not_told("exp_error",
                        std::string("hidden by the rounding of ") + field);
    const ExpFound exp = ask_exp(asker_);
    if (!exp.told) return not_told("exp_error", exp.why);
    // Two divisions may be off by one unit each; an undeclared kernel's may be
    // off by 8.
    constexpr double kGeneric = 8, kDivisions = 2;
    if (exp.units <= kGeneric + kDivisions)
      return usual("exp_error",
                   exp.why + ": within what an undeclared kernel has");
    // An exponential is never declared to be worse.
    constexpr double kMost = 0x1p-8 * 0x1p24;
    if (exp.units > kMost)
      return not_told("exp_error", exp.why + ": something else is rounded");
    say("exp_error", power_above(exp.units * 0x1p-24), exp.why);
    if (exp.floor > 0x1p-149)
      say("exp_floor", power_above(exp.floor), "of the same weights");
  }

  void say_tile(int64_t keys) {
    if (asker_.base.kv_dtype == Dtype::kF16 || value_.bits != 24 ||
        value_.wider)
      return not_told("tile",
                      "asked where v can overflow a sum: f32 or bf16 "
                      "storage, sums of 24 bits");
    const TileFound tile = ask_tile(asker_, std::max<int64_t>(keys, 8));
    if (!tile.told) return not_told("tile", tile.why);
    if (tile.tile == 0)
      return usual("tile", tile.why +
                               ": the maximum is known first, or "
                               "tiles are larger");
    say("tile", std::to_string(tile.tile == 2 ? 1 : tile.tile), tile.why);
  }

  Asker& asker_;
  Identified& found_;
  Case base_;
  SumFound dot_, value_;
  RoundingFound operands_;
  bool follows_storage_ = false;
};

}  // namespace

bool is_found(const Identified& found, const std::string& field,
              const std::string& word) {
  return std::any_of(found.fields.begin(), found.fields.end(),
                     [&](const FoundField& one) {
                       return one.field == field && one.value == word;
                     });
}

void find_arithmetic(Asker& asker, Identified& found) {
  Arithmetic(asker, found).find();
}

}  // namespace qkvet::cli
