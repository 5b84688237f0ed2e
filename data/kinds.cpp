// SPDX-License-Identifier: Apache-2.0
#include "data/kinds.h"

#include <algorithm>
#include <array>

#include "data/fields/describe.h"
#include "data/images/image_sources.h"
#include "data/images/inspect_images.h"
#include "data/inspect.h"
#include "data/megatron/megatron_dataset.h"
#include "data/verify.h"

namespace trireme {
namespace {

constexpr auto kinds = std::to_array<DataKindRow>({
    {.name = "images in place",
     .lies_at = names_images,
     .labels = true,
     .preview = true,
     .inspect = inspect_images,
     .config = describe_images,
     .verify = verify_images},
    {.name = "tokens of Megatron-LM",
     .lies_at = [](const std::string& name) { return find_megatron_index(name).has_value(); },
     .preview = true,
     .inspect = inspect_megatron,
     .config = describe_files,
     .verify = verify_megatron},
    {.name = "HDF5 files in place",
     .lies_at = names_files,
     .inspect = describe_files,
     .config = describe_files,
     .verify = nullptr},
    {.name = "packed shards",
     .lies_at = [](const std::string&) { return true; },
     .preview = true,
     .inspect = inspect_packed,
     .config = describe_files,
     .verify = verify_packed},
});

}  // namespace

const DataKindRow& kind_of_data(const std::vector<std::string>& names) {
  return *std::ranges::find_if(
      kinds, [&](const DataKindRow& kind) { return std::ranges::all_of(names, kind.lies_at); });
}

}  // namespace trireme
