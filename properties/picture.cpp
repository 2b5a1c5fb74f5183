// SPDX-License-Identifier: Apache-2.0
#include "properties/picture.h"

#include <algorithm>

#include "properties/compare.h"

namespace qkvet {
namespace {

constexpr size_t kMostNumbers = 64;
constexpr size_t kNumberWidth = 11;

struct Grid {
  const char* name;
  const std::vector<double>* values;
  int64_t heads, rows, width;
};

std::string cell_text(double value) {
  std::string text = number_text(value, Dtype::kF32);
  if (text.size() < kNumberWidth)
    text.insert(0, kNumberWidth - text.size(), ' ');
  return text;
}

void add_rows(const Grid& grid, const std::string& note,
              std::vector<std::string>& lines) {
  const auto width = static_cast<size_t>(grid.width);
  for (size_t row = 0; row * width < grid.values->size(); ++row) {
    const auto n = static_cast<int64_t>(row);
    std::string line = grid.name;
    line += "[" + std::to_string(n / grid.rows / grid.heads) + "," +
            std::to_string(n / grid.rows % grid.heads) + "," +
            std::to_string(n % grid.rows) + "]";
    line.resize(std::max<size_t>(line.size() + 1, 10), ' ');
    for (size_t c = 0; c < width; ++c)
      line += " " + cell_text((*grid.values)[row * width + c]);
    lines.push_back(line + note);
  }
}

}  // namespace

std::vector<std::string> small_case_picture(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const auto numbers = static_cast<size_t>(s.q_elements() + s.k_elements() +
                                           s.v_elements() + s.o_elements());
  std::vector<std::string> lines;
  if (numbers > kMostNumbers) return lines;
  // Calls that differ only in where tensors lie show nothing new.
  const Inputs* shown = nullptr;
  for (const CallView& call : input.calls) {
    if (call.inputs == shown) continue;
    if (shown != nullptr) lines.push_back("second call:");
    shown = call.inputs;
    add_rows({"q", &call.inputs->q, s.H, s.Tq, s.d}, "", lines);
    add_rows({"k", &call.inputs->k, s.Hkv, s.Tk, s.d}, "", lines);
    add_rows({"v", &call.inputs->v, s.Hkv, s.Tk, s.dv}, "", lines);
    const std::vector<double> o =
        as_doubles(call.outcome->o, input.value.o_dtype);
    if (!o.empty()) add_rows({"o", &o, s.H, s.Tq, s.dv}, "   <- actual", lines);
    if (call.truth != nullptr)
      add_rows({"o", &call.truth->oracle.o, s.H, s.Tq, s.dv}, "   <- expected",
               lines);
  }
  return lines;
}

}  // namespace qkvet
