// SPDX-License-Identifier: Apache-2.0
// Replaces sentence_piece.cpp in builds without the library.
#include "data/tokenizer/tokenizer_kind.h"
#include "runtime/base/error.h"

namespace trireme {

std::unique_ptr<const TokenizerKind> open_sentence_piece(const std::string& /*content*/,
                                                         const std::string& path) {
  fail(ExitCode::data,
       "{}: is a SentencePiece model, but this program was built without the SentencePiece "
       "library; install libsentencepiece-dev and build again (cmake --preset cpu finds it)",
       path);
}

}  // namespace trireme
