// SPDX-License-Identifier: Apache-2.0
// The investigation of one failure: its hypotheses, the evidence, and the
// hypotheses that are left.
#ifndef QKVET_DIAGNOSIS_INQUIRY_H_
#define QKVET_DIAGNOSIS_INQUIRY_H_

#include <memory>
#include <vector>

#include "diagnosis/bare.h"
#include "diagnosis/diagnose.h"

namespace qkvet::diagnosis {

// CPU time of faults in one inquiry; most take a tenth of it.
inline constexpr double kMostSecondsOfFaults = 10;

class Inquiry {
 public:
  // All must outlive this.
  Inquiry(const Failure& failure, const EvidencePool& pool,
          const Catalogue& catalogue);

  Diagnosis run();
  // After run(): whether the cause predicts this failure of the same kernel,
  // too.
  bool explains(const Failure& other);

 private:
  struct Standing {
    Suspect* suspect;
    int predicted = 0;      // failing evidence
    int telling = 0;        // of that, answers beyond one constant number
    int silent = 0;         // failing evidence without a prediction
    int of_numbers = 0;     // informative failing evidence with finite inputs
    bool is_named = false;  // it names the law of an informative failure
    size_t heard = 0;       // pieces of evidence it was compared with
  };
  struct Heard {
    std::unique_ptr<Evidence> evidence;
    bool failed = false, bare = false;
    bool is_of_nan = false;  // inputs that are no numbers
  };
  // Adds a piece of evidence; null is ignored. Hundreds of hypotheses would
  // need a call each, so they are compared with it only when their number
  // matters.
  void hear(std::unique_ptr<Evidence> evidence);
  // Whether the hypothesis agrees with it.
  bool stands(Standing& one, const Heard& heard);
  // How many hypotheses agree with all evidence, counted up to `most`.
  size_t standing(size_t most);
  void look_at_commands_of_law();
  // Runs a story on distinct tokens and reads them back after each command.
  void hear_told(const Case& story, Witness& witness);
  void look_around();
  void look_for_a_pass();
  void look_at_answered();
  void tell_apart();
  void look_beyond_the_failure();
  void look_at_tiles();
  void look_at_fuller_caches();
  std::unique_ptr<Evidence> telling_evidence(int n);
  void keep_the_believable();
  // Hundreds of faults are run on each case, in as many calls or more.
  bool faults_are_too_slow() const {
    return catalogue_->cpu_seconds() - began_ > kMostSecondsOfFaults;
  }
  bool is_too_slow() const {
    return witness_.is_too_slow() || beyond_.is_too_slow() ||
           faults_are_too_slow();
  }
  std::string seen_text(const Bare& bare) const;
  Diagnosis conclusion();

  const Failure* failure_;
  EvidencePool pool_;
  const Catalogue* catalogue_;
  double began_;       // CPU time of its faults
  bool knows_faults_;  // without any nothing is sure
  Witness witness_, beyond_;
  std::vector<std::unique_ptr<Suspect>> own_;
  std::vector<Standing> standing_;
  std::vector<Heard> heard_;
  int probes_ = 0;            // pieces of evidence ...
  int failing_ = 0;           // ... in which the kernel failed
  std::optional<Bare> bare_;  // in all of those the same
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INQUIRY_H_
