// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/picture.h"

#include <algorithm>

#include "core/case/key_lists.h"
#include "core/case/paging.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace {

constexpr size_t kMostNumbers = 64;
constexpr size_t kNumberWidth = 11;

constexpr const char* kActual = "   <- actual";
constexpr const char* kExpected = "   <- expected";

std::string cell_text(double value) {
  std::string text = number_text(value, Dtype::kF32);
  if (text.size() < kNumberWidth)
    text.insert(0, kNumberWidth - text.size(), ' ');
  return text;
}

// One line for each row of a tensor.
void add_rows(const char* name, const Grid& grid,
              const std::vector<double>& values, const std::string& note,
              std::vector<std::string>& lines) {
  const auto width = static_cast<size_t>(grid.width());
  for (size_t n = 0; n < values.size(); n += width) {
    const Element at = grid.at(n);
    std::string line = name;
    line += "[" + std::to_string(at.b) + "," + std::to_string(at.h) + "," +
            std::to_string(at.i) + "]";
    line.resize(std::max<size_t>(line.size() + 1, 10), ' ');
    for (size_t c = 0; c < width; ++c) line += " " + cell_text(values[n + c]);
    lines.push_back(line + note);
  }
}

void add_input(const Shape& shape, TensorName tensor, const Inputs& inputs,
               std::vector<std::string>& lines) {
  add_rows(tensor_name(tensor), Grid(shape, tensor), inputs.values(tensor), "",
           lines);
}

// The returned numbers and their truth. `name`: of the tensor.
void add_output(const JudgeInput& input, const CallView& call,
                TensorName tensor, std::vector<std::string>& lines,
                const char* name = nullptr) {
  CallOutput output = output_of(input, call, tensor);
  if (output.values.empty()) return;
  if (name == nullptr) name = tensor_name(tensor);
  add_rows(name, output.grid, output.values, kActual, lines);
  if (output.truth.values != nullptr)
    add_rows(name, output.grid, *output.truth.values, kExpected, lines);
}

// "positions of q: 1   of k: 0 1"; empty without a rotation.
void add_positions(const Inputs& inputs, std::vector<std::string>& lines) {
  if (inputs.q_positions.empty() && inputs.k_positions.empty()) return;
  std::string line = "positions of q:";
  for (const int64_t position : inputs.q_positions)
    line += " " + std::to_string(position);
  if (!inputs.k_positions.empty()) line += "   of k:";
  for (const int64_t position : inputs.k_positions)
    line += " " + std::to_string(position);
  lines.push_back(line);
}

// "pages of b=0: 3 1 | -1 4": the entries of its table after its own pages
// follow the bar. Also how many tokens the call appends. Nothing for rows.
void add_pages(const Case& value, const Inputs& inputs,
               std::vector<std::string>& lines) {
  if (inputs.new_tokens > 0)
    lines.push_back("new tokens: the last " +
                    std::to_string(inputs.new_tokens) + " of every member");
  if (value.paging.size == 0) return;
  const PageMap map(value);
  for (int64_t b = 0; b < value.shape.B; ++b) {
    std::string line = "pages of b=" + std::to_string(b) + ":";
    const bool csr = value.paging.table == PageTable::kCsr;
    for (int64_t p = 0; p < (csr ? map.owned(b) : map.columns()); ++p) {
      if (p == map.owned(b)) line += " |";
      line += " " + std::to_string(map.page_of(b, p * value.paging.size));
    }
    if (csr)
      line += "   in the last: " +
              std::to_string(keys_of(value, b).count -
                             std::max<int64_t>(map.owned(b) - 1, 0) *
                                 value.paging.size);
    lines.push_back(line);
  }
}

// "keys of b=0,i=1: 3 -1 | 0": entries that do not count follow the bar. One
// line for each key/value head if they have lists of their own.
void add_lists(const Case& value, const Inputs& inputs,
               std::vector<std::string>& lines) {
  if (inputs.key_indices.empty()) return;
  for (int64_t b = 0; b < value.shape.B; ++b)
    for (int64_t kv = 0; kv < list_heads(value); ++kv)
      for (int64_t i = 0; i < value.shape.Tq; ++i) {
        const int64_t block = value.listed.block;
        std::string line =
            block > 1 ? "blocks of " + std::to_string(block) + " keys of b="
                      : "keys of b=";
        line += std::to_string(b);
        if (value.listed.per_head) line += ",kv=" + std::to_string(kv);
        line += ",i=" + std::to_string(i) + ":";
        const int64_t begin = list_begin(value, b, kv, i);
        for (int64_t n = 0; n < value.listed.entries; ++n) {
          if (n == list_length(value, inputs, b, i)) line += " |";
          line += " " + std::to_string(
                            inputs.key_indices[static_cast<size_t>(begin + n)]);
        }
        lines.push_back(line);
      }
}

// Small calls one after the other, each by `add`. Calls that differ only in
// where tensors are stored are shown once.
template <class Add>
std::vector<std::string> calls_shown(const JudgeInput& input, int64_t numbers,
                                     const char* further, Add add) {
  std::vector<std::string> lines;
  if (numbers > static_cast<int64_t>(kMostNumbers)) return lines;
  const Inputs* shown = nullptr;
  for (const CallView& call : input.calls) {
    if (call.inputs == shown) continue;
    if (shown != nullptr) lines.push_back(further);
    shown = call.inputs;
    add(call, lines);
  }
  return lines;
}

// The extents of a call.
const Shape& shape_of(const JudgeInput& input, const CallView& call) {
  return call.planned->variant ? call.planned->variant->shape
                               : input.value.shape;
}

// o and its truth; rows that see no key have the declared value.
void add_o(const JudgeInput& input, const CallView& call,
           std::vector<std::string>& lines) {
  const CallOutput o = output_of(input, call, TensorName::kO);
  add_rows("o", o.grid, o.values, kActual, lines);
  if (call.truth == nullptr) return;
  std::vector<double> expected = *o.truth.values;
  const auto width = static_cast<size_t>(o.grid.width());
  if (input.kernel.dialect.empty_row == QKVET_EMPTY_ROW_ZERO)
    for (size_t n = 0; n < expected.size(); ++n)
      if (call.truth->oracle.visible[n / width] == 0) expected[n] = 0;
  add_rows("o", o.grid, expected, kExpected, lines);
}

}  // namespace

// Calls of q, k and v.
std::vector<std::string> attention_picture(const JudgeInput& input,
                                           const Judgement&) {
  const Shape& s = input.value.shape;
  const int64_t numbers =
      s.q_elements() + s.k_elements() + s.v_elements() + s.o_elements();
  return calls_shown(
      input, numbers, "second call:",
      [&](const CallView& call, std::vector<std::string>& lines) {
        add_pages(call.planned->variant ? *call.planned->variant : input.value,
                  *call.inputs, lines);
        add_positions(*call.inputs, lines);
        add_lists(input.value, *call.inputs, lines);
        for (const TensorName tensor :
             {TensorName::kQ, TensorName::kK, TensorName::kV})
          add_input(shape_of(input, call), tensor, *call.inputs, lines);
        add_o(input, call, lines);
      });
}

// Merges: the states of every row and head, n of them, and the output.
std::vector<std::string> merge_picture(const JudgeInput& input,
                                       const Judgement&) {
  const Shape& s = input.value.shape;
  const int64_t numbers =
      s.v_elements() + s.weights_elements() + s.o_elements();
  return calls_shown(
      input, numbers, "second call:",
      [&](const CallView& call, std::vector<std::string>& lines) {
        Shape states = shape_of(input, call);
        states.Tq = states.Tk;
        add_rows("states", Grid(states, TensorName::kO), call.inputs->v, "",
                 lines);
        add_rows("lse", Grid(states, TensorName::kLse), call.inputs->bias, "",
                 lines);
        for (const TensorName tensor : kOAndLse)
          add_output(input, call, tensor, lines);
      });
}

// Calls of backward(): the differences from one to the next, and the gradients.
std::vector<std::string> gradient_picture(const JudgeInput& input,
                                          const Judgement&) {
  const Shape& s = input.value.shape;
  const int64_t numbers =
      2 * (s.q_elements() + s.k_elements() + s.v_elements()) + s.o_elements();
  return calls_shown(
      input, numbers, "another call:",
      [&](const CallView& call, std::vector<std::string>& lines) {
        for (const TensorName tensor :
             {TensorName::kQ, TensorName::kK, TensorName::kV, TensorName::kDO})
          add_input(s, tensor, *call.inputs, lines);
        for (const TensorName tensor : kGradients)
          add_output(input, call, tensor, lines);
      });
}

namespace {

constexpr size_t kMostCalls = 16;  // of a story that is shown
constexpr size_t kMostTokens = 8;  // of a history that is shown

// "a holds a0 a1 a4"; tokens are named by sequence and tag.
std::string holds_text(const Snapshot& snapshot) {
  const auto letter = [](int64_t sequence) {
    return std::string(1, static_cast<char>('a' + sequence));
  };
  std::string text = letter(changed_sequence(snapshot.command)) + " holds";
  if (snapshot.history.empty()) return text + " nothing";
  if (snapshot.history.size() > kMostTokens)
    return text + " " + std::to_string(snapshot.history.size()) + " tokens";
  for (const auto& [sequence, tag] : snapshot.history)
    text += tag < 0 ? " NaN" : " " + letter(sequence) + std::to_string(tag);
  return text;
}

void add_answer(const JudgeInput& input, const CallView& call,
                std::vector<std::string>& lines) {
  const int64_t rows = call.planned->snapshot->queries;
  const Shape& s = input.value.shape;
  if (call.truth == nullptr || s.H * rows * s.dv > 4) return;
  add_output(input, call, TensorName::kO, lines, "     o");
}

std::string command_line(const JudgeInput& input, const CallView& call) {
  const Snapshot& snapshot = *call.planned->snapshot;
  std::string line = command_place(call);
  line.resize(std::max<size_t>(line.size() + 2, 18), ' ');
  if (call.planned->operation == Operation::kCacheCreate)
    return line + "capacity " + std::to_string(input.value.capacity);
  line += snapshot.illegal.empty() ? holds_text(snapshot)
                                   : "illegal: " + snapshot.illegal;
  const bool brings_nan = snapshot.first_new < 0 && snapshot.new_tokens > 0;
  return line + (brings_nan ? "   (brings NaN)" : "");
}

}  // namespace

// Command by command, up to the one that fails: its queries, and the contents
// of the sequence after it.
std::vector<std::string> story_picture(const JudgeInput& input,
                                       const Judgement& judgement) {
  const size_t last = judgement.finding->call;
  std::vector<std::string> lines;
  const size_t calls =
      last > 0 ? std::min(last + 1, input.calls.size()) : input.calls.size();
  if (calls > kMostCalls) return lines;
  for (size_t i = 0; i < calls; ++i) {
    const CallView& call = input.calls[i];
    std::string number = std::to_string(i);
    number.resize(4, ' ');
    lines.push_back(number + command_line(input, call));
    add_answer(input, call, lines);
  }
  return lines;
}

namespace {

size_t layer_numbers(const Inputs& inputs) {
  size_t numbers = 0;
  for (const TensorName name : kLayerInputs)
    numbers += inputs.values(name).size();
  return numbers;
}

}  // namespace

// The picture of a layer's gradient: inputs and outputs.
std::vector<std::string> layer_gradient_picture(const JudgeInput& input,
                                                const Judgement&) {
  const Shape& s = input.value.shape;
  const CallView& call = input.calls[0];
  const Inputs& inputs = *call.inputs;
  std::vector<std::string> lines;
  if (2 * layer_numbers(inputs) + inputs.d_y.size() > kMostNumbers)
    return lines;
  for (const TensorName tensor : kLayerInputs)
    add_input(s, tensor, inputs, lines);
  add_input(s, TensorName::kDY, inputs, lines);
  for (const TensorName tensor : kLayerGradients)
    add_output(input, call, tensor, lines);
  return lines;
}

// The picture of a layer: inputs, stages and outputs.
std::vector<std::string> layer_picture(const JudgeInput& input,
                                       const Judgement&) {
  const Shape& s = input.value.shape;
  const Inputs& inputs = *input.calls[0].inputs;
  const CallOutcome& outcome = *input.calls[0].outcome;
  const size_t numbers = outcome.y.size() / 4 + layer_numbers(inputs);
  std::vector<std::string> lines;
  if (numbers > kMostNumbers || outcome.y.empty()) return lines;
  for (const TensorName tensor : kLayerInputs)
    add_input(s, tensor, inputs, lines);
  if (!inputs.q_positions.empty()) {
    std::string line = "positions:";
    for (const int64_t position : inputs.q_positions)
      line += " " + std::to_string(position);
    lines.push_back(line);
  }
  for (const TensorName tensor : kStages)
    add_output(input, input.calls[0], tensor, lines);
  add_output(input, input.calls[0], TensorName::kY, lines);
  return lines;
}

}  // namespace qkvet::properties
