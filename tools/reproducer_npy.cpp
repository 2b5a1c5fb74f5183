// SPDX-License-Identifier: Apache-2.0
// A folder of tensors. The format: numpy.lib.format, version 1.0.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "tools/reproducer.h"

namespace qkvet {
namespace {

constexpr std::string_view kCheck =
#include "check.py.inc"
    ;

// Data begin at a multiple of this many bytes.
constexpr size_t kAlignment = 64;

static_assert(std::endian::native == std::endian::little,
              "the types below are of numbers with the least byte first");

const char* descr(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "<f8";
    case Dtype::kF32:
      return "<f4";
    case Dtype::kF16:
      return "<f2";
    case Dtype::kBf16:  // its bits: numpy has no such type
      return "<u2";
    case Dtype::kInt64:
      return "<i8";
    case Dtype::kInt32:
      return "<i4";
    default:
      return "|u1";
  }
}

std::string npy(Dtype dtype, const TensorSpec& spec, const void* data) {
  std::string shape;
  for (int i = 0; i < spec.ndim; ++i)
    shape += std::to_string(spec.shape[i]) + (i + 1 < spec.ndim ? ", " : "");
  if (spec.ndim == 1) shape += ",";
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  descr(dtype), shape);
  constexpr size_t kInFront = 10;  // magic, version, length
  const size_t used = kInFront + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const auto bytes = static_cast<size_t>(spec.elements() * dtype_bytes(dtype));
  if (bytes > 0) file.append(static_cast<const char*>(data), bytes);
  return file;
}

void add_output(const std::string& folder, const WrittenOutput& output,
                std::vector<NamedFile>& files) {
  const std::string name = std::string("_") + tensor_name(output.name) + ".npy";
  const struct {
    const char* part;
    double Wanted::*number;
  } rows[] = {{"expected", &Wanted::value},
              {"bound", &Wanted::bound},
              {"least", &Wanted::low},
              {"largest", &Wanted::high}};
  for (const auto& row : rows) {
    std::vector<double> numbers;
    numbers.reserve(output.wanted.size());
    for (const Wanted& wanted : output.wanted)
      numbers.push_back(wanted.*row.number);
    files.push_back({fmt::format("{}{}{}", folder, row.part, name),
                     npy(Dtype::kF64, output.spec, numbers.data())});
  }
  files.push_back({folder + "actual" + name,
                   npy(output.spec.dtype, output.spec, output.actual.data())});
}

// [n, 6]: output, call, call, element, element, factor.
std::string same_bits_npy(const std::vector<SameBits>& pairs) {
  std::vector<double> rows;
  for (const SameBits& pair : pairs)
    for (const double number : {static_cast<double>(pair.tensor) -
                                    static_cast<double>(TensorName::kO),
                                static_cast<double>(pair.first_call),
                                static_cast<double>(pair.second_call),
                                static_cast<double>(pair.first),
                                static_cast<double>(pair.second), pair.factor})
      rows.push_back(number);
  return npy(
      Dtype::kF64,
      packed_spec(Dtype::kF64, 2, {static_cast<int64_t>(pairs.size()), 6}),
      rows.data());
}

std::string readme(const Reproducer& from) {
  std::string text = reproducer_head(from);
  text +=
      "\n"
      "q, k, v and what else is an input: one .npy file each, packed, in the\n"
      "storage of the case; bf16 as uint16 with its bits. A mask or bias has\n"
      "extents of 1 where it is broadcast. expected_*: what the definition\n"
      "gives, in float64; bound_*: by how much it may be off (inf: it is not\n"
      "judged); least_*, largest_*: the numbers of the output's type between\n"
      "which it must lie; actual_*: what the kernel gave. case.txt: extents,\n"
      "causal rule, scale and options.\n";
  if (from.calls.size() > 1)
    text += "call0, call1, ...: the calls of the law, in order.\n";
  if (!from.same_bits.empty())
    text +=
        "same_bits.npy: rows of output (0 o, 1 lse, 2 weights), call, call,\n"
        "element, element, factor: numbers that must agree bit for bit.\n";
  text +=
      from.shows_failure
          ? "python3 check.py prints the wrong number and exits with 1.\n"
          : "No number leaves its bound: the law asks for more than that.\n";
  return text;
}

}  // namespace

std::vector<NamedFile> reproducer_npy(const Reproducer& from) {
  std::vector<NamedFile> files = {
      {"README.txt", readme(from)},
      {"check.py", filled_in(kCheck, {})},
      {"case.txt", from.text + "\n"},
  };
  for (size_t i = 0; i < from.calls.size(); ++i) {
    const WrittenCall& call = from.calls[i];
    const std::string folder =
        from.calls.size() == 1 ? "" : fmt::format("call{}/", i);
    if (!folder.empty())
      files.push_back({folder + "case.txt", to_string(call.value) + "\n"});
    for (const WrittenInput& input : call.inputs)
      files.push_back(
          {folder + abi_name(call.plan.operation, input.name) + ".npy",
           npy(input.spec.dtype, input.given, input.packed.data())});
    for (const WrittenOutput& output : call.outputs)
      add_output(folder, output, files);
  }
  if (!from.same_bits.empty())
    files.push_back({"same_bits.npy", same_bits_npy(from.same_bits)});
  return files;
}

}  // namespace qkvet
