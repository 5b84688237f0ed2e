// SPDX-License-Identifier: Apache-2.0
// The form of --help: short types ("INT", "FILE", "a|b"), without limits and excluded options,
// which messages of wrong command lines name.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>

namespace trireme {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";  // a flag
    std::string text = " " + type_of(*option);
    if (option->get_expected_max() > 1) text += " ...";
    if (!option->get_default_str().empty()) text += " (" + option->get_default_str() + ")";
    if (option->get_required()) text += " required";
    return text;
  }

 private:
  static std::string type_of(const CLI::Option& option) {
    constexpr std::array files{"class-file", "config", "continuations", "file",  "hardware", "json",
                               "labels",     "output", "prompts",       "study", "tokenizer"};
    constexpr std::array paths{"against", "base", "classes-of", "data", "from", "input",  "inputs",
                               "other",   "out",  "path",       "run",  "runs", "weights"};
    std::string type = option.get_type_name();
    if (const auto open = type.find('{'); open != std::string::npos) {
      type = type.substr(open + 1, type.find('}') - open - 1);
      std::ranges::replace(type, ',', '|');
      return type;
    }
    type = type.substr(0, type.find(':'));
    const std::string name =
        option.get_lnames().empty() ? option.get_name() : option.get_lnames().front();
    if (type == "UINT") return "INT";
    if (type == "FLOAT") return "NUMBER";
    if (type == "TEXT" && std::ranges::find(files, name) != files.end()) return "FILE";
    if (type == "TEXT" && std::ranges::find(paths, name) != paths.end()) return "PATH";
    return type;
  }
};

}  // namespace trireme
