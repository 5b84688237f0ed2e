// SPDX-License-Identifier: Apache-2.0
// Asks cuDNN on a machine without GPU whether it would run the engine's graphs on a described
// Hopper GPU. The description has cuDNN's undocumented format: if this version rejects it, the
// tests are skipped.
#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/convolution/convolution_workspace.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <set>

// cudnn-frontend queries the CUDA runtime about the current GPU; these functions replace the
// library's.
namespace {
int described_capability = 90;
}
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  properties->major = described_capability / 10;
  properties->minor = described_capability % 10;
  return cudaSuccess;
}

namespace trireme::ops::cuda {
namespace {

// An H200 but for the compute capability.
std::string described(int capability) {
  return fmt::format(
      R"({{"deviceVer":{},"deviceName":"described","driverVer":13000,"cudaDeviceId":0,)"
      R"("multiProcessorCount":132,"warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxCtasPerSM":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
      R"("reservedSharedMemoryPerBlock":1024,"totalGlobalMem":150754820096,"l2CacheSize":62914560,)"
      R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
      R"("memClockRateKHz":3201000,"memoryBusWidth":5120}})",
      capability * 10);
}

class CudnnGraphs : public ::testing::Test {
 protected:
  // Also prints a row of the table.
  static CudnnOffer offer(const CudnnGraph& graph, int capability = 90) {
    described_capability = capability;
    CudnnOffer result = cudnn_offer(graph, capability, described(capability));
    fmt::print("{:<96} {:>2} plans {:>9.1f} MiB  {}\n", to_string(graph), result.candidates,
               static_cast<double>(result.workspace_bytes) / (1 << 20),
               result.engine.empty() ? result.refusal.substr(0, result.refusal.find('\n'))
                                     : result.engine);
    return result;
  }

  void SetUp() override {
    described_capability = 90;
    try {
      const CudnnOffer known =
          cudnn_offer(gpt2(AttentionGraph::Pass::forward, 1, 12), 90, described(90));
      if (known.refusal.find("PREREQUISITE_MISSING") != std::string::npos)
        GTEST_SKIP() << "cuDNN wants more of a driver than the stand-in has: " << known.refusal;
    } catch (const Error& error) {
      GTEST_SKIP() << "this cuDNN does not take the description of a GPU: " << error.what();
    }
  }

  static AttentionGraph gpt2(AttentionGraph::Pass pass, std::int64_t batch, std::int64_t heads,
                             bool deterministic = true) {
    return {.pass = pass,
            .dtype = DType::bf16,
            .batch = batch,
            .length = 1024,
            .heads = heads,
            .kv_heads = heads,
            .size = 64,
            .deterministic = deterministic};
  }
  static ConvolutionGraph convolution(ConvolutionGraph::Pass pass, DType dtype,
                                      const ConvolutionGeometry& geometry) {
    return {.pass = pass,
            .dtype = dtype,
            .result = dtype,
            .geometry = geometry,
            .tf32 = false,
            .workspace_limit = plan_workspace_limit(dtype, geometry)};
  }
};

constexpr std::array attention_passes{AttentionGraph::Pass::forward,
                                      AttentionGraph::Pass::backward};
constexpr std::array convolution_passes{ConvolutionGraph::Pass::forward,
                                        ConvolutionGraph::Pass::backward_input,
                                        ConvolutionGraph::Pass::backward_weight};

// The score matrices that deterministic backward keeps.
double score_bytes(const AttentionGraph& a) {
  return static_cast<double>(a.batch * a.heads * a.length * a.length) * 2.0;
}

TEST_F(CudnnGraphs, RunAttentionOfEveryGpt2) {
  for (const auto& [batch, heads] : {std::pair{8, 12}, {8, 16}, {4, 20}, {4, 25}, {64, 12}}) {
    const AttentionGraph backward = gpt2(AttentionGraph::Pass::backward, batch, heads);
    const CudnnOffer forward_offer = offer(gpt2(AttentionGraph::Pass::forward, batch, heads));
    const CudnnOffer exact = offer(backward);
    const CudnnOffer fast = offer(gpt2(AttentionGraph::Pass::backward, batch, heads, false));

    EXPECT_GE(forward_offer.candidates, 1) << forward_offer.refusal;
    EXPECT_GE(exact.candidates, 1) << exact.refusal;
    EXPECT_GE(fast.candidates, 1) << fast.refusal;
    EXPECT_LT(forward_offer.workspace_bytes, 1U << 20);
    EXPECT_GE(static_cast<double>(exact.workspace_bytes), score_bytes(backward));
    EXPECT_LE(static_cast<double>(exact.workspace_bytes), 1.05 * score_bytes(backward));
    EXPECT_LE(static_cast<double>(fast.workspace_bytes), 0.2 * score_bytes(backward));
  }
}

TEST_F(CudnnGraphs, RunAttentionOfOtherSizes) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto pass : attention_passes) {
      for (const auto& [length, heads, kv_heads, size] :
           {std::array{256, 8, 8, 24}, {1000, 3, 3, 128}, {77, 5, 5, 80}, {4096, 32, 8, 128}}) {
        const CudnnOffer result = offer(AttentionGraph{.pass = pass,
                                                       .dtype = dtype,
                                                       .batch = 2,
                                                       .length = length,
                                                       .heads = heads,
                                                       .kv_heads = kv_heads,
                                                       .size = size,
                                                       .deterministic = true});
        EXPECT_GE(result.candidates, 1) << result.refusal;
      }
    }
  }
}

TEST_F(CudnnGraphs, RunFullAndWindowedAttentionAndRefuseSoftCaps) {
  for (const auto pass : attention_passes) {
    AttentionGraph graph = gpt2(pass, 2, 32);
    graph.kv_heads = 8;
    graph.window = 256;
    const CudnnOffer windowed = offer(graph);
    EXPECT_GE(windowed.candidates, 1) << windowed.refusal;
    graph.window = 0;
    graph.causal = false;
    const CudnnOffer full = offer(graph);
    EXPECT_GE(full.candidates, 1) << full.refusal;
    graph.soft_cap = 50;
    EXPECT_NE(offer(graph).refusal.find("soft cap"), std::string::npos);
  }
}

TEST_F(CudnnGraphs, RefuseAttentionThatOurKernelsRun) {
  AttentionGraph narrow = gpt2(AttentionGraph::Pass::forward, 2, 2);
  narrow.size = 20;
  EXPECT_EQ(offer(narrow).candidates, 0);
  AttentionGraph single = gpt2(AttentionGraph::Pass::backward, 2, 2);
  single.length = 1;
  EXPECT_EQ(offer(single).candidates, 0);
}

AttentionGraph with_documents(AttentionGraph graph, std::int64_t documents) {
  graph.sequences = documents;
  return graph;
}

AttentionGraph llama3_8b(AttentionGraph::Pass pass) {
  return {.pass = pass,
          .dtype = DType::bf16,
          .batch = 1,
          .length = 8192,
          .heads = 32,
          .kv_heads = 8,
          .size = 128,
          .deterministic = true};
}

TEST_F(CudnnGraphs, RunDocumentsOnHopperAndBlackwell) {
  for (const int capability : {90, 100}) {
    for (const auto pass : attention_passes) {
      for (AttentionGraph graph : {gpt2(pass, 64, 12), llama3_8b(pass)}) {
        for (const std::int64_t window : {0, 256}) {
          graph.window = window;
          const CudnnOffer result = offer(with_documents(graph, 128), capability);
          EXPECT_GE(result.candidates, 1) << result.refusal;
        }
      }
    }
  }
  // Ampere has no deterministic backward of them.
  const CudnnOffer ampere =
      offer(with_documents(gpt2(AttentionGraph::Pass::backward, 64, 12), 128), 80);
  EXPECT_NE(ampere.refusal.find("Deterministic"), std::string::npos) << ampere.refusal;
  AttentionGraph narrow = gpt2(AttentionGraph::Pass::backward, 2, 2);
  narrow.size = 24;
  EXPECT_NE(offer(with_documents(narrow, 4)).refusal.find("sixteens"), std::string::npos);
}

// So that their number is nothing that bits depend on, where score matrices are not kept.
TEST_F(CudnnGraphs, HaveOneEngineForAnyNumberOfDocuments) {
  for (const int capability : {90, 100}) {
    for (const auto pass : attention_passes) {
      std::set<std::string> engines;
      for (const std::int64_t documents : {128, 256, 2048})
        engines.insert(offer(with_documents(gpt2(pass, 64, 12), documents), capability).engine);
      EXPECT_EQ(engines.size(), 1U);
      EXPECT_FALSE(engines.contains(""));
    }
  }
}

TEST_F(CudnnGraphs, TakeTheWorkspaceThatIsStated) {
  for (const int capability : {80, 90, 100}) {
    for (const bool deterministic : {true, false}) {
      for (const std::int64_t documents : {0, 8, 256}) {
        for (const auto pass : attention_passes) {
          AttentionGraph odd = gpt2(pass, 2, 4);
          odd.length = 1000;
          odd.kv_heads = 2;
          for (AttentionGraph graph : {gpt2(pass, 64, 12), llama3_8b(pass), odd}) {
            graph.deterministic = deterministic;
            graph.sequences = documents;
            const CudnnOffer result = offer(graph, capability);
            if (result.candidates == 0) continue;
            const std::size_t stated = cudnn_workspace_bytes(graph, capability);
            EXPECT_LE(result.workspace_bytes, stated) << to_string(graph) << capability;
            EXPECT_LE(stated, 1.1 * static_cast<double>(result.workspace_bytes) + (1 << 20))
                << to_string(graph) << capability;
          }
        }
      }
    }
  }
}

// Chunks of sequences over 4 ranks, with all keys and with the last of a window; the heads of two
// key heads at a time.
std::vector<AttentionGraph> parts_of(AttentionGraph graph) {
  const AttentionPartRows rows{.queries = graph.length / 8,
                               .rows = graph.length / 4,
                               .positions = graph.length,
                               .heads = graph.heads,
                               .kv_heads = graph.kv_heads};
  graph.heads = 2 * graph.heads / graph.kv_heads;
  graph.kv_heads = 2;
  graph.part = rows;
  std::vector<AttentionGraph> parts;
  for (const std::int64_t chunks : {1, 2, 8}) {
    graph.length = chunks * rows.queries;
    parts.push_back(graph);
    graph.window = 100;
    graph.length = rows.queries + (chunks > 1 ? graph.window - 1 : 0);
    parts.push_back(graph);
    graph.window = 0;
  }
  return parts;
}

TEST_F(CudnnGraphs, RunPartsOfSequences) {
  for (const int capability : {80, 90, 100}) {
    for (const auto pass : attention_passes) {
      AttentionGraph odd = gpt2(pass, 2, 4);
      odd.length = 1000;
      for (const AttentionGraph& whole : {gpt2(pass, 4, 12), llama3_8b(pass), odd}) {
        for (AttentionGraph part : parts_of(whole)) {
          const CudnnOffer result = offer(part, capability);
          EXPECT_GE(result.candidates, 1) << result.refusal;
          const std::size_t stated = cudnn_workspace_bytes(part, capability);
          EXPECT_LE(result.workspace_bytes, stated) << to_string(part) << capability;
          part.part.f32 = pass == AttentionGraph::Pass::backward;
          if (part.heads == part.kv_heads) {
            EXPECT_GE(offer(part, capability).candidates, 1) << to_string(part) << capability;
          }
        }
      }
    }
  }
}

const CudnnOffer result = offer(graph, capability);
if (result.candidates == 0) continue;
const std::size_t stated = cudnn_workspace_bytes(graph, capability);
EXPECT_LE(result.workspace_bytes, stated) << to_string(graph) << capability;
EXPECT_LE(stated, 1.1 * static_cast<double>(result.workspace_bytes) + (1 << 20))
    << to_string(graph) << capability;
}
}
}
}
}
}

// Each shape once: the stem, then basic or bottleneck blocks.
std::set<ConvolutionGeometry> resnet(bool bottleneck, std::int64_t batch) {
  std::set<ConvolutionGeometry> shapes;
  const auto add = [&](std::int64_t side, std::int64_t in, std::int64_t out, std::int64_t window,
                       std::int64_t stride) {
    shapes.insert(ConvolutionGeometry(Shape{batch, side, side, in}, Shape{out, window, window, in},
                                      {.stride = stride, .padding = window / 2}));
  };
  add(224, 3, 64, 7, 2);
  std::int64_t side = 56, in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage, out = bottleneck ? 4 * width : width;
    for (int block = 0; block < 2; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      if (in != out) add(side, in, out, 1, stride);
      if (bottleneck) {
        add(side, in, width, 1, 1);
        add(side, width, width, 3, stride);
        add(side / stride, width, out, 1, 1);
      } else {
        add(side, in, width, 3, stride);
        add(side / stride, width, width, 3, 1);
      }
      side /= stride;
      in = out;
    }
  }
  return shapes;
}

TEST_F(CudnnGraphs, RunConvolutionsOfResnets) {
  for (const bool bottleneck : {true, false}) {
    for (const ConvolutionGeometry& geometry : resnet(bottleneck, bottleneck ? 128 : 32)) {
      for (const auto pass : convolution_passes) {
        // An image has no gradient.
        if (geometry.in == 3 && pass == ConvolutionGraph::Pass::backward_input) continue;
        const CudnnOffer result = offer(convolution(pass, DType::bf16, geometry));
        EXPECT_GE(result.candidates, 1) << result.refusal;
        EXPECT_LE(result.workspace_bytes, plan_workspace_limit(DType::bf16, geometry));
      }
    }
  }
}

TEST_F(CudnnGraphs, RunF32ConvolutionsWithAndWithoutTensorCores) {
  const ConvolutionGeometry geometry({32, 28, 28, 128}, {128, 3, 3, 128}, {1, 1});
  for (const auto pass : convolution_passes) {
    ConvolutionGraph graph = convolution(pass, DType::f32, geometry);
    const CudnnOffer exact = offer(graph);
    graph.tf32 = true;
    const CudnnOffer rounded = offer(graph);

    EXPECT_GE(exact.candidates, 1) << exact.refusal;
    EXPECT_GT(rounded.candidates, exact.candidates) << rounded.refusal;
    EXPECT_NE(rounded.engine, exact.engine);
  }
}

// The engine prefers unrounded weight gradients; without a plan for them it adds rounded ones.
TEST_F(CudnnGraphs, AnswerForUnroundedWeightGradients) {
  ConvolutionGraph graph =
      convolution(ConvolutionGraph::Pass::backward_weight, DType::bf16,
                  ConvolutionGeometry({32, 28, 28, 128}, {128, 3, 3, 128}, {1, 1}));
  const CudnnOffer rounded = offer(graph);
  graph.result = DType::f32;
  const CudnnOffer unrounded = offer(graph);

  EXPECT_GE(rounded.candidates, 1) << rounded.refusal;
  EXPECT_EQ(unrounded.candidates == 0, !unrounded.refusal.empty());
}

// The requests of device.fused_epilogues in a bottleneck block: weight gradients added in f32, and
// input gradients with the shortcut's added.
TEST_F(CudnnGraphs, AddTheGradientsOfResnetsOnEveryArchitecture) {
  for (const int capability : {80, 90, 100}) {
    for (const ConvolutionGeometry& geometry : resnet(/*bottleneck=*/true, 128)) {
      if (geometry.in == 3) continue;  // the stem has neither engine
      ConvolutionGraph weight =
          convolution(ConvolutionGraph::Pass::backward_weight, DType::bf16, geometry);
      weight.result = DType::f32;
      weight.adds = true;
      ConvolutionGraph input =
          convolution(ConvolutionGraph::Pass::backward_input, DType::bf16, geometry);
      input.adds = true;
      for (const ConvolutionGraph& graph : {weight, input}) {
        const CudnnOffer result = offer(graph, capability);
        EXPECT_GE(result.candidates, 1) << result.refusal;
        EXPECT_LE(result.workspace_bytes, graph.workspace_limit);
      }
    }
  }
}

// Any answer is fine: our own kernels run refused cases.
TEST_F(CudnnGraphs, AnswerForOddConvolutions) {
  for (const ConvolutionGeometry& geometry :
       {ConvolutionGeometry({2, 5, 7, 1}, {16, 3, 3, 1}, {1, 1}),
        ConvolutionGeometry({3, 7, 7, 33}, {17, 3, 3, 33}, {1, 1}),
        ConvolutionGeometry({1, 6, 5, 8}, {8, 5, 5, 8}, {3, 2}),
        ConvolutionGeometry({1, 4, 5, 8}, {8, 1, 1, 8}, {1, 2})}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const auto pass : convolution_passes) {
        const CudnnOffer result = offer(convolution(pass, dtype, geometry));
        EXPECT_EQ(result.candidates == 0, !result.refusal.empty());
      }
    }
  }
}

// CosmoFlow's, and a U-Net's way down and up.
TEST_F(CudnnGraphs, RunConvolutionsOfVolumes) {
  for (const ConvolutionGeometry& geometry :
       {ConvolutionGeometry({4, 128, 128, 128, 4}, {32, 3, 3, 3, 4}, {.padding = 1}),
        ConvolutionGeometry({4, 64, 64, 64, 32}, {64, 3, 3, 3, 32}, {.padding = 1}),
        ConvolutionGeometry({4, 8, 8, 8, 256}, {512, 3, 3, 3, 256}, {.padding = 1}),
        ConvolutionGeometry({2, 64, 64, 64, 32}, {64, 3, 3, 3, 32}, {.stride = 2, .padding = 1}),
        ConvolutionGeometry({2, 64, 64, 64, 32}, {64, 2, 2, 2, 32}, {.stride = 2}),
        ConvolutionGeometry({2, 128, 128, 128, 32}, {3, 1, 1, 1, 32}, {})}) {
    for (const auto pass : convolution_passes) {
      const CudnnOffer result = offer(convolution(pass, DType::bf16, geometry));
      EXPECT_GE(result.candidates, 1) << result.refusal;
      EXPECT_LE(result.workspace_bytes, plan_workspace_limit(DType::bf16, geometry));
    }
  }
}

// DeepCAM's.
TEST_F(CudnnGraphs, RunDilatedAndDepthwiseConvolutions) {
  for (const std::int64_t rate : {2, 6, 18}) {
    const ConvolutionGeometry geometry({2, 48, 72, 2048}, {256, 3, 3, 2048},
                                       {.padding = rate, .dilation = rate});
    for (const auto pass : convolution_passes) {
      const CudnnOffer result = offer(convolution(pass, DType::bf16, geometry));
      EXPECT_GE(result.candidates, 1) << result.refusal;
    }
  }
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t groups : {2, 728}) {
      const ConvolutionGeometry geometry({2, 48, 72, 728}, {728, 3, 3, 728 / groups},
                                         {.stride = stride, .padding = 1, .groups = groups});
      for (const auto pass : convolution_passes) {
        const CudnnOffer result = offer(convolution(pass, DType::bf16, geometry));
        EXPECT_GE(result.candidates, 1) << result.refusal;
      }
    }
  }
}

TEST_F(CudnnGraphs, AreRefusedOnAGpuThatIsTooOld) {
  constexpr int volta = 70;
  for (const auto pass : attention_passes)
    EXPECT_EQ(offer(gpt2(pass, 8, 12), volta).candidates, 0);
  const ConvolutionGeometry geometry({32, 28, 28, 128}, {128, 3, 3, 128}, {1, 1});
  // A weight gradient in bf16 has an engine for every GPU.
  for (const auto pass :
       {ConvolutionGraph::Pass::forward, ConvolutionGraph::Pass::backward_input}) {
    EXPECT_EQ(offer(convolution(pass, DType::bf16, geometry), volta).candidates, 0);
  }
}

}  // namespace
}  // namespace trireme::ops::cuda
