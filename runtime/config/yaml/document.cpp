// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/yaml/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/config/yaml/text_check.h"

namespace trireme::config {
namespace {

constexpr std::string_view not_a_key =
    "expected a word as key; is a bracket, brace or quote left open?";

// Builds the tree from parser events. Refusing inside the event bounds hostile input: the parser
// recurses no deeper than max_depth, and no alias is expanded.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view name) : name_(name) {}

  [[nodiscard]] Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      refuse(mark, "a second YAML document starts here; a config is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "", anchor);
    add(mark, Node{.kind = Node::Kind::null, .line = mark.line + 1});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "YAML aliases are not allowed; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_extras(mark, tag, anchor);
    add(mark, Node{.kind = Node::Kind::scalar,
                   .line = mark.line + 1,
                   .text = value,
                   .quoted = tag == "!"});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view message) const {
    fail(ExitCode::config, "{}:{}: {}", name_, mark.line + 1, message);
  }

  // "?" and "!" are the parser's marks for plain and quoted scalars; anything else is the user's.
  void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse(mark, "YAML anchors are not allowed; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, fmt::format("YAML tag {} is not allowed", tag));
  }

  [[nodiscard]] bool awaits_key() const {
    return !open_.empty() && open_.back().kind == Node::Kind::map &&
           open_.back().keys.size() == open_.back().items.size();
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    refuse_extras(mark, tag, anchor);
    if (open_.size() >= max_depth)
      refuse(mark, fmt::format("nested deeper than {} levels", max_depth));
    if (awaits_key()) refuse(mark, not_a_key);
    open_.push_back(Node{.kind = kind, .line = mark.line + 1});
  }

  void close() {
    Node done = std::move(open_.back());
    open_.pop_back();
    attach(std::move(done));
  }

  void add(const YAML::Mark& mark, Node node) {
    if (!open_.empty() && open_.back().items.size() >= max_items) {
      refuse(mark, fmt::format("more than {} entries in one place", max_items));
    }
    if (!awaits_key()) return attach(std::move(node));
    Node& map = open_.back();
    if (node.kind != Node::Kind::scalar || node.text.empty()) refuse(mark, not_a_key);
    if (const auto twin = std::ranges::find(map.keys, node.text); twin != map.keys.end()) {
      const int first = map.key_lines[static_cast<std::size_t>(twin - map.keys.begin())];
      refuse(mark, fmt::format("duplicate key {}, first given on line {}; keep one",
                               printable(node.text), first));
    }
    map.keys.push_back(std::move(node.text));
    map.key_lines.push_back(node.line);
  }

  void attach(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  std::string_view name_;
  int documents_ = 0;
  std::vector<Node> open_;  // innermost last
  Node root_;
};

}  // namespace

Node parse_document(std::string_view text, std::string_view name) {
  check_text(text, name);
  TreeBuilder builder(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (error.mark.is_null()) fail(ExitCode::config, "{}: YAML syntax error: {}", name, error.msg);
    fail(ExitCode::config, "{}:{}: YAML syntax error at column {}: {}", name, error.mark.line + 1,
         error.mark.column + 1, error.msg);
  }
  return builder.take();
}

}  // namespace trireme::config
