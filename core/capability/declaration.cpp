// SPDX-License-Identifier: Apache-2.0
#include "core/capability/declaration.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/read_file.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

struct Word {
  const char* word;
  int32_t code;
  const char* constant = "";
};

// A field with words as values.
struct WordField {
  const char* name;
  int32_t qkvet_dialect::*field;
  std::span<const Word> words;
};

// The constant of the ABI and its name.
#define QKVET_NAMED(constant) constant, #constant

constexpr Word kEmptyRow[] = {
    {"zero", QKVET_NAMED(QKVET_EMPTY_ROW_ZERO)},
    {"nan", QKVET_NAMED(QKVET_EMPTY_ROW_NAN)},
    {"mean", QKVET_NAMED(QKVET_EMPTY_ROW_MEAN)},
    {"unspecified", QKVET_NAMED(QKVET_EMPTY_ROW_UNSPECIFIED)}};
constexpr Word kLseBase[] = {{"natural", QKVET_NAMED(QKVET_LSE_NATURAL)},
                             {"base2", QKVET_NAMED(QKVET_LSE_BASE2)}};
constexpr Word kEmptyLse[] = {
    {"minus_inf", QKVET_NAMED(QKVET_EMPTY_LSE_MINUS_INF)},
    {"plus_inf", QKVET_NAMED(QKVET_EMPTY_LSE_PLUS_INF)},
    {"nan", QKVET_NAMED(QKVET_EMPTY_LSE_NAN)},
    {"unspecified", QKVET_NAMED(QKVET_EMPTY_LSE_UNSPECIFIED)}};
constexpr Word kSoftcap[] = {
    {"before_mask", QKVET_NAMED(QKVET_SOFTCAP_BEFORE_MASK)},
    {"after_mask", QKVET_NAMED(QKVET_SOFTCAP_AFTER_MASK)}};
constexpr Word kMasked[] = {
    {"ignored", QKVET_NAMED(QKVET_MASKED_IGNORED)},
    {"not_ignored", QKVET_NAMED(QKVET_MASKED_NOT_IGNORED)}};
constexpr Word kSink[] = {{"in", QKVET_NAMED(QKVET_SINK_IN_LSE)},
                          {"not_in", QKVET_NAMED(QKVET_SINK_NOT_IN_LSE)}};
constexpr Word kBoth[] = {
    {"both", QKVET_NAMED(QKVET_MASK_AND_CAUSAL_BOTH)},
    {"refused", QKVET_NAMED(QKVET_MASK_AND_CAUSAL_REFUSED)}};
constexpr Word kVisibleNan[] = {
    {"reaches", QKVET_NAMED(QKVET_VISIBLE_NAN_REACHES)},
    {"may_vanish", QKVET_NAMED(QKVET_VISIBLE_NAN_MAY_VANISH)}};
constexpr Word kUnowned[] = {
    {"ignored", QKVET_NAMED(QKVET_UNOWNED_IGNORED)},
    {"not_ignored", QKVET_NAMED(QKVET_UNOWNED_NOT_IGNORED)}};
constexpr Word kPadding[] = {
    {"ignored", QKVET_NAMED(QKVET_PADDING_IGNORED)},
    {"not_ignored", QKVET_NAMED(QKVET_PADDING_NOT_IGNORED)}};
constexpr Word kRangeWords[] = {
    {"over_window", QKVET_NAMED(QKVET_RANGES_OVER_WINDOW)},
    {"in_window", QKVET_NAMED(QKVET_RANGES_IN_WINDOW)}};
#undef QKVET_NAMED

constexpr WordField kDialect[] = {
    {"empty_row", &qkvet_dialect::empty_row, kEmptyRow},
    {"lse_base", &qkvet_dialect::lse_base, kLseBase},
    {"empty_row_lse", &qkvet_dialect::empty_row_lse, kEmptyLse},
    {"softcap_order", &qkvet_dialect::softcap_order, kSoftcap},
    {"masked_nonfinite", &qkvet_dialect::masked_nonfinite, kMasked},
    {"sink_in_lse", &qkvet_dialect::sink_in_lse, kSink},
    {"mask_and_causal", &qkvet_dialect::mask_and_causal, kBoth},
    {"empty_row_by_mask", &qkvet_dialect::empty_row_by_mask, kEmptyRow},
    {"empty_row_by_bias", &qkvet_dialect::empty_row_by_bias, kEmptyRow},
    {"empty_row_by_length", &qkvet_dialect::empty_row_by_length, kEmptyRow},
    {"empty_row_by_extent", &qkvet_dialect::empty_row_by_extent, kEmptyRow},
    {"empty_row_lse_by_mask", &qkvet_dialect::empty_row_lse_by_mask, kEmptyLse},
    {"empty_row_lse_by_bias", &qkvet_dialect::empty_row_lse_by_bias, kEmptyLse},
    {"empty_row_lse_by_length", &qkvet_dialect::empty_row_lse_by_length,
     kEmptyLse},
    {"empty_row_lse_by_extent", &qkvet_dialect::empty_row_lse_by_extent,
     kEmptyLse},
    {"visible_nan", &qkvet_dialect::visible_nan, kVisibleNan},
    {"unowned_nonfinite", &qkvet_dialect::unowned_nonfinite, kUnowned},
    {"padding_nonfinite", &qkvet_dialect::padding_nonfinite, kPadding},
    {"ranges_and_window", &qkvet_dialect::ranges_and_window, kRangeWords}};

std::optional<int32_t> code_of(std::span<const Word> words,
                               std::string_view value) {
  for (const Word& word : words)
    if (value == word.word) return word.code;
  return std::nullopt;
}

std::string allowed_words(std::span<const Word> words) {
  std::string text = "allowed:";
  for (const Word& word : words) {
    text += ' ';
    text += word.word;
  }
  return text;
}

constexpr Word kPreset[] = {{"generic", QKVET_PRECISION_GENERIC},
                            {"cpu_f32", QKVET_PRECISION_CPU_F32},
                            {"flash_half", QKVET_PRECISION_FLASH_HALF},
                            {"tensor_core", QKVET_PRECISION_TENSOR_CORE},
                            {"cuda_fast", QKVET_PRECISION_CUDA_FAST},
                            {"math_half", QKVET_PRECISION_MATH_HALF}};
constexpr Word kSum[] = {{"any", QKVET_SUM_ANY},
                         {"lanes", QKVET_SUM_LANES},
                         {"pairwise", QKVET_SUM_PAIRWISE}};
constexpr Word kScale[] = {{"after_dot", QKVET_SCALE_AFTER_DOT},
                           {"on_q", QKVET_SCALE_ON_Q},
                           {"folded", QKVET_SCALE_FOLDED}};
constexpr Word kMerge[] = {{"none", QKVET_MERGE_NONE},
                           {"mlo", QKVET_MERGE_MLO},
                           {"lse", QKVET_MERGE_LSE}};

// One of three kinds of field of qkvet_precision.
struct PrecisionField {
  const char* name;
  uint64_t knob;
  int32_t qkvet_precision::*integer = nullptr;
  double qkvet_precision::*real = nullptr;
  qkvet_dtype qkvet_precision::*dtype = nullptr;
  std::span<const Word> words = {};
};
using P = qkvet_precision;
constexpr PrecisionField kPrecision[] = {
    {"preset", 0, &P::preset, nullptr, nullptr, kPreset},
    {"accumulator_u", QKVET_KNOB_ACCUMULATOR_U, nullptr, &P::accumulator_u},
    {"dot_sum", QKVET_KNOB_DOT_SUM, &P::dot_sum, nullptr, nullptr, kSum},
    {"dot_lanes", QKVET_KNOB_DOT_SUM, &P::dot_lanes},
    {"value_sum", QKVET_KNOB_VALUE_SUM, &P::value_sum, nullptr, nullptr, kSum},
    {"fma", QKVET_KNOB_FMA, &P::fma},
    {"scale_stage", QKVET_KNOB_SCALE_STAGE, &P::scale_stage, nullptr, nullptr,
     kScale},
    {"tile", QKVET_KNOB_TILE, &P::tile},
    {"exp_error", QKVET_KNOB_EXP_ERROR, nullptr, &P::exp_error},
    {"exp_floor", QKVET_KNOB_EXP_ERROR, nullptr, &P::exp_floor},
    {"exp_inexact_at_zero", QKVET_KNOB_EXP_ERROR, &P::exp_inexact_at_zero},
    {"arg_roundings", QKVET_KNOB_ARG_ROUNDINGS, nullptr, &P::arg_roundings},
    {"ref_roundings", QKVET_KNOB_REF_ROUNDINGS, nullptr, &P::ref_roundings},
    {"lazy", QKVET_KNOB_LAZY, nullptr, &P::lazy},
    {"splits", QKVET_KNOB_SPLITS, &P::splits},
    {"merge", QKVET_KNOB_SPLITS, &P::merge, nullptr, nullptr, kMerge},
    {"norm_roundings", QKVET_KNOB_NORM, nullptr, &P::norm_roundings},
    {"norm_first", QKVET_KNOB_NORM, &P::norm_first},
    {"p_dtype", QKVET_KNOB_P_DTYPE, nullptr, nullptr, &P::p_dtype},
    {"p_normalised", QKVET_KNOB_P_DTYPE, &P::p_normalised},
    {"sum_of_rounded_p", QKVET_KNOB_P_DTYPE, &P::sum_of_rounded_p},
    {"score_dtype", QKVET_KNOB_SCORE_DTYPE, nullptr, nullptr, &P::score_dtype},
    {"ftz", QKVET_KNOB_FTZ, &P::ftz},
    {"tensor_core", QKVET_KNOB_TENSOR_CORE, &P::tensor_core},
    {"default_scale_error", QKVET_KNOB_DEFAULT_SCALE_ERROR, nullptr,
     &P::default_scale_error},
    {"tanh_error", QKVET_KNOB_TANH_ERROR, nullptr, &P::tanh_error},
    {"tanh_floor", QKVET_KNOB_TANH_ERROR, nullptr, &P::tanh_floor},
    {"log_error", QKVET_KNOB_LOG_ERROR, nullptr, &P::log_error},
    {"operand_dtype", QKVET_KNOB_OPERAND_DTYPE, nullptr, nullptr,
     &P::operand_dtype},
    {"lse_dtype", QKVET_KNOB_LSE_DTYPE, nullptr, nullptr, &P::lse_dtype},
    {"sink_dtype", QKVET_KNOB_SINK_DTYPE, nullptr, nullptr, &P::sink_dtype},
    {"softmax_dtype", QKVET_KNOB_SOFTMAX_DTYPE, nullptr, nullptr,
     &P::softmax_dtype},
    {"dot_sum_dtype", QKVET_KNOB_DOT_SUM_DTYPE, nullptr, nullptr,
     &P::dot_sum_dtype},
    {"value_sum_dtype", QKVET_KNOB_VALUE_SUM_DTYPE, nullptr, nullptr,
     &P::value_sum_dtype},
    {"rotated_as_stored", QKVET_KNOB_ROTATED, &P::rotated_as_stored}};

template <class Fields>
std::string names_of(const Fields& fields) {
  std::string text = "allowed:";
  for (const auto& field : fields) {
    text += ' ';
    text += field.name;
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

// Calls set(field, value) for every line; it returns "" or the problem.
std::string read_fields(
    const std::string& path, std::string_view content,
    const std::function<std::string(std::string_view, std::string_view)>& set) {
  for (int at = 1; !content.empty(); ++at) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(line.size() + 1, content.size()));
    const std::string_view text = trimmed(line.substr(0, line.find('#')));
    if (text.empty()) continue;
    const size_t equals = text.find('=');
    const std::string wrong =
        equals == std::string_view::npos
            ? "\"" + std::string(text) + "\": write field = value"
            : set(trimmed(text.substr(0, equals)),
                  trimmed(text.substr(equals + 1)));
    if (wrong.empty()) continue;
    std::string place = path;
    return place.append(":").append(std::to_string(at)).append(": ") + wrong;
  }
  return "";
}

std::string set_precision(const PrecisionField& field, std::string_view value,
                          P& precision) {
  precision.struct_size = sizeof precision;
  precision.declared |= field.knob;
  if (field.dtype != nullptr) {
    const auto dtype = dtype_from_name(value);
    if (!dtype)
      return quoted(value) + ": allowed are storage types such as f16 and bf16";
    precision.*field.dtype = dtype_to_abi(*dtype);
  } else if (!field.words.empty()) {
    const auto code = code_of(field.words, value);
    if (!code) return quoted(value) + ": " + allowed_words(field.words);
    precision.*field.integer = *code;
  } else {
    const auto x = number<double>(value);
    if (!x) return quoted(value) + ": a number is wanted, such as 6e-8";
    if (field.real != nullptr)
      precision.*field.real = *x;
    else if (*x == static_cast<double>(static_cast<int32_t>(*x)))
      precision.*field.integer = static_cast<int32_t>(*x);
    else
      return quoted(value) + ": an integer is wanted";
  }
  return "";
}

// As set_precision() reads it; "" where a storage type is no case's.
std::string value_text(const PrecisionField& field, const P& precision) {
  if (field.dtype != nullptr) {
    const auto dtype = dtype_from_abi(precision.*field.dtype);
    return dtype ? std::string(dtype_name(*dtype)) : "";
  }
  if (field.real == nullptr) {
    const int32_t code = precision.*field.integer;
    for (const Word& word : field.words)
      if (word.code == code) return word.word;
    return std::to_string(code);
  }
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, precision.*field.real);
  return {text, end.ptr};
}

}  // namespace

std::string parse_dialect(const std::string& path, std::string_view text,
                          qkvet_dialect& dialect) {
  dialect.struct_size = sizeof dialect;
  return read_fields(
      path, text, [&](std::string_view name, std::string_view value) {
        for (const WordField& field : kDialect) {
          if (name != field.name) continue;
          const auto code = code_of(field.words, value);
          if (!code) return quoted(value) + ": " + allowed_words(field.words);
          dialect.*field.field = *code;
          return std::string();
        }
        return "unknown field " + quoted(name) + "; " + names_of(kDialect);
      });
}

std::string parse_precision(const std::string& path, std::string_view text,
                            P& precision) {
  return read_fields(
      path, text, [&](std::string_view name, std::string_view value) {
        for (const PrecisionField& field : kPrecision)
          if (name == field.name) return set_precision(field, value, precision);
        return "unknown field " + quoted(name) + "; " + names_of(kPrecision);
      });
}

std::string read_dialect(const std::string& path, qkvet_dialect& dialect) {
  std::string text;
  const std::string error = read_file(path, &text);
  return error.empty() ? parse_dialect(path, text, dialect) : error;
}

std::string read_precision(const std::string& path, P& precision) {
  std::string text;
  const std::string error = read_file(path, &text);
  return error.empty() ? parse_precision(path, text, precision) : error;
}

std::string dialect_text(const qkvet_dialect& dialect) {
  std::string text;
  for (const DeclaredWord& one : declared_words(dialect))
    text += std::string(one.field) + " = " + one.word + "\n";
  return text;
}

std::vector<DeclaredWord> declared_words(const qkvet_dialect& dialect) {
  std::vector<DeclaredWord> words;
  for (const WordField& field : kDialect)
    for (const Word& word : field.words)
      if (dialect.*field.field == word.code)
        words.push_back({field.name, word.word, word.constant});
  return words;
}

std::vector<DeclaredWord> dialect_words() {
  std::vector<DeclaredWord> words;
  for (const WordField& field : kDialect)
    for (const Word& word : field.words)
      words.push_back({field.name, word.word, word.constant});
  return words;
}

std::vector<std::string> precision_lines(const P& precision) {
  std::vector<std::string> lines;
  if (precision.struct_size == 0) return lines;
  for (const PrecisionField& field : kPrecision) {
    // The preset is no knob, and always one.
    if (field.knob != 0 && (precision.declared & field.knob) == 0) continue;
    if (const std::string value = value_text(field, precision); !value.empty())
      lines.push_back(std::string(field.name) + " = " + value);
  }
  return lines;
}

}  // namespace qkvet
