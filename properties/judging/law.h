// SPDX-License-Identifier: Apache-2.0
// A law is data and pure functions: the calls to make of a case (plan), and the
// requirements on their outputs (judge). Only the runner calls kernels.
#ifndef QKVET_PROPERTIES_JUDGING_LAW_H_
#define QKVET_PROPERTIES_JUDGING_LAW_H_

#include <array>
#include <cstdint>
#include <map>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/verdict.h"
#include "core/call/call.h"
#include "core/call/option_numbers.h"
#include "core/capability/kernel_info.h"
#include "core/case/case.h"
#include "core/case/case_options.h"
#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"
#include "reference/bound/bound.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::properties {

class Visibility;
struct CallPair;  // call_pairs.h

// Changes the inputs of a case (exact doubles); they are stored afterwards.
// With a variant it must give them the variant's shapes.
using InputEdit = void (*)(const Case& value, int64_t argument, Inputs& inputs);

// One call that a law wants.
struct PlannedCall {
  Operation operation = Operation::kForward;
  Mistake mistake = Mistake::kNone;
  bool expects_refusal = false;  // the call is illegal
  // Made for its after-effects: supports() may refuse it, and its answer is not
  // judged.
  bool only_between = false;
  // For a story: the current command. Its keys, values and queries are picked
  // out of the case's data by sequence and tag; tokens with a tag below 0 are
  // NaN.
  std::optional<Snapshot> snapshot;

  InputEdit edit = nullptr;  // on top of the case's own data
  int64_t argument = 0;      // passed to the edit
  // Shape, mask and scale of the call where they are not the case's own.
  std::optional<Case> variant;
  bool own_inputs = false;  // the data is the variant's, too
  bool want_lse = false;
  bool want_weights = false;
  bool want_stages = false;
  bool want_dropout_mask = false;
  bool in_place = false;        // of a merge
  bool masks_rows = false;      // of a merge in place: some rows stay
  uint64_t dropout_seed = 0;    // added to the case's
  uint64_t dropout_offset = 0;  // where the generator begins
  bool needs_truth = false;     // oracle and bound
  int threads = 1;              // that the call may use
  bool at_once = false;         // as in KernelCall; also the calls made with it
  bool same_place = false;      // as in KernelCall
  bool second_context = false;  // the same
  PlanUse plan_use = PlanUse::kNone;  // the same
  int plan_slot = 0;                  // the same
  bool new_process = false;           // the same
  int64_t repeats = 0;                // the same
  Placement placement = Placement::kEnd;
};

struct Plan {
  std::vector<PlannedCall> calls;
  // If the law does not apply to this case: the reason, one line.
  std::string not_applicable;
  // If the kernel lacks the subject of the law, or does not claim it.
  std::string unsupported;
};

// The gradients of one call, of attention or of a layer, and their bounds.
struct Gradient {
  std::vector<double> values, bound, reach;
};
struct GradientTruth {
  // The one that was asked; it is moved again in some direction.
  const GradientProblem* problem = nullptr;
  const LayerGradientProblem* layer = nullptr;
  std::map<TensorName, Gradient> of;
  // The change of the forward pass when one input moves as a law moves it for
  // this case: by the gradient of that input, shared by all models.
  std::map<TensorName, double>* changes = nullptr;
};
GradientTruth gradient_truth(const GradientProblem& problem,
                             GradientOutput values, GradientBound bound);
GradientTruth gradient_truth(const LayerGradientProblem& problem,
                             LayerGradientOutput values,
                             LayerGradientBound bound);

// The oracle's answer to one call, and the bound for the kernel's model. For a
// backward call: the answer of its forward pass, and the gradients.
struct Truth {
  OracleOutput oracle;
  const Bound* bound = nullptr;
  const std::vector<double>* reach = nullptr;  // BoundFacts::reach()
  const GradientTruth* gradient = nullptr;
};

// One call as the judge sees it.
struct CallView {
  const PlannedCall* planned = nullptr;
  const Inputs* inputs = nullptr;
  const CallOutcome* outcome = nullptr;
  const Truth* truth = nullptr;  // if the plan requests it
};

// One number of an output.
struct Spot {
  TensorName tensor = TensorName::kO;
  int64_t element = -1;  // packed, in the extents of the case; -1: unknown
  int32_t call = -1;     // of the law's calls; -1: of two, or unknown
};

// The number nearest to its bound, among those within it.
struct Nearest {
  double actual = 0, expected = 0;
  double low = 0, high = 0;  // limits; of a difference: `high` is
  bool two_ways = false;     // computed in two ways: two calls, a difference
  Dtype dtype = Dtype::kF32;
  Spot at = {};
};

// The clearest element against a kernel.
struct Finding {
  std::string where;     // "o[b=0,h=0,i=1,c=0]"
  std::string expected;  // a number or a short phrase
  std::string actual;
  std::string allowed;   // "0.99999988 .. 1.0000001"; "" if unbounded
  std::string looks;     // the apparent mistake; "" if unknown
  std::string printed;   // the last output of a kernel that died
  double ratio = 0;      // error/bound; 0 for exact laws
  size_t call = 0;       // for a story: the call that shows it; 0: unknown
  int32_t planned = -1;  // other laws: which of their calls, as in Spot
};

// The law that a failure counts for.
enum class FailureKind : uint8_t {
  kLaw,     // the law that made the call
  kMemory,  // the memory law, whichever law made the call
  kCrash,   // the kernel died: no law was judged
  kHang     // the kernel hung or took all memory: the same, but slow
};

// The subject of a reason, if it decides more than its text.
enum class About : uint8_t {
  kOther,
  kDeclaration,  // with Unsupported: it is not declared
  kKernel,       // with Unsupported: the kernel refused a call that it declares
  kOtherCall     // with GaveUp: a call that is compared is wrong by itself
};

struct Judgement {
  Verdict verdict = Verdict::kPassed;
  FailureKind kind = FailureKind::kLaw;  // with Failed
  std::string reason;           // for every verdict but Passed and Failed
  About about = About::kOther;  // the reason
  // With Passed: a number exceeds the bound of a precision that was not
  // measured, but not that of doubted().
  std::string warning;
  int64_t compared = 0;              // comparisons that could have failed
  int64_t vacuous = 0;               // comparisons that could not
  int64_t both_nan = 0;              // of these: NaN in both calls
  double worst_ratio = 0;            // largest error/bound of all elements
  std::optional<Nearest> nearest;    // the element, if it is known and did
                                     // not fail
  std::optional<Finding> finding;    // with Failed
  std::vector<std::string> picture;  // with Failed: a small case, whole
};

// Two elements of two calls' outputs that were required to have the same bits,
// the first times the factor: for code that writes failures to files.
struct SameBits {
  TensorName tensor = TensorName::kO;
  size_t first_call = 0, second_call = 0;
  int64_t first = 0, second = 0;  // packed
  double factor = 1;
};

struct JudgeInput {
  const Case& value;
  const KernelInfo& kernel;
  const PrecisionModel& model;      // as declared, before for_storage()
  std::span<const CallView> calls;  // as planned, all of them done
  // For attention and gradients: the visible pairs of the case as it is, not of
  // a call's variant.
  const Visibility* visibility = nullptr;
  std::vector<SameBits>* same_bits = nullptr;  // where to note them; or null
};

inline bool wants_lse(const KernelInfo& kernel) {
  return kernel.has_option(QKVET_OPTION_LSE);
}
// The unit of the kernel's lse: 1, or log2(e) if its base is 2.
inline double lse_unit(const KernelInfo& kernel) {
  return kernel.dialect.lse_base == QKVET_LSE_BASE2 ? std::numbers::log2e : 1;
}
inline bool wants_weights(const KernelInfo& kernel) {
  return kernel.has_option(QKVET_OPTION_WEIGHTS);
}

// The factor of q k^T that the case means.
inline double scale_of(const Case& value) {
  return value.scale ? static_cast<double>(*value.scale)
                     : default_scale(value.shape.d);
}

// Options of a case, as bits: QKVET_OPTION_*, with EMPTY_EXTENTS if an extent
// is 0, and those of core/case/case_options.h. Laws allow subsets of them, and
// cases are drawn in this order.
//
// A case has one of PACKED and PACKED_PAGES (both at once), and one of PAGED
// (block tables) and PAGED_CSR. Options that depend on another one (lengths of
// lists, slopes of members, forms of pages, int32) follow from it:
// allowed_in().
inline constexpr auto kCaseOptions =
    std::to_array<uint64_t>({QKVET_OPTION_WINDOW,
                             QKVET_OPTION_MASK,
                             QKVET_OPTION_LENGTHS,
                             QKVET_OPTION_PACKED,
                             QKVET_OPTION_BIAS,
                             QKVET_OPTION_ALIBI,
#define QKVET_OPTION_NUMBER(name, NAME, ...) QKVET_OPTION_##NAME,
#include "core/call/option_numbers.def"
                             QKVET_OPTION_SINK,
                             kOptionLayout,
                             kOptionShare,
                             QKVET_OPTION_ROPE,
                             QKVET_OPTION_EMPTY_EXTENTS,
                             kOptionStored,
                             QKVET_OPTION_PAGED,
                             QKVET_OPTION_APPEND,
                             QKVET_OPTION_DROPOUT,
                             QKVET_OPTION_PACKED_PAGES,
                             kOptionCalls,
                             QKVET_OPTION_PAGED_CSR,
                             QKVET_OPTION_INT32_LENGTHS,
                             QKVET_OPTION_ALIBI_PER_MEMBER,
                             QKVET_OPTION_KEY_LISTS,
                             QKVET_OPTION_KEY_LIST_LENGTHS,
                             QKVET_OPTION_KEY_LIST_BLOCKS,
                             QKVET_OPTION_PAGED_CHANNEL_GROUPS,
                             QKVET_OPTION_VALUES_IN_KEYS,
                             QKVET_OPTION_SEGMENTS,
                             QKVET_OPTION_FULL_RANGES,
                             QKVET_OPTION_CHUNK,
                             QKVET_OPTION_TREE_MASK,
                             QKVET_OPTION_ROPE_PART});
inline constexpr uint64_t kAllCaseOptions = [] {
  uint64_t all = 0;
  for (const uint64_t option : kCaseOptions) all |= option;
  return all;
}();

// Masks in a few numbers.
inline constexpr uint64_t kAllowFields =
    QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES | QKVET_OPTION_CHUNK |
    QKVET_OPTION_TREE_MASK;
// Which pairs are visible.
inline constexpr uint64_t kAllowPairs =
    QKVET_OPTION_WINDOW | QKVET_OPTION_MASK | QKVET_OPTION_LENGTHS |
    QKVET_OPTION_PACKED;
// How scores become weights.
inline constexpr uint64_t kAllowScores = QKVET_OPTION_BIAS |
                                         QKVET_OPTION_ALIBI | number_options() |
                                         QKVET_OPTION_SINK;
// How the keys and values are stored.
inline constexpr uint64_t kAllowServing =
    QKVET_OPTION_PAGED | QKVET_OPTION_APPEND;
inline constexpr uint64_t kAllowMemory =
    kOptionLayout | kOptionShare | kAllowServing;
inline constexpr uint64_t kAllowAll =
    kAllowPairs | kAllowScores | kAllowMemory | QKVET_OPTION_ROPE;
inline constexpr uint64_t kAllowUnshared = kAllowAll & ~kOptionShare;
inline constexpr uint64_t kAllowListsAndFields =
    kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields;
// For stories: a rotation, a window of the cache, quantised storage, options
// that make a score more than a product, and a mask.
inline constexpr uint64_t kAllowForms =
    QKVET_OPTION_ROPE | QKVET_OPTION_WINDOW | kOptionStored |
    QKVET_OPTION_ALIBI | QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
    QKVET_OPTION_MASK | QKVET_OPTION_BIAS | kOptionLayout;

// The generator's guarantees for the law's precondition.
struct Domain {
  Subject subject = Subject::kAttention;
  bool causal = false;    // at least one key is masked for some row
  bool free_v = true;     // false: constrain() fixes the data of v
  bool free_data = true;  // false: the law makes some of the data itself
  bool votes = false;     // its first call is compared with the oracle
  bool plans = false;     // about plans (qkvet/plan.h): of kernels with some
  bool refusals = false;  // about declared calls that a kernel must refuse
  // A case takes thousands of calls: a run asks a few, outside of its plan.
  bool lasts = false;
  // It changes all keys and no value, or only some values: values in keys are
  // then excluded.
  bool own_values = false;
  // Options that the law allows; all others are removed before constrain() is
  // called. If a kernel has some of `about`, every case has one of them.
  uint64_t allows = 0;
  uint64_t about = 0;
};

// The first call is the case as it is, and every further one a change of it
// that changes nothing, or moves the answer as `pair` maps it.
struct Relation {
  const char* first = "";   // "a window"
  const char* second = "";  // "a mask of the same pairs"
  const char* looks = "";   // the mistake of a kernel that distinguishes them
  // The second call: its case, and the edit of its data.
  void (*variant)(Case& value) = nullptr;
  InputEdit edit = nullptr;
  // Without an option that the second call needs, the law is not asked.
  uint64_t needs = 0;
  const char* missing = "";  // "a mask is not declared"
  // Bit for bit for a kernel that claims all of these QKVET_FLAG_*, otherwise
  // each call within its own bound. `also_claim` depends on the case.
  uint64_t claim = 0;
  uint64_t (*also_claim)(const Case& value) = nullptr;
  // Rows of both calls see the same: bit for bit by other_data_invariant,
  // otherwise the second call within the bound of the first.
  bool same_rows = false;
  bool weights = false;  // are compared as well
  // Further calls, arguments, and when the law does not apply.
  void (*more_plan)(const Case& value, const KernelInfo& kernel,
                    Plan& plan) = nullptr;
  // The place of an element of the first call in call `pair.second`, and names
  // that depend on the case.
  void (*pair)(const JudgeInput& input, CallPair& pair) = nullptr;
};

inline Case as_it_is(Case value) { return value; }

struct Law {
  const char* id = "";
  const char* sentence = "";
  const char* formula = "";
  const char* precondition = "none";
  const char* reason = "";    // why it is true in exact arithmetic
  const char* rounding = "";  // why rounding cannot break it
  const char* kept_for = "";  // why it is kept: (a), (b), (c) or (d)
  // Its place among the laws of its subject, from specific to general,
  // agreement last: the first one that fails names the failure. In tens, so
  // that a law fits between two.
  int rank = 0;
  Domain domain = {};
  // The nearest case that meets the precondition; idempotent. Call
  // constrained() (domain.h) instead, which also handles the options.
  Case (*constrain)(Case value) = as_it_is;
  // Null in a relation, which has its calls and their comparison from its row.
  Plan (*own_plan)(const Case& value, const KernelInfo& kernel) = nullptr;
  Judgement (*own_judge)(const JudgeInput& input) = nullptr;
  Relation relation = {};

  // Defined in calls/relation.cpp.
  Plan plan(const Case& value, const KernelInfo& kernel) const;
  Judgement judge(const JudgeInput& input) const;
};

// Laws that differ in a few words and functions: a file of rows.
using LawTable = std::span<const Law>;

// The subject of a law: "attention", "KV caches".
const char* subject_text(Subject subject);
// Whether the kernel declares the needs of the subject, and the text if not.
bool has_subject(const KernelInfo& kernel, Subject subject);
std::string missing_subject(Subject subject);

// By subject, and by rank within one.
std::span<const Law* const> all_laws();
const Law* find_law(std::string_view id);

// The law that owns faults on guard pages and on canaries, whichever law made
// the call; the others do so for gradients in calls of backward() and
// layer_backward(), and for merges.
inline constexpr const char* kMemoryLaw = "reads_only_its_inputs";
inline constexpr const char* kBackwardMemoryLaw =
    "backward_reads_only_its_inputs";
inline constexpr const char* kLayerBackwardMemoryLaw =
    "layer_backward_reads_only_its_inputs";
inline constexpr const char* kMergeMemoryLaw = "merge_reads_only_its_inputs";

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_LAW_H_
