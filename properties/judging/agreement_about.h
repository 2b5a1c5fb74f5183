// SPDX-License-Identifier: Apache-2.0
// The law that holds numbers against the definition, subject by subject.
#ifndef QKVET_PROPERTIES_JUDGING_AGREEMENT_ABOUT_H_
#define QKVET_PROPERTIES_JUDGING_AGREEMENT_ABOUT_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

const Law& agreement_about(Subject subject);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_AGREEMENT_ABOUT_H_
