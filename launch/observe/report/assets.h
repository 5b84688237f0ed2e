// SPDX-License-Identifier: Apache-2.0
// Files of page/ and uplot/, embedded by the build (scripts/cmake/EmbedFiles.cmake).
#pragma once

#include <string_view>

namespace trireme::report::assets {

[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
[[nodiscard]] std::string_view uplot_style();
[[nodiscard]] std::string_view uplot_script();
[[nodiscard]] std::string_view uplot_licence();

}  // namespace trireme::report::assets
