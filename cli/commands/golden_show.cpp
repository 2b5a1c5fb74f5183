// SPDX-License-Identifier: Apache-2.0
// qkvet golden show: the contents of a set, with a picture of one tensor.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "cli/commands/groups.h"
#include "cli/golden/golden_folders.h"
#include "cli/terminal/select.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

struct GoldenShowOptions {
  std::string target;  // a file, or a set that QKVet brings
  std::string tensor;  // the tensor to draw; "": a suitable one
};

namespace fs = std::filesystem;

constexpr std::string_view kShades = " .:-=+*#%@";
// A picture fits a terminal; larger tensors are seen in part.
constexpr int64_t kMostColumns = 64, kMostRows = 32;

struct Shown {
  std::string name;
  FileDtype dtype;
  std::vector<int64_t> shape;
  std::vector<double> numbers;
};

std::vector<Shown> all_tensors(const GoldenSet& set) {
  std::vector<Shown> tensors;
  for (const auto& [name, tensor] : set.recording.inputs)
    tensors.push_back({name, tensor.dtype, tensor.shape, numbers_of(tensor)});
  for (const auto& [name, output] : set.recording.outputs) {
    const auto extents = output_extents(set.value(), *parse_output_name(name));
    tensors.push_back(
        {name, file_dtype(output.dtype), extents,
         numbers_of({file_dtype(output.dtype), extents, output.bytes})});
  }
  return tensors;
}

std::string statistics(const Shown& tensor) {
  double least = std::numeric_limits<double>::infinity(), most = -least,
         sum = 0, squares = 0;
  int64_t finite = 0;
  for (const double x : tensor.numbers) {
    if (!std::isfinite(x)) continue;
    ++finite;
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
    squares += x * x;
  }
  const int64_t odd = std::ssize(tensor.numbers) - finite;
  if (finite == 0) return fmt::format("{} numbers, none finite", odd);
  const double n = static_cast<double>(finite), mean = sum / n;
  const double bounds = std::sqrt(std::max(squares / n - mean * mean, 0.0));
  return fmt::format("{:.5g} .. {:.5g}, mean {:.5g}, deviation {:.5g}{}", least,
                     most, mean, bounds,
                     odd > 0 ? fmt::format(", {} not finite", odd) : "");
}

// The last two extents of the first head of the first member.
std::string picture(const Shown& tensor) {
  const size_t rank = tensor.shape.size();
  const int64_t columns = rank > 0 ? tensor.shape[rank - 1] : 1;
  const int64_t rows = rank > 1 ? tensor.shape[rank - 2] : 1;
  const int64_t seen_rows = std::min(rows, kMostRows);
  const int64_t seen_columns = std::min(columns, kMostColumns);
  if (seen_rows * seen_columns == 0) return "";
  double least = std::numeric_limits<double>::infinity(), most = -least;
  const auto at = [&](int64_t row, int64_t column) {
    return tensor.numbers[static_cast<size_t>(row * columns + column)];
  };
  for (int64_t row = 0; row < seen_rows; ++row)
    for (int64_t column = 0; column < seen_columns; ++column)
      if (std::isfinite(at(row, column))) {
        least = std::min(least, at(row, column));
        most = std::max(most, at(row, column));
      }
  std::string out = field(
      tensor.name,
      fmt::format("first {} x {} of {} x {}; \"{}\" = {:.4g}, \"{}\" = {:.4g}",
                  seen_rows, seen_columns, rows, columns, kShades.front(),
                  least, kShades.back(), most));
  for (int64_t row = 0; row < seen_rows; ++row) {
    std::string line;
    for (int64_t column = 0; column < seen_columns; ++column) {
      const double x = at(row, column);
      const double part = most > least ? (x - least) / (most - least) : 1;
      line += !std::isfinite(x)
                  ? '?'
                  : kShades[static_cast<size_t>(
                        part * static_cast<double>(kShades.size() - 1) + 0.5)];
    }
    out += field("", "|" + line + "|");
  }
  return out;
}

// Weights are the most informative; otherwise an output of the call.
const Shown* picture_of(const std::vector<Shown>& tensors,
                        const std::string& wanted) {
  for (const std::string& name :
       wanted.empty() ? std::vector<std::string>{"weights", "o", "y"}
                      : std::vector<std::string>{wanted})
    for (const Shown& tensor : tensors)
      if (tensor.name == name) return &tensor;
  if (!wanted.empty() || tensors.empty()) return nullptr;
  return &tensors.back();
}

ExitCode run(const GoldenShowOptions& options) {
  std::error_code code;
  const bool is_file = fs::exists(options.target, code);
  GoldenSet set;
  const std::string path =
      is_file ? options.target
              : (fs::path(golden_folder()) / (options.target + kSetEnding))
                    .string();
  if (!is_file && !is_set_name(options.target))
    return wrong_use(options.target + ": no file, and no name of a set");
  if (std::string wrong = read_golden_file(path, &set); !wrong.empty())
    return wrong_use(wrong);
  const std::vector<Shown> tensors = all_tensors(set);
  const Shown* seen = picture_of(tensors, options.tensor);
  if (seen == nullptr) {
    std::string names;
    for (const Shown& tensor : tensors) names += " " + tensor.name;
    return wrong_use(options.tensor + ": the set has" + names);
  }
  fmt::print("{}\n", set.name);
  fmt::print("{}{}{}", field("case", to_string(set.value())),
             wrapped_field("pins", set.pins),
             wrapped_field("source", set.source));
  if (!set.generator.empty()) fmt::print("{}", field("made by", set.generator));
  fmt::print("{}",
             field("arithmetic", std::string(arithmetic_name(set.arithmetic))));
  for (const char* key : {"dialect", "finding"})
    if (const auto found = set.metadata.find(key);
        found != set.metadata.end() && !found->second.empty())
      fmt::print("{}", wrapped_field(key, found->second));
  for (const Shown& tensor : tensors)
    fmt::print("{}",
               field(tensor.name, file_tensor_text(tensor.dtype, tensor.shape) +
                                      "   " + statistics(tensor)));
  fmt::print("{}", picture(*seen));
  return kConforms;
}

void add_flags(CLI::App& command, GoldenShowOptions& options) {
  command
      .add_option("set", options.target, "File, or the name of a built-in set")
      ->required();
  command.add_option("tensor", options.tensor, "Tensor to draw");
}

}  // namespace

void add_golden_show(CLI::App& golden, Chosen& chosen) {
  add_command<GoldenShowOptions>(golden, chosen, "show", "Show a golden set",
                                 add_flags, run);
}

}  // namespace qkvet::cli
