// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/parametric.h"

#include "properties/judging/subject.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::diagnosis {
namespace {

// If answers conform to a hypothesis, it predicts them.
Word word_of(const Judgement& judgement) {
  return judgement.verdict == Verdict::kPassed   ? Word::kPredicted
         : judgement.verdict == Verdict::kFailed ? Word::kContradicts
                                                 : Word::kSilent;
}

// The kernel is right under a looser declaration than its own. One that differs
// in a single knob is believed before a preset.
class PrecisionSuspect : public Suspect {
 public:
  PrecisionSuspect(const std::string& name, PrecisionModel model,
                   std::string cause, std::string fix, int rank)
      : Suspect({"precision_" + name, std::move(cause), std::move(fix)}, rank),
        model_(model) {}

  bool is_mere_bound() const override { return true; }
  Word says(Evidence& evidence, const Witness& witness) override {
    JudgedKernel other = witness.kernel();
    // Gradients of tensor cores have no bound, so all would conform.
    if (evidence.value().backward && model_.block_u > 0) return Word::kSilent;
    other.model = model_;
    CaseWork work(*evidence.law, evidence.value(), false, witness.time());
    if (work.calls_for(other).size() != evidence.outcomes.size())
      return Word::kSilent;
    const Judgement judgement = work.judge(other, evidence.outcomes);
    return judgement.warning.empty() ? word_of(judgement) : Word::kSilent;
  }

 private:
  PrecisionModel model_;
};

void add_precisions(const PrecisionModel& own,
                    std::vector<std::unique_ptr<Suspect>>& suspects) {
  if (own.scale_stage != ScaleStage::kOnQ && !own.scale_split) {
    PrecisionModel on_q = own;
    on_q.scale_stage = ScaleStage::kOnQ;
    suspects.push_back(std::make_unique<PrecisionSuspect>(
        "scale_on_q", on_q,
        "It conforms if the scale multiplies q before the dot product, which "
        "rounds each product; its declaration has the scale afterwards.",
        "Multiply the score by the scale, or declare scale_stage = on_q.", 2));
  }
  constexpr struct {
    const char* name;
    int32_t preset;
  } kPresets[] = {{"generic", QKVET_PRECISION_GENERIC},
                  {"cpu_f32", QKVET_PRECISION_CPU_F32},
                  {"flash_half", QKVET_PRECISION_FLASH_HALF},
                  {"tensor_core", QKVET_PRECISION_TENSOR_CORE},
                  {"cuda_fast", QKVET_PRECISION_CUDA_FAST}};
  for (const auto& row : kPresets) {
    qkvet_precision declared = {};
    declared.struct_size = sizeof declared;
    declared.preset = row.preset;
    const ResolvedPrecision precision = resolve_precision(declared);
    if (precision.error.empty())
      suspects.push_back(std::make_unique<PrecisionSuspect>(
          row.name, precision.model,
          std::string("It conforms with another declared precision, ") +
              row.name +
              ": its arithmetic is rounded more often than its declaration.",
          std::string("Compute as declared, or declare the precision ") +
              row.name + ".",
          3));
  }
}

}  // namespace

Word ReadingSuspect::says(Evidence& evidence, const Witness& witness) {
  if (evidence.law != &agreement_about(Subject::kAttention))
    return Word::kSilent;
  Room room(evidence.value());
  CaseWork work =
      work_as(edit_, room, *evidence.law, evidence.value(), witness.time());
  if (work.calls_for(witness.kernel()).size() != evidence.outcomes.size())
    return Word::kSilent;
  return word_of(work.judge(witness.kernel(), evidence.outcomes));
}

std::vector<std::unique_ptr<Suspect>> parametric_suspects(const Case& value,
                                                          Witness& witness) {
  std::vector<std::unique_ptr<Suspect>> suspects;
  if (value.subject() == Subject::kAttention) {
    suspects = measured_scales(value, witness);
    for (OtherReading& row : readings_of_attention(witness.kernel().info))
      if (!row.cause.name.empty())
        suspects.push_back(std::make_unique<ReadingSuspect>(
            std::move(row.cause), std::move(row.edit)));
  }
  add_precisions(witness.kernel().model, suspects);
  return suspects;
}

}  // namespace qkvet::diagnosis
