// SPDX-License-Identifier: Apache-2.0
// CLI11's types for headers: the library itself costs seconds in each source that includes it.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI
