// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/plan_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/call/option_numbers.h"
#include "core/capability/capability.h"
#include "properties/cases/scope.h"
#include "properties/checking/probe.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::cli {
namespace {

const char* causal_word(Causal causal) {
  return causal == Causal::kNone      ? "none"
         : causal == Causal::kTopLeft ? "top_left"
                                      : "bottom_right";
}

const char* rope_word(RopeStyle rope) {
  return rope == RopeStyle::kNone   ? "none"
         : rope == RopeStyle::kHalf ? "half"
                                    : "interleaved";
}

const char* operation_word(Operation operation) {
  return operation == Operation::kLayer           ? "layer"
         : operation == Operation::kLayerBackward ? "layer_backward"
         : operation == Operation::kBackward      ? "backward"
                                                  : "forward";
}

std::vector<PlanScalar> scalars_of(const KernelCall& call,
                                   const CallPlan& plan) {
  const Shape& s = call.shape;
  const Window window = call.window.value_or(Window{});
  const double scale =
      call.scale ? static_cast<double>(*call.scale) : default_scale(s.d);
  const auto number = [](const char* name, auto value) {
    return PlanScalar{name, fmt::format("{}", value), false};
  };
  const auto word = [](const char* name, std::string_view text) {
    return PlanScalar{name, std::string(text), true};
  };
  std::vector<PlanScalar> all = {
      word("operation", operation_word(call.operation)),
      number("B", s.B),
      number("H", plan.heads),
      number("Hkv", plan.kv_heads),
      number("Tq", s.Tq),
      number("Tk", s.Tk),
      number("d", s.d),
      number("dv", s.dv),
      number("D", s.D),
      word("dtype", slashed({call.q_dtype, call.kv_dtype, call.o_dtype})),
      word("causal", causal_word(call.causal)),
      number("scale", scale),
      number("scale_given", call.scale ? 1 : 0),
      number("window_left", window.left),
      number("window_right", window.right)};
  for (const OptionNumber& option : kOptionNumbers)
    all.push_back(
        number(option.name, static_cast<double>(call.*option.in_call)));
  all.push_back(word("rope", rope_word(call.rope)));
  all.push_back(number("key_block_size", call.listed.block));
  all.push_back(number("chunk", call.chunk));
  all.push_back(number("members", call.members));
  all.push_back(number("unbatched", call.unbatched ? 1 : 0));
  return all;
}

class Fnv {
 public:
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  void add(std::span<const std::byte> bytes) {
    constexpr uint64_t kPrime = 0x100000001b3;
    for (const std::byte byte : bytes)
      hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * kPrime;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;  // the offset of FNV-1a
};

std::string form_text(const NamedTensor& tensor) {
  return file_tensor_text(tensor.dtype, tensor.shape);
}

std::string digest_of(const PlanCall& call) {
  Fnv fnv;
  // Calls without chunks have the digest that they had before there were any.
  for (const PlanScalar& scalar : call.scalars)
    if (scalar.name != "chunk" || scalar.text != "0")
      fnv.add(scalar.name + "=" + scalar.text + ";");
  for (const PlanTensor& input : call.inputs) {
    fnv.add(input.name + ":" + form_text(input.values));
    fnv.add(input.values.data);
  }
  return fmt::format("{:016x}", fnv.hash());
}

}  // namespace

std::string plan_tensor_name(size_t stored) {
  return fmt::format("t/{:04}", stored);
}

std::string plan_call_of(const KernelCall& call, const KernelInfo& kernel,
                         PlanCall* out) {
  std::string why;
  CallPlan plan;
  if (!capability_allows(kernel, call, &why) ||
      !plan_call(call, kernel, &plan, &why))
    return why;
  out->scalars = scalars_of(call, plan);
  const auto add = [](std::vector<CallTensor> tensors,
                      std::vector<PlanTensor>& to) {
    for (CallTensor& tensor : tensors) to.push_back({std::move(tensor)});
  };
  add(call_inputs(call, plan), out->inputs);
  // Programs need these, too.
  add(empty_inputs(call, plan), out->inputs);
  add(call_outputs(plan), out->outputs);
  out->digest = digest_of(*out);
  return "";
}

size_t PlanCalls::find(const std::string& digest) const {
  const auto found = numbers_.find(digest);
  return found == numbers_.end() ? calls_.size() : found->second;
}

// Takes the data away, into its one place.
size_t PlanCalls::store(PlanTensor& input) {
  Fnv fnv;
  fnv.add(form_text(input.values));
  fnv.add(input.values.data);
  const auto [first, last] = stored_by_hash_.equal_range(fnv.hash());
  const auto same = std::find_if(first, last, [&](const auto& entry) {
    return stored_[entry.second] == input.values;
  });
  std::vector<std::byte> data = std::exchange(input.values.data, {});
  if (same != last) return same->second;
  stored_by_hash_.emplace(fnv.hash(), stored_.size());
  stored_.push_back({input.values.dtype, input.values.shape, std::move(data)});
  return stored_.size() - 1;
}

size_t PlanCalls::add(PlanCall call) {
  const auto [place, is_new] = numbers_.try_emplace(call.digest, calls_.size());
  if (is_new) {
    for (PlanTensor& input : call.inputs) input.stored = store(input);
    calls_.push_back(std::move(call));
    return place->second;
  }
  std::vector<PlanTensor>& known = calls_[place->second].outputs;
  for (PlanTensor& output : call.outputs) {
    const auto at =
        std::lower_bound(known.begin(), known.end(), output.tensor,
                         [](const PlanTensor& one, TensorName tensor) {
                           return one.tensor < tensor;
                         });
    if (at == known.end() || at->tensor != output.tensor)
      known.insert(at, std::move(output));
  }
  return place->second;
}

std::string PlanCalls::add_case(const Law& law, const Case& value,
                                const JudgedKernel& kernel,
                                std::vector<size_t>* numbers) {
  TimeUse time;
  CaseWork work(law, value, /*with_twin=*/false, time);
  if (const auto settled = work.settled(kernel)) return settled->reason;
  std::vector<PlanCall> planned;
  for (const KernelCall& call : work.calls_for(kernel)) {
    PlanCall one;
    if (std::string why = plan_call_of(call, kernel.info, &one); !why.empty())
      return why;
    planned.push_back(std::move(one));
  }
  for (PlanCall& one : planned) numbers->push_back(add(std::move(one)));
  return "";
}

// Records the calls and answers zeros.
class PlanCalls::Probed : public Executor {
 public:
  Probed(PlanCalls& calls, const KernelInfo& info)
      : calls_(calls), infos_{info} {}

  const std::vector<KernelInfo>& kernels() const override { return infos_; }

  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      PlanCall call;
      outcomes[i].text = plan_call_of(calls[i], infos_[0], &call);
      if (!outcomes[i].text.empty()) {
        outcomes[i].status = CallStatus::kUnsupported;
        continue;
      }
      for (const PlanTensor& output : call.outputs) {
        size_t bytes = 0;
        if (checked_bytes(output.values.dtype, output.values.shape, bytes)
                .empty())
          (outcomes[i].*output_member(output.tensor)).resize(bytes);
      }
      numbers_.push_back(calls_.add(std::move(call)));
    }
    return outcomes;
  }

  const std::vector<size_t>& numbers() const { return numbers_; }

 private:
  PlanCalls& calls_;
  std::vector<KernelInfo> infos_;
  std::vector<size_t> numbers_;
};

std::vector<size_t> PlanCalls::add_probes(JudgedKernel* kernel) {
  Probed probed(*this, kernel->info);
  probe_dialect(probed, 0, kernel->info);
  return probed.numbers();
}

}  // namespace qkvet::cli
