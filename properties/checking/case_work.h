// SPDX-License-Identifier: Apache-2.0
// One (law, case), prepared to be judged: inputs, oracle and bounds are made
// once per distinct call and shared by all kernels.
#ifndef QKVET_PROPERTIES_CHECKING_CASE_WORK_H_
#define QKVET_PROPERTIES_CHECKING_CASE_WORK_H_

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/door/executor.h"
#include "properties/checking/vote.h"
#include "properties/judging/answer.h"
#include "properties/judging/gradient_answer.h"
#include "properties/judging/judged_kernel.h"
#include "properties/judging/law.h"
#include "properties/judging/twin_check.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {

// The bounds of one call's outputs, element by element; without outputs that
// the call does not return or that have no bound.
struct CallBounds {
  std::map<TensorName, std::vector<double>> outputs;
  std::vector<int64_t> visible;  // [B,H,Tq]: keys that a row sees

  // Empty if there is none.
  const std::vector<double>& of(TensorName output) const {
    static const std::vector<double> kNone;
    const auto found = outputs.find(output);
    return found == outputs.end() ? kNone : found->second;
  }
};

class CaseWork {
 public:
  // `with_twin`: the oracle is compared with its twin as well.
  CaseWork(const Law& law, Case value, bool with_twin, TimeUse& time,
           const References& references = {}, Reading reading = nullptr);
  ~CaseWork();
  CaseWork(CaseWork&&) noexcept;

  const Case& value() const { return value_; }
  // The inputs of the case's recipes, without the law's changes.
  const Inputs& own_inputs();
  // Other data for a case of these extents, before any call is made.
  void take_inputs(Inputs inputs) { own_ = std::move(inputs); }

  // Kernels must keep their addresses and contents: the plan of the last one is
  // kept.

  // The calls that the law makes of this kernel; empty if settled() has a
  // reason.
  std::vector<KernelCall> calls_for(const JudgedKernel& kernel);
  // A verdict that needs no call: unsupported type, law not applicable.
  std::optional<Judgement> settled(const JudgedKernel& kernel);
  // The verdict on the outcomes, one per call. `same_bits`, if not null,
  // collects the elements that were required to have the same bits.
  Judgement judge(const JudgedKernel& kernel,
                  std::span<const CallOutcome> outcomes,
                  std::vector<SameBits>* same_bits = nullptr);

  // One of the calls with all results: the truth of attention and of its
  // gradient even if the law does not need it. Lives as long as this.
  struct WholeCall {
    const PlannedCall& planned;
    const Case& value;  // the kernel's case, without its data
    const Inputs& inputs;
    const Truth* truth;  // null: no queries with finite data attend here
    std::string twin_disagrees;  // "" or why the truth is in doubt
  };
  WholeCall whole_call(const JudgedKernel& kernel, size_t n);

  // The bounds of call n of calls_for(kernel) under a model, whether or not the
  // law needs its truth.
  CallBounds bounds(const JudgedKernel& kernel, size_t n,
                    const PrecisionModel& model);

  // How the kernels judged so far have answered, where the law votes.
  const std::vector<Ballot>& ballots() const { return ballots_; }

 private:
  struct Prepared;  // one distinct edit of the inputs
  const Inputs& inputs_of(const PlannedCall& call);
  Prepared& prepare(const PlannedCall& call, const KernelInfo& kernel);
  // The answers of a prepared call, each made once.
  template <class Make>
  void make_answer(Prepared& prepared, Make make);
  GradientAnswer& gradient(Prepared& prepared, const KernelInfo& kernel);
  LayerGradientAnswer& layer_gradient(Prepared& prepared);
  Answer& answer(Prepared& prepared, const KernelInfo& kernel);
  // Makes the answer of the call. "", or where oracle and twin differ.
  std::string find_truth(const PlannedCall& call, Prepared& prepared,
                         const KernelInfo& kernel);
  // The same, with the bound of a declared model.
  const Truth& truth_for(const PlannedCall& call, Prepared& prepared,
                         const KernelInfo& kernel,
                         const PrecisionModel& declared);
  bool is_case_of_law();
  const Plan& plan_for(const JudgedKernel& kernel);
  Judgement judge_under(const JudgedKernel& kernel,
                        const PrecisionModel& declared,
                        std::span<const CallOutcome> outcomes,
                        std::vector<SameBits>* same_bits);
  KernelCall call_for(const PlannedCall& planned, const KernelInfo& kernel);
  void cast_ballot(const JudgedKernel& kernel, const CallView& call,
                   const Judgement& judgement);

  const Law* law_;
  Case value_;
  bool with_twin_;
  TimeUse* time_;
  References references_;
  Reading reading_;
  std::vector<Ballot> ballots_;
  std::optional<Inputs> own_;               // as the case's recipes make them
  std::map<std::string, Inputs> variants_;  // by their text
  // As each of the readings of ranges within a window has it.
  std::array<std::optional<Visibility>, 2> visibility_;
  std::optional<bool> is_case_of_law_;  // meets the precondition
  const JudgedKernel* planned_for_ = nullptr;
  Plan plan_;
  // Calls with the same key have the same inputs.
  using Key =
      std::tuple<InputEdit, int64_t, std::optional<Snapshot>, std::string>;
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
};

// "" or why QKVet cannot judge the case at all.
std::string not_judged_reason(const Case& value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_CASE_WORK_H_
