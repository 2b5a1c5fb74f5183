// SPDX-License-Identifier: Apache-2.0
// Confines a worker before it loads an untrusted kernel.
#ifndef QKVET_CORE_SANDBOX_ARMOUR_H_
#define QKVET_CORE_SANDBOX_ARMOUR_H_

#include <string>

namespace qkvet {

// The environment variable that asks for it: the folders that stay visible
// where /tmp is replaced, separated by ':'. Unset: no armour.
inline constexpr const char* kArmourVariable = "QKVET_ARMOUR";
// "PROCESSES BYTES": threads count as processes; bytes of private memory of
// each process.
inline constexpr const char* kArmourLimitsVariable = "QKVET_ARMOUR_LIMITS";

// For this process, its threads and its children, as far as the system allows:
//   - no network, an empty /tmp, all other files for reading alone (namespaces
//     of the kernel, user_namespaces(7); Landlock where there are none);
//   - no capability, and none from programs that it starts;
//   - no access to other processes (seccomp(2): ptrace, process_vm_readv,
//     process_vm_writev, pidfd_getfd);
//   - no signals to others (Landlock);
//   - at most 256 processes with any memory, or kArmourLimitsVariable; files of
//     1 GiB, no core file.
// One line with the parts that the system denies; "" for none. To be called
// while the process has one thread.
std::string enter_armour(const std::string& visible);

// The same if the environment asks for it.
void enter_armour_if_asked();

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_ARMOUR_H_
