// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/case/merge.h"
#include "properties/calls/layer_calls.h"
#include "properties/checking/case_prepared.h"
#include "properties/conventions/domain.h"
#include "properties/judging/compare.h"
#include "properties/judging/finite.h"
#include "properties/judging/malformed_numbers.h"
#include "properties/judging/outcome.h"
#include "properties/judging/subject.h"
#include "properties/sequences/story_calls.h"
#include "properties/sequences/story_run.h"

namespace qkvet::properties {

CaseWork::CaseWork(const Law& law, Case value, bool with_twin, TimeUse& time,
                   const References& references, Reading reading)
    : law_(&law),
      value_(std::move(value)),
      with_twin_(with_twin),
      time_(&time),
      references_(references),
      reading_(reading) {}
CaseWork::~CaseWork() = default;
CaseWork::CaseWork(CaseWork&&) noexcept = default;

namespace {

// Whether the case is one of the law's, except for its data, which the law sets
// itself where necessary.
bool meets_precondition(const Law& law, const Case& value) {
  Case nearest = constrained(law, value);
  for (const auto recipe : {&Case::q, &Case::k, &Case::v, &Case::x, &Case::w,
                            &Case::bias, &Case::d_o})
    nearest.*recipe = value.*recipe;
  nearest.set = value.set;
  nearest.file = value.file;
  return nearest == value;
}

InputErrors stored_errors_of(const Inputs& inputs) {
  const auto data = [](const std::vector<double>& errors) {
    return errors.empty() ? nullptr : errors.data();
  };
  return {nullptr, data(inputs.k_error), data(inputs.v_error)};
}

// Whether the call computes attention over known numbers.
bool attends(const PlannedCall& planned) {
  if (planned.operation == Operation::kForward ||
      planned.operation == Operation::kMerge)
    return true;
  return planned.operation == Operation::kCacheStep &&
         !planned.expects_refusal && planned.snapshot->queries > 0 &&
         !sees_added_token(*planned.snapshot);
}

// Equal for two calls with the same inputs, besides edit and snapshot.
std::string variant_text(const PlannedCall& call, const KernelInfo& kernel) {
  std::string text = needs_finite_slots(kernel.dialect) ? "slots " : "";
  if (call.mistake != Mistake::kNone && call.edit == nullptr)
    text += "mistake " + std::to_string(static_cast<int>(call.mistake)) + " ";
  if (needs_finite_padding(kernel.dialect)) text += "padding ";
  if (call.operation == Operation::kBackward) text += given_text(kernel) + " ";
  if (call.operation == Operation::kMerge &&
      kernel.dialect.lse_base == QKVET_LSE_BASE2)
    text += "base2 ";
  if (call.own_inputs) text += "own ";
  return call.variant && call.edit == nullptr ? text + to_string(*call.variant)
                                              : text;
}

// Whether tokens of the case, and those of others in unowned slots, are finite.
bool has_finite_tokens(const Case& value, const Inputs& inputs) {
  const Shape& s = value.shape;
  const auto finite = [&](const std::vector<double>& values, int64_t width) {
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.Hkv; ++h) {
        const auto first = values.begin() + (b * s.Hkv + h) * s.Tk * width;
        if (!std::all_of(first, first + counted_keys(value, b) * width,
                         [](double x) { return std::isfinite(x); }))
          return false;
      }
    return true;
  };
  return finite(inputs.k, s.d) && finite(inputs.v, s.dv);
}

// Whether anything became finite for this kernel.
bool make_finite(const KernelInfo& kernel, Case& value, Inputs& inputs) {
  Paging paging = in_finite_slots(kernel.dialect, value.paging);
  if (paging.unowned == Unowned::kOthers &&
      needs_finite_slots(kernel.dialect) && !has_finite_tokens(value, inputs))
    paging.unowned = Unowned::kZero;
  const bool changes = paging != value.paging;
  value.paging = paging;
  if (!value.has_options() || !needs_finite_padding(kernel.dialect))
    return changes;
  return put_numbers_beyond_lengths(value, inputs) || changes;
}

bool are_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double x) { return std::isfinite(x); });
}

// Whether all inputs of the call are finite, except those that hide a key. Not
// determined for slots of pages.
bool has_finite_inputs(const CallView& call) {
  const Inputs& in = *call.inputs;
  return in.pages == 0 && are_finite(in.q) && are_finite(in.k) &&
         are_finite(in.v) && are_finite(in.d_o) &&
         std::all_of(
             std::begin(kLayerInputs), std::end(kLayerInputs),
             [&in](TensorName name) { return are_finite(in.values(name)); }) &&
         std::none_of(in.bias.begin(), in.bias.end(),
                      [](double x) { return std::isnan(x); });
}

// A law's own explanation of a NaN that no input explains would be wrong.
void note_nan_of_numbers(std::span<const CallView> calls,
                         Judgement& judgement) {
  if (judgement.verdict != Verdict::kFailed || !judgement.finding) return;
  if (!judgement.finding->actual.starts_with("nan")) return;
  // The memory law puts NaN around the tensors.
  if (judgement.finding->looks.find("NaN") != std::string::npos) return;
  if (!std::all_of(calls.begin(), calls.end(), has_finite_inputs)) return;
  judgement.finding->looks =
      "NaN from finite inputs: 0/0, inf - inf, or unwritten memory";
}

}  // namespace

const Inputs& CaseWork::own_inputs() {
  if (!own_) own_ = make_inputs(value_);
  return *own_;
}

// Those of the case, or of a variant that has data of its own.
const Inputs& CaseWork::inputs_of(const PlannedCall& call) {
  if (!call.own_inputs) return own_inputs();
  const auto [found, is_new] = variants_.try_emplace(to_string(*call.variant));
  if (is_new) found->second = make_inputs(*call.variant);
  return found->second;
}

bool CaseWork::is_case_of_law() {
  if (!is_case_of_law_) is_case_of_law_ = meets_precondition(*law_, value_);
  return *is_case_of_law_;
}

const Plan& CaseWork::plan_for(const JudgedKernel& kernel) {
  if (planned_for_ != &kernel) plan_ = law_->plan(value_, kernel.info);
  planned_for_ = &kernel;
  return plan_;
}

CaseWork::Prepared& CaseWork::prepare(const PlannedCall& call,
                                      const KernelInfo& kernel) {
  std::unique_ptr<Prepared>& slot = prepared_[{
      call.edit, call.argument, call.snapshot, variant_text(call, kernel)}];
  if (slot == nullptr) {
    const Stopwatch watch(time_->generate);
    slot = std::make_unique<Prepared>();
    slot->value = call.variant.value_or(value_);
    if (call.snapshot) {
      StoryInputs picked =
          pick_inputs(slot->value, *call.snapshot, inputs_of(call));
      slot->value = step_case(slot->value, *call.snapshot);
      slot->inputs = std::move(picked.history);
      slot->fresh = std::move(picked.fresh);
    } else {
      slot->inputs = inputs_of(call);
    }
    if (call.edit != nullptr) call.edit(value_, call.argument, slot->inputs);
    const bool is_other = make_finite(kernel, slot->value, slot->inputs);
    if (is_other || call.edit != nullptr ||
        (call.variant && !call.snapshot && !call.own_inputs))
      store_inputs(slot->value, slot->inputs);
    if (call.operation == Operation::kForward)
      spoil_numbers(call.mistake, slot->value, slot->inputs);
    if (call.operation == Operation::kMerge &&
        kernel.dialect.lse_base == QKVET_LSE_BASE2)
      fill_merge_in_base2(slot->value, slot->inputs);
  }
  // It fills in inputs.
  if (call.operation == Operation::kBackward) gradient(*slot, kernel);
  if (call.needs_truth) find_truth(call, *slot, kernel);
  if (is_layer(call.operation) && with_twin_ && !slot->twin_asked) {
    const Stopwatch watch(time_->oracle);
    slot->twin_asked = true;
    const LayerProblem problem = layer_problem(slot->value, slot->inputs);
    slot->twin_disagrees = twin_disagreement(
        problem, references_.layer(problem), twin_layer(problem));
  }
  return *slot;
}

template <class Make>
void CaseWork::make_answer(Prepared& prepared, Make make) {
  const double before = time_->oracle;
  {
    const Stopwatch watch(time_->oracle);
    make();
  }
  prepared.oracle_seconds += time_->oracle - before;
}

GradientAnswer& CaseWork::gradient(Prepared& prepared,
                                   const KernelInfo& kernel) {
  std::unique_ptr<GradientAnswer>& slot = prepared.gradient;
  if (slot == nullptr)
    make_answer(prepared, [&] {
      slot = std::make_unique<GradientAnswer>(prepared.value, prepared.inputs,
                                              kernel, references_, reading_);
    });
  return *slot;
}

LayerGradientAnswer& CaseWork::layer_gradient(Prepared& prepared) {
  std::unique_ptr<LayerGradientAnswer>& slot = prepared.layer_gradient;
  if (slot == nullptr)
    make_answer(prepared, [&] {
      slot = std::make_unique<LayerGradientAnswer>(prepared.value,
                                                   prepared.inputs);
    });
  return *slot;
}

Answer& CaseWork::answer(Prepared& prepared, const KernelInfo& kernel) {
  const int reading = reading_of(prepared.value, kernel.dialect);
  std::optional<Answer>& slot = prepared.answers[static_cast<size_t>(reading)];
  if (!slot)
    make_answer(prepared, [&] {
      auto& owned = prepared.problems[static_cast<size_t>(reading)];
      owned = std::make_unique<OwnedProblem>(prepared.value, prepared.inputs,
                                             reading);
      slot.emplace(
          reading_ != nullptr ? reading_(owned->problem()) : owned->problem(),
          truth_of(prepared.value, references_.forward), with_twin_,
          stored_errors_of(prepared.inputs));
    });
  return *slot;
}

std::string CaseWork::find_truth(const PlannedCall& call, Prepared& prepared,
                                 const KernelInfo& kernel) {
  if (call.operation == Operation::kLayerBackward) {
    layer_gradient(prepared);
    return "";
  }
  if (call.operation != Operation::kBackward)
    return answer(prepared, kernel).twin_disagrees();
  GradientAnswer& known = gradient(prepared, kernel);
  make_answer(prepared, [&] { known.find_truth(with_twin_); });
  return known.twin_disagrees();
}

const Truth& CaseWork::truth_for(const PlannedCall& call, Prepared& prepared,
                                 const KernelInfo& kernel,
                                 const PrecisionModel& declared) {
  find_truth(call, prepared, kernel);
  const Case& value = prepared.value;
  const PrecisionModel model =
      for_storage(declared, value.kv_dtype, value.o_dtype);
  if (call.operation == Operation::kBackward)
    return prepared.gradient->truth_for(model);
  if (call.operation != Operation::kLayerBackward)
    return answer(prepared, kernel).truth_for(kernel, model, call.want_weights);
  // P is rounded to the storage type of stages.
  const Dtype stage = kernel.stage_dtype(value.q_dtype);
  return prepared.layer_gradient->truth_for(
      for_storage(declared, stage, value.o_dtype), stage);
}

std::optional<Judgement> CaseWork::settled(const JudgedKernel& kernel) {
  Judgement judgement;
  judgement.verdict = Verdict::kUnsupported;
  judgement.reason = not_judged_reason(value_);
  if (!judgement.reason.empty()) return judgement;
  judgement.about = About::kDeclaration;
  const SubjectRow& subject = subject_row(law_->domain.subject);
  if (!subject.is_declared(kernel.info)) judgement.reason = subject.missing;
  if (judgement.reason.empty() && law_->domain.plans && !kernel.info.has_plan)
    judgement.reason = kNoPlans;
  if (judgement.reason.empty() && subject.is_gradient)
    judgement.reason =
        gradient_not_derived(kernel.model, value_.dropout.has_value());
  const bool fits = value_.subject() == subject.subject && is_case_of_law();
  if (judgement.reason.empty() && fits)
    judgement.reason = plan_for(kernel).unsupported;
  if (!judgement.reason.empty()) return judgement;
  judgement.verdict = Verdict::kGaveUp;
  judgement.about = About::kOther;
  if (value_.subject() != subject.subject)
    judgement.reason = "the law is about something else than this case";
  else if (!fits)
    judgement.reason = std::string("the law needs: ") + law_->precondition;
  else
    judgement.reason = plan_for(kernel).not_applicable;
  if (judgement.reason.empty() && subject.unsettled != nullptr)
    judgement.reason = subject.unsettled(value_, kernel.info);
  if (judgement.reason.empty()) return std::nullopt;
  return judgement;
}

KernelCall CaseWork::call_for(const PlannedCall& planned,
                              const KernelInfo& kernel) {
  const Prepared& prepared = prepare(planned, kernel);
  const Case& value = prepared.value;
  KernelCall call = call_of(value, prepared.inputs, planned.operation);
  call.mistake = planned.mistake;
  call.want_lse = planned.want_lse;
  call.want_weights = planned.want_weights;
  call.want_stages = planned.want_stages;
  if (planned.operation == Operation::kBackward) {
    const uint64_t gives = kernel.backward_options;
    // Some cases leave out optional results: the rest must not change.
    call.want_d_bias = value.score_bias && value.seed % 5 != 3 &&
                       (gives & QKVET_BACKWARD_BIAS) != 0;
    call.want_d_sink =
        value.sink && value.seed % 7 != 3 && (gives & QKVET_BACKWARD_SINK) != 0;
  }
  call.want_dropout_mask = planned.want_dropout_mask;
  if (planned.in_place)
    fill_merge_call(value, prepared.inputs, /*in_place=*/true, call);
  if (planned.masks_rows)
    call.row_mask =
        reinterpret_cast<const std::byte*>(prepared.inputs.row_mask.data());
  call.placement = planned.placement;
  call.threads = planned.threads;
  call.at_once = planned.at_once;
  call.same_place = planned.same_place;
  call.second_context = planned.second_context;
  call.new_process = planned.new_process;
  call.repeats = planned.repeats;
  call.plan_use = planned.plan_use;
  call.plan_slot = planned.plan_slot;
  call.oracle_seconds = prepared.oracle_seconds;
  if (call.dropout) call.dropout->seed += planned.dropout_seed;
  if (call.dropout) call.dropout->offset += planned.dropout_offset;
  if (planned.snapshot)
    fill_story_call(planned.variant.value_or(value_), planned, prepared.fresh,
                    inputs_of(planned), call);
  return call;
}

std::vector<KernelCall> CaseWork::calls_for(const JudgedKernel& kernel) {
  const Plan& plan = plan_for(kernel);
  std::vector<KernelCall> calls;
  calls.reserve(plan.calls.size());
  for (const PlannedCall& planned : plan.calls) {
    calls.push_back(call_for(planned, kernel.info));
    KernelCall& call = calls.back();
    call.expected_seconds = kernel.pace.seconds(call.operation, call.shape);
  }
  return calls;
}

CaseWork::WholeCall CaseWork::whole_call(const JudgedKernel& kernel, size_t n) {
  const PlannedCall& planned = plan_for(kernel).calls[n];
  Prepared& prepared = prepare(planned, kernel.info);
  const bool known =
      planned.operation == Operation::kBackward || attends(planned);
  return {planned, prepared.value, prepared.inputs,
          known ? &truth_for(planned, prepared, kernel.info, kernel.model)
                : nullptr,
          known ? find_truth(planned, prepared, kernel.info)
                : prepared.twin_disagrees};
}

Judgement CaseWork::judge(const JudgedKernel& kernel,
                          std::span<const CallOutcome> outcomes,
                          std::vector<SameBits>* same_bits) {
  Judgement judgement = judge_under(kernel, kernel.model, outcomes, same_bits);
  const bool exceeds = judgement.verdict == Verdict::kFailed &&
                       judgement.finding && judgement.finding->ratio > 0;
  if (!kernel.model.unmeasured || !exceeds) return judgement;
  Judgement wider =
      judge_under(kernel, doubted(kernel.model), outcomes, nullptr);
  if (wider.verdict != Verdict::kPassed) return judgement;
  const Finding& finding = *judgement.finding;
  wider.warning = finding.where + " is " + finding.actual + ", allowed " +
                  finding.allowed + " by a precision that was not measured";
  wider.worst_ratio = judgement.worst_ratio;
  wider.nearest.reset();  // of another bound
  return wider;
}

Judgement CaseWork::judge_under(const JudgedKernel& kernel,
                                const PrecisionModel& declared,
                                std::span<const CallOutcome> outcomes,
                                std::vector<SameBits>* same_bits) {
  const Plan& plan = plan_for(kernel);
  // A kernel that dies in one call has failed, whatever it refused before.
  for (size_t i = 0; i < plan.calls.size(); ++i)
    if (auto judgement = judge_outcome(plan.calls[i], outcomes[i]);
        judgement && (judgement->kind == FailureKind::kCrash ||
                      judgement->kind == FailureKind::kHang))
      return *judgement;
  std::vector<CallView> views(plan.calls.size());
  for (size_t i = 0; i < views.size(); ++i) {
    if (auto judgement = judge_outcome(plan.calls[i], outcomes[i]))
      return *judgement;
    Prepared& prepared = prepare(plan.calls[i], kernel.info);
    views[i] = {&plan.calls[i], &prepared.inputs, &outcomes[i], nullptr};
    std::string disagreement = prepared.twin_disagrees;
    if (plan.calls[i].needs_truth) {
      disagreement += find_truth(plan.calls[i], prepared, kernel.info);
      const Stopwatch watch(time_->bound);
      views[i].truth =
          &truth_for(plan.calls[i], prepared, kernel.info, declared);
    }
    if (disagreement.empty()) continue;
    Judgement judgement;
    judgement.verdict = Verdict::kGaveUp;
    judgement.reason = disagreement;
    return judgement;
  }
  const Stopwatch watch(time_->judge);
  const bool in_window =
      value_.fields.ranges > 0 && ranges_in_window(kernel.info.dialect);
  std::optional<Visibility>& visibility = visibility_.at(in_window ? 1 : 0);
  if (!visibility && value_.has_options())
    visibility.emplace(value_, own_inputs(), in_window);
  const JudgeInput input{value_,
                         kernel.info,
                         declared,
                         views,
                         visibility ? &*visibility : nullptr,
                         same_bits};
  Judgement judgement = law_->judge(input);
  note_nan_of_numbers(views, judgement);
  if (judgement.verdict == Verdict::kFailed && judgement.finding)
    judgement.picture = subject_row(value_.subject()).picture(input, judgement);
  if (law_->domain.votes) cast_ballot(kernel, views[0], judgement);
  return judgement;
}

void CaseWork::cast_ballot(const JudgedKernel& kernel, const CallView& call,
                           const Judgement& judgement) {
  Ballot ballot;
  ballot.kernel = kernel.info.name;
  ballot.agrees = judgement.verdict == Verdict::kPassed;
  if (!ballot.agrees) {
    ballot.o = as_doubles(call.outcome->o, value_.o_dtype);
    ballot.bound = call.truth->bound->o;
    if (judgement.finding) ballot.where = judgement.finding->where;
  }
  ballots_.push_back(std::move(ballot));
}

}  // namespace qkvet::properties
