// SPDX-License-Identifier: Apache-2.0
// For tests: the library of known faults, and failures of any kernel.
#ifndef QKVET_DIAGNOSIS_TEST_FAULTS_H_
#define QKVET_DIAGNOSIS_TEST_FAULTS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnosis/diagnose.h"

namespace qkvet::diagnosis {

inline Opened open_for_test(const std::string& path,
                            const std::string& config = "") {
  SandboxOptions options;
  options.worker = QKVET_WORKER;
  return open_sandbox({path, config}, options);
}

// With tiles of 4, as the library has them, and some with tiles of 8.
inline const Catalogue& known_faults_for_test() {
  static const Catalogue catalogue(
      [](const std::string& config) {
        return open_for_test(QKVET_FAULTY, config);
      },
      {{"tile=8",
        {"tail_tile_lost", "tail_tile_unmasked", "tail_row_not_written",
         "key_counted_twice", "causal_once_per_two_rows"}}});
  return catalogue;
}

// The kernels of a library as the runner wants them.
inline std::vector<KernelUnderTest> kernels_for_test(Executor& executor) {
  std::vector<KernelUnderTest> kernels;
  for (size_t i = 0; i < executor.kernels().size(); ++i) {
    const KernelInfo& info = executor.kernels()[i];
    KernelUnderTest kernel;
    kernel.judged.info = info;
    kernel.judged.model = resolve_precision(info.precision).model;
    kernel.index = static_cast<int>(i);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

// The kernel of the library of known faults.
inline KernelUnderTest fault_for_test(Executor& executor,
                                      const std::string& fault) {
  for (KernelUnderTest& kernel : kernels_for_test(executor))
    if (kernel.judged.info.name == "faulty/" + fault) return kernel;
  ADD_FAILURE() << "no such fault: " << fault;
  return {};
}

inline Opened open_faults(size_t) { return open_for_test(QKVET_FAULTY); }

// Opens a new T with these arguments in each process.
template <class T, class... Args>
ExecutorFactory opening(Args... args) {
  return [=](size_t) { return Opened{std::make_unique<T>(args...), ""}; };
}

// Failures of these laws, shrunk, in the order of the laws.
inline std::vector<Failure> failures_for_test(const KernelUnderTest& kernel,
                                              const ExecutorFactory& open,
                                              std::vector<const Law*> laws,
                                              int64_t cases) {
  RunOptions options;
  options.laws = std::move(laws);
  options.cases = cases;
  options.scope.dtypes = declared_dtypes({kernel});
  options.scope.largest = SizeClass::kSmall;
  RunResult result = run_plan({kernel}, open, options);
  std::vector<Failure> failures;
  for (KernelResult& one : result.kernels)
    for (Cell& cell : one.cells)
      if (cell.failure) failures.push_back(std::move(*cell.failure));
  return failures;
}

inline std::vector<const Failure*> pointers_to(
    const std::vector<Failure>& failures) {
  std::vector<const Failure*> pointers;
  for (const Failure& failure : failures) pointers.push_back(&failure);
  return pointers;
}

inline std::vector<const Law*> laws_for_test(
    const std::vector<const char*>& ids) {
  std::vector<const Law*> laws;
  for (const char* id : ids) laws.push_back(find_law(id));
  return laws;
}

// Failures, and the causes that are reported for them.
struct Reported {
  std::vector<Failure> failures;
  std::vector<CauseOfFailures> causes;
};
inline Reported report_on(std::vector<Failure> failures,
                          const KernelUnderTest& kernel,
                          const ExecutorFactory& open,
                          const Catalogue& catalogue) {
  Reported out{std::move(failures), {}};
  TimeUse time;
  const Opened executor = open(0);
  out.causes = diagnose_all(pointers_to(out.failures), kernel,
                            *executor.executor, catalogue, time);
  return out;
}
inline Reported report_on(
    const KernelUnderTest& kernel, const ExecutorFactory& open,
    const std::vector<const char*>& laws, int64_t cases,
    const Catalogue& catalogue = known_faults_for_test()) {
  return report_on(failures_for_test(kernel, open, laws_for_test(laws), cases),
                   kernel, open, catalogue);
}

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_TEST_FAULTS_H_
