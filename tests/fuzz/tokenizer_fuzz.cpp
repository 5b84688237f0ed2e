// SPDX-License-Identifier: Apache-2.0
// A tokenizer file: refused when it is opened, or any text has tokens below its vocabulary.
#include "data/tokenizer/tokenizer.h"

#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.set(fuzz::text_of(data, size));
  fuzz::accepts(ExitCode::data, [&] {
    const Tokenizer tokenizer(file.path());
    TextEncoder encoder(tokenizer);
    for (const char* const text :
         {"abc abc\n\nab 123 <mask> caf\u00e9 e\u0301<|end|>", "  x'S", ""}) {
      std::vector<std::uint32_t> ids;
      // A pattern may exceed the library's work limit of a match.
      fuzz::accepts(ExitCode::data, [&] { encoder.encode(text, ids); });
      for (const std::uint32_t id : ids)
        fuzz::require(id < tokenizer.vocabulary(), "an id outside of the vocabulary");
      static_cast<void>(tokenizer.text_of(ids));
    }
  });
  return 0;
}
