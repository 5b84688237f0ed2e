// SPDX-License-Identifier: Apache-2.0
// Filters that this machine has as plugins of the HDF5 library (Debian's hdf5-filter-plugin, PyPI's
// hdf5plugin): found where the library would look, called without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Whether a plugin for filter `id` is installed: in a directory of HDF5_PLUGIN_PATH, or in those
// that distributions use. Looked for once per process.
[[nodiscard]] bool has_filter_plugin(std::uint32_t id);

// Undoes filter `id` of `from` into `to` and gives the bytes written. Any number of threads: such
// filters are functions of their arguments. Raises ExitCode::data where the plugin reports damage
// or gives more bytes than `to` has.
std::size_t undo_by_plugin(std::uint32_t id, const std::vector<std::uint32_t>& values,
                           std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trireme
