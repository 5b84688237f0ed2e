// SPDX-License-Identifier: Apache-2.0
// Conversations as the text that a model was trained on.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

struct ChatMessage {
  std::string role, content;
};

// A template whose text is the same around each role's content. scripts/pack_chats.py finds it in
// a model's Jinja template, and refuses templates that are not of this kind.
class ChatPieces {
 public:
  // "chatml", "llama3", or a file of scripts/pack_chats.py. Raises ExitCode::config, naming it.
  explicit ChatPieces(const std::string& chat_template);

  // The conversation up to where the assistant answers. Raises ExitCode::config, naming `where`,
  // for roles that the template lacks, a system message that is not the first, and one of the
  // assistant at the end.
  [[nodiscard]] std::string prompt(const std::vector<ChatMessage>& messages,
                                   const std::string& where) const;
  // The token that ends an answer; "": none.
  [[nodiscard]] const std::string& end() const { return end_; }

 private:
  struct Around {
    std::string before{}, after{};
  };
  std::string name_, begin_, generation_, end_;
  std::map<std::string, Around> roles_;  // the system's includes the beginning
  bool trims_ = false;                   // white space around contents
};

}  // namespace trireme
