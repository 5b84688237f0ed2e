// SPDX-License-Identifier: Apache-2.0
// A model with your own layer: GPT-2 with an adapter (Houlsby et al., 2019) before its head. A
// layer declares its parameters and activations in its constructor, and enqueues its forward and
// backward; memory, optimizer state, ZeRO, checkpoints, pipeline cuts and the plan follow from the
// declaration.
//
//   mpirun -np 2 add_layer gpt.yaml data.path=data/book/train parallel.pipeline=2
#include <fmt/format.h>

#include "data/hdf5/child.h"
#include "launch/engine/engine.h"
#include "models/layers/linear_layer.h"
#include "models/registry.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace {

using trireme::Context;
using trireme::Tensor;

// y = x + contract(gelu(expand(x))), (B, T, C) -> (B, T, C), with a narrow middle (B, T, M).
class Adapter final : public trireme::Layer {
 public:
  Adapter(trireme::Blueprint& blueprint, std::int64_t middle)
      : Layer("adapter", blueprint.input()),
        expand_(blueprint, "expand", output_shape()[2], middle, trireme::Init::normal(0.02F)),
        contract_(blueprint, "contract", middle, output_shape()[2], trireme::Init::constant(0)) {
    const trireme::Shape narrow{output_shape()[0], output_shape()[1], middle};
    expanded_ = blueprint.keep(narrow);  // backward reads both, so they are kept
    activated_ = blueprint.keep(narrow);
    gradient_ = blueprint.scratch(narrow);
  }

  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    expand_.forward(context, context(expanded_), x);
    trireme::ops::activation_forward(context.stream, context(activated_), context(expanded_),
                                     trireme::ops::ActivationKind::gelu_tanh);
    contract_.forward(context, y, context(activated_), x);  // + x
  }

  void backward(const Context& context, const Tensor& x, const Tensor& /*y*/, const Tensor& dy,
                const Tensor& dx) override {
    const Tensor gradient = context(gradient_);
    contract_.backward(context, gradient, dy, context(activated_));
    trireme::ops::activation_backward(context.stream, gradient, gradient, context(expanded_),
                                      trireme::ops::ActivationKind::gelu_tanh);
    expand_.backward(context, dx, gradient, x);
    trireme::ops::add_in_place(context.stream, dx, dy);
  }

 private:
  trireme::Linear expand_, contract_;
  trireme::Activation expanded_, activated_, gradient_;
};

// The config's model with the adapter before its last layer.
trireme::OwnModel adapted_model(const trireme::Config& config) {
  if (config.parallel.tensor != 1) {
    trireme::fail(trireme::ExitCode::config,
                  "parallel.tensor: {}: the adapter is not split over tensor ranks; use 1",
                  config.parallel.tensor);
  }
  trireme::Chain chain = trireme::make_chain(config);
  chain.insert(chain.end() - 1,
               {.make = [](trireme::Blueprint& blueprint) -> std::unique_ptr<trireme::Layer> {
                 const auto scope = blueprint.layer("adapter");  // prefix of its parameters' names
                 return std::make_unique<Adapter>(blueprint, 16);
               }});
  return {.chain = std::move(chain), .traits = trireme::traits_of(config.model)};
}

void train(const std::string& file, const std::vector<std::string>& overrides) {
  const trireme::RankProcess process;
  const trireme::Config config = trireme::read_config(process, file, overrides);
  trireme::Engine engine(process, config, trireme::Purpose::train,
                         {.model = adapted_model(config)});
  engine.begin();
  while (engine.steps_done() < config.train.steps) {
    const trireme::StepReport step = engine.step();
    if (process.mpi.rank() == 0) fmt::print("step {} loss {}\n", step.step + 1, step.loss);
  }
  engine.finish();
  engine.write_weights("weights.safetensors");
}

}  // namespace

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);  // first
  try {
    if (argc < 2)
      trireme::fail(trireme::ExitCode::config, "usage: {} CONFIG [KEY=VALUE]...", argv[0]);
    train(argv[1], {argv + 2, argv + argc});
  } catch (const trireme::Error& error) {  // other ranks may be waiting for this one
    trireme::print_error(error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
