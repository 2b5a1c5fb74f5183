// SPDX-License-Identifier: Apache-2.0
#include "core/door/kernel_reader.h"

#include <cctype>
#include <string_view>

#include "core/capability/extents.h"
#include "core/capability/paths.h"
#include "core/door/guarded.h"

namespace qkvet {
namespace {

constexpr size_t kMostText = 4096;

std::string text_of(const char* text) {
  return text == nullptr ? "" : one_line(text, kMostText);
}

bool good_word(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool good_name(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && good_word(name.substr(0, slash)) &&
         good_word(name.substr(slash + 1));
}

std::string bad_capabilities(const qkvet_capabilities& c) {
  const int most = static_cast<int>(std::size(c.dtypes));
  if (c.dtype_count < 0 || c.dtype_count > most)
    return "dtype_count is " + std::to_string(c.dtype_count) + ", at most " +
           std::to_string(most);
  const int pages = static_cast<int>(std::size(c.page_sizes));
  if (c.page_size_count < 0 || c.page_size_count > pages)
    return "page_size_count is " + std::to_string(c.page_size_count) +
           ", at most " + std::to_string(pages);
  const int64_t a = c.alignment;
  if (a < 0 || a > page_bytes() || (a & (a - 1)) != 0)
    return "alignment is " + std::to_string(a) +
           ", not a power of two up to a page";
  const std::string bad = bad_extents(c);
  return bad.empty() ? bad_paths(c) : bad;
}

// Null if the kernel has no extension of this name.
const void* extension_of(const qkvet_kernel* self, const char* id) {
  const qkvet_kernel kernel = copy_sized(self);
  return kernel.get_extension == nullptr ? nullptr
                                         : kernel.get_extension(self, id);
}

std::optional<FaultInfo> read_fault(const qkvet_kernel* self) {
  const void* extension = extension_of(self, QKVET_EXTENSION_FAULT);
  if (extension == nullptr) return std::nullopt;
  const auto fault = copy_sized(static_cast<const qkvet_fault*>(extension));
  FaultInfo info;
  info.when = text_of(fault.when);
  info.cause = text_of(fault.cause);
  info.fix = text_of(fault.fix);
  info.source = fault.source == nullptr ? "textbook" : text_of(fault.source);
  for (const char* law : fault.killed_by)
    if (law != nullptr) info.killed_by.push_back(text_of(law));
  info.extents = text_of(fault.extents);
  info.tiled = fault.tiled != 0;
  return info;
}

std::string read_cache(const qkvet_cache_table* from, KernelInfo* info) {
  if (from == nullptr) return "";
  if (from->struct_size == 0) return "struct_size of its cache is 0";
  const qkvet_cache_table table = copy_sized(from);
  const struct {
    bool missing;
    const char* name;
  } rows[] = {{table.create == nullptr, "create"},
              {table.destroy == nullptr, "destroy"},
              {table.step == nullptr, "step"},
              {table.length == nullptr, "length"},
              {table.reset == nullptr, "reset"}};
  for (const auto& row : rows)
    if (row.missing) return std::string("its cache has no ") + row.name + "()";
  info->has_cache = true;
  info->has_truncate = table.truncate != nullptr;
  info->has_evict = table.evict != nullptr;
  info->has_fork = table.fork != nullptr;
  info->has_reorder = table.reorder != nullptr;
  info->has_read_back = table.read_back != nullptr;
  info->cache_options = table.options;
  return "";
}

std::string read_layer(const qkvet_layer_table* from, KernelInfo* info) {
  if (from == nullptr) return "";
  if (from->struct_size == 0) return "struct_size of its layer is 0";
  const qkvet_layer_table table = copy_sized(from);
  if (table.forward == nullptr) return "its layer has no forward()";
  const auto stage = dtype_from_abi(table.stage);
  if (!same_dtype(table.stage, {}) && (!stage || *stage == Dtype::kInt8))
    return "the stages of its layer have no known floating type";
  info->has_layer = true;
  info->layer_options = table.options;
  info->layer_stage = table.stage;
  return "";
}

std::string read_backward(const qkvet_backward_table* from, KernelInfo* info) {
  if (from == nullptr) return "";
  if (from->struct_size == 0) return "struct_size of its backward is 0";
  const qkvet_backward_table table = copy_sized(from);
  info->has_backward = table.backward != nullptr;
  info->has_layer_backward = table.layer_backward != nullptr;
  info->backward_options = table.options;
  return info->has_backward || info->has_layer_backward
             ? ""
             : "its backward has neither backward() nor layer_backward()";
}

std::string read_merge(const qkvet_merge_table* from, KernelInfo* info) {
  if (from == nullptr) return "";
  if (from->struct_size == 0) return "struct_size of its merge is 0";
  const qkvet_merge_table table = copy_sized(from);
  if (table.merge == nullptr) return "its merge has no merge()";
  if (table.min_states < 0 || table.max_states < 0 ||
      (table.max_states > 0 && table.max_states < table.min_states))
    return "its merge takes " + std::to_string(table.min_states) + " to " +
           std::to_string(table.max_states) + " states";
  constexpr uint64_t kFirst = QKVET_MERGE_LSE_HEADS_FIRST;
  if ((table.options & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0 &&
      (table.options & (kFirst | QKVET_MERGE_ANY_STRIDES)) != kFirst)
    return "its merge takes lse as [n, H, T] alone, and its other options do "
           "not say so";
  info->has_merge = true;
  info->merge_options = table.options;
  info->min_states = table.min_states;
  info->max_states = table.max_states;
  return "";
}

std::string read_plan(const qkvet_kernel* self, KernelInfo* info) {
  const void* const from = extension_of(self, QKVET_EXTENSION_PLAN);
  if (from == nullptr) return "";
  const qkvet_plan_table table = plan_table_of(self);
  if (table.struct_size == 0) return "struct_size of its plans is 0";
  const struct {
    bool missing;
    const char* name;
  } rows[] = {{table.plan == nullptr, "plan"},
              {table.run == nullptr, "run"},
              {table.update == nullptr, "update"},
              {table.destroy == nullptr, "destroy"}};
  for (const auto& row : rows)
    if (row.missing)
      return std::string("its table of plans has no ") + row.name + "()";
  info->has_plan = true;
  info->only_plans = !info->has_forward;
  info->has_forward = true;
  info->plan_options = table.options;
  return "";
}

// "" or what is wrong with what the kernel can do.
std::string read_tables(const qkvet_kernel* self, const qkvet_kernel& kernel,
                        KernelInfo* info) {
  info->has_forward = kernel.forward != nullptr;
  info->has_workspace = info->has_forward && kernel.workspace != nullptr;
  std::string bad = read_cache(kernel.cache, info);
  if (bad.empty()) bad = read_layer(kernel.layer, info);
  if (bad.empty()) bad = read_backward(kernel.backward, info);
  if (bad.empty()) bad = read_merge(kernel.merge, info);
  if (bad.empty()) bad = read_plan(self, info);
  return bad;
}

// The optional structs and what else cannot be wrong.
void read_rest(const qkvet_kernel* self, const qkvet_kernel& kernel,
               KernelInfo* info) {
  info->description = text_of(kernel.description);
  info->source_file = text_of(kernel.source_file);
  info->source_line = kernel.source_line;
  if (kernel.dialect != nullptr) info->dialect = copy_sized(kernel.dialect);
  if (kernel.precision != nullptr)
    info->precision = copy_sized(kernel.precision);
  info->fault = read_fault(self);
}

}  // namespace

Dtype KernelInfo::stage_dtype(Dtype storage) const {
  return dtype_from_abi(layer_stage).value_or(storage);
}

int32_t device_of(const qkvet_capabilities& capabilities) {
  const uint64_t devices = capabilities.devices;
  const bool cpu = devices == 0 || (devices >> QKVET_DEVICE_CPU & 1) != 0;
  return !cpu && (devices >> QKVET_DEVICE_CUDA & 1) != 0 ? QKVET_DEVICE_CUDA
                                                         : QKVET_DEVICE_CPU;
}

bool declares_stored(uint64_t cache_options, StoredAs stored) {
  constexpr uint64_t kOptions[] = {
      0, QKVET_CACHE_INT8_PER_TOKEN, QKVET_CACHE_INT8_PER_CHANNEL,
      QKVET_CACHE_FP8_PER_TOKEN, QKVET_CACHE_FP8_PER_CHANNEL};
  const uint64_t option = kOptions[static_cast<size_t>(stored)];
  return (cache_options & option) == option;
}

qkvet_plan_table plan_table_of(const qkvet_kernel* self) {
  const void* const table = extension_of(self, QKVET_EXTENSION_PLAN);
  if (table == nullptr) return {};
  const auto* const from = static_cast<const qkvet_plan_table*>(table);
  return from->struct_size == 0 ? qkvet_plan_table{} : copy_sized(from);
}

std::string one_line(const char* text, size_t most) {
  std::string line;
  for (; *text != 0 && line.size() < most; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    line += c < ' ' || c == 0x7f ? ' ' : *text;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string read_kernel(const qkvet_kernel* self, int number,
                        KernelInfo* info) {
  const std::string place = "kernel " + std::to_string(number);
  if (self == nullptr) return place + " is NULL";
  if (self->struct_size == 0) return place + ": struct_size is 0";
  const qkvet_kernel kernel = copy_sized(self);
  if (kernel.name == nullptr) return place + " has no name";
  info->name = text_of(kernel.name);
  if (!good_name(kernel.name))
    return place + ": the name \"" + info->name +
           "\" is not of the form family/variant in [a-z0-9_]";
  const std::string who = "kernel " + info->name;
  if (kernel.capabilities == nullptr)
    return who + " declares nothing (capabilities is NULL)";
  if (kernel.capabilities->struct_size == 0)
    return who + ": struct_size of its capabilities is 0";
  info->capabilities = copy_sized(kernel.capabilities);
  std::string bad = bad_capabilities(info->capabilities);
  if (bad.empty()) bad = read_tables(self, kernel, info);
  if (!bad.empty()) return who + ": " + bad;
  if (!info->has_forward && !info->has_cache && !info->has_layer &&
      !info->has_merge)
    return who + " has no forward(), no cache, no layer, no merge and no plans";
  read_rest(self, kernel, info);
  return "";
}

}  // namespace qkvet
