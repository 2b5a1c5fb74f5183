// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/plan_text.h"

#include <fmt/core.h>

#include "core/base/json.h"

namespace qkvet::cli {
namespace {

constexpr const char* kFormat = "plan 2";

Json tensor_json(const PlanTensor& tensor) {
  return {{"dtype", file_dtype_name(tensor.values.dtype)},
          {"shape", tensor.values.shape}};
}

Json inputs_json(const PlanCall& call) {
  Json json = Json::object();
  for (const PlanTensor& input : call.inputs) {
    json[input.name] = tensor_json(input);
    json[input.name]["stored"] = plan_tensor_name(input.stored);
  }
  return json;
}

Json outputs_json(const PlanCall& call) {
  Json json = Json::object();
  for (const PlanTensor& output : call.outputs)
    json[output.name] = tensor_json(output);
  return json;
}

Json call_json(const PlanCall& call, size_t number) {
  Json json;
  json["id"] = number;
  json["call"] = call_name(number);
  for (const PlanScalar& scalar : call.scalars)
    json[scalar.name] =
        scalar.is_word ? Json(scalar.text) : json_of(scalar.text);
  json["inputs"] = inputs_json(call);
  json["outputs"] = outputs_json(call);
  json["digest"] = call.digest;
  return json;
}

// `with_calls`: the plan has them, too.
Json case_json(const PlanCase& one, bool with_calls) {
  Json json = {{"law", one.law->id},
               {"number", one.number},
               {"case", to_string(one.value)}};
  if (with_calls) json["calls"] = one.calls;
  return json;
}

Json kernel_json(const PlanKernel& kernel) {
  Json dtypes = Json::array();
  for (const StorageTypes& types : kernel.dtypes)
    dtypes.push_back(slashed(types));
  return {{"name", kernel.name},
          {"options", kernel.options},
          {"dtypes", dtypes},
          {"dialect", kernel.dialect},
          {"precision", kernel.precision}};
}

// One row per line, for people and for tools that compare files.
template <class Rows, class Row>
std::string rows_text(const char* name, const Rows& rows, Row row) {
  std::string text;
  size_t number = 0;
  for (const auto& one : rows)
    text += (text.empty() ? "\n  " : ",\n  ") + json_text(row(one, number++));
  return fmt::format(" \"{}\": [{}\n ]", name, text);
}

// "q=t/0012,k=t/0013"
std::string inputs_cell(const PlanCall& call) {
  std::string text;
  for (const PlanTensor& input : call.inputs)
    text += (text.empty() ? "" : ",") + input.name + "=" +
            plan_tensor_name(input.stored);
  return text;
}

// "o,lse"
std::string outputs_cell(const PlanCall& call) {
  std::string text;
  for (const PlanTensor& output : call.outputs)
    text += (text.empty() ? "" : ",") + output.name;
  return text;
}

std::string read_kernel(const ReadJson& json, PlanKernel* kernel) {
  kernel->name = json.at("name");
  kernel->options = json.at("options").get<std::vector<std::string>>();
  kernel->dialect = json.at("dialect");
  kernel->precision = json.at("precision");
  kernel->dtypes.clear();
  for (const ReadJson& name : json.at("dtypes")) {
    const auto types = slashed_storage(name.get<std::string>());
    if (!types) return shown(name.get<std::string>()) + " is no storage type";
    kernel->dtypes.push_back(*types);
  }
  return "";
}

std::string read_case(const ReadJson& json, PlanCase* one) {
  const std::string law = json.at("law");
  one->law = find_law(law);
  if (one->law == nullptr) return "no law is named " + shown(law);
  one->number = json.at("number");
  const ParsedCase parsed = parse_case(json.at("case").get<std::string>());
  if (parsed.value) one->value = *parsed.value;
  return parsed.error;
}

std::string read_recipe(const ReadJson& json, PlanRecipe* recipe) {
  if (const std::string version = json.at("qkvet"); version != kFormat)
    return shown(version) + " is not what this version of QKVet reads, \"" +
           kFormat + "\": write it again";
  recipe->seed = json.at("seed");
  const std::string format_word = json.at("format");
  const auto format = plan_format_from(format_word);
  if (!format) return shown(format_word) + " is no format of a plan";
  recipe->format = *format;
  recipe->dropped = json.at("not_asked").get<decltype(recipe->dropped)>();
  std::string error = read_kernel(json.at("kernel"), &recipe->kernel);
  for (const ReadJson& row : json.at("cases")) {
    if (!error.empty()) break;
    recipe->cases.emplace_back();
    error = read_case(row, &recipe->cases.back());
  }
  return error;
}

}  // namespace

std::string plan_json(const PlanFolder& plan) {
  const PlanRecipe& recipe = plan.recipe;
  std::string text = "{\n";
  const auto add = [&text](const char* name, const Json& json) {
    text += fmt::format(" \"{}\": {},\n", name, json_text(json));
  };
  add("qkvet", kFormat);
  add("seed", recipe.seed);
  add("kernel", kernel_json(recipe.kernel));
  const bool with_calls = recipe.format != PlanFormat::kRecipe;
  add("format", kPlanFormats[static_cast<size_t>(recipe.format)]);
  add("not_asked", Json(recipe.dropped));
  if (with_calls) add("probes", plan.probes);
  text += rows_text("cases", recipe.cases, [&](const PlanCase& one, size_t) {
    return case_json(one, with_calls);
  });
  if (with_calls)
    text += ",\n" + rows_text("calls", plan.calls.calls(), call_json);
  return text + "\n}\n";
}

std::string plan_table(const PlanFolder& plan) {
  const std::vector<PlanCall>& calls = plan.calls.calls();
  if (calls.empty()) return "";
  std::string text = "call";
  for (const PlanScalar& scalar : calls[0].scalars) text += "\t" + scalar.name;
  text += "\tinputs\toutputs\n";
  for (size_t i = 0; i < calls.size(); ++i) {
    text += call_name(i);
    for (const PlanScalar& scalar : calls[i].scalars)
      text += "\t" + scalar.text;
    text += "\t" + inputs_cell(calls[i]) + "\t" + outputs_cell(calls[i]) + "\n";
  }
  return text;
}

std::string plan_readme(const PlanFolder& plan) {
  if (plan.recipe.format == PlanFormat::kRecipe)
    return R"(Questions for an attention kernel, written by qkvet judge --ask, as a recipe.

plan.json names the law and the case of each question; data is a function of the
case. The calls and their inputs are made of it where they are answered:

  qkvet judge FOLDER --ask OTHER                OTHER gets calls.tsv, the inputs and how
                                         to answer (--format safetensors: in one file)
  qkvet judge OTHER                      answers beside the questions
  qkvet judge FOLDER THIRD               answers in a folder of their own
)";
  const std::string input = plan.recipe.format == PlanFormat::kSafetensors
                                ? "tensor t/0012 of inputs.safetensors"
                                : "the file t/0012.npy";
  return fmt::format(
      R"(Questions for an attention kernel, written by qkvet judge --ask.

Each row of calls.tsv (and of "calls" in plan.json) is one call: its name, extents,
causal rule, scale and options, where its inputs are stored, the outputs that are
wanted. inputs is q=t/0012,k=t/0013,...: t/0012 is {}.
Calls share what is the same. Tensors are packed, row by row, with the least byte
first; a .npy file of bf16 holds its bits as uint16.

  q [B,H,Tq,d]   k [B,Hkv,Tk,d]   v [B,Hkv,Tk,dv]
  o [B,H,Tq,dv]  lse [B,H,Tq]     weights [B,H,Tq,Tk]

  o = softmax(scale q k^T + options) v; query head h reads key/value head
  h / (H / Hkv). causal: none; top_left: row i sees keys j <= i; bottom_right:
  j <= i + Tk - Tq. window_left, window_right: keys beside that diagonal that
  stay visible, -1: all. softcap: 0 is none. mask: nonzero attends.
  operation backward: o, lse and d_o are given, and d_q, d_k, d_v are wanted.
  layer: y of x; layer_backward: d_y is given, and the gradient of x, of every
  matrix and bias is wanted. What every word and tensor means, with its formula: plan.md of
  QKVet (share/doc/qkvet, or cli/ of its source).

Answer each call with its outputs, in the type and shape that plan.json has:
c0012.o.npy, c0012.lse.npy, ... in this folder or in another one. They may as well
lie in folders (c0012/o.npy), as tensors o, lse, ... of c0012.safetensors, or all in
one answers.npz or answers.safetensors as c0012/o, c0012/lse, ... The order is free.
What your kernel does not take it refuses: c0012.refused.txt with one line that says
why (c0012/refused in the metadata of answers.safetensors). Copy nothing from one
call to another: laws compare them.

  qkvet judge FOLDER                    answers beside the questions
  qkvet judge FOLDER OTHER              answers in another folder
  qkvet judge FOLDER --out FILE.tsv   and a row for each question

The inputs must stay as they are, bit for bit: judge makes them again.
)",
      input);
}

std::string parse_plan(const std::string& text, PlanRecipe* recipe) {
  std::optional<std::string> twice;
  const ReadJson json = read_json(text, &twice);
  if (json.is_discarded()) return "is no JSON";
  if (twice) return shown(*twice) + " is there twice";
  try {
    return read_recipe(json, recipe);
  } catch (const ReadJson::exception& wrong) {
    return std::string("is no plan: ") + wrong.what();
  }
}

std::string plan_difference(const std::string& text, const PlanFolder& plan) {
  const ReadJson found = read_json(text);
  const ReadJson made = read_json(plan_json(plan));
  if (found == made) return "";
  const auto step = ReadJson::diff(found, made).front();
  return shown(step.at("path").get<std::string>()) +
         " is not what this version of QKVet makes of the plan's cases: it was "
         "changed, or written by another one";
}

}  // namespace qkvet::cli
