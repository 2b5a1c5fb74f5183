// SPDX-License-Identifier: Apache-2.0
#include "core/case/case_set.h"

#include <charconv>

#include "core/case/case_text.h"

namespace qkvet {
namespace {

// "0x1.8p+1", "-0x1p-3", as to_string() writes them.
std::optional<double> hex_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  if (text.starts_with('-')) return std::nullopt;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] =
      std::from_chars(text.data(), end, value, std::chars_format::hex);
  if (code != std::errc() || stop != end) return std::nullopt;
  return negative ? -value : value;
}

// "0.1.2.3", as many numbers as the tensor has extents; one of slopes that all
// members have.
bool read_index(std::string_view text, SetValue* set) {
  const auto rank = static_cast<size_t>(tensor_rank(set->tensor));
  const bool of_all = set->tensor == TensorName::kSlopes &&
                      text.find('.') == std::string_view::npos;
  for (size_t i = of_all ? 1 : 0; i < rank; ++i) {
    const size_t end = i + 1 < rank ? text.find('.') : text.size();
    const auto index = end == std::string_view::npos
                           ? std::nullopt
                           : number<int64_t>(text.substr(0, end));
    if (!index) return false;
    set->index[i] = *index;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

bool read_all(std::string_view text, SetValue* set) {
  const size_t colon = text.find(':');
  const size_t dot = text.find('.');
  if (colon == std::string_view::npos || dot > colon) return false;
  int tensor = 0;
  while (tensor < kInputCount &&
         text.substr(0, dot) != set_name(static_cast<TensorName>(tensor)))
    ++tensor;
  const auto value = hex_number(text.substr(colon + 1));
  if (tensor == kInputCount || !value) return false;
  set->tensor = static_cast<TensorName>(tensor);
  set->value = *value;
  const bool has_values =
      set->tensor < TensorName::kQLen
          ? set->tensor != TensorName::kMask
          : set->tensor == TensorName::kDO || set->tensor == TensorName::kDY;
  return has_values && read_index(text.substr(dot + 1, colon - dot - 1), set);
}

}  // namespace

std::string read_set_value(std::string_view text, std::string_view token,
                           SetValue* set) {
  return read_all(text, set)
             ? ""
             : quoted(token) +
                   ": write set=q|k|v|do.b.h.t.c:HEX or set=bias.b.h.i.j, "
                   "set=sink.h, set=alibi.h or set=alibi.b.h (in a layer "
                   "set=x.b.t.c, "
                   "set=dy.b.t.c, set=w_q.row.column, set=b_q.column, alike "
                   "w_k w_v w_o b_k b_v b_o), for example "
                   "set=k.0.0.2.1:-0x1.8p+1";
}

}  // namespace qkvet
