// SPDX-License-Identifier: Apache-2.0
// The dialect: the findings of every run's probes, with the numbers that show
// them, and fields that no run needs.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "cli/identify/parts_found.h"
#include "core/capability/declaration.h"
#include "properties/checking/probe.h"

namespace qkvet::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

Case equal_scores(const Asker& asker) {
  Case value = asker.base;
  value.q = {RecipeKind::kZero, 0};
  return value;
}

std::string lse_base_evidence(Asker& asker) {
  const Case value = equal_scores(asker);
  const Reply reply = asker.ask(value, {}, /*want_lse=*/true);
  if (reply.lse.empty()) return "";
  // The last row sees all keys.
  const double lse = reply.lse[static_cast<size_t>(value.shape.Tq - 1)];
  const auto n = static_cast<double>(value.shape.Tk);
  return fmt::format(
      "lse of {} equal scores is {:.4f}; ln {} = {:.4f}, log2 {} "
      "= {:.4f}",
      n, lse, n, std::log(n), n, std::log2(n));
}

std::string softcap_evidence(Asker& asker) {
  Case value = equal_scores(asker);
  value.softcap = 1;
  value.score_bias = Recipe{RecipeKind::kZero, 0};
  const Shape s = value.shape;
  const Reply reply = asker.ask(value, [&](Inputs& inputs) {
    for (size_t n = 0; n < inputs.bias.size(); ++n)
      inputs.bias[n] = static_cast<int64_t>(n) % s.Tk == 0 ? 4 : 0;
    for (size_t n = 0; n < inputs.v.size(); ++n)
      inputs.v[n] = static_cast<int64_t>(n) / s.dv % s.Tk == 0 ? 1 : 0;
  });
  if (!reply.done()) return "by ALiBi, beside which no bias is taken";
  const auto others = static_cast<double>(s.Tk - 1);
  const double o = reply.o[static_cast<size_t>((s.Tq - 1) * s.dv)];
  return fmt::format(
      "a cap of 1 and a bias of 4 at one key of {}: it weighs {:.4f}; {:.4f} "
      "if "
      "the bias comes behind the cap, {:.4f} if in front",
      s.Tk, o, 1 / (1 + others * std::exp(-4.0)),
      1 / (1 + others * std::exp(-std::tanh(4.0))));
}

std::string sink_evidence(Asker& asker) {
  Case value = equal_scores(asker);
  value.sink = Recipe{RecipeKind::kOne, 0};
  const Reply reply = asker.ask(
      value,
      [](Inputs& inputs) {
        for (double& sink : inputs.sink) sink = 8;
      },
      /*want_lse=*/true);
  if (reply.lse.empty()) return "";
  const auto n = static_cast<double>(value.shape.Tk);
  return fmt::format(
      "lse of {} scores of 0 and a sink of 8 is {:.4f}; ln({} + e^8) = {:.4f}, "
      "ln {} = {:.4f}",
      n, reply.lse[static_cast<size_t>(value.shape.Tq - 1)], n,
      std::log(n + std::exp(8.0)), n, std::log(n));
}

// The first row sees no key for the reason that the field is about.
std::string empty_row_evidence(Asker& asker, const std::string& field,
                               bool has_lse) {
  Case value = asker.base;
  const int64_t T = value.shape.Tk;
  const auto by = [&](const char* reason) { return field.ends_with(reason); };
  const char* why = "the causal rule";
  InputEdit edit;
  if (by("_by_mask")) {
    value.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
    why = "a mask";
  } else if (by("_by_bias")) {
    value.score_bias = Recipe{RecipeKind::kZero, 0};
    edit = [](Inputs& inputs) {
      std::fill(inputs.bias.begin(), inputs.bias.end(), -kInfinite);
    };
    why = "a bias of -infinity";
  } else if (by("_by_length")) {
    value.kv_len = {0};
    why = "a length of 0";
  } else if (by("_by_extent")) {
    value.shape.Tk = 0;
    why = "Tk = 0";
  } else {
    value.shape.Tq = T + 3;
    value.causal = Causal::kBottomRight;
  }
  Reply reply = asker.ask(value, edit, has_lse);
  if (!reply.done() && why == std::string("the causal rule")) {
    value = asker.base;
    value.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
    why = "a mask";
    reply = asker.ask(value, {}, has_lse);
  }
  if (reply.o.empty()) return "by the probes of every run";
  std::string text = fmt::format("a row that sees no key for {} has o = {:g}",
                                 why, reply.o[0]);
  if (reply.o.size() > 1) text += fmt::format(", {:g}, ...", reply.o[1]);
  if (!reply.lse.empty()) text += fmt::format("; lse = {:g}", reply.lse[0]);
  return text + ": " + to_string(value);
}

std::string evidence_of(Asker& asker, const std::string& field, bool has_lse) {
  if (field == "lse_base") return lse_base_evidence(asker);
  if (field == "softcap_order") return softcap_evidence(asker);
  if (field == "sink_in_lse") return sink_evidence(asker);
  return empty_row_evidence(asker, field, has_lse);
}

void set(Asker& asker, const char* field, const char* word,
         std::string evidence, Identified& found) {
  parse_dialect("", std::string(field) + " = " + word, asker.dialect);
  found.fields.push_back({Part::kDialect, field, word, std::move(evidence)});
}

// Key 1 holds NaN, by way of k and of v, and is hidden from the last row or
// from the first.
void find_masked_nonfinite(Asker& asker, const KernelInfo& info,
                           Identified& found) {
  std::vector<std::pair<Case, int64_t>> asked;  // and the row to compare
  if (info.has_option(QKVET_OPTION_MASK)) {
    Case value = asker.base;
    value.mask = {MaskKind::kButN, 1, kOwnAll};
    asked.emplace_back(value, value.shape.Tq - 1);
  }
  for (const auto& [option, rule] :
       {std::pair{QKVET_OPTION_CAUSAL_BOTTOM_RIGHT, Causal::kBottomRight},
        std::pair{QKVET_OPTION_CAUSAL_TOP_LEFT, Causal::kTopLeft}}) {
    if (!info.has_option(option)) continue;
    Case value = asker.base;
    value.causal = rule;
    asked.emplace_back(value, 0);
  }
  int ignored = 0, calls = 0;
  for (const auto& [value, row] : asked)
    for (const bool in_v : {false, true}) {
      const Shape s = value.shape;
      const Reply reply = asker.ask(value, [&](Inputs& inputs) {
        const int64_t width = in_v ? s.dv : s.d;
        std::vector<double>& values = in_v ? inputs.v : inputs.k;
        std::fill_n(values.begin() + width, width, kNan);
      });
      if (!reply.done()) continue;
      ++calls;
      if (std::isfinite(reply.o[static_cast<size_t>(row * s.dv)])) ++ignored;
    }
  if (calls == 0) return;
  const std::string evidence = fmt::format(
      "NaN in k or v of a key that is hidden by the mask or the causal rule: o "
      "stays finite in {} of {} calls",
      ignored, calls);
  set(asker, "masked_nonfinite", ignored == calls ? "ignored" : "not_ignored",
      evidence, found);
}

void find_visible_nan(Asker& asker, Identified& found) {
  int reached = 0, calls = 0;
  for (const bool in_q : {false, true}) {
    const Shape s = asker.base.shape;
    const Reply reply = asker.ask(asker.base, [&](Inputs& inputs) {
      if (in_q)
        inputs.q[static_cast<size_t>((s.Tq - 1) * s.d)] = kNan;
      else
        std::fill_n(inputs.k.begin() + s.d, s.d, kNan);
    });
    if (!reply.done()) continue;
    ++calls;
    if (std::isnan(reply.o[static_cast<size_t>((s.Tq - 1) * s.dv)])) ++reached;
  }
  if (calls == 0) return;
  set(asker, "visible_nan", reached == calls ? "reaches" : "may_vanish",
      fmt::format(
          "NaN in q, and in a key that a row sees: o is NaN in {} of {} "
          "calls",
          reached, calls),
      found);
}

void find_mask_and_causal(Asker& asker, const KernelInfo& info,
                          Identified& found) {
  const bool bottom = info.has_option(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT);
  if (!info.has_option(QKVET_OPTION_MASK) ||
      (!bottom && !info.has_option(QKVET_OPTION_CAUSAL_TOP_LEFT)))
    return;
  Case value = asker.base;
  value.causal = bottom ? Causal::kBottomRight : Causal::kTopLeft;
  value.mask = {MaskKind::kButN, 1, kOwnAll};
  // The first row sees key 0, which is not hidden.
  const Reply reply = asker.judged(value);
  if (reply.agrees())
    set(asker, "mask_and_causal", "both", "agrees: " + to_string(value), found);
  else if (reply.answered == Answered::kRefused)
    set(asker, "mask_and_causal", "refused", reply.said, found);
  else
    found.rest.push_back({NotFound::Why::kWrong, "mask_and_causal",
                          reply.said + ": " + to_string(value)});
}

}  // namespace

void find_lse_base(Asker& asker) {
  const Case value = equal_scores(asker);
  const Reply reply = asker.ask(value, {}, /*want_lse=*/true);
  if (reply.lse.empty()) return;
  const double lse = reply.lse[static_cast<size_t>(value.shape.Tq - 1)];
  const double ln = std::log(static_cast<double>(value.shape.Tk));
  if (std::fabs(lse - ln * std::numbers::log2e) < 0.02)
    asker.dialect.lse_base = QKVET_LSE_BASE2;
}

void find_dialect(Asker& asker, KernelInfo info, Identified& found) {
  const bool has_lse = info.has_option(QKVET_OPTION_LSE);
  const std::vector<Assumption> assumed =
      probe_dialect(asker.executor(), asker.kernel(), info);
  asker.dialect = info.dialect;
  const std::string lines = dialect_text(info.dialect);
  for (size_t at = 0; at < lines.size();) {
    const size_t equals = lines.find(" = ", at), end = lines.find('\n', at);
    const std::string field = lines.substr(at, equals - at);
    found.fields.push_back({Part::kDialect, field,
                            lines.substr(equals + 3, end - equals - 3),
                            evidence_of(asker, field, has_lse)});
    at = end + 1;
  }
  find_masked_nonfinite(asker, info, found);
  find_visible_nan(asker, found);
  find_mask_and_causal(asker, info, found);
}

}  // namespace qkvet::cli
