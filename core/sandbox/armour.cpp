// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/armour.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace qkvet {
namespace {

// Newer than the headers of Debian 12's C library.
constexpr unsigned kRecursive = 0x8000;  // AT_RECURSIVE
constexpr uint64_t kReadOnly = 1;        // MOUNT_ATTR_RDONLY
struct MountAttributes {
  uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

std::string why(const char* part) {
  return std::string(part) + " (" + std::strerror(errno) + ")";
}

bool write_text(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) ==
                       static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

bool make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST)
      return false;
    if (at == std::string::npos) return true;
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// The superuser's processes are not limited, those of other users are: the real
// user is the one that counts, and the effective one opens the files.
void be_counted() {
  constexpr uid_t kNobody = 65534;
  if (getuid() == 0) setresuid(kNobody, geteuid(), geteuid());
}

bool leave_namespaces() {
  constexpr int kOwn = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(kOwn | CLONE_NEWUSER) != 0) return false;
  const auto map = [](uint32_t id) {
    return std::to_string(id) + " " + std::to_string(id) + " 1";
  };
  return write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/uid_map", map(user)) &&
         write_text("/proc/self/gid_map", map(group));
}

// An empty /tmp, in which the visible folders are as they were; all else for
// reading alone.
bool replace_files(const std::vector<std::string>& visible) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  MountAttributes attributes{.set = kReadOnly};
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", kRecursive, &attributes,
              sizeof attributes) != 0)
    return false;
  std::vector<int> folders;
  for (const std::string& one : visible)
    folders.push_back(open(one.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV,
            "size=1g,mode=1777") != 0)
    return false;
  bool all = true;
  for (size_t i = 0; i < visible.size(); ++i) {
    const bool hidden = visible[i].rfind("/tmp/", 0) == 0;
    if (hidden && folders[i] >= 0) {
      const std::string from = "/proc/self/fd/" + std::to_string(folders[i]);
      all &= make_folders(visible[i]) &&
             mount(from.c_str(), visible[i].c_str(), nullptr, MS_BIND | MS_REC,
                   nullptr) == 0;
    }
    if (folders[i] >= 0) close(folders[i]);
  }
  return all;
}

// landlock_ruleset_attr of Linux 6.12.
struct LandlockRules {
  uint64_t files = 0, network = 0, scoped = 0;
};

bool restrict_by(const LandlockRules& rules, size_t size) {
  const auto set =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, size, 0));
  if (set < 0) return false;
  const bool restricted = syscall(SYS_landlock_restrict_self, set, 0) == 0;
  close(set);
  return restricted;
}

// Where there are no namespaces: the same files, and nothing can be written.
bool forbid_writing() {
  constexpr uint64_t kWrites =
      LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
      LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
      LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM;
  return restrict_by({.files = kWrites}, sizeof kWrites);
}

// This process and its children can signal each other alone.
bool forbid_signals() {
  constexpr uint64_t kScopeSignal = 2;  // LANDLOCK_SCOPE_SIGNAL
  return restrict_by({.scoped = kScopeSignal}, sizeof(LandlockRules));
}

bool drop_capabilities() {
  for (int one = 0; prctl(PR_CAPBSET_READ, one) >= 0; ++one)
    prctl(PR_CAPBSET_DROP, one);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

bool forbid_other_processes() {
#if defined(__x86_64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
  errno = ENOSYS;
  return false;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;
  // With the real user of before there would be no limit of processes.
  constexpr std::array kDenied = {
      SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd,
      SYS_setuid, SYS_setreuid,         SYS_setresuid};
  constexpr size_t kCount = kDenied.size();
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, kCount + 1),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (size_t i = 0; i < kCount; ++i)
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                              static_cast<uint32_t>(kDenied[i]),
                              static_cast<uint8_t>(kCount - i), 0));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, kRefused));
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#endif
}

void limit(int resource, rlim_t most) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource>(resource), &now);
  most = std::min(most, now.rlim_max);
  const rlimit wanted{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &wanted);
}

}  // namespace

std::string enter_armour(const std::string& visible) {
  std::string missing;
  const auto add = [&](const char* part) {
    missing += (missing.empty() ? "" : "; ") + why(part);
  };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) add("no_new_privs");
  be_counted();
  if (!leave_namespaces()) {
    // Without a user namespace /proc/PID/mem of one's own processes can be
    // read.
    add("no network, an empty /tmp, no access to other processes");
    if (!forbid_writing()) add("files for reading alone");
  } else if (!replace_files(split(visible))) {
    add("an empty /tmp");
    if (!forbid_writing()) add("files for reading alone");
  }
  if (!forbid_signals()) add("no signals to other processes");
  if (!drop_capabilities()) add("no capabilities");
  if (!forbid_other_processes()) add("no access to other processes");
  constexpr rlim_t kFileBytes = rlim_t{1} << 30;
  unsigned long long processes = 256, memory = RLIM_INFINITY;
  if (const char* given = std::getenv(kArmourLimitsVariable))
    std::sscanf(given, "%llu %llu", &processes, &memory);
  limit(RLIMIT_NPROC, processes);
  // Not RLIMIT_AS: tensors that are far apart need addresses, and no memory.
  limit(RLIMIT_DATA, memory);
  limit(RLIMIT_FSIZE, kFileBytes);
  limit(RLIMIT_CORE, 0);
  // New credentials made /proc/self the superuser's.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return missing;
}

void enter_armour_if_asked() {
  if (const char* visible = std::getenv(kArmourVariable)) enter_armour(visible);
}

}  // namespace qkvet
