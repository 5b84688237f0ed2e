// SPDX-License-Identifier: Apache-2.0
#include "data/kinds.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "data/fields/file_list.h"
#include "data/hdf5/child.h"
#include "data/images/image_sources.h"
#include "data/images/inspect_images.h"
#include "data/images/verify_images.h"
#include "data/inspect.h"
#include "data/megatron/megatron_dataset.h"
#include "data/pack/parallel.h"
#include "data/pack/progress.h"
#include "data/shard/shard_set.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::uint64_t bytes_of(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(file, unknown);
    if (!unknown) bytes += size;
  }
  return bytes;
}

// Packed shards, and directories of splits of them.

Description inspect_packed(const DataPlace& place) {
  Description found;
  try {
    for (const std::string& name : place.names) {
      for (const std::string& path : find_datasets(name))
        found.text += describe_dataset(path, place.preview);
    }
  } catch (const Error& error) {
    found.problem = error.what();
  }
  return found;
}

std::vector<ShardReport> verify_packed(const DataPlace& place) {
  std::vector<ShardReport> all;
  for (const std::string& name : place.names) {
    for (const std::string& path : find_datasets(name)) {
      Progress progress("verifying", bytes_of(list_shards(path, "").paths), "bytes",
                        place.progress);
      std::ranges::move(verify_dataset(path, [&](std::uint64_t read) { progress.add(read); }),
                        std::back_inserter(all));
    }
  }
  return all;
}

// Tokens of Megatron-LM.

bool is_megatron(const std::string& name) {
  return find_megatron_index(name).has_value();
}

Description inspect_tokens_of_megatron(const DataPlace& place) {
  Description found;
  for (const std::string& name : place.names)
    found.text += inspect_megatron(*find_megatron_index(name), place.preview);
  return found;
}

std::vector<ShardReport> verify_tokens_of_megatron(const DataPlace& place) {
  std::vector<ShardReport> all;
  for (const std::string& name : place.names) {
    const std::string index = *find_megatron_index(name);
    const auto tokens = std::filesystem::path(index).replace_extension(".bin").string();
    Progress progress("verifying", bytes_of({tokens}), "bytes", place.progress);
    all.push_back(verify_megatron(index, [&](std::uint64_t read) { progress.add(read); }));
  }
  return all;
}

// Images in archives and class folders.

LabelRule rule_of(const DataPlace& place) {
  return label_rule(place.label.empty() ? "cls" : place.label);
}

Description inspect_images_in_place(const DataPlace& place) {
  return {inspect_images(place.names, rule_of(place), place.preview, usable_cores()), ""};
}

Description config_of_images(const DataPlace& place) {
  return describe_images(place.names, place.label, usable_cores());
}

std::vector<ShardReport> verify_images_in_place(const DataPlace& place) {
  ImageVerifier verifier(place.names, rule_of(place), usable_cores());
  Progress progress("decoding", verifier.bytes(), "bytes", place.progress);
  return verifier.run([&](std::uint64_t read) { progress.add(read); });
}

// Other HDF5 files.

bool is_other_hdf5(const std::string& name) {
  try {
    const ShardFacts facts = Hdf5Child::shared()->shard(expand_files({name}).front());
    return std::ranges::find(facts.attributes, "format", &ShardAttribute::name) ==
           facts.attributes.end();
  } catch (const Error&) {  // no HDF5 file, or a damaged one
    return false;
  }
}

Description describe_hdf5(const DataPlace& place) {
  return describe_files(place.names, usable_cores());
}

constexpr auto kinds = std::to_array<DataKindRow>({
    {.name = "images in place",
     .lies_at = names_images,
     .labels = true,
     .preview = true,
     .inspect = inspect_images_in_place,
     .config = config_of_images,
     .verify = verify_images_in_place},
    {.name = "tokens of Megatron-LM",
     .lies_at = is_megatron,
     .preview = true,
     .inspect = inspect_tokens_of_megatron,
     .config = describe_hdf5,
     .verify = verify_tokens_of_megatron},
    {.name = "HDF5 files in place",
     .lies_at = is_other_hdf5,
     .inspect = describe_hdf5,
     .config = describe_hdf5,
     .verify = nullptr},
    {.name = "packed shards",
     .lies_at = [](const std::string&) { return true; },
     .preview = true,
     .inspect = inspect_packed,
     .config = describe_hdf5,
     .verify = verify_packed},
});

}  // namespace

const DataKindRow& kind_of_data(const std::vector<std::string>& names) {
  return *std::ranges::find_if(
      kinds, [&](const DataKindRow& kind) { return std::ranges::all_of(names, kind.lies_at); });
}

}  // namespace trireme
