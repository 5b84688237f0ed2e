// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/text_frame.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::json;

class FrameReader {
 public:
  FrameReader(const std::string& path, bool pair) : path_(path), pair_(pair) {}

  TextFrame read(const json& processor) {
    add(processor);
    return std::move(frame_).value_or(TextFrame{});
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::data,
         "{}: post_processor: {}, which is not supported here; supported: TemplateProcessing, "
         "BertProcessing and RobertaProcessing that put tokens around A and B, each once and in "
         "this order",
         path_, what);
  }

  void add(const json& processor) {
    if (processor.is_null()) return;
    const auto type = processor.at("type").get<std::string>();
    if (type == "ByteLevel") return;  // changes offsets only
    if (type == "Sequence") {
      for (const json& member : processor.at("processors").get_ref<const json::array_t&>())
        add(member);
      return;
    }
    if (frame_) refuse("a Sequence with two parts that add tokens");
    if (type == "TemplateProcessing") {
      frame_ = of_template(processor);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      frame_ = of_ends(processor, type == "BertProcessing");
    } else {
      refuse("the type " + type);
    }
  }

  [[nodiscard]] TextFrame of_ends(const json& it, bool bert) const {
    const auto begin = it.at("cls").at(1).get<std::uint32_t>();
    const auto end = it.at("sep").at(1).get<std::uint32_t>();
    TextFrame frame{.prefix = {begin}, .middle = {}, .suffix = {end}};
    if (!pair_) return frame;
    frame.middle.assign(bert ? 1 : 2, end);
    frame.second_type = bert;
    return frame;
  }

  [[nodiscard]] TextFrame of_template(const json& it) const {
    TextFrame frame;
    std::vector<std::uint32_t>* part = &frame.prefix;
    std::string texts;
    for (const json& piece : it.at(pair_ ? "pair" : "single")) {
      const bool text = piece.find("Sequence") != piece.end();
      const json& inside = piece.at(text ? "Sequence" : "SpecialToken");
      const auto type = inside.at("type_id").get<int>();
      const auto id = inside.at("id").get<std::string>();
      if (text) {
        texts += id;
        part = pair_ && id == "A" ? &frame.middle : &frame.suffix;
        if (id == "B") frame.second_type = type == 1;
      } else {
        const auto ids = it.at("special_tokens").at(id).at("ids").get<std::vector<std::uint32_t>>();
        part->insert(part->end(), ids.begin(), ids.end());
      }
      if (!text && texts == "A" && pair_ && type == 1) {
        frame.of_second += 1;
        continue;
      }
      const bool second = (texts == "AB" && frame.second_type) || frame.of_second > 0;
      if (type != (second ? 1 : 0))
        refuse("the token type " + std::to_string(type) + " of '" + id + "'");
    }
    if (texts != (pair_ ? "AB" : "A")) refuse("a template of the texts '" + texts + "'");
    return frame;
  }

  const std::string& path_;
  bool pair_;
  std::optional<TextFrame> frame_;
};

}  // namespace

TextFrame parse_frame(const std::string& post_processor, bool pair, const std::string& path) {
  try {
    return FrameReader(path, pair)
        .read(post_processor.empty() ? json() : parse_json(post_processor));
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}: post_processor: {}", path, error.what());
  }
}

}  // namespace trireme
