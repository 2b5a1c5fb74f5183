// SPDX-License-Identifier: Apache-2.0
// One C file, C11 and C++17, whose tables the program of templates/reproducer.c
// walks.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/abi_call.h"
#include "properties/compare.h"
#include "tools/compiler.h"
#include "tools/reproducer.h"

namespace qkvet {
namespace {

constexpr std::string_view kPattern =
#include "reproducer.c.inc"
    ;

constexpr size_t kPerLine = 6;

std::string number_c(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  return hex_number(value);
}

template <class T>
T stored_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string element_c(const std::byte* at, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return number_c(stored_at<double>(at));
    case Dtype::kF32: {
      const std::string text = number_c(stored_at<float>(at));
      return text.find('x') == std::string::npos ? text : text + "f";
    }
    case Dtype::kF16:
    case Dtype::kBf16:
      return fmt::format("0x{:04x}", stored_at<uint16_t>(at));
    case Dtype::kInt64:
      return std::to_string(stored_at<int64_t>(at));
    case Dtype::kInt32:
      return std::to_string(stored_at<int32_t>(at));
    default:
      return std::to_string(stored_at<uint8_t>(at));
  }
}

const char* type_c(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "double";
    case Dtype::kF32:
      return "float";
    case Dtype::kF16:
    case Dtype::kBf16:
      return "uint16_t";
    case Dtype::kInt64:
      return "int64_t";
    case Dtype::kInt32:
      return "int32_t";
    default:
      return "uint8_t";
  }
}

const char* code_c(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return "QKVET_DTYPE_BFLOAT";
    case Dtype::kInt64:
    case Dtype::kInt32:
      return "QKVET_DTYPE_INT";
    case Dtype::kUint8:
      return "QKVET_DTYPE_UINT";
    default:
      return "QKVET_DTYPE_FLOAT";
  }
}

// "4 x 8 x 1", for comments.
std::string extents_text(const TensorSpec& spec) {
  std::string text;
  for (int i = 0; i < spec.ndim; ++i)
    text += (i > 0 ? " x " : "") + std::to_string(spec.shape[i]);
  return text;
}

std::string four(const std::array<int64_t, 4>& numbers) {
  return fmt::format("{{{}, {}, {}, {}}}", numbers[0], numbers[1], numbers[2],
                     numbers[3]);
}

// The memory of the input from its first element to its last.
std::vector<std::byte> memory_of(const WrittenInput& input) {
  std::vector<std::byte> memory(static_cast<size_t>(input.spec.span_bytes()),
                                std::byte{0xff});
  if (input.given.elements() > 0) {
    TensorSpec given = input.spec;
    given.shape = input.given.shape;
    scatter(given, input.packed.data(), memory.data());
  }
  return memory;
}

class Tables {
 public:
  explicit Tables(const Reproducer& from) : from_(from) {
    for (size_t i = 0; i < from.calls.size(); ++i) add_call(i);
    add_pairs();
  }

  std::string text() const {
    return arrays_ + "static const call_row calls[] = {\n" + calls_ +
           "};\n\nstatic const tensor_row inputs[] = {\n" + inputs_ +
           "};\n\nstatic const output_row outputs[] = {\n" + outputs_ +
           "};\n\n" + pairs_;
  }

 private:
  static std::string row(size_t call, TensorName name, const TensorSpec& spec,
                         int64_t start, const std::string& memory) {
    return fmt::format(
        "{{{}, offsetof(qkvet_forward_args, {}), {{{}, {}, 1}}, {}, {}, {}, "
        "{}, {}, {}}}",
        call, abi_name(name), code_c(spec.dtype), dtype_bytes(spec.dtype) * 8,
        spec.ndim, four(spec.shape), four(spec.strides), spec.span(), start,
        memory);
  }

  // The name of an array with this memory: calls that share it do so here.
  std::string array(const std::string& name, const WrittenInput& input) {
    const std::vector<std::byte> memory = memory_of(input);
    if (memory.empty()) return "\"\"";
    const std::string key =
        std::string(dtype_name(input.spec.dtype)) +
        std::string(reinterpret_cast<const char*>(memory.data()),
                    memory.size());
    if (const auto found = names_.find(key); found != names_.end())
      return found->second;
    names_[key] = name;
    const auto step = static_cast<size_t>(dtype_bytes(input.spec.dtype));
    arrays_ += fmt::format(
        "/* {}, {} */\nstatic const {} {}[] = {{", extents_text(input.given),
        dtype_name(input.spec.dtype), type_c(input.spec.dtype), name);
    for (size_t n = 0; n < memory.size() / step; ++n)
      arrays_ += (n % kPerLine == 0 ? "\n    " : " ") +
                 element_c(memory.data() + n * step, input.spec.dtype) + ",";
    arrays_ += "\n};\n\n";
    return name;
  }

  void add_call(size_t number) {
    const WrittenCall& call = from_.calls[number];
    const AbiCall abi(call.plan, {});
    const qkvet_forward_args& args = abi.forward();
    calls_ += fmt::format("    {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},\n",
                          call.plan.threads, args.causal, args.scale_given,
                          number_c(static_cast<double>(args.scale)),
                          args.has_window, args.window_left, args.window_right,
                          number_c(static_cast<double>(args.softcap)),
                          args.page_size, args.rope);
    for (const WrittenInput& input : call.inputs)
      inputs_ += "    " +
                 row(number, input.name, input.spec, input.start,
                     array(fmt::format("{}_{}", abi_name(input.name), number),
                           input)) +
                 ",\n";
    for (const WrittenOutput& output : call.outputs) add_output(number, output);
  }

  void add_output(size_t call, const WrittenOutput& output) {
    const std::string name =
        fmt::format("wanted_{}_{}", abi_name(output.name), call);
    arrays_ += fmt::format(
        "/* {}: what it must be, by how much it may be off, and the numbers\n"
        " * of its type between which it must lie. */\n"
        "static const wanted_row {}[] = {{\n",
        abi_name(output.name), name);
    for (size_t n = 0; n < output.wanted.size(); ++n) {
      const Wanted& wanted = output.wanted[n];
      arrays_ += fmt::format(
          "    {{{}, {}, {}, {}}}, /* {} */\n", number_c(wanted.value),
          number_c(wanted.bound), number_c(wanted.low), number_c(wanted.high),
          element_name(output.name, from_.calls[call].value.shape,
                       static_cast<int64_t>(n)));
    }
    if (output.wanted.empty()) arrays_ += "    {0, 0, 0, 0},\n";
    arrays_ += "};\n\n";
    outputs_ += fmt::format(
        "    {{\"{}\", {}, {}}},\n", abi_name(output.name),
        row(call, output.name, output.spec, output.start, "NULL"), name);
    numbers_[{call, output.name}] = static_cast<int>(numbers_.size());
  }

  void add_pairs() {
    pairs_ =
        fmt::format("enum {{ pair_count = {} }};\n\n", from_.same_bits.size());
    pairs_ += "static const pair_row pairs[] = {\n";
    for (const SameBits& pair : from_.same_bits)
      pairs_ +=
          fmt::format("    {{{}, {}, {}, {}, {}}},\n",
                      numbers_[{pair.first_call, pair.tensor}], pair.first,
                      numbers_[{pair.second_call, pair.tensor}], pair.second,
                      number_c(pair.factor));
    if (from_.same_bits.empty()) pairs_ += "    {0, 0, 0, 0, 0},\n";
    pairs_ += "};\n";
  }

  const Reproducer& from_;
  std::map<std::string, std::string> names_;
  std::map<std::pair<size_t, TensorName>, int> numbers_;  // of outputs
  std::string arrays_, calls_, inputs_, outputs_, pairs_;
};

std::string string_c(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < ' ' || byte == 0x7f || c == '?')
      out += fmt::format("\\{:03o}", byte);
    else
      out += c;
  }
  return out + "\"";
}

// As the lines of a comment, which nothing in them ends.
std::string comment_c(const std::string& text) {
  std::string out = "/* ";
  for (const char c : text) {
    if (c == '/' && out.back() == '*') out += ' ';
    out += c;
    if (c == '\n') out += " * ";
  }
  out.resize(out.find_last_not_of(" *\n") + 1);
  return out + " */";
}

}  // namespace

std::string reproducer_c(const Reproducer& from) {
  const std::string file = shell_quoted(from.file);
  const std::string include = "-I" + shell_quoted(header_directory());
  const std::string head = reproducer_head(from) +
                           fmt::format(
                               "\n"
                               "compile  cc -std=c11 {0} {1} -o reproducer "
                               "-ldl -lm\n"
                               "         (or c++ -std=c++17 -x c++ {0} ...)\n"
                               "run      ./reproducer [LIBRARY [KERNEL "
                               "[CONFIG]]]\n"
                               "exit     1: the number is wrong, 0: it is "
                               "not, 2: the kernel cannot be called\n",
                               include, file);
  const std::string path =
      std::filesystem::absolute(from.library.path).lexically_normal().string();
  const std::string names = fmt::format(
      "static const char* const default_library = {};\n"
      "static const char* const default_kernel = {};\n"
      "static const char* const default_config = {};\n\n",
      string_c(path), string_c(from.kernel), string_c(from.library.config));
  return filled_in(kPattern, {{"/* HEAD */", comment_c(head)},
                              {"/* DATA */", names + Tables(from).text()}});
}

}  // namespace qkvet
