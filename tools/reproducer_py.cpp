// SPDX-License-Identifier: Apache-2.0
// One Python file: the tables of templates/reproducer.py.
#include <fmt/format.h>

#include <cstring>

#include "core/abi_call.h"
#include "properties/compare.h"
#include "tools/reproducer.h"

namespace qkvet {
namespace {

constexpr std::string_view kPattern =
#include "reproducer.py.inc"
    ;

constexpr size_t kWidth = 80;

std::string shape_py(const TensorSpec& spec) {
  std::string text = "(";
  for (int i = 0; i < spec.ndim; ++i)
    text += std::to_string(spec.shape[i]) + (i + 1 < spec.ndim ? ", " : "");
  return text + (spec.ndim == 1 ? ",)" : ")");
}

// The words in lines, as one string.
std::string text_py(const std::vector<std::string>& words) {
  std::string text = "\"\"\"";
  size_t column = kWidth;
  for (const std::string& word : words) {
    const bool fits = column + 1 + word.size() <= kWidth;
    text += fits ? " " + word : "\n            " + word;
    column = fits ? column + 1 + word.size() : 12 + word.size();
  }
  return text + "\"\"\"";
}

std::string numbers_py(const char* dtype, const TensorSpec& spec,
                       const std::vector<double>& values) {
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const double value : values) words.push_back(hex_number(value));
  return fmt::format("numbers(\"{}\", {}, {})", dtype, shape_py(spec),
                     text_py(words));
}

template <class T>
std::string integers_py(const char* dtype, const TensorSpec& spec,
                        const std::vector<std::byte>& packed) {
  std::vector<std::string> words;
  for (size_t at = 0; at + sizeof(T) <= packed.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, packed.data() + at, sizeof value);
    words.push_back(std::to_string(value));
  }
  return fmt::format("integers(\"{}\", {}, {})", dtype, shape_py(spec),
                     text_py(words));
}

std::string tensor_py(const TensorSpec& spec,
                      const std::vector<std::byte>& packed) {
  switch (spec.dtype) {
    case Dtype::kInt64:
      return integers_py<int64_t>("int64", spec, packed);
    case Dtype::kInt32:
      return integers_py<int32_t>("int32", spec, packed);
    case Dtype::kUint8:
      return integers_py<uint8_t>("uint8", spec, packed);
    case Dtype::kF64:
      return numbers_py("float64", spec, as_doubles(packed, spec.dtype));
    case Dtype::kF16:
      return numbers_py("float16", spec, as_doubles(packed, spec.dtype));
    default:  // numpy has no bf16
      return numbers_py("float32", spec, as_doubles(packed, spec.dtype));
  }
}

std::string entry(const std::string& name, const std::string& value) {
  return fmt::format("    \"{}\": {},\n", name, value);
}

std::string wanted_py(const WrittenOutput& output) {
  std::vector<double> parts[4];
  for (const Wanted& wanted : output.wanted) {
    parts[0].push_back(wanted.value);
    parts[1].push_back(wanted.bound);
    parts[2].push_back(wanted.low);
    parts[3].push_back(wanted.high);
  }
  std::string text = "[\n";
  for (const auto& part : parts)
    text += "        " + numbers_py("float64", output.spec, part) + ",\n";
  return text + "    ]";
}

const char* causal_py(int32_t causal) {
  return causal == QKVET_CAUSAL_NONE       ? "\"none\""
         : causal == QKVET_CAUSAL_TOP_LEFT ? "\"top-left\""
                                           : "\"bottom-right\"";
}

std::string float_py(double value) {
  return fmt::format("float.fromhex(\"{}\")", hex_number(value));
}

std::string options_py(const CallPlan& plan, const qkvet_dialect& dialect) {
  const AbiCall abi(plan, {});
  const qkvet_forward_args& args = abi.forward();
  const auto truth = [](bool is) { return is ? "True" : "False"; };
  std::string text = entry("causal", causal_py(args.causal));
  if (args.scale_given != 0)
    text += entry("scale", float_py(static_cast<double>(args.scale)));
  if (args.has_window != 0)
    text += entry("window",
                  fmt::format("({}, {})", args.window_left, args.window_right));
  if (args.softcap > 0)
    text += entry("softcap", float_py(static_cast<double>(args.softcap)));
  if (args.rope != QKVET_ROPE_NONE)
    text += entry(
        "rope", args.rope == QKVET_ROPE_HALF ? "\"half\"" : "\"interleaved\"");
  if (args.page_size > 0)
    text += entry("page_size", std::to_string(args.page_size));
  text += entry("softcap_after_bias",
                truth(dialect.softcap_order == QKVET_SOFTCAP_AFTER_MASK));
  text +=
      entry("sink_in_lse", truth(dialect.sink_in_lse != QKVET_SINK_NOT_IN_LSE));
  text += entry("lse_base2", truth(dialect.lse_base == QKVET_LSE_BASE2));
  return text;
}

std::string call_py(const WrittenCall& call, const qkvet_dialect& dialect) {
  std::string text = "{\n" + options_py(call.plan, dialect);
  text +=
      entry("storage", fmt::format("\"{}\"", dtype_name(call.value.o_dtype)));
  for (const WrittenInput& input : call.inputs)
    text += entry(abi_name(call.plan.operation, input.name),
                  tensor_py(input.given, input.packed));
  std::string recorded = "{\n", wanted = "{\n";
  for (const WrittenOutput& output : call.outputs) {
    recorded += "    " + entry(abi_name(call.plan.operation, output.name),
                               tensor_py(output.spec, output.actual));
    wanted += "    " + entry(abi_name(call.plan.operation, output.name),
                             wanted_py(output));
  }
  return text + entry("recorded", recorded + "    }") +
         entry("wanted", wanted + "    }") + "}";
}

// Rows of (output, call, call, factor, elements, elements).
std::string same_bits_py(const std::vector<SameBits>& pairs) {
  std::string text = "SAME_BITS = [\n";
  for (size_t n = 0; n < pairs.size();) {
    const SameBits& head = pairs[n];
    std::string first, second;
    for (; n < pairs.size(); ++n) {
      const SameBits& pair = pairs[n];
      if (pair.tensor != head.tensor || pair.first_call != head.first_call ||
          pair.second_call != head.second_call || pair.factor != head.factor)
        break;
      first += std::to_string(pair.first) + " ";
      second += std::to_string(pair.second) + " ";
    }
    text += fmt::format(
        "    (\"{}\", {}, {}, {},\n"
        "     integers(\"int64\", -1, \"{}\"),\n"
        "     integers(\"int64\", -1, \"{}\")),\n",
        tensor_name(head.tensor), head.first_call, head.second_call,
        head.factor, first, second);
  }
  return text + "]";
}

// Inside of a docstring.
std::string quoted_py(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  out.resize(out.find_last_not_of('\n') + 1);
  return out;
}

}  // namespace

std::string reproducer_py(const Reproducer& from) {
  std::string data = "CALLS = [";
  for (size_t i = 0; i < from.calls.size(); ++i)
    data += (i > 0 ? ", " : "") + call_py(from.calls[i], from.dialect);
  data += "]\n\n" + same_bits_py(from.same_bits);
  return filled_in(
      kPattern, {{"HEAD", quoted_py(reproducer_head(from))}, {"# DATA", data}});
}

}  // namespace qkvet
