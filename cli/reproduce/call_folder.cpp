// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/call_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "core/base/json.h"
#include "core/call/cache_function.h"
#include "core/door/abi_call.h"
#include "qkvet/plan.h"

namespace qkvet::cli {
namespace {

constexpr std::string_view kRun =
#include "run.py.inc"
    ;

// Structs that run.py fills or reads, each after its parts.
#define QKVET_STRUCTS(row)                                           \
  row(qkvet_dtype) row(qkvet_tensor) row(qkvet_text) row(qkvet_host) \
      row(qkvet_exec) row(qkvet_library) row(qkvet_kernel)           \
          row(qkvet_forward_args) row(qkvet_plan_table)              \
              row(qkvet_backward_args) row(qkvet_backward_table)     \
                  row(qkvet_layer_args) row(qkvet_layer_table)       \
                      row(qkvet_cache_config) row(qkvet_cache_args)  \
                          row(qkvet_cache_table)

struct StructField {
  size_t offset;
  const char* name;
  const char* type;  // of ctypes, or a struct above
};

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_pointer_v<T>) return "c_void_p";
  if constexpr (std::is_same_v<T, qkvet_tensor>) return "qkvet_tensor";
  if constexpr (std::is_same_v<T, qkvet_dtype>) return "qkvet_dtype";
  if constexpr (std::is_same_v<T, float>) return "c_float";
  if constexpr (std::is_same_v<T, uint8_t>) return "c_uint8";
  if constexpr (std::is_same_v<T, uint16_t>) return "c_uint16";
  if constexpr (std::is_same_v<T, int32_t>) return "c_int32";
  if constexpr (std::is_same_v<T, uint32_t>) return "c_uint32";
  if constexpr (std::is_same_v<T, int64_t>) return "c_int64";
  if constexpr (std::is_same_v<T, uint64_t>) return "c_uint64";
  return nullptr;
}

// Calls see(name, offset, field) for each field of the struct.
template <class Struct, class See>
void for_each_field(const Struct& value, See see) {
#define QKVET_SIZE(...)
#define QKVET_FIELD(type, field, offset)      \
  if constexpr (std::is_same_v<type, Struct>) \
    see(#field, size_t{offset}, value.field);
#include "qkvet/frozen_layout.inc"
#undef QKVET_FIELD
#undef QKVET_SIZE
}

template <class Struct>
Json struct_json() {
  std::vector<StructField> fields;
  const Struct value{};
  for_each_field(
      value, [&](const char* name, size_t offset, const auto& field) {
        fields.push_back(
            {offset, name, type_name<std::decay_t<decltype(field)>>()});
      });
  std::ranges::sort(fields, {}, &StructField::offset);
  Json json = Json::array();
  for (const StructField& field : fields)
    json.push_back({field.name, field.type});
  return json;
}

Json abi_json() {
  Json json = {
      {"host",
       {{"abi_major", QKVET_ABI_MAJOR}, {"abi_minor", QKVET_ABI_MINOR}}}};
#define QKVET_STRUCT(type) json["structs"][#type] = struct_json<type>();
  QKVET_STRUCTS(QKVET_STRUCT)
#undef QKVET_STRUCT
  return json;
}

// The numbers of the arguments that are not 0.
template <class Struct>
void add_fields(const Struct& args, Json& json) {
  for_each_field(args, [&](std::string_view name, size_t, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, qkvet_dtype>) {
      if (field.bits != 0)
        json[name] = {
            {"code", field.code}, {"bits", field.bits}, {"lanes", field.lanes}};
    } else if constexpr (std::is_floating_point_v<Field>) {
      if (field != 0) json[name] = static_cast<double>(field);
    } else if constexpr (std::is_integral_v<Field>) {
      if (field != 0 && name != "struct_size") json[name] = field;
    }
  });
}

Json fields_json(const CallPlan& plan) {
  const AbiCall abi(plan, {});
  Json json = Json::object();
  switch (plan.operation) {
    case Operation::kForward:
    case Operation::kBackward:
      add_fields(abi.forward(), json);
      break;
    case Operation::kLayer:
      add_fields(abi.layer(), json);
      break;
    case Operation::kCacheCreate:
      add_fields(abi.create(), json);
      break;
    case Operation::kCacheReorder:
      break;
    // Commands: their arguments, in their order.
    case Operation::kCacheFork:
      json = {{"sequence", plan.sequence}, {"other", plan.other}};
      break;
    case Operation::kCacheTruncate:
      json = {{"sequence", plan.sequence}, {"tokens", plan.tokens}};
      break;
    case Operation::kCacheEvict:
      json = {{"sequence", plan.sequence},
              {"first", plan.first},
              {"tokens", plan.tokens}};
      break;
    case Operation::kCacheStep:
      add_fields(abi.step(), json);
      [[fallthrough]];
    default:
      json["sequence"] = plan.sequence;
  }
  return json;
}

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return "forward";
    case Operation::kBackward:
      return "backward";
    case Operation::kLayer:
      return "layer";
    case Operation::kCacheCreate:
      return "create";
    default:
      return function_of(qkvet_cache_table{}, operation).name;
  }
}

// Lengths and tables, which plan() and update() read.
bool is_planned(TensorName tensor) {
#define QKVET_FORWARD_TENSOR(...)
#define QKVET_FORWARD_TABLE(field, name, ...) \
  if (tensor == TensorName::k##name) return true;
#include "qkvet/tensors.def"
  return false;
}

Json tensor_json(const CallTensor& tensor, const WrittenCall& call) {
  const TensorSpec& spec = tensor.spec;
  const CallPlan& plan = call.plan;
  const qkvet_dtype dtype = dtype_to_abi(spec.dtype);
  const auto numbers = [&](const Extents& extents) {
    return std::vector<int64_t>(extents.begin(), extents.begin() + spec.ndim);
  };
  Json json = {{"dtype", {dtype.code, dtype.bits, dtype.lanes}},
               {"shape", numbers(spec.shape)},
               {"strides", numbers(spec.strides)},
               {"start", tensor.start}};
  if (is_output(tensor.tensor))
    json["letters"] = index_letters(plan.operation, tensor.tensor);
  if (plan.plan_use != PlanUse::kNone || plan.operation == Operation::kForward)
    if (is_planned(tensor.tensor)) json["planned"] = true;
  const int32_t within = plan.places[static_cast<size_t>(tensor.tensor)].within;
  if (within >= 0)
    json["within"] = abi_name(plan.operation, static_cast<TensorName>(within));
  return json;
}

constexpr const char* kPlanUses[] = {"", "make", "update", "run"};

Json call_json(const WrittenCall& call, size_t number) {
  const CallPlan& plan = call.plan;
  Json json = {{"name", call_name(number)},
               {"case", to_string(call.value)},
               {"place", call.place},
               {"operation", operation_name(plan.operation)},
               {"refusal", call.refusal.empty() ? Json() : Json(call.refusal)},
               {"threads", plan.threads},
               {"fields", fields_json(plan)}};
  if (plan.plan_use != PlanUse::kNone)
    json["plan"] = {kPlanUses[static_cast<size_t>(plan.plan_use)],
                    plan.plan_slot};
  if (plan.operation == Operation::kCacheReorder)
    json["parents"] = std::vector<int64_t>(
        plan.parents.begin(), plan.parents.begin() + std::ssize(call.lengths));
  if (!call.lengths.empty()) json["lengths"] = call.lengths;
  json["tensors"] = Json::object();
  json["outputs"] = Json::array();
  for (const CallTensor& input : call.inputs)
    json["tensors"][input.name] = tensor_json(input, call);
  for (const WrittenOutput& output : call.outputs) {
    const std::string name = abi_name(plan.operation, output.tensor);
    json["tensors"][name] = tensor_json(output, call);
    json["tensors"][name]["shown"] = output.name;
    json["outputs"].push_back(name);
  }
  return json;
}

NamedTensor f64(const std::vector<int64_t>& shape,
                const std::vector<double>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {FileDtype::kF64, shape, {bytes.begin(), bytes.end()}};
}

void add_wanted(const std::string& name, const std::vector<int64_t>& shape,
                const std::vector<Wanted>& wanted, NamedTensors& tensors) {
  const struct {
    const char* part;
    double Wanted::*number;
  } rows[] = {{"expected", &Wanted::value},
              {"bound", &Wanted::bound},
              {"least", &Wanted::low},
              {"largest", &Wanted::high}};
  for (const auto& row : rows) {
    std::vector<double> numbers;
    numbers.reserve(wanted.size());
    for (const Wanted& one : wanted) numbers.push_back(one.*row.number);
    tensors[name + row.part] = f64(shape, numbers);
  }
}

struct Answered {
  NamedTensors tensors;
  SafetensorsMetadata metadata;
};

void add_call(const WrittenCall& call, size_t number, NamedTensors& tensors,
              Answered& answer) {
  const std::string start = call_name(number) + "/";
  for (const CallTensor& input : call.inputs)
    tensors[start + input.name] = input.values;
  for (const WrittenOutput& output : call.outputs) {
    const std::string name =
        start + abi_name(call.plan.operation, output.tensor);
    const std::vector<int64_t>& shape = output.values.shape;
    add_wanted(name + ".", shape, output.wanted, tensors);
    if (!output.staged.empty())
      add_wanted(name + ".staged.", shape, output.staged, tensors);
    if (call.refused) continue;
    answer.tensors[name] = output.values;
    if (call.plan.operation == Operation::kLayer)
      tensors[name + ".recorded"] = f64(shape, output.numbers);
  }
  if (call.refused) answer.metadata[start + "refused"] = call.said;
  if (!call.lengths.empty())
    answer.metadata[start + "lengths"] = json_text(Json(call.found_lengths));
}

// Rows of name, call, call, factor, elements, elements.
Json same_bits_json(const Reproducer& from) {
  Json rows = Json::array();
  for (const SameBits& pair : from.same_bits) {
    const std::string name =
        abi_name(from.calls[pair.first_call].plan.operation, pair.tensor);
    if (const Json head = {name, pair.first_call, pair.second_call,
                           pair.factor};
        rows.empty() ||
        !std::equal(head.begin(), head.end(), rows.back().begin())) {
      rows.push_back(head);
      rows.back().push_back(Json::array());
      rows.back().push_back(Json::array());
    }
    rows.back()[4].push_back(pair.first);
    rows.back()[5].push_back(pair.second);
  }
  return rows;
}

std::string file_of(const NamedTensors& tensors,
                    const SafetensorsMetadata& metadata) {
  std::string error;
  // The extents are those of tensors that there are.
  const auto file = safetensors_bytes(tensors, metadata, &error);
  return {reinterpret_cast<const char*>(file->data()), file->size()};
}

std::string readme(const Reproducer& from) {
  return fmt::format(
      "The law {} fails: {}\n\n"
      "`python3 run.py` compares the answer of {} with what is expected{}\n"
      "`python3 run.py {}` runs the calls on the kernel. Also allowed: a "
      "library of the C interface, file.py:function, module:function, or a "
      "recorded answer.safetensors.\n"
      "It needs NumPy, and not QKVet. `gdb --args python3 run.py "
      "./libmine.so` debugs a library.\n"
      "With QKVet {}: `qkvet replay {} --law {} {}` (digest {:08x})\n",
      from.law->id, from.law->sentence, from.kernel,
      from.shows_failure
          ? ", element by element, and exits with 1."
          : ". No element leaves its bound: the law requires more than that.",
      from.run_again, QKVET_VERSION, from.text, from.law->id, from.again,
      from.digest);
}

}  // namespace

std::string call_name(size_t call) { return fmt::format("c{:04}", call); }

std::vector<NamedFile> call_folder(const Reproducer& from) {
  NamedTensors tensors;
  Answered answer;
  Json calls = Json::array();
  for (size_t i = 0; i < from.calls.size(); ++i) {
    calls.push_back(call_json(from.calls[i], i));
    add_call(from.calls[i], i, tensors, answer);
  }
  const SafetensorsMetadata metadata = {
      {"qkvet", QKVET_VERSION},
      {"law", from.law->id},
      {"sentence", from.law->sentence},
      {"case", from.text},
      {"digest", fmt::format("{:08x}", from.digest)},
      {"kernel", from.kernel},
      {"calls", json_text(calls)},
      {"same_bits", json_text(same_bits_json(from))},
      {"abi", json_text(abi_json())}};
  return {{"README.md", readme(from)},
          // The first line is a licence; the written file is the user's.
          {"run.py", std::string(kRun.substr(kRun.find('\n') + 1))},
          {kCallFile, file_of(tensors, metadata)},
          {"answer.safetensors", file_of(answer.tensors, answer.metadata)}};
}

}  // namespace qkvet::cli
