// SPDX-License-Identifier: Apache-2.0
// Commands on a finished run: evaluation, samples, export, comparison.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/data/make_tokenizer.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ResultsTest : public RunTest {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return directory() + "/" + name; }
  [[nodiscard]] std::string checkpoint(const std::string& run, int step) const {
    return path(fmt::format("{}/checkpoints/step_{:08}", run, step));
  }
  void train(const std::string& name, const std::vector<std::string>& set = {}) {
    const CommandResult result = train_gpt(name, 0, set);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  // The output of a command that must succeed.
  static std::string output(const std::string& arguments, int ranks = 0) {
    const CommandResult result = trireme(arguments, ranks);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
    return result.output;
  }
  // The same without standard error of `generate`, which mpirun may mix in anywhere.
  static std::string generated(const std::string& arguments, int ranks = 0) {
    static const std::regex said("(weights|cache|ranks)   [^\n]*\n");
    return std::regex_replace(output(arguments, ranks), said, "");
  }
  static double loss(const std::string& arguments) {
    const std::string text = output("eval " + arguments);
    const auto at = text.find("loss      ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 10));
  }
  static void expect_refusal(const std::string& arguments, int code, const std::string& message,
                             int ranks = 0) {
    const CommandResult result = trireme(arguments, ranks);
    EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
  }
};

TEST_F(ResultsTest, EvalUsesAllDataByDefault) {
  train("run", {"data.validation_path=''", "train.eval_batches=1"});
  const std::string command =
      "eval " + path("run") + " --data " + data_directory() + "/text/validation";

  EXPECT_THAT(output(command), HasSubstr("samples   24 of 24\n"));
  EXPECT_THAT(output(command + " --batches 2"), HasSubstr("samples   16 of 24\n"));
  EXPECT_THAT(output(command + " --set train.eval_batches=1"), HasSubstr("samples   8 of 24\n"));
  expect_refusal("eval " + path("run"), 2, "with --data DIRECTORY");
}

TEST_F(ResultsTest, CommandsUseARunsNewestStateAndNameIt) {
  train("longer", {"train.steps=8", "checkpoint.every_steps=7", "checkpoint.keep=5"});
  train("run");
  const std::string run = path("run"), newest = checkpoint("run", 7);
  const double ended = loss(run);
  EXPECT_THAT(output("eval " + run), HasSubstr("run/weights.safetensors (step 6)"));

  // As if it had been continued and stopped.
  fs::create_directories(run + "/checkpoints");
  fs::copy(checkpoint("longer", 7), newest);
  EXPECT_THAT(output("eval " + run, 2), HasSubstr(newest + " (step 7)"));
  EXPECT_NE(loss(run), ended);
  EXPECT_EQ(loss(run + " --weights " + run + "/weights.safetensors"), ended);
  EXPECT_EQ(loss(path("longer") + " --checkpoint " + newest), loss(run));
  EXPECT_THAT(output("generate " + run + " --tokens 2"), HasSubstr(newest + " (step 7)"));
  EXPECT_THAT(output("checkpoint export " + run + " --out " + path("hf")),
              HasSubstr(newest + " (step 7)"));
  EXPECT_THAT(output("checkpoint inspect " + run + " " + checkpoint("longer", 7)),
              HasSubstr("tensors equal"));
  const CommandResult begun = train_gpt("begun", 2, {"train.initial_weights=" + run});
  EXPECT_THAT(begun.output, HasSubstr("weights of " + newest + " (step 7)"));

  // Interrupted before it wrote weights.
  fs::remove(path("longer/weights.safetensors"));
  EXPECT_THAT(output("generate " + path("longer") + " --tokens 2"), HasSubstr("(step 8)"));

  std::string bytes = read_file(newest + "/rank_00000.h5");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(newest + "/rank_00000.h5", bytes);
  EXPECT_THAT(output("eval " + run),
              AllOf(HasSubstr("is not used"), HasSubstr("run/weights.safetensors (step 6)")));
  expect_refusal("eval " + run + " --checkpoint " + newest, 4, "does not match its checksum", 2);
  expect_refusal("eval " + run + " --weights " + data_directory(), 4, "holds no checkpoint");
  fs::create_directory(path("theirs"));
  write_file(path("theirs/pytorch_model.bin"), "\x80\x02}q");
  expect_refusal("eval " + run + " --weights " + path("theirs"), 4,
                 "no model.safetensors; its pytorch_model.bin is a Python pickle");
}

TEST_F(ResultsTest, AveragesAreTakenFromARunOrACheckpoint) {
  train("run", {"train.ema_decay=0.5", "checkpoint.every_steps=6"});
  train("plain");
  const std::string run = path("run");

  const double average = loss(run + " --average");
  EXPECT_NE(average, loss(run));
  EXPECT_EQ(loss(run + " --average --checkpoint " + checkpoint("run", 6)), average);
  EXPECT_EQ(loss(run + " --weights " + run + "/weights_average.safetensors"), average);
  EXPECT_THAT(output("checkpoint export --average " + run + " --out " + path("hf")),
              HasSubstr("weights_average.safetensors (step 6)"));
  expect_refusal("eval --average " + path("plain"), 2, "train.ema_decay above 0");
  expect_refusal("checkpoint export --average " + run + "/weights.safetensors --out " + path("no"),
                 2, "weights_average.safetensors");
}

TEST_F(ResultsTest, ExportAndImportNeedNoConfigAndReplaceNothingUnasked) {
  train("run");
  const std::string out = " --out " + path("hf"), back = " --out " + path("back.safetensors");
  const std::string exporting = "checkpoint export " + path("run") + out,
                    importing = "checkpoint import " + path("hf") + back;

  EXPECT_THAT(output(exporting), HasSubstr("run/weights.safetensors (step 6)"));
  expect_refusal(exporting, 2, "--force to replace it");
  EXPECT_THAT(output(exporting + " --force"), HasSubstr("28 tensors"));
  EXPECT_THAT(output(importing), HasSubstr("model: {family: gpt2, layers: 2, hidden: 32, heads: 2, "
                                           "context: 24, vocabulary: 256}"));
  expect_refusal(importing, 2, "--force to replace it");
  EXPECT_THAT(output("checkpoint inspect " + path("run") + " " + path("back.safetensors")),
              HasSubstr("28 tensors equal"));
  EXPECT_THAT(output("checkpoint inspect " + path("run")), HasSubstr("step      6"));

  write_file(path("hf/config.json"), R"({"model_type": "t5"})");
  expect_refusal(importing + " --force", 2, "model_type is \"t5\"");
  fs::remove(path("hf/config.json"));
  expect_refusal(importing + " --force", 2, "give --config");
}

// A directory in Hugging Face's layout, imported and exported: files of a megabyte with an index,
// the tokenizer, the end token.
TEST_F(ResultsTest, AnImportedDirectoryGeneratesAndEvaluates) {
  train("run", {"model.hidden=192", "model.heads=4"});
  write_file(path("run/generation_config.json"), R"({"eos_token_id": 300})");
  const std::string exporting =
      "checkpoint export " + path("run") + " --out " + path("hf") + " --shard-mb 1";
  const std::string importing = "checkpoint import " + path("hf") + " --out " + path("back");

  EXPECT_THAT(output(exporting), HasSubstr("files, config.json, generation_config.json"));
  EXPECT_FALSE(fs::exists(path("hf/model.safetensors")));
  const auto index = nlohmann::json::parse(read_file(path("hf/model.safetensors.index.json")));
  for (const auto& [tensor, file] : index.at("weight_map").items())
    EXPECT_LE(fs::file_size(path("hf/") + file.get<std::string>()), 1'100'000U) << tensor;
  expect_refusal(exporting, 2, "--force to replace it");
  EXPECT_THAT(output(importing), HasSubstr("config.yaml, generation_config.json"));
  expect_refusal(importing, 2, "--force to replace it");
  EXPECT_THAT(output("checkpoint inspect " + path("run") + " " + path("back/weights.safetensors")),
              HasSubstr("28 tensors equal"));
  const std::string data = " --data " + data_directory() + "/text/validation";
  EXPECT_EQ(loss(path("back") + data + " --set precision=fp32"),
            loss(path("run") + data + " --set precision=fp32"));
  EXPECT_THAT(output("generate " + path("back") + " --prompt rower --tokens 3"),
              HasSubstr("rower"));

  // A single file again, which replaces the several.
  output("checkpoint export " + path("back") + " --out " + path("hf") + " --force");
  EXPECT_TRUE(fs::exists(path("hf/model.safetensors")));
  EXPECT_FALSE(fs::exists(path("hf/model.safetensors.index.json")));
  EXPECT_FALSE(fs::exists(path("hf/model-00001-of-00002.safetensors")));
  expect_refusal("checkpoint import " + path("hf") + " --out " + path("run") + " --force", 2,
                 "is a run that has trained");
  TokenizerText tokenizer;
  tokenizer.merges = {"a b"};
  write_file(path("hf/tokenizer.json"), tokenizer.json());
  expect_refusal(importing + " --force", 2, "it is from another model");
}

TEST_F(ResultsTest, ContinuationsAreScoredAlikeOnEveryLayout) {
  train("run");
  const std::string run = path("run");
  write_file(path("a.jsonl"),
             "{\"context\": \"row\", \"continuation\": \" the boat\"}\n\n"
             "{\"context\": \"row \", \"continuation\": \"the boat\", \"note\": null}\n"
             "{\"context_ids\": [1], \"continuation_ids\": [2, 3]}\n");
  write_file(path("b.jsonl"),
             "{\"context\": \"" + std::string(60, 'x') + "\", \"continuation\": \"oars\"}\n");
  const std::string command =
      "eval " + run + " --set precision=fp32 --set reproducibility=layout " +
      "--set parallel.tensor_blocks=2 --continuations " + path("a.jsonl") + " --batch 2";
  const std::string summary =
      output(command + " --continuations " + path("b.jsonl") + " --out " + path("one"));
  EXPECT_THAT(summary,
              AllOf(HasSubstr("a.jsonl: 3 continuations of 20 tokens"),
                    HasSubstr("b.jsonl: 1 continuations of 4 tokens"), HasSubstr("bits per byte")));
  const std::string lines = read_file(path("one"));
  std::vector<nlohmann::json> scores;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);)
    scores.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(scores[0].at("log_likelihood"), scores[1].at("log_likelihood"));
  EXPECT_EQ(scores[1].at("tokens"), 9);
  EXPECT_EQ(scores[2].at("tokens"), 2);
  // An untrained model of bytes: some 5.5 nats each.
  EXPECT_NEAR(scores[2].at("log_likelihood").get<double>(), -11, 3);
  for (const char* const layout : {"tensor", "pipeline", "data"}) {
    output(command + " --continuations " + path("b.jsonl") + " --out " + path("two") +
               " --set parallel." + layout + "=2",
           2);
    EXPECT_EQ(read_file(path("two")), lines) << layout;
  }
  write_file(path("c.jsonl"), "{\"context\": \"\", \"continuation\": \"the boat\"}\n");
  expect_refusal("eval " + run + " --continuations " + path("c.jsonl"), 2,
                 "c.jsonl:1: the context");
  write_file(path("c.jsonl"),
             "{\"context\": \"a\", \"continuation\": \"" + std::string(25, 'x') + "\"}\n");
  expect_refusal("eval " + run + " --continuations " + path("c.jsonl"), 2, "text 0: 25 of 26");
  const std::string data = data_directory() + "/text/validation";
  EXPECT_THAT(output("eval " + run + " --data " + data + " --data " + data),
              HasSubstr("bits per byte"));
}

TEST_F(ResultsTest, SeveralRanksPrintOneCopy) {
  train("run", {"checkpoint.every_steps=6"});
  const std::string command = "generate " + path("run") + " --prompt rower --tokens 20 --seed 5";
  const std::string alone = generated(command);

  EXPECT_EQ(alone.size(), 5U + 20U + 1U);
  for (const char* const layout : {"", " --set parallel.tensor=2", " --set parallel.pipeline=2"})
    EXPECT_EQ(generated(command + layout, 2), alone) << layout;
  expect_refusal(command + " --set parallel.tensor=3", 2, "start a multiple of 3", 2);
  expect_refusal("generate " + path("run") + " --prompt \"\"", 2, "--prompt: is empty");

  const std::string verified = output("checkpoint inspect --verify " + path("run"), 2);
  EXPECT_EQ(verified.find(": good"), verified.rfind(": good"));
  fs::resize_file(checkpoint("run", 6) + "/rank_00000.h5", 100);
  const CommandResult damaged = trireme("checkpoint inspect --verify " + path("run"), 2);
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_EQ(damaged.output.find("DAMAGED"), damaged.output.rfind("DAMAGED"));
  EXPECT_THAT(damaged.output, Not(HasSubstr("exiting improperly")));
}

// The context has 24 positions: the last prompts fill it before their end.
TEST_F(ResultsTest, BatchedPromptsEqualSingleOnesOnEveryLayout) {
  train("run");
  const std::vector<std::string> prompts = {"rower", "a", "oars and oarsmen",
                                            "twenty letters of te"};
  const std::string command = "generate " + path("run") + " --json --tokens 12 --set " +
                              "reproducibility=layout --set parallel.tensor_blocks=2 --top-p 0.95";
  std::string alone, together, file;
  for (const std::string& prompt : prompts) {
    alone += generated(command + " --prompt \"" + prompt + "\"");
    together += " --prompt \"" + prompt + "\"";
    file += "{\"prompt\": \"" + prompt + "\", \"note\": 1}\n";
  }
  write_file(path("prompts.jsonl"), file);

  EXPECT_EQ(std::ranges::count(alone, '\n'), 4);
  EXPECT_EQ(generated(command + together), alone);
  EXPECT_THAT(output(command + " --prompt '[a,b]'"), HasSubstr("\"prompt\":\"[a,b]\""));
  EXPECT_EQ(generated(command + together + " --batch 2"), alone);
  EXPECT_EQ(generated(command + " --prompts " + path("prompts.jsonl")), alone);
  for (const char* const layout : {"tensor", "pipeline"})
    EXPECT_EQ(generated(command + together + " --set parallel." + layout + "=2", 2), alone);
  // Model replicas share the prompts; of five replicas one has none.
  for (const int copies : {2, 3, 5})
    EXPECT_EQ(generated(command + together + " --batch 1", copies), alone) << copies << " copies";
  EXPECT_EQ(generated(command + together + " --set parallel.tensor=2", 4), alone);
  expect_refusal(command + together + " --prompt \"" + std::string(25, 'x') + "\"", 2,
                 "a prompt of 25 tokens", 3);
}

TEST_F(ResultsTest, SamplesOfAPromptAreThoseOfTheNextSeeds) {
  train("run");
  const std::string command = "generate " + path("run") + " --prompt rower --tokens 9 --json";
  const auto ids = [](const std::string& line) {
    return nlohmann::json::parse(line).at("ids").get<std::vector<int>>();
  };
  std::istringstream lines(generated(command + " --seed 5 --samples 3 --batch 2"));
  std::string line, last;
  for (int sample = 0; sample < 3; ++sample) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(ids(line), ids(generated(command + " --seed " + std::to_string(5 + sample))));
    EXPECT_NE(line, last);
    last = line;
  }
  EXPECT_FALSE(std::getline(lines, line));
  expect_refusal(command + " --samples 2 --temperature 0", 2, "--samples: 2 with --temperature 0");
}

TEST_F(ResultsTest, AnswersConversationsInTheTextOfTheirTemplate) {
  train("run");
  const std::string command = "generate " + path("run") + " --tokens 5 --seed 5 --json --prompt ";
  expect_refusal(command + "hm --chat", 2, "pack_chats.py");
  write_file(path("run/chat.json"),
             R"({"begin":"B","generation":"A:","end":"","trims":true,"roles":{)"
             R"("user":{"before":"U:","after":"."},"system":{"before":"S:","after":"."}}})");
  const auto ids = [&](const std::string& arguments) {
    return nlohmann::json::parse(generated(arguments)).at("ids");
  };
  const std::string answer = ids(command + "BU:hm.A:").dump();
  EXPECT_EQ(ids(command + "hm --chat").dump(), answer);
  write_file(path("chats.jsonl"), R"({"messages":[{"role":"user","content":" hm "}]})");
  EXPECT_EQ(ids("generate " + path("run") + " --tokens 5 --seed 5 --json --chat --prompts " +
                path("chats.jsonl"))
                .dump(),
            answer);
  EXPECT_EQ(ids(command + "hm --system be --chat"), ids(command + "S:be.U:hm.A:"));

  const auto refuses = [&](const std::string& messages, const std::string& what) {
    write_file(path("chats.jsonl"), "{\"messages\": " + messages + "}\n");
    expect_refusal("generate " + path("run") + " --chat --prompts " + path("chats.jsonl"), 2,
                   "chats.jsonl:1: " + what);
  };
  refuses("3", "\"messages\" is 3, expected a list");
  refuses(R"([{"role":"tool","content":"x"}])", "message 1 has the role 'tool'");
  refuses(R"([{"role":"user","content":"x"},{"role":"system","content":"x"}])", "message 2");
  refuses("[]", "the conversation must end with a message to be answered");
  expect_refusal(command + "hm --chat --chat-template chatml", 2,
                 "'<|im_end|>' of the template is not in the model's tokenizer");
  write_file(path("run/chat.json"), "{}");
  expect_refusal(command + "hm --chat", 2, "pack_chats.py --pieces");
}

TEST_F(ResultsTest, TextsEndAtStopTextsAndLimits) {
  train("run");
  const std::string command =
      "generate " + path("run") + " --prompt rower --tokens 40 --seed 5 --json";
  const auto line = [&](const std::string& more) {
    const std::string printed = output(command + more);
    return nlohmann::json::parse(printed.substr(printed.find("{\"prompt\"")));
  };
  const auto whole = line("");
  const auto text = whole.at("text").get<std::string>();
  ASSERT_EQ(whole.at("ids").size(), 40U);
  EXPECT_EQ(whole.at("reason"), "length");

  const auto full = line(" --forget 0");
  EXPECT_EQ(full.at("reason"), "context");
  EXPECT_EQ(full.at("ids").size(), 24U - 5U + 1U);
  EXPECT_NE(line(" --forget 1").at("text"), text);

  const auto id = whole.at("ids").at(9).get<int>();
  const auto stopped = line(" --stop-ids " + std::to_string(id));
  EXPECT_EQ(stopped.at("reason"), "stop");
  EXPECT_LE(stopped.at("ids").size(), 9U);
  write_file(path("run/generation_config.json"), fmt::format("{{\"eos_token_id\": [{}]}}", id));
  EXPECT_EQ(line("").at("ids"), stopped.at("ids"));

  expect_refusal(command + " --prompt-ids 1,2", 2, "--prompt");
  expect_refusal("generate " + path("run") + " --prompt-ids 1,256", 2, "token id 256 lies outside");
  expect_refusal("generate " + path("run") + " --prompt \"" + std::string(25, 'x') + "\"", 2,
                 "a prompt of 25 tokens is longer than the context of 24");
  expect_refusal(command + " --forget 25", 2, "--forget");
  expect_refusal(command + " --stop ''", 2, "--stop");
  write_file(path("bad.jsonl"), "{\"prompt\": \"a\"}\n{\"prompt\": 3}\n");
  expect_refusal("generate " + path("run") + " --prompts " + path("bad.jsonl"), 2,
                 "bad.jsonl:2: \"prompt\" is 3, expected a string");
  const auto refuses = [&](const std::string& last, const std::string& what) {
    write_file(path("bad.jsonl"), "{\"prompt\": \"a\"}\n" + last + "\n");
    expect_refusal("generate " + path("run") + " --prompts " + path("bad.jsonl"), 2,
                   "bad.jsonl:2: " + what);
  };
  refuses(R"({"prompt_ids": [1, 256]})", "token id 256 lies outside");
  refuses(R"({"prompt": ")" + std::string(25, 'x') + "\"}", "a prompt of 25 tokens");
  refuses(R"({"prompt": "a", "prompt_ids": [1]})", "has a prompt and prompt_ids");
}

TEST_F(ResultsTest, TextGoesThroughTheTokenizerThatTheDataWasPackedWith) {
  TokenizerText tokenizer;
  tokenizer.merges = {"a b", "\u0120 ab", "r o", "w e", "ro we"};
  write_file(path("tokenizer.json"), tokenizer.json());
  tokenizer.merges.pop_back();
  write_file(path("other.json"), tokenizer.json());
  std::string text;
  while (text.size() < 4000)
    text += "ab rowe caf\u00e9 ";
  write_file(path("book.txt"), text);
  const std::string option = " --tokenizer " + path("tokenizer.json");
  EXPECT_THAT(
      output("data pack-text " + path("book.txt") + " --quiet --out " + path("book") + option),
      HasSubstr("1 document"));
  train("run", {"data.path=" + path("book"), "data.validation_path=''", "train.eval_every=0",
                "model.vocabulary=261"});
  const std::string command = "generate " + path("run") + " --prompt rowe --tokens 4";

  EXPECT_THAT(output(command + option), HasSubstr("\nrowe"));
  expect_refusal(command, 2, "give its tokenizer.json with --tokenizer");
  expect_refusal(command + " --tokenizer " + path("other.json"), 3,
                 "was packed with the tokenizer");
}

TEST_F(ResultsTest, WeightsThatAreNotFiniteEndWithCode6AndTheTensorsName) {
  train("run");
  std::string bytes = read_file(path("run/weights.safetensors"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof nan, &nan, sizeof nan);
  write_file(path("run/weights.safetensors"), bytes);

  expect_refusal("eval " + path("run"), 6, "holds NaN or infinity in final_norm.weight", 2);
  expect_refusal("generate " + path("run"), 6, "holds NaN or infinity in final_norm.weight");
}

TEST_F(ResultsTest, PipesAndInvalidNumbersAreRefusedAtOnce) {
  train("run");
  const std::string pipe = path("pipe"), run = path("run");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_directory(path("fake"));
  ASSERT_EQ(::mkfifo(path("fake/manifest.json").c_str(), 0600), 0);

  expect_refusal("eval " + run + " --weights " + pipe, 4, "not a regular file");
  expect_refusal("eval " + run + " --weights " + path("fake"), 4, "not a regular file", 2);
  expect_refusal("checkpoint inspect --verify " + path("fake"), 4, "not a regular file");
  expect_refusal("checkpoint inspect " + run + " /dev/zero", 4, "not a regular file");
  expect_refusal("train " + pipe, 2, "not a regular file", 2);
  expect_refusal("scale " + pipe + " --ranks 1 --out " + path("study"), 2, "not a regular file");
  expect_refusal("generate " + run + " --temperature nan", 2, "--temperature");
  expect_refusal("generate " + run + " --seed 99999999999999999999", 2, "--seed");
  expect_refusal("generate " + run + " --seed -1", 2, "--seed");
}

}  // namespace
}  // namespace trireme::test
