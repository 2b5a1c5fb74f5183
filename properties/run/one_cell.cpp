// SPDX-License-Identifier: Apache-2.0
#include "properties/run/one_cell.h"

namespace qkvet::properties {

Cell one_cell(const Law& law, const Judgement& judgement, double seconds) {
  Cell cell;
  cell.law = &law;
  cell.verdict = judgement.verdict;
  cell.reason = judgement.reason;
  cell.about = judgement.about;
  cell.checked = judgement.compared > 0 ? 1 : 0;
  cell.elements.compared = judgement.compared;
  cell.elements.vacuous = judgement.vacuous;
  cell.worst_ratio = judgement.worst_ratio;
  cell.seconds = seconds;
  return cell;
}

}  // namespace qkvet::properties
