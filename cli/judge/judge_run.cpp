// SPDX-License-Identifier: Apache-2.0
#include "cli/judge/judge_run.h"

#include <gtest/gtest.h>

#include <regex>

#include "cli/kernels/kernels.h"
#include "cli/reproduce/plan_folder.h"
#include "properties/checking/probe.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// The outputs of one call, as a kernel returned them.
void write_answer(const PlanCall& call, const CallOutcome& outcome,
                  const fs::path& folder, bool safetensors) {
  if (outcome.status != CallStatus::kDone) {
    fs::create_directories(folder);
    write_text(folder / "refused.txt", outcome.text + "\n");
    return;
  }
  NamedTensors tensors;
  for (const PlanTensor& output : call.outputs) {
    tensors[output.name] = output.values;
    tensors[output.name].data = outcome.*output_member(output.tensor);
  }
  std::string error;
  const auto text = [&error](const auto& bytes) {
    EXPECT_TRUE(bytes) << error;
    return std::string(reinterpret_cast<const char*>(bytes->data()),
                       bytes->size());
  };
  if (safetensors) {
    write_text(folder.string() + ".safetensors",
               text(safetensors_bytes(tensors, {}, &error)));
    return;
  }
  fs::create_directories(folder);
  for (const auto& [name, tensor] : tensors)
    write_text(
        folder / (name + ".npy"),
        text(npy_bytes(tensor.written(), /*fortran_order=*/false, &error)));
}

// Passes calls on to a kernel, with all outputs that the plan wants, and writes
// the answers to files.
class Answering : public Executor {
 public:
  Answering(const PlanFolder& plan, Executor& kernel, int index,
            fs::path answers, bool safetensors)
      : plan_(plan),
        kernel_(kernel),
        index_(index),
        answers_(std::move(answers)),
        safetensors_(safetensors) {}

  const std::vector<KernelInfo>& kernels() const override {
    return kernel_.kernels();
  }

  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    std::vector<KernelCall> asked(calls.begin(), calls.end());
    std::vector<size_t> numbers;
    for (KernelCall& call : asked) {
      PlanCall one;
      EXPECT_EQ(plan_call_of(call, plan_.kernel.info, &one), "");
      numbers.push_back(plan_.calls.find(one.digest));
      for (const PlanTensor& output : known(numbers.back()).outputs) {
        call.want_lse |= output.tensor == TensorName::kLse;
        call.want_weights |= output.tensor == TensorName::kWeights;
        call.want_stages |= output.tensor == TensorName::kStageQ;
      }
    }
    std::vector<CallOutcome> outcomes = kernel_.run(index_, asked);
    for (size_t i = 0; i < asked.size(); ++i)
      write_answer(known(numbers[i]), outcomes[i],
                   answers_ / call_name(numbers[i]), safetensors_);
    return outcomes;
  }

 private:
  const PlanCall& known(size_t number) const {
    return plan_.calls.calls().at(number);
  }

  const PlanFolder& plan_;
  Executor& kernel_;
  int index_;
  fs::path answers_;
  bool safetensors_;
};

}  // namespace

fs::path emitted(const std::string& name, const std::string& arguments) {
  const Ran ran = exits(0, run_qkvet("judge --ask " + name + " " + arguments));
  return scratch() / name;
}

void answer_plan(const fs::path& plan, const std::string& kernel) {
  answer_plan(plan, kernel, plan, /*safetensors=*/false);
}

void answer_plan(const fs::path& folder, const std::string& kernel,
                 const fs::path& answers, bool safetensors) {
  PlanFolder plan;
  ASSERT_EQ(read_plan(folder.string(), &plan), "");
  KernelSelection selection;
  selection.kernels = {kernel};
  const SelectedKernels selected = select_kernels(selection);
  ASSERT_EQ(selected.error, "");
  const Opened opened = executor_factory(selected, false)(0);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  fs::create_directories(answers);
  Answering answering(plan, *opened.executor, selected.kernels[0].index,
                      answers, safetensors);
  KernelInfo info = plan.kernel.info;
  probe_dialect(answering, 0, info);
  for (const PlanCase& one : plan.recipe.cases) {
    TimeUse time;
    CaseWork work(*one.law, one.value, false, time);
    answering.run(0, work.calls_for(plan.planning));
  }
}

Ran judged(const fs::path& plan, const std::string& arguments) {
  return run_qkvet("judge " + plan.filename().string() + " " + arguments);
}

std::string cause_in(const std::string& report) {
  std::smatch found;
  const std::regex pattern("\n +([a-z_0-9]+, (sure|likely))[:;\n]");
  return std::regex_search(report, found, pattern) ? found[1].str() : "unknown";
}

}  // namespace qkvet::cli
