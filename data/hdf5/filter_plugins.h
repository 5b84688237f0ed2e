// SPDX-License-Identifier: Apache-2.0
// Filters installed as plugins of the HDF5 library (Debian's hdf5-filter-plugin, PyPI's
// hdf5plugin): searched in the library's places, called without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Whether a plugin for filter `id` is installed in a directory of HDF5_PLUGIN_PATH or of a
// distribution. Searched once per process.
[[nodiscard]] bool has_filter_plugin(std::uint32_t id);

// Undoes filter `id` from `from` into `to`; returns the bytes written. Thread-safe, because such
// filters are pure functions. Raises ExitCode::data if the plugin reports damage or returns more
// bytes than `to` holds.
std::size_t undo_by_plugin(std::uint32_t id, const std::vector<std::uint32_t>& values,
                           std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trireme
