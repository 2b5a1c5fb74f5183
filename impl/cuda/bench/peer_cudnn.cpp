// SPDX-License-Identifier: Apache-2.0
// C++, not CUDA: the frontend is large, and contains no kernel.
#include "impl/cuda/bench/peers.h"

#if QKVET_HAS_CUDNN_FRONTEND
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cmath>
#include <unordered_map>

// The frontend reads this handle of cuDNN.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}
#endif

namespace qkvet::bench {

#if QKVET_HAS_CUDNN_FRONTEND
namespace {

namespace fe = cudnn_frontend;

// A graph that is built once, with its workspace.
struct Plan {
  std::shared_ptr<fe::graph::Graph> graph =
      std::make_shared<fe::graph::Graph>();
  std::unique_ptr<Memory> workspace;
  std::unordered_map<int64_t, void*> tensors;
  std::string why;
};

constexpr int64_t kQ = 1, kK = 2, kV = 3, kO = 4;

cudnnHandle_t handle() {
  static cudnnHandle_t made = [] {
    for (const char* name :
         {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"}) {
      if (fe::cudnn_dlhandle == nullptr) {
        fe::cudnn_dlhandle = dlopen(name, RTLD_NOW);
      }
    }
    cudnnHandle_t handle = nullptr;
    const auto create = fe::cudnn_dlhandle == nullptr
                            ? nullptr
                            : reinterpret_cast<decltype(&cudnnCreate)>(
                                  dlsym(fe::cudnn_dlhandle, "cudnnCreate"));
    const bool can =
        create != nullptr && create(&handle) == CUDNN_STATUS_SUCCESS;
    return can ? handle : nullptr;
  }();
  return made;
}

fe::graph::Tensor_attributes tensor(const char* name, int64_t uid,
                                    int64_t batch, int64_t heads,
                                    int64_t tokens, int64_t width) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({batch, heads, tokens, width})
      .set_stride({heads * tokens * width, tokens * width, width, 1});
}

std::shared_ptr<Plan> plan_of(const Attention& a) {
  auto plan = std::make_shared<Plan>();
  if (handle() == nullptr) {
    plan->why = "cuDNN cannot be used";
    return plan;
  }
  fe::graph::Graph& graph = *plan->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto q = graph.tensor(tensor("q", kQ, a.batch, a.heads, a.queries, a.width));
  auto k = graph.tensor(tensor("k", kK, a.batch, a.kv_heads, a.keys, a.width));
  auto v = graph.tensor(tensor("v", kV, a.batch, a.kv_heads, a.keys, a.width));
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(false)
                     .set_attn_scale(static_cast<float>(
                         1 / std::sqrt(static_cast<double>(a.width))));
  if (a.causal) {
    options.set_causal_mask(true);
  }
  auto [o, stats] = graph.sdpa(q, k, v, options);
  o->set_output(true)
      .set_uid(kO)
      .set_dim({a.batch, a.heads, a.queries, a.width})
      .set_stride(
          {a.heads * a.queries * a.width, a.queries * a.width, a.width, 1});
  auto built = graph.build(handle(), {fe::HeurMode_t::A});
  int64_t bytes = 0;
  if (!built.is_good() || !graph.get_workspace_size(bytes).is_good()) {
    plan->why = "cuDNN: " + built.get_message();
    return plan;
  }
  plan->workspace = std::make_unique<Memory>(static_cast<size_t>(bytes) + 16);
  plan->tensors = {
      {kQ, a.q->at()}, {kK, a.k->at()}, {kV, a.v->at()}, {kO, a.o->at()}};
  return plan;
}

}  // namespace

Contender cudnn_attention(const Attention& attention) {
  const std::shared_ptr<Plan> plan = plan_of(attention);
  return {"cuDNN", [plan]() -> std::string {
            if (!plan->why.empty()) {
              return plan->why;
            }
            auto done = plan->graph->execute(handle(), plan->tensors,
                                             plan->workspace->at());
            return done.is_good() ? "" : "cuDNN: " + done.get_message();
          }};
}
#else
Contender cudnn_attention(const Attention&) {
  return {"cuDNN", [] {
            return std::string("built without the headers of cudnn-frontend");
          }};
}
#endif

}  // namespace qkvet::bench
