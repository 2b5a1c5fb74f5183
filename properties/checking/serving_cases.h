// SPDX-License-Identifier: Apache-2.0
// Cases of the serving form: keys and values in pages, and appended tokens.
#ifndef QKVET_PROPERTIES_CHECKING_SERVING_CASES_H_
#define QKVET_PROPERTIES_CHECKING_SERVING_CASES_H_

#include "properties/calls/option_forms.h"

namespace qkvet::properties {

// The nearest case with pages, and with keys that some row sees.
Case with_pages(Case value);
// The nearest case that appends at least one token to every member.
Case with_new_tokens(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_SERVING_CASES_H_
