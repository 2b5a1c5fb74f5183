// SPDX-License-Identifier: Apache-2.0
// The page of the comparison, in Markdown.
#ifndef QKVET_STUDIES_ACCEPTANCE_PAGE_H_
#define QKVET_STUDIES_ACCEPTANCE_PAGE_H_

#include <span>
#include <string>

#include "studies/acceptance/study.h"

namespace qkvet::studies {

// "up to 4,096 keys", "1.2 %", "never", "alarm", ...
std::string cell_text(const Cell& cell, Measure measure);

// `comparisons` of all rules, with this effort.
std::string page_text(std::span<const Comparison> comparisons,
                      const Effort& effort);

}  // namespace qkvet::studies

#endif  // QKVET_STUDIES_ACCEPTANCE_PAGE_H_
