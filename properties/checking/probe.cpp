// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <string>

#include "core/case/case.h"
#include "properties/cases/draw.h"
#include "properties/cases/scope.h"
#include "properties/checking/case_work.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"

namespace qkvet::properties {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// A difference of a number near 1 that is far above every bound of these calls
// and far below the difference between two answers.
constexpr double kClear = 0.01;

bool is_near(double x, double expected) {
  return std::fabs(x - expected) < kClear * std::max(1.0, std::fabs(expected));
}

// The least extent from `low` on that the rule allows, ignoring its largest
// one: probes of fewer rows or keys would give wrong results.
int64_t least(qkvet_extent_rule rule, int64_t low) {
  rule.max = 0;
  return nearest_allowed(low, rule);
}

// The first that QKVet can judge.
std::optional<StorageTypes> first_storage(const KernelInfo& info) {
  const qkvet_capabilities& can = info.capabilities;
  if (can.dtype_count == 0) return StorageTypes();
  for (int n = 0; n < std::min(can.dtype_count, 16); ++n) {
    const auto q = dtype_from_abi(can.dtypes[n].q);
    const auto kv = dtype_from_abi(can.dtypes[n].kv);
    const auto o = dtype_from_abi(can.dtypes[n].o);
    if (!q || !kv || !o) continue;
    Case value;
    store_as({*q, *kv, *o}, value);
    if (not_judged_reason(value).empty()) return storage_of(value);
  }
  return std::nullopt;
}

int64_t rows_of(const Shape& s) { return s.B * s.H * s.Tq; }

// About how many products of two numbers a call takes.
int64_t products_of(Operation operation, const Shape& s) {
  constexpr int64_t kTimesOfGradient = 5;
  int64_t products = work_of(s);
  if (is_layer(operation))
    products += s.B * s.Tq * s.D * (s.H * (s.d + s.dv) + s.Hkv * (s.d + s.dv));
  const bool is_gradient = operation == Operation::kBackward ||
                           operation == Operation::kLayerBackward;
  return is_gradient ? kTimesOfGradient * products : products;
}

struct Reply {
  bool good = false;
  double seconds = 0;
  std::vector<double> o, lse;
};

using Edit = std::function<void(Inputs&)>;

class Prober {
 public:
  Prober(Executor& executor, int kernel, KernelInfo& info)
      : executor_(executor), kernel_(kernel), info_(info) {}

  // Later calls of forward() are steps on caches.
  void ask_caches() { of_caches_ = true; }

  void lse_base();
  void softcap_order();
  void sink_in_lse();
  void ranges_and_window();
  void empty_rows();
  double seconds_of(const Case& value);
  Pace pace();

  std::vector<Assumption> assumed;

 private:
  // The contents of a row that sees no key for one reason. 0: not asked, or
  // refused.
  struct Heard {
    std::array<int32_t, kEmptyByCount> o{}, lse{};
  };

  bool has(uint64_t option) const;
  Case small_case(int64_t Tq, int64_t Tk) const;
  std::vector<KernelCall> calls_of(const Case& value,
                                   const Inputs& inputs) const;
  Reply ask(const Case& value, const Edit& edit, bool want_lse);
  void assume(int32_t qkvet_dialect::*field, int32_t code, const char* name,
              const char* constant);

  std::vector<Case> empty_cases(EmptyBy by) const;
  EmptyRow hear(EmptyBy by, const Case& value, bool want_lse);
  void settle(const std::array<int32_t, kEmptyByCount>& heard, bool of_lse);

  Executor& executor_;
  int kernel_;
  KernelInfo& info_;
  bool of_caches_ = false;
  bool died_ = false;  // not called again
};

bool Prober::has(uint64_t option) const {
  if (!of_caches_ || option == QKVET_OPTION_LSE)
    return info_.has_option(option);
  return (options_by_cache_bits(info_.cache_options) & option) != 0;
}

// The one query of a step sees all keys.
Case Prober::small_case(int64_t Tq, int64_t Tk) const {
  Case value = smallest_case(info_, Tq, Tk);
  if (of_caches_) value.shape.B = value.shape.Tq = 1;
  return value;
}

std::vector<KernelCall> Prober::calls_of(const Case& value,
                                         const Inputs& inputs) const {
  if (!of_caches_) return {call_of(value, inputs, Operation::kForward)};
  const auto given = [](const std::vector<std::byte>& bytes) {
    return bytes.empty() ? nullptr : bytes.data();
  };
  KernelCall create = call_of(value, inputs, Operation::kCacheCreate);
  KernelCall step = call_of(value, inputs, Operation::kCacheStep);
  create.tokens = step.tokens = value.shape.Tk;
  create.slopes = given(inputs.slopes_bytes);
  create.sink = given(inputs.sink_bytes);
  step.bias = given(inputs.bias_bytes);
  return {create, step};
}

Reply Prober::ask(const Case& value, const Edit& edit, bool want_lse) {
  Reply reply;
  if (died_) return reply;
  Inputs inputs = make_inputs(value);
  if (edit) {
    edit(inputs);
    store_inputs(value, inputs);
  }
  std::vector<KernelCall> calls = calls_of(value, inputs);
  calls.back().want_lse = want_lse;
  const CallOutcome outcome = executor_.run(kernel_, calls).back();
  died_ = outcome.status >= CallStatus::kFault;
  reply.good = outcome.status == CallStatus::kDone;
  reply.seconds = outcome.seconds;
  if (!reply.good) return reply;
  reply.o = as_doubles(outcome.o, value.o_dtype);
  reply.lse = as_doubles(outcome.lse, lse_dtype(value.o_dtype));
  reply.good = !reply.o.empty() && (!want_lse || !reply.lse.empty());
  return reply;
}

void Prober::assume(int32_t qkvet_dialect::*field, int32_t code,
                    const char* name, const char* constant) {
  info_.dialect.*field = code;
  assumed.push_back({name, constant});
}

// Equal scores: lse is ln n, or log2 n.
void Prober::lse_base() {
  if (!has(QKVET_OPTION_LSE) || info_.dialect.lse_base != 0) return;
  const Case value = smallest_case(info_, 2, 2);
  const Reply reply = ask(value, {}, true);
  if (!reply.good) return;
  const double ln = std::log(static_cast<double>(value.shape.Tk));
  if (is_near(reply.lse[0], ln))
    assume(&qkvet_dialect::lse_base, QKVET_LSE_NATURAL, "lse_base",
           "QKVET_LSE_NATURAL");
  else if (is_near(reply.lse[0], ln * std::numbers::log2e))
    assume(&qkvet_dialect::lse_base, QKVET_LSE_BASE2, "lse_base",
           "QKVET_LSE_BASE2");
}

// A cap of 1, q = 0, and the term added to the score of one key is 4 larger
// than its neighbour's. A cap after the term leaves less than 2 of it.
void Prober::softcap_order() {
  const bool bias = has(QKVET_OPTION_BIAS), alibi = has(QKVET_OPTION_ALIBI);
  if (!has(QKVET_OPTION_SOFTCAP) || info_.dialect.softcap_order != 0 ||
      (!bias && !alibi))
    return;
  Case value = small_case(1, 2);
  value.softcap = 1;
  if (bias)
    value.score_bias = {RecipeKind::kZero, 0};
  else
    value.slopes = {RecipeKind::kOne, 0};
  const Shape s = value.shape;
  // The key at the position of row 0, for ALiBi; all others get less.
  const int64_t loud = std::max<int64_t>(s.Tk - s.Tq, 0);
  const auto added = [&](int64_t j) {
    if (bias) return j == loud ? 4.0 : 0.0;
    return -4.0 * static_cast<double>(std::abs(j - loud));
  };
  const Reply reply = ask(
      value,
      [&](Inputs& inputs) {
        for (size_t n = 0; n < inputs.bias.size(); ++n)
          inputs.bias[n] = added(static_cast<int64_t>(n) % s.Tk);
        for (double& slope : inputs.slopes) slope = 4;
        for (size_t n = 0; n < inputs.v.size(); ++n)
          inputs.v[n] = static_cast<int64_t>(n) / s.dv % s.Tk == loud ? 1 : 0;
      },
      false);
  if (!reply.good) return;
  double before = 0, after = 0;
  for (int64_t j = 0; j < s.Tk; ++j) {
    before += std::exp(added(j) - added(loud));
    after += std::exp(std::tanh(added(j)) - std::tanh(added(loud)));
  }
  if (is_near(reply.o[0], 1 / before))
    assume(&qkvet_dialect::softcap_order, QKVET_SOFTCAP_BEFORE_MASK,
           "softcap_order", "QKVET_SOFTCAP_BEFORE_MASK");
  else if (is_near(reply.o[0], 1 / after))
    assume(&qkvet_dialect::softcap_order, QKVET_SOFTCAP_AFTER_MASK,
           "softcap_order", "QKVET_SOFTCAP_AFTER_MASK");
}

// One range of all positions, and a window that only shows the diagonal. The
// last row sees the first key, which alone has the value 1, or only itself.
void Prober::ranges_and_window() {
  if (!has(QKVET_OPTION_FULL_RANGES) || !has(QKVET_OPTION_WINDOW) ||
      info_.dialect.ranges_and_window != 0)
    return;
  Case value = smallest_case(info_, 2, 2);
  Shape& s = value.shape;
  s.Tq = s.Tk = std::max(s.Tq, s.Tk);
  value.window = Window{0, 0};
  if (info_.has_flag(QKVET_FLAG_CAUSAL_ONLY))
    value.causal = has(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT) ? Causal::kBottomRight
                                                         : Causal::kTopLeft;
  value.fields.ranges = 1;
  for (const bool wide : {false, true}) {
    value.fields.wide_ranges = wide;
    const Reply reply = ask(
        value,
        [&](Inputs& inputs) {
          for (size_t n = 0; n < inputs.full_ranges.size(); ++n)
            inputs.full_ranges[n] = n % 2 == 0 ? 0 : s.Tk;
          for (size_t n = 0; n < inputs.v.size(); ++n)
            inputs.v[n] = static_cast<int64_t>(n) / s.dv % s.Tk == 0 ? 1 : 0;
        },
        false);
    if (!reply.good) continue;
    const double last = reply.o[static_cast<size_t>((s.Tq - 1) * s.dv)];
    if (is_near(last, 1 / static_cast<double>(s.Tk)))
      assume(&qkvet_dialect::ranges_and_window, QKVET_RANGES_OVER_WINDOW,
             "ranges_and_window", "QKVET_RANGES_OVER_WINDOW");
    else if (is_near(last, 0))
      assume(&qkvet_dialect::ranges_and_window, QKVET_RANGES_IN_WINDOW,
             "ranges_and_window", "QKVET_RANGES_IN_WINDOW");
    return;
  }
}

// n equal scores of 0 and a sink of 8: lse is ln(n + e^8), or ln n.
void Prober::sink_in_lse() {
  if (!has(QKVET_OPTION_SINK) || !has(QKVET_OPTION_LSE) ||
      info_.dialect.sink_in_lse != 0)
    return;
  Case value = small_case(1, 1);
  value.sink = {RecipeKind::kOne, 0};
  const Reply reply = ask(
      value,
      [](Inputs& inputs) {
        for (double& z : inputs.sink) z = 8;
      },
      true);
  if (!reply.good) return;
  const auto keys = static_cast<double>(value.shape.Tk);
  const double unit = lse_unit(info_);
  if (is_near(reply.lse[0], std::log(keys + std::exp(8.0)) * unit))
    assume(&qkvet_dialect::sink_in_lse, QKVET_SINK_IN_LSE, "sink_in_lse",
           "QKVET_SINK_IN_LSE");
  else if (is_near(reply.lse[0], std::log(keys) * unit))
    assume(&qkvet_dialect::sink_in_lse, QKVET_SINK_NOT_IN_LSE, "sink_in_lse",
           "QKVET_SINK_NOT_IN_LSE");
}

// Calls in which row 0 sees no key for this reason alone. At least three keys:
// the average over one key is its value.
std::vector<Case> Prober::empty_cases(EmptyBy by) const {
  std::vector<Case> cases;
  Case value = smallest_case(info_, 1, 3);
  Shape& s = value.shape;
  const bool cross = has(QKVET_OPTION_CROSS_LENGTHS);
  switch (by) {
    case EmptyBy::kRule:
      s.Tq = least(info_.capabilities.tq, s.Tk + 1);
      if (cross && has(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT)) {
        value.causal = Causal::kBottomRight;
        cases.push_back(value);
      }
      value.causal = Causal::kNone;
      value.window = Window{0, 0};
      if (cross && has(QKVET_OPTION_WINDOW)) cases.push_back(value);
      break;
    case EmptyBy::kMask:
      value.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
      if (has(QKVET_OPTION_MASK)) cases.push_back(value);
      break;
    case EmptyBy::kBias:
      value.score_bias = {RecipeKind::kZero, 0};
      if (has(QKVET_OPTION_BIAS)) cases.push_back(value);
      break;
    case EmptyBy::kLength:
      value.kv_len.assign(static_cast<size_t>(s.B), 0);
      if (has(QKVET_OPTION_LENGTHS)) cases.push_back(value);
      break;
    case EmptyBy::kExtent:
      s.Tk = 0;
      if (cross && has(QKVET_OPTION_EMPTY_EXTENTS)) cases.push_back(value);
      break;
  }
  return cases;
}

// All columns alike.
int32_t word_of_o(const Reply& reply, const Shape& s, double mean) {
  const auto all = [&](auto is) {
    return std::all_of(reply.o.begin(), reply.o.begin() + s.dv, is);
  };
  if (all([](double x) { return x == 0; })) return QKVET_EMPTY_ROW_ZERO;
  if (all([](double x) { return std::isnan(x); })) return QKVET_EMPTY_ROW_NAN;
  if (all([mean](double x) { return is_near(x, mean); }))
    return QKVET_EMPTY_ROW_MEAN;
  return QKVET_EMPTY_ROW_UNSPECIFIED;
}

int32_t word_of_lse(double x) {
  if (std::isnan(x)) return QKVET_EMPTY_LSE_NAN;
  if (x == -kInfinite) return QKVET_EMPTY_LSE_MINUS_INF;
  return x == kInfinite ? QKVET_EMPTY_LSE_PLUS_INF
                        : QKVET_EMPTY_LSE_UNSPECIFIED;
}

// An answer counts only if it is the same twice, for other values. Scores are
// so far apart that a large finite hidden score does not make them equal.
// Beyond the length there is NaN once and numbers once.
EmptyRow Prober::hear(EmptyBy by, const Case& value, bool want_lse) {
  const Shape s = value.shape;
  EmptyRow heard;
  for (const double sign : {1.0, -1.0}) {
    const auto value_at = [&](int64_t j) {
      return static_cast<double>(j % 3 * (j % 3) + 2) * sign;  // 2, 3, 6
    };
    const auto edit = [&](Inputs& inputs) {
      const bool beyond = by == EmptyBy::kLength && sign > 0;
      for (size_t n = 0; n < inputs.q.size(); ++n)
        inputs.q[n] = static_cast<int64_t>(n) % s.d == 0 ? 64 : 0;
      for (size_t n = 0; !beyond && n < inputs.k.size(); ++n) {
        const int64_t at = static_cast<int64_t>(n);
        const auto step = static_cast<double>(at / s.d % s.Tk % 3 - 1);
        inputs.k[n] = at % s.d == 0 ? 64 * step * sign : 0;
      }
      for (size_t n = 0; !beyond && n < inputs.v.size(); ++n)
        inputs.v[n] = value_at(static_cast<int64_t>(n) / s.dv % s.Tk);
      for (size_t n = 0; n < inputs.bias.size(); ++n)
        inputs.bias[n] =
            static_cast<int64_t>(n) / s.Tk % s.Tq == 0 ? -kInfinite : 0;
    };
    const Reply reply = ask(value, edit, want_lse);
    if (!reply.good) return {};
    double mean = 0;
    for (int64_t j = 0; j < s.Tk; ++j)
      mean += value_at(j) / static_cast<double>(s.Tk);
    // No keys have no mean.
    if (by == EmptyBy::kLength || s.Tk == 0) mean = kInfinite;
    const EmptyRow one = {word_of_o(reply, s, mean),
                          want_lse ? word_of_lse(reply.lse[0]) : 0};
    if (heard.o == 0) heard = one;
    if (heard.o != one.o) heard.o = QKVET_EMPTY_ROW_UNSPECIFIED;
    if (heard.lse != one.lse) heard.lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  }
  return heard;
}

// The declaration for each reason: the word that all known reasons share, or
// that of the causal rule, and each other one separately.
static_assert(int{QKVET_EMPTY_ROW_UNSPECIFIED} ==
              int{QKVET_EMPTY_LSE_UNSPECIFIED});
std::array<int32_t, kEmptyByCount> settled(
    std::array<int32_t, kEmptyByCount> heard) {
  int32_t base = heard[0];
  for (const int32_t word : heard) base = base == 0 ? word : base;
  const bool same =
      std::all_of(heard.begin(), heard.end(),
                  [base](int32_t word) { return word == 0 || word == base; });
  if (!same) base = heard[0];
  for (int32_t& word : heard) word = word == base ? 0 : word;
  heard[0] = base == QKVET_EMPTY_ROW_UNSPECIFIED ? 0 : base;
  return heard;
}

void Prober::settle(const std::array<int32_t, kEmptyByCount>& heard,
                    bool of_lse) {
  static constexpr const char* kO[] = {
      "", "QKVET_EMPTY_ROW_ZERO", "QKVET_EMPTY_ROW_NAN", "QKVET_EMPTY_ROW_MEAN",
      "QKVET_EMPTY_ROW_UNSPECIFIED"};
  static constexpr const char* kLse[] = {
      "", "QKVET_EMPTY_LSE_MINUS_INF", "QKVET_EMPTY_LSE_PLUS_INF",
      "QKVET_EMPTY_LSE_NAN", "QKVET_EMPTY_LSE_UNSPECIFIED"};
  const std::array<int32_t, kEmptyByCount> words = settled(heard);
  for (size_t by = 0; by < words.size(); ++by) {
    const EmptyRowFields& fields = empty_row_fields()[by];
    if (words[by] == 0) continue;
    // A reason that is declared keeps its declaration, right or wrong.
    const auto field = of_lse ? fields.lse : fields.o;
    if (info_.dialect.*field != 0) continue;
    if (of_lse)
      assume(fields.lse, words[by], fields.lse_name, kLse[words[by]]);
    else
      assume(fields.o, words[by], fields.name, kO[words[by]]);
  }
}

void Prober::empty_rows() {
  const bool wants_o = info_.dialect.empty_row == 0;
  const bool wants_its_lse =
      has(QKVET_OPTION_LSE) && info_.dialect.empty_row_lse == 0;
  if (!wants_o && !wants_its_lse) return;
  Heard heard;
  for (size_t by = 0; by < kEmptyByCount; ++by)
    for (const Case& value : empty_cases(static_cast<EmptyBy>(by))) {
      const EmptyRow one =
          hear(static_cast<EmptyBy>(by), value, has(QKVET_OPTION_LSE));
      const auto join = [](int32_t& word, int32_t other, int32_t unspecified) {
        if (word == 0) word = other;
        if (other != 0 && word != other) word = unspecified;
      };
      join(heard.o[by], one.o, QKVET_EMPTY_ROW_UNSPECIFIED);
      join(heard.lse[by], one.lse, QKVET_EMPTY_LSE_UNSPECIFIED);
    }
  if (died_) return;
  if (wants_o) settle(heard.o, /*of_lse=*/false);
  if (wants_its_lse) settle(heard.lse, /*of_lse=*/true);
}

// The faster of two calls, because the first may compile code. 0: neither
// succeeded.
double Prober::seconds_of(const Case& value) {
  double least = kInfinite;
  for (int n = 0; n < 2 && !died_; ++n)
    if (const Reply reply = ask(value, {}, false); reply.good)
      least = std::min(least, reply.seconds);
  return std::isfinite(least) && !died_ ? least : 0;
}

Pace Prober::pace() {
  constexpr int64_t kExtent = 48;
  Case rows = smallest_case(info_, 1, 1);
  rows.shape.B = nearest_allowed(kExtent, info_.capabilities.b);
  const Case keys = smallest_case(info_, kExtent, kExtent);
  return {seconds_of(rows) / static_cast<double>(rows_of(rows.shape)),
          seconds_of(keys) / static_cast<double>(
                                 products_of(Operation::kForward, keys.shape))};
}

}  // namespace

double Pace::seconds(Operation operation, const Shape& s) const {
  return row * static_cast<double>(rows_of(s)) +
         product * static_cast<double>(products_of(operation, s));
}

Case smallest_case(const KernelInfo& info, int64_t Tq, int64_t Tk) {
  const auto has = [&info](uint64_t option) { return info.has_option(option); };
  const qkvet_capabilities& can = info.capabilities;
  Case value;
  store_as(first_storage(info).value_or(StorageTypes()), value);
  Shape& s = value.shape;
  const DeclaredExtents extents = extents_of(can);
  keep_widths(extents, 0, s);
  const bool in_keys_only = info.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY);
  if (extents.widths.empty() && !in_keys_only && allows(can.dv, s.d))
    s.dv = s.d;
  keep_heads(extents, has(QKVET_OPTION_GROUPED_HEADS), s);
  s.B = nearest_allowed(1, can.b);
  s.Tk = least(can.tk, Tk);
  s.Tq = least(can.tq, Tq);
  if (!has(QKVET_OPTION_CROSS_LENGTHS)) s.Tq = s.Tk = std::max(s.Tq, s.Tk);
  value.q = value.k = {RecipeKind::kZero, 0};
  value.v = {RecipeKind::kOne, 0};
  if (!has(QKVET_OPTION_DEFAULT_SCALE)) value.scale = 1.0f;
  if (info.has_flag(QKVET_FLAG_PAGES_ONLY)) {
    value.paging.size = can.page_size_count > 0 ? can.page_sizes[0] : 1;
    if (!has(QKVET_OPTION_PAGED)) value.paging.table = PageTable::kCsr;
    if (info.has_flag(QKVET_FLAG_CHANNEL_GROUPS_ONLY)) in_channel_groups(value);
  }
  if (in_keys_only) {
    value.values_in_keys = true;
    value.k = value.v = {};
  }
  return value;
}

std::vector<Assumption> probe_dialect(Executor& executor, int kernel,
                                      KernelInfo& info, Pace* pace) {
  if (!first_storage(info)) return {};
  Prober prober(executor, kernel, info);
  if (info.has_forward) {
    prober.lse_base();
    prober.softcap_order();
    prober.sink_in_lse();
    prober.ranges_and_window();
    prober.empty_rows();
    if (pace != nullptr) *pace = prober.pace();
  }
  if (info.has_cache) {
    prober.ask_caches();
    prober.softcap_order();
    prober.sink_in_lse();
  }
  return prober.assumed;
}

}  // namespace qkvet::properties
