// SPDX-License-Identifier: Apache-2.0
// A fuzz target without libFuzzer: runs its seeds, then seeded mutations of them, with the target's
// mutator if it has one.
//
//   X_replay [--mutations N] [--dictionary FILE] [--keep FILE] SEED_DIRECTORY...
//
// Equal arguments give equal inputs. --keep FILE stores the current input, so that it is left after
// a crash; SIGALRM ends an input that takes over a minute.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

// Absent if the target defines none.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t*, std::size_t,
                                                                     std::size_t, unsigned);

namespace {

using trireme::fuzz::require;

constexpr std::size_t longest = 1 << 16;  // bytes of an input
constexpr unsigned limit_seconds = 60;

// The current input, also after a crash.
class KeptInput {
 public:
  explicit KeptInput(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    require(file >= 0 && ::ftruncate(file, longest) == 0, path);
    void* const mapped = ::mmap(nullptr, longest, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    require(mapped != MAP_FAILED, "mmap");
    bytes_ = static_cast<char*>(mapped);
    file_ = file;
  }
  void set(const std::string& input) {
    require(::ftruncate(file_, static_cast<off_t>(input.size())) == 0, "ftruncate");
    std::memcpy(bytes_, input.data(), input.size());
  }

 private:
  char* bytes_ = nullptr;
  int file_ = -1;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lines of libFuzzer's form: name="text with \xNN".
std::vector<std::string> read_dictionary(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), path);
  std::vector<std::string> words;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find('"'), last = line.rfind('"');
    if (line.starts_with('#') || first == last) continue;
    std::string word;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        int value = 0;
        std::from_chars(&line[i + 2], &line[i + 4], value, 16);
        word += static_cast<char>(value);
        i += 3;
      } else {
        word += line[i] == '\\' ? line[++i] : line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, const std::vector<std::string>& words)
      : seeds_(seeds), words_(words) {}

  std::string next() {
    std::string input = seeds_[below(seeds_.size())];
    if (LLVMFuzzerCustomMutator != nullptr) {
      const std::size_t size = input.size();
      input.resize(longest);
      input.resize(LLVMFuzzerCustomMutator(reinterpret_cast<std::uint8_t*>(input.data()), size,
                                           longest, static_cast<unsigned>(random_())));
      return input;
    }
    for (std::size_t edits = 1 + below(4); edits > 0; --edits)
      edit(input);
    input.resize(std::min(input.size(), longest));
    return input;
  }

  void edit(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(input.size() - at, 32) + 1);
    switch (below(words_.empty() ? 5 : 7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(below(input.size() + 1), input.substr(at, length));
        break;
      case 4: {
        const std::string& other = seeds_[below(seeds_.size())];
        input.replace(at, length, other, below(other.size()), below(64));
        break;
      }
      default:
        input.replace(at, length, words_[below(words_.size())]);
        break;
    }
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % std::max<std::size_t>(limit, 1); }

  const std::vector<std::string>& seeds_;
  const std::vector<std::string>& words_;
  std::mt19937_64 random_{20261121};
};

Mutator* of_bytes = nullptr;  // global for LLVMFuzzerMutate

struct Arguments {
  std::size_t mutations = 2000;
  std::string kept = "replay_input";
  std::vector<std::string> words;
  std::vector<std::string> seeds;
};

Arguments parse(const std::vector<std::string>& arguments) {
  Arguments result;
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size();
    if (arguments[i] == "--mutations" && has_value) {
      result.mutations = std::stoul(arguments[++i]);
    } else if (arguments[i] == "--dictionary" && has_value) {
      result.words = read_dictionary(arguments[++i]);
    } else if (arguments[i] == "--keep" && has_value) {
      result.kept = arguments[++i];
    } else {
      for (const auto& entry : std::filesystem::directory_iterator(arguments[i]))
        files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);  // a directory has no order
  for (const auto& file : files)
    result.seeds.push_back(content_of(file).substr(0, longest));
  require(!result.seeds.empty(), "no seeds");
  return result;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_bytes) {
  std::string bytes(trireme::fuzz::text_of(data, size));
  of_bytes->edit(bytes);
  bytes.resize(std::min(bytes.size(), max_bytes));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

int main(int count, char** texts) {
  LLVMFuzzerInitialize(&count, &texts);
  const Arguments arguments = parse({texts + 1, texts + count});
  KeptInput kept(arguments.kept);
  const auto run = [&](const std::string& input) {
    kept.set(input);
    ::alarm(limit_seconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  std::printf("%zu seeds, %zu mutations; an input that ends this process is in %s\n",
              arguments.seeds.size(), arguments.mutations, arguments.kept.c_str());
  std::fflush(stdout);
  for (const std::string& seed : arguments.seeds)
    run(seed);
  Mutator mutator(arguments.seeds, arguments.words);
  of_bytes = &mutator;
  for (std::size_t i = 0; i < arguments.mutations; ++i)
    run(mutator.next());
  // For scripts/chaos.sh: a broken case would have ended this process.
  const std::size_t cases = arguments.seeds.size() + arguments.mutations;
  std::printf("chaos: %zu cases, %zu survived\n", cases, cases);
  return 0;
}
