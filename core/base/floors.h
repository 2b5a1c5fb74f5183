// SPDX-License-Identifier: Apache-2.0
// The floors of the program, each with a namespace of its own, and whose names
// each sees without saying so: those of the floors below it (ci/floors.py holds
// this against what the files include). What core/ defines lies in qkvet, where
// all see it. Two floors may use one name for two things; the linker cannot mix
// them up, and a floor that sees both has to say which.
#ifndef QKVET_CORE_BASE_FLOORS_H_
#define QKVET_CORE_BASE_FLOORS_H_

namespace qkvet {

namespace reference {}

namespace properties {
using namespace reference;
}

namespace diagnosis {
using namespace reference;
using namespace properties;
}  // namespace diagnosis

namespace fuzz {
using namespace reference;
using namespace properties;
}  // namespace fuzz

namespace golden {
using namespace reference;
using namespace properties;
}  // namespace golden

namespace tools {
using namespace reference;
using namespace properties;
using namespace diagnosis;
using namespace fuzz;
using namespace golden;
}  // namespace tools

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_FLOORS_H_
