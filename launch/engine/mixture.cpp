// SPDX-License-Identifier: Apache-2.0

#include <fmt/ranges.h>

#include "data/loader/mixture_order.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/options.h"
#include "launch/engine/session.h"
#include "models/config.h"
#include "runtime/config/lr_factors.h"

namespace trireme {
namespace {

// The sources of data.sources; empty without any, or if the program supplies the data set.
std::span<const NamedDataset> sources_of(const Config& config, const Dataset& dataset) {
  const auto sources = dataset.sources();
  return sources.size() == config.data.sources.size() ? sources : std::span<const NamedDataset>{};
}

template <typename Value>
Value at(const std::vector<Value>& values, std::size_t index) {
  return values.empty() ? Value{} : values[index];
}

std::shared_ptr<const MixtureOrder> order_of(const Config& config,
                                             std::span<const NamedDataset> sources) {
  const DataConfig& data = config.data;
  MixtureOptions options{.temperature = data.weight_temperature,
                         .global_batch = config.train.global_batch,
                         .steps = config.train.steps,
                         .seed = config.run.seed,
                         .shuffle = data.shuffle};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    options.sources.push_back({.name = sources[i].name,
                               .samples = sources[i].data->size(),
                               .weight = at(data.weights, i),
                               .most_epochs = at(data.source_epochs, i),
                               .first_step = at(data.source_from, i),
                               .end_step = at(data.source_until, i)});
  }
  return std::make_shared<const MixtureOrder>(options);
}

}  // namespace

// Without the run's length, which does not change earlier steps.
std::string mixture_recipe(const Config& config) {
  const DataConfig& data = config.data;
  return fmt::format("{} {} {} {} {}", data.weights, data.weight_temperature, data.source_epochs,
                     data.source_from, data.source_until);
}

Sampler make_sampler(const Config& config, const Dataset& dataset) {
  const auto sources = sources_of(config, dataset);
  if (!sources.empty()) return Sampler(order_of(config, sources));
  SamplerOptions options = sampler_options(config, dataset.size());
  if (options.block == 0) options.block = dataset.samples_of_chunk();
  return Sampler(options);
}

namespace {

void settle_epochs_by(Communicator& world, Config& given, Provenance& where,
                      const Environment& place) {
  if (given.data.kind() == SourceKind::packed && given.data.path.empty() &&
      given.data.sources.empty()) {
    given.train.epochs = 0;  // the rules refuse a config without data
    return;
  }
  const auto refuse = [&](const std::string& reason) {
    fail(ExitCode::config, "{}: {} {}", where.describe("train.epochs"), given.train.epochs, reason);
  };
  if (where.places.contains("train.steps"))
    refuse(fmt::format("with train.steps = {}; keep one of them", given.train.steps));
  if (!given.data.sources.empty())
    refuse("with data.sources, each of which has its own epochs; use train.steps");
  if (!given.train.batch_ramp.empty())
    refuse("with train.batch_ramp, whose sizes begin at steps; use train.steps");
  // The rules of training need the steps.
  const Config checked = resolve_config(given, place, &where, Purpose::generate);
  const auto dataset =
      with_context(fmt::format("{}: {} epochs", where.describe("train.epochs"), given.train.epochs),
                   [&] { return open_dataset(world, checked, DataPart::training); });
  const auto of_one = static_cast<double>(make_sampler(checked, *dataset).steps_per_epoch());
  given.train.steps = rounded_up(given.train.epochs * of_one);
  given.train.epochs = 0;
  where.places["train.steps"] = where.describe("train.epochs");
}

}  // namespace

void settle_epochs(Config& given, Provenance& where, const RankProcess& process) {
  if (given.train.epochs > 0)
    settle_epochs_by(*process.mpi.world(), given, where, process.environment());
}

void settle_epochs(Config& given, Provenance& where) {
  const Environment any{.cuda_in_build = true, .gpus = 1, .native_bf16 = true};
  if (given.train.epochs > 0) settle_epochs_by(*make_single_communicator(), given, where, any);
}

std::string describe_training_data(const Config& config, const Dataset& dataset) {
  const auto sources = sources_of(config, dataset);
  if (sources.empty()) return data_text(config.data, DataPart::training);
  const std::vector<std::int64_t> drawn = order_of(config, sources)->drawn(config.train.steps);
  const auto all = static_cast<double>(config.train.steps * config.train.global_batch);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto count = static_cast<double>(drawn[i]);
    parts.push_back(fmt::format("{} ({:.1f} % of the run, {:.2f} epochs)", sources[i].name,
                                100 * count / all,
                                count / static_cast<double>(sources[i].data->size())));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace trireme
