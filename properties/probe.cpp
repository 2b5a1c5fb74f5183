// SPDX-License-Identifier: Apache-2.0
#include "properties/probe.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/case.h"
#include "properties/case_work.h"
#include "properties/compare.h"
#include "properties/scope.h"

namespace qkvet {
namespace {

// Far above every bound of these calls, far below what tells answers apart.
constexpr double kClear = 0.01;

// The least extent that the rule allows.
int64_t least(const qkvet_extent_rule& rule) {
  const int64_t multiple = std::max<int64_t>(rule.multiple, 1);
  const int64_t low = std::max<int64_t>(rule.min, 1);
  return (low + multiple - 1) / multiple * multiple;
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

// A case of the smallest widths that the kernel takes, q = k = 0.
Case smallest_case(const KernelInfo& info) {
  Case value;
  store_as(first_storage(info).value_or(StorageTypes()), value);
  value.shape.d = value.shape.dv = least(info.capabilities.d);
  value.q = value.k = {RecipeKind::kZero, 0};
  value.v = {RecipeKind::kOne, 0};
  if (!info.has_option(QKVET_OPTION_DEFAULT_SCALE)) value.scale = 1.0f;
  if (info.has_flag(QKVET_FLAG_PAGES_ONLY))
    value.paging.size = info.capabilities.page_size_count > 0
                            ? info.capabilities.page_sizes[0]
                            : 1;
  return value;
}

struct Reply {
  bool good = false;  // the kernel took the call
  bool died = false;  // and worse: not asked again
  std::vector<double> o, lse;
};

Reply ask(Executor& executor, int kernel, const Case& value, bool want_lse) {
  const Inputs inputs = make_inputs(value);
  KernelCall call;
  call.shape = value.shape;
  call.q_dtype = value.q_dtype;
  call.kv_dtype = value.kv_dtype;
  call.o_dtype = value.o_dtype;
  call.causal = value.causal;
  call.scale = value.scale;
  call.want_lse = want_lse;
  call.q = inputs.q_bytes.data();
  call.k = inputs.k_bytes.data();
  call.v = inputs.v_bytes.data();
  fill_options(value, inputs, call);
  const CallOutcome outcome = executor.run(kernel, {&call, 1})[0];
  Reply answer;
  answer.good = outcome.status == CallStatus::kDone;
  answer.died = outcome.status >= CallStatus::kFault;
  if (!answer.good) return answer;
  answer.o = as_doubles(outcome.o, value.o_dtype);
  answer.lse = as_doubles(outcome.lse, lse_dtype(value.o_dtype));
  return answer;
}

// Two equal scores: lse is ln 2, or log2 2.
// False if the kernel died of it.
bool probe_lse_base(Executor& executor, int kernel, KernelInfo& info,
                    std::vector<Assumption>& assumed) {
  if (!info.has_option(QKVET_OPTION_LSE) || info.dialect.lse_base != 0)
    return true;
  Case value = smallest_case(info);
  value.shape.Tq = value.shape.Tk = 2;
  const Reply answer = ask(executor, kernel, value, true);
  if (!answer.good || answer.lse.empty()) return !answer.died;
  if (std::fabs(answer.lse[0] - std::numbers::ln2) < kClear) {
    info.dialect.lse_base = QKVET_LSE_NATURAL;
    assumed.push_back({"lse_base", "QKVET_LSE_NATURAL"});
  } else if (std::fabs(answer.lse[0] - 1) < kClear) {
    info.dialect.lse_base = QKVET_LSE_BASE2;
    assumed.push_back({"lse_base", "QKVET_LSE_BASE2"});
  }
  return true;
}

enum class Value : uint8_t { kZero, kNan, kPlusInf, kMinusInf, kMean, kOther };

Value value_of(double x, double mean) {
  if (std::isnan(x)) return Value::kNan;
  if (std::isinf(x)) return x > 0 ? Value::kPlusInf : Value::kMinusInf;
  if (x == 0) return Value::kZero;
  return std::fabs(x - mean) < kClear ? Value::kMean : Value::kOther;
}

// Row 0 of two rows over one key, counted from the bottom right, sees nothing.
// The same answer must come twice, for other values, to count.
void probe_empty_row(Executor& executor, int kernel, KernelInfo& info,
                     std::vector<Assumption>& assumed) {
  if (!info.has_option(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT) ||
      !info.has_option(QKVET_OPTION_CROSS_LENGTHS) ||
      (info.dialect.empty_row != 0 && info.dialect.empty_row_lse != 0))
    return;
  const bool want_lse = info.has_option(QKVET_OPTION_LSE);
  Case value = smallest_case(info);
  value.shape.Tq = 2;
  value.causal = Causal::kBottomRight;
  const Reply first = ask(executor, kernel, value, want_lse);
  if (!first.good) return;
  value.q = value.k = {RecipeKind::kOne, 0};
  value.v = {RecipeKind::kOffsetN, 3};
  const Reply second = ask(executor, kernel, value, want_lse);
  if (!second.good) return;
  const double mean = make_inputs(value).v[0];
  const Value o = value_of(first.o[0], 1);
  if (info.dialect.empty_row == 0 && o == value_of(second.o[0], mean)) {
    const auto found = [&](int32_t code, const char* constant) {
      info.dialect.empty_row = code;
      assumed.push_back({"empty_row", constant});
    };
    if (o == Value::kZero) found(QKVET_EMPTY_ROW_ZERO, "QKVET_EMPTY_ROW_ZERO");
    if (o == Value::kNan) found(QKVET_EMPTY_ROW_NAN, "QKVET_EMPTY_ROW_NAN");
    if (o == Value::kMean) found(QKVET_EMPTY_ROW_MEAN, "QKVET_EMPTY_ROW_MEAN");
  }
  if (!want_lse || info.dialect.empty_row_lse != 0) return;
  const Value lse = value_of(first.lse[0], 0);
  if (lse != value_of(second.lse[0], 0)) return;
  const auto found = [&](int32_t code, const char* constant) {
    info.dialect.empty_row_lse = code;
    assumed.push_back({"empty_row_lse", constant});
  };
  if (lse == Value::kMinusInf)
    found(QKVET_EMPTY_LSE_MINUS_INF, "QKVET_EMPTY_LSE_MINUS_INF");
  if (lse == Value::kPlusInf)
    found(QKVET_EMPTY_LSE_PLUS_INF, "QKVET_EMPTY_LSE_PLUS_INF");
  if (lse == Value::kNan) found(QKVET_EMPTY_LSE_NAN, "QKVET_EMPTY_LSE_NAN");
}

}  // namespace

std::vector<Assumption> probe_dialect(Executor& executor, int kernel,
                                      KernelInfo& info) {
  std::vector<Assumption> assumed;
  if (!info.has_forward || !first_storage(info)) return assumed;
  if (probe_lse_base(executor, kernel, info, assumed))
    probe_empty_row(executor, kernel, info, assumed);
  return assumed;
}

}  // namespace qkvet
