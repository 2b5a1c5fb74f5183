// SPDX-License-Identifier: Apache-2.0
// Known faults that can be run: libraries of kernels that export the name of
// their fault (QKVET_EXTENSION_FAULT).
#ifndef QKVET_DIAGNOSIS_CATALOGUE_H_
#define QKVET_DIAGNOSIS_CATALOGUE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

class Catalogue {
 public:
  // Opens the library of faults with this configuration.
  using Open = std::function<Opened(const std::string& config)>;
  // `variants`: further configurations, and the faults that they are for; if no
  // fault is named, all that declare tiles.
  struct Variant {
    std::string config;
    std::vector<std::string> faults = {};  // without their family
  };
  Catalogue() = default;  // none: steps without known faults continue
  explicit Catalogue(Open open, std::vector<Variant> variants = {});

  // "" or why it holds nothing.
  const std::string& error() const { return error_; }
  // CPU time of the calls that faults have made so far.
  double cpu_seconds() const;
  // Those about a subject; they live as long as this.
  std::vector<FaultSuspect*> about(Subject subject) const;

 private:
  void add(const Open& open, const Variant& variant);

  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::unique_ptr<FaultSuspect>> suspects_;
  std::string error_;
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_CATALOGUE_H_
