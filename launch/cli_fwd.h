// SPDX-License-Identifier: Apache-2.0
// Forward declarations of CLI11's types, because including the library costs seconds per source.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI
