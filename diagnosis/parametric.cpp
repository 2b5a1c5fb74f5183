// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/parametric.h"

#include "diagnosis/measured_scale.h"
#include "diagnosis/readings.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::diagnosis {
namespace {

// The kernel is right under a looser declaration than its own.
class PrecisionSuspect : public Suspect {
 public:
  PrecisionSuspect(const char* preset, PrecisionModel model)
      : model_(model),
        name_(std::string("precision_") + preset),
        cause_(std::string("It conforms with another declared precision, ") +
               preset +
               ": its arithmetic is rounded more often than its declaration."),
        fix_(std::string("Compute as declared, or declare the precision ") +
             preset + ".") {}

  const std::string& name() const override { return name_; }
  const std::string& cause() const override { return cause_; }
  const std::string& fix() const override { return fix_; }
  int rank() const override { return 2; }
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
    if (!judgement.warning.empty()) return Word::kSilent;
    return judgement.verdict == Verdict::kPassed   ? Word::kPredicted
           : judgement.verdict == Verdict::kFailed ? Word::kContradicts
                                                   : Word::kSilent;
  }

 private:
  PrecisionModel model_;
  std::string name_, cause_, fix_;
};

void add_precisions(std::vector<std::unique_ptr<Suspect>>& suspects) {
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
      suspects.push_back(
          std::make_unique<PrecisionSuspect>(row.name, precision.model));
  }
}

}  // namespace

std::vector<std::unique_ptr<Suspect>> parametric_suspects(const Case& value,
                                                          Witness& witness) {
  std::vector<std::unique_ptr<Suspect>> suspects;
  if (value.subject() == Subject::kAttention) {
    if (auto scale = measured_scale(value, witness))
      suspects.push_back(std::move(scale));
    add_readings(value, suspects);
  }
  add_precisions(suspects);
  return suspects;
}

}  // namespace qkvet::diagnosis
