// SPDX-License-Identifier: Apache-2.0
// The parts of the page of a run. Every text of the record is escaped when it
// is inserted; attributes are in double quotes.
#ifndef QKVET_REPORT_HTML_PARTS_H_
#define QKVET_REPORT_HTML_PARTS_H_

#include <string>

#include "report/run_record.h"

namespace qkvet::report {

// Laws by subject, in their order: "attention", ...; one group without a name
// if the record has no subjects.
struct LawGroup {
  std::string subject;
  std::vector<std::string> laws;
};
std::vector<LawGroup> law_groups(const RunRecord& record);

// A failure in full, and others with the same cause in short.
std::string html_failures(const RunRecord& record);
// Expected, actual and error of each output of a failure, if it has tensors.
std::string html_heat_maps(const FailureLine& failure);
// Laws by kernels; of one kernel with figures.
std::string html_grid(const RunRecord& record);
// Error/bound of every law on a logarithmic axis.
std::string html_errors(const RunRecord& record);
// Covered parts, and parts that were not covered.
std::string html_coverage(const RunRecord& record);
std::string html_laws(const RunRecord& record);
std::string html_environment(const RunRecord& record);

// "<code>...</code>"
std::string html_code(const std::string& text);
// A command that can be selected, and copied if scripts run.
std::string html_command(const std::string& text);
// The name of a law, as a link to its text.
std::string html_law_link(const std::string& law);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_HTML_PARTS_H_
