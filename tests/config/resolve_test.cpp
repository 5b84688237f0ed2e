// SPDX-License-Identifier: Apache-2.0
// Rules that span keys.
#include <gmock/gmock.h>

#include "models/gpt/gpt.h"
#include "models/resnet/resnet.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ResolveConfig, FillsInEveryAuto) {
  const Config config = resolved(gpt, {"precision=auto", "train.global_batch=32"}, ranks(4));

  EXPECT_EQ(config.device.type, DeviceChoice::cpu);
  EXPECT_EQ(config.precision, Precision::fp32);
  EXPECT_EQ(config.parallel.data, 4);
}

TEST(ResolveConfig, AutomaticPrecisionIsBf16WhereItIsNative) {
  EXPECT_EQ(resolved(gpt, {"precision=auto"}, {.native_bf16 = true}).precision, Precision::bf16);
  EXPECT_EQ(resolved(gpt, {"precision=bf16"}, {.native_bf16 = false}).precision, Precision::bf16);
  EXPECT_EQ(resolved(gpt, {"precision=auto"}, {.cuda_in_build = true, .gpus = 1}).precision,
            Precision::bf16);
  EXPECT_EQ(resolved(gpt, {}, {.cuda_in_build = true, .gpus = 1}).device.type, DeviceChoice::cuda);
}

TEST(ResolveConfig, ResultIsAFixedPointAndReadsBack) {
  const Config config = resolved(gpt, {"precision=auto"}, ranks(2));

  EXPECT_EQ(resolve_config(config, ranks(2)), config);
  EXPECT_EQ(resolved(to_yaml(config), {}, ranks(2)), config);
}

TEST(ResolveConfig, NamesFileLineAndKey) {
  EXPECT_THAT(refusal("data: {path: x}\nmodel:\n  heads: 3\n"),
              StartsWith("a.yaml:3: model.heads: 3 does not divide"));
  EXPECT_THAT(refusal(gpt, {"model.heads=3"}),
              StartsWith("--set model.heads=3: 3 does not divide"));
  EXPECT_THAT(config_error([] { return resolve_config(default_config(), Environment{}); }),
              StartsWith("data.path: not set"));
}

TEST(ResolveLayout, RefusesRanksThatTheLayoutDoesNotFill) {
  EXPECT_EQ(refusal(gpt, {"parallel.data=3"}, ranks(4)),
            "--set parallel.data=3: 3 data-parallel ranks in a job of 4; use auto or 4, or start 3 "
            "ranks");
  EXPECT_EQ(resolved(gpt, {"parallel.data=4"}, ranks(4)).parallel.data, 4);
}

TEST(ResolveLayout, RefusesAMeshThatIsNotTheRankCount) {
  const std::vector<std::string> axes{"parallel.tensor=2", "parallel.pipeline=2"};

  EXPECT_EQ(refusal(gpt, axes, ranks(6)),
            "a.yaml: parallel.data: 6 ranks cannot be split: tensor * pipeline = 4 "
            "does not divide them; start a multiple of 4 ranks");
  EXPECT_EQ(refusal(gpt + "parallel: {data: 3, tensor: 2, pipeline: 2}\n", {}, ranks(8)),
            "a.yaml:2: parallel.data: 3 data-parallel ranks times 4 along the other axes in a job "
            "of 8; use auto or 2, or start 12 ranks");
  EXPECT_EQ(resolved(gpt, axes, ranks(8)).parallel.data, 2);
}

TEST(ResolveLayout, RefusesABatchThatDoesNotDivideAndListsWhatDoes) {
  EXPECT_EQ(refusal(gpt, {"train.global_batch=30"}, ranks(2)),
            "--set train.global_batch=30: 30 is not a multiple of train.micro_batch = 4; use "
            "global_batch 28 or 32, or micro_batch 2, 3, 5 or 6");
  EXPECT_THAT(refusal(gpt, {"train.global_batch=2"}),
              HasSubstr("use global_batch 4, or micro_batch 1 or 2"));
}

TEST(ResolveLayout, DataRanksNeedNotHoldAsManyMicroBatchesButOne) {
  for (const int count : {1, 3, 5, 6, 7, 8}) {
    EXPECT_NO_THROW((void)resolved(gpt, {}, ranks(count)));
    EXPECT_NO_THROW((void)resolved(gpt, {"reproducibility=layout"}, ranks(count)));
  }
  EXPECT_EQ(refusal(gpt, {"train.global_batch=8"}, ranks(3)),
            "--set train.global_batch=8: 8 samples in micro-batches of 4 make 2 micro-batches, "
            "fewer than parallel.data = 3 ranks; use global_batch 12, or micro_batch 1 or 2, or 2 "
            "data ranks or fewer");
  EXPECT_EQ(refusal(gpt, {"train.global_batch=32", "parallel.zero=2"}, ranks(3)),
            "--set train.global_batch=32: 32 is not a multiple of train.micro_batch * "
            "parallel.data = 4 * 3 = 12, and parallel.zero: 2 reduces every micro-batch over all "
            "ranks together; use global_batch 24 or 36, or 1, 2, 4 or 8 data ranks, or zero 0 or "
            "1");
}

TEST(ResolveLossScale, BelongsToFp16AndStartsAboveItsMinimum) {
  EXPECT_EQ(resolved(gpt, {"precision=fp16", "loss_scale.initial=8"}).loss_scale.initial, 8);
  EXPECT_THAT(refusal(gpt, {"precision=bf16", "loss_scale.initial=8"}),
              HasSubstr("8 has no effect with precision: bf16, only with fp16"));
  EXPECT_THAT(refusal(gpt, {"precision=fp16", "loss_scale.initial=8", "loss_scale.minimum=16"}),
              HasSubstr("16 is more than loss_scale.initial = 8; use 8 or less"));
}

TEST(ResolveDevice, RefusesFeaturesMissingInBuildOrCpu) {
  EXPECT_THAT(refusal(gpt, {"device.type=cuda"}),
              HasSubstr("part of the cuda backend, which this build lacks; use cpu or auto"));
  EXPECT_THAT(refusal(gpt, {"device.graphs=step"}),
              HasSubstr("step has no effect with device.type: cpu, only with cuda"));
  EXPECT_THAT(refusal(gpt, {"device.share=true"}),
              HasSubstr("true has no effect with device.type: cpu, only with cuda"));
  EXPECT_EQ(resolved(gpt, {"precision=fp8"}).precision, Precision::fp8);
  EXPECT_THAT(refusal(resnet, {"precision=fp8"}),
              HasSubstr("fp8 is for the linear layers of transformer blocks"));
  EXPECT_EQ(resolved(gpt, {"reproducibility=fast"}).reproducibility, Reproducibility::fast);
}

TEST(ResolveDevice, FusesOnlyIfThereIsSomethingToFuse) {
  const Environment gpu{.cuda_in_build = true, .gpus = 1};
  const std::string fused = "device.fused_epilogues=on";

  EXPECT_TRUE(resolved(gpt, {fused}, gpu).device.fused_epilogues);
  EXPECT_THAT(refusal(gpt, {fused}), HasSubstr("has no effect with device.type: cpu"));
  EXPECT_TRUE(resolved(resnet, {fused}, gpu).device.fused_epilogues);
  EXPECT_THAT(
      refusal(gpt, {fused, "model.hidden=12", "model.heads=4", "parallel.tensor_blocks=4"}, gpu),
      HasSubstr("4 x model.hidden = 48 in 4 blocks makes 12"));
}

TEST(ResolveDevice, Fp8RecipesNeedAGpuThatMultipliesThem) {
  const std::string fp8 = "precision=fp8", blockwise = "fp8_recipe=blockwise",
                    mxfp8 = "fp8_recipe=mxfp8";
  const auto gpu = [](int capability) {
    return Environment{.cuda_in_build = true, .gpus = 1, .capability = capability};
  };

  EXPECT_EQ(resolved(gpt, {fp8}).fp8_recipe, Fp8Recipe::tensor);
  EXPECT_EQ(resolved(gpt, {fp8, mxfp8}).fp8_recipe, Fp8Recipe::mxfp8) << "the CPU has all";
  EXPECT_EQ(resolved(gpt, {fp8, blockwise}, gpu(90)).fp8_recipe, Fp8Recipe::blockwise);
  EXPECT_EQ(resolved(gpt, {fp8, mxfp8}, gpu(100)).fp8_recipe, Fp8Recipe::mxfp8);
  EXPECT_EQ(resolved(gpt, {fp8, mxfp8}, gpu(0)).fp8_recipe, Fp8Recipe::mxfp8) << "not known";
  EXPECT_EQ(refusal(gpt, {fp8, mxfp8}, gpu(90)),
            "--set fp8_recipe=mxfp8: mxfp8 needs a GPU of compute capability 10.0 or more "
            "(Blackwell), and this one has 9.0; use tensor or blockwise");
  EXPECT_THAT(refusal(gpt, {fp8, blockwise}, gpu(100)),
              HasSubstr("9.0 (Hopper), and this one has 10.0; use tensor or mxfp8"));
  EXPECT_THAT(refusal(gpt, {fp8, blockwise}, gpu(89)),
              testing::EndsWith("this one has 8.9; use tensor"));
  EXPECT_THAT(refusal(gpt, {"precision=bf16", blockwise}),
              HasSubstr("blockwise has no effect with precision: bf16, only with fp8"));
}

TEST(ResolveDevice, NcclsBlocksAreARange) {
  const Environment gpu{.cuda_in_build = true, .gpus = 1};

  EXPECT_EQ(resolved(gpt, {"comm.min_ctas=4"}, gpu).comm.min_ctas, 4);
  EXPECT_THAT(refusal(gpt, {"comm.min_ctas=4", "comm.max_ctas=2"}, gpu),
              HasSubstr("4 is more than comm.max_ctas = 2"));
  EXPECT_THAT(refusal(gpt, {"comm.max_ctas=2"}), HasSubstr("only with cuda"));
  EXPECT_THAT(refusal(gpt, {"comm.min_ctas=4", "comm.link_ctas=2"}, gpu),
              HasSubstr("4 is more than comm.link_ctas = 2"));
  EXPECT_THAT(refusal(gpt, {"comm.data_ctas=8"}), HasSubstr("only with cuda"));
  EXPECT_THAT(refusal(gpt, {"comm.tensor_ctas=65"}, gpu),
              HasSubstr("comm.tensor_ctas=65: 65 is out of range; allowed: default | 1 to 64"));
}

TEST(ResolveModel, HeadsMustDivideTheWidthIntoSizesThatTheKernelsTake) {
  EXPECT_EQ(refusal(gpt, {"model.heads=3"}),
            "--set model.heads=3: 3 does not divide model.hidden = 256; use 1, 2, 4 or 8");
  EXPECT_THAT(
      refusal(gpt, {"model.hidden=1024", "model.heads=2"}),
      HasSubstr(
          "2 heads over model.hidden = 1024 are 512 wide, more than 256; use 4, 8, 16 or 32"));
  EXPECT_EQ(resolved(gpt, {"model.hidden=1600", "model.heads=25"}).model.as<GptOptions>().heads,
            25);
}

TEST(ResolveModel, ImageMustSurviveTheStages) {
  EXPECT_EQ(refusal(resnet, {"model.image_size=28"}),
            "--set model.image_size=28: 28 pixels are less than one after stem imagenet and 4 "
            "stages, which need 32; "
            "use 32 or more, stem: small or fewer stages");
  EXPECT_THAT(refusal(resnet, {"model.image_size=7", "model.stem=small"}),
              HasSubstr("which need 8; use 8 or more or fewer stages"));
  EXPECT_EQ(resolved(resnet, {"model.image_size=28", "model.stem=small"})
                .model.as<ResNetOptions>()
                .image_size,
            28);
  EXPECT_THAT(refusal(resnet, {"model.width=8192", "model.block=bottleneck",
                               "model.stages=[1,1,1,1,1,1,1,1]", "model.image_size=512"}),
              HasSubstr("model.width=8192: 8192 grows to 4194304"));
}

TEST(ResolveModel, DeepCamNeedsTwoRowsAndColumnsAfterItsHalvings) {
  const std::string text =
      "model: {family: deepcam, classes: 3}\ndata: {files: [a.h5], inputs: [x], target: y}\n";
  EXPECT_EQ(refusal(text, {"model.image_width=16"}),
            "--set model.image_width=16: 16 is one pixel after four halvings; use 17 or more");
  EXPECT_THAT(refusal(text, {"model.class_weights=[1, 2]"}),
              HasSubstr("2 weights for model.classes = 3; give 3 or none"));
  EXPECT_THAT(refusal(text, {"model.filters=1025"}), HasSubstr("use 1024 or less"));
  EXPECT_NO_THROW(static_cast<void>(resolved(text, {"model.image_size=17"})));
}

TEST(ResolveModel, KeysOfAnotherModelOrOptimizerAreRefused) {
  EXPECT_EQ(refusal(gpt, {"model.width=32"}),
            "--set model.width=32: 32 has no effect with model.family: gpt2, only with resnet; "
            "remove it or use 64");
  EXPECT_THAT(refusal(resnet, {"model.layers=2"}), HasSubstr("only with gpt2"));
  EXPECT_THAT(refusal(gpt, {"data.flip=true"}), HasSubstr("only with resnet"));
  EXPECT_THAT(refusal(gpt, {"optimizer.nesterov=true"}), HasSubstr("only with sgd"));
  EXPECT_THAT(refusal(gpt, {"lr_schedule.decay_fraction=0.5"}), HasSubstr("only with wsd"));
  EXPECT_THAT(refusal(gpt, {"lr_schedule.power=0.9"}), HasSubstr("only with polynomial"));
  EXPECT_THAT(refusal(gpt, {"lr_schedule.factors=[\"5:0.5\"]"}), HasSubstr("only with multistep"));
}

TEST(ResolveAdapters, TargetExistingLayers) {
  const std::string lora = gpt + "train: {initial_weights: base}\nlora: {rank: 4}\n";
  EXPECT_EQ(resolved(lora, {"lora.targets=[qkv,output]"}).lora.targets.size(), 2U);
  EXPECT_THAT(refusal(lora, {"lora.targets=[q,v]"}),
              AllOf(StartsWith("--set lora.targets=[q,v]: 'q' is not a linear layer"),
                    HasSubstr("qkv, query, key, value, output, expand, contract")));
  EXPECT_THAT(refusal(lora, {"lora.targets=[]"}), HasSubstr("lora.targets=[]: is empty"));
  EXPECT_THAT(refusal(lora, {"train.initial_weights=''"}),
              HasSubstr("4 without train.initial_weights"));
  EXPECT_NO_THROW(resolved(lora, {"train.initial_weights=''"}, {}, Purpose::generate));
  EXPECT_THAT(refusal(lora, {"train.ema_decay=0.9"}), HasSubstr("which keeps no averages"));
  EXPECT_THAT(refusal(lora, {"optimizer.name=muon"}), HasSubstr("hidden matrices"));
  EXPECT_THAT(refusal(gpt, {"lora.alpha=8"}), HasSubstr("has no effect with lora.rank: 0"));
  EXPECT_THAT(refusal(resnet, {"lora.rank=4", "train.initial_weights=base"}),
              HasSubstr("only the blocks of causal language models"));
  EXPECT_THAT(refusal("model: {family: vit}\ndata: {path: shards}\n",
                      {"lora.rank=4", "train.initial_weights=base"}),
              HasSubstr("the classifier of images"));
}

TEST(ResolveData, ShardsAreRequiredByCommandsThatReadThem) {
  EXPECT_THAT(refusal("run: {}"), HasSubstr("a.yaml: data.path: not set; give packed shards"));
  EXPECT_THAT(refusal(gpt, {"train.eval_every=10"}), HasSubstr("10 needs data.validation_path"));
}

TEST(ResolveData, NormalisationMatchesTheChannels) {
  EXPECT_EQ(refusal(resnet, {"data.mean=[0.5]"}),
            "--set data.mean=[0.5]: 1 values for model.channels = 3; give 3 or leave it out");
  EXPECT_THAT(refusal(resnet, {"data.std=[1,1]"}), HasSubstr("2 values for model.channels = 3"));
  EXPECT_THAT(refusal(resnet, {"data.crop_padding=224"}),
              HasSubstr("224 is not below model.image_size = 224"));
  EXPECT_EQ(resolved(resnet, {"data.mean=[1,2,3]"}).data.mean.size(), 3U);
}

const std::string in_place = R"(
model: {family: resnet}
data: {files: [a, "b/*.h5"], inputs: [x], target: "@label"}
)";

TEST(ResolveData, HDF5FilesNeedInputsLabelsAndAxesThatFit) {
  const Config config = resolved(in_place, {"data.validation_fraction=0.1", "train.eval_every=5"});
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"a", "b/*.h5"}));
  EXPECT_EQ(resolved(in_place, {"data.files=one.h5"}).data.files,
            std::vector<std::string>{"one.h5"});

  EXPECT_THAT(refusal(in_place, {"data.path=shards"}),
              HasSubstr("names packed shards, but data.files"));
  EXPECT_THAT(refusal(in_place, {"data.inputs=[]"}), HasSubstr("data.inputs=[]: not set"));
  EXPECT_THAT(refusal(in_place, {"data.target="}), HasSubstr("give the path of the labels"));
  EXPECT_THAT(refusal(in_place, {"data.target=[a, \"\"]"}), HasSubstr("give the path"));
  const Config several = resolved(in_place, {"data.target=[a, b]"});
  EXPECT_EQ(several.data.target, (std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(to_yaml(several), HasSubstr("  target: [a, b]\n"));
  EXPECT_THAT(to_yaml(resolved(in_place, {"data.target=a"})), HasSubstr("  target: a\n"))
      << "as earlier versions wrote it";
  EXPECT_THAT(to_yaml(parsed("model: {family: resnet}\n")), HasSubstr("  target: \"\"\n"));
  EXPECT_THAT(refusal(in_place, {"data.target_mean=[1, 2]", "data.target_std=[1]"}),
              HasSubstr("data.target_mean has 2 numbers and data.target_std 1"));
  EXPECT_THAT(refusal(in_place, {"data.target_std=[1]"}), HasSubstr("one of each per number"));
  EXPECT_THAT(refusal(in_place, {"data.axes=HH"}), HasSubstr("is not an order of axes"));
  EXPECT_THAT(refusal(in_place, {"data.axes=NHW"}), HasSubstr("use samples: axis"));
  EXPECT_THAT(refusal(in_place, {"data.samples=axis"}), HasSubstr("has no N"));
  EXPECT_THAT(refusal(in_place, {"data.window=3"}), HasSubstr("no axis T"));
  EXPECT_THAT(refusal(in_place, {"data.crop=[1,2]"}), HasSubstr("top, left, height and width"));
  EXPECT_THAT(refusal(in_place, {"data.mean=[1,2,3]"}), HasSubstr("data.scaling: with none"));
  EXPECT_THAT(refusal(in_place, {"data.scaling=min_max"}), HasSubstr("data.statistics, or"));
  EXPECT_THAT(refusal(in_place, {"data.validation_fraction=0.5", "data.validation_files=[v]"}),
              HasSubstr("both name samples to evaluate on"));
  EXPECT_THAT(refusal(resnet, {"data.target=y"}), HasSubstr("has no effect without data.files"));
  EXPECT_THAT(refusal(gpt, {"data.files=[a]"}), HasSubstr("only with resnet"));
  EXPECT_THAT(refusal(resnet, {"model.channels=5"}), HasSubstr("packed images have 1 or 3"));
}

TEST(ResolveData, PatchesAndChangesInTrainingThatDoNotFitAreRefused) {
  const std::string in_place =
      "model: {family: resnet}\ndata: {files: [a], inputs: [x], target: y}";
  const auto refused = [&](const std::string& key, const std::string& why) {
    EXPECT_THAT(refusal(in_place, {key}), HasSubstr(why)) << key;
  };
  refused("data.foreground_share=0.5", "no effect without data.patches: true");
  refused("data.flips=[1]", "has 1 probabilities; give two, along rows and columns");
  refused("data.flips=[0, 2]", "data.flips");
  refused("data.brightness=[0.3]", "data.brightness=[0.3]: expected an amount and a probability");
  refused("data.noise=[0.1, 1.5]", "a probability up to 1");
  EXPECT_THAT(refusal(in_place, {"data.patches=true", "data.crop=[0,0,4,4]"}),
              HasSubstr("and data.patches both say which part"));
  EXPECT_THAT(refusal("model: {family: resnet}\ndata: {path: shards}", {"data.patches=true"}),
              HasSubstr("has no effect without data.files"));
  const Config taken =
      resolved(in_place, {"data.patches=true", "data.flips=[0.5, 0]", "data.noise=[2, 0.5]"});
  EXPECT_TRUE(taken.data.patches);
  EXPECT_EQ(taken.data.noise, (std::vector<double>{2, 0.5}));
}

TEST(ResolveData, KeysOfAnotherKindOfDataAreRefusedByName) {
  const std::string kinds[] = {"data: {path: shards}", "data: {files: [a], inputs: [x], target: y}",
                               "data: {images: [a]}"};
  const auto told = [&](std::size_t kind, const std::string& key) {
    return refusal("model: {family: resnet}\n" + kinds[kind], {key});
  };
  for (const std::size_t other : {0U, 2U})
    EXPECT_THAT(told(other, "data.test_files=[t]"), HasSubstr("no effect without data.files;"));
  for (const std::size_t other : {0U, 1U})
    EXPECT_THAT(told(other, "data.label=txt"), HasSubstr("no effect without data.images;"));
  EXPECT_THAT(told(0, "data.damaged=skip"), HasSubstr("without data.files or data.images;"));
  EXPECT_THAT(told(1, "data.images=[b]"), HasSubstr("data.images=[b]: and data.files both say"));
  EXPECT_THAT(told(2, "data.path=b"), HasSubstr("data.images: and data.path both say"));
  EXPECT_THAT(told(2, "data.sources=[b]"), HasSubstr("data.sources=[b]: and data.images both"));
}

TEST(ResolveSchedule, WarmUpEndsWithinTheRun) {
  EXPECT_EQ(refusal(gpt, {"train.steps=10", "lr_schedule.warmup_steps=50"}),
            "--set lr_schedule.warmup_steps=50: 50 is more than train.steps = 10; use 10 or less");
  EXPECT_EQ(resolved(gpt, {"train.steps=50", "lr_schedule.warmup_steps=50"}).train.steps, 50);
  EXPECT_THAT(refusal(gpt, {"lr_schedule.name=exponential", "lr_schedule.minimum_ratio=0"}),
              HasSubstr("lr_schedule.minimum_ratio=0: 0 with lr_schedule.name: exponential"));
  const auto factors = [](const std::string& list) {
    return refusal(gpt, {"lr_schedule.name=multistep", "lr_schedule.warmup_steps=3",
                         "lr_schedule.factors=" + list});
  };
  EXPECT_THAT(factors("[]"), HasSubstr("such as [\"1000:0.1\"]"));
  EXPECT_THAT(factors("[\"5:0.5\",\"5:0.1\"]"), HasSubstr("step 5 does not come after step 5"));
  EXPECT_THAT(factors("[\"5\"]"), HasSubstr("\"5\" is not STEP:FACTOR"));
  EXPECT_THAT(factors("[\"5:-1\"]"), HasSubstr("\"5:-1\" is not STEP:FACTOR"));
  EXPECT_THAT(factors("[\"2:0.5\"]"), HasSubstr("use step 3 or later"));
  EXPECT_EQ(resolved(gpt, {"lr_schedule.name=multistep", "lr_schedule.factors=[\"5:0.25\"]"})
                .lr_schedule.factors.size(),
            1U);
}

TEST(ResolveTelemetry, RefusesTracesOfStepsThatARunDoesNotHave) {
  const auto refused = [](const std::string& trace) {
    return refusal(gpt, {"train.steps=50", "telemetry.trace=" + trace});
  };
  for (const char* const good : {"10-12", "10", "1-50", "50", "''"})
    EXPECT_NO_THROW(static_cast<void>(
        resolved(gpt, {"train.steps=50", std::string("telemetry.trace=") + good})));
  EXPECT_EQ(refused("12-10"),
            "--set telemetry.trace=12-10: 12-10 ends before it begins; write 10-12");
  EXPECT_EQ(refused("0"), "--set telemetry.trace=0: 0: steps count from 1");
  EXPECT_EQ(refused("40-60"),
            "--set telemetry.trace=40-60: 40-60 is beyond the run's last step, train.steps = 50; "
            "trace steps up to 50, such as 40");
  for (const char* const letters :
       {"ten", "1-", "-3", "3-4-5", "1,2", "3.5", "99999999999999999999"})
    EXPECT_THAT(refused(letters),
                testing::HasSubstr("is neither a step nor a range of steps; write "
                                   "10, 10-12, or \"\" for no trace"));
  EXPECT_THAT(refusal(gpt, {"train.steps=5000", "telemetry.trace=1-101"}),
              testing::HasSubstr("are 101 steps and a trace has 100 at most; write 1-100"));
  // What is not trained is not traced.
  EXPECT_NO_THROW(static_cast<void>(
      resolved(gpt, {"train.steps=5", "telemetry.trace=10"}, {}, Purpose::generate)));
}

TEST(ResolveSchedule, NesterovNeedsMomentum) {
  EXPECT_THAT(
      refusal(gpt, {"optimizer.name=sgd", "optimizer.nesterov=true", "optimizer.momentum=0"}),
      HasSubstr("true needs optimizer.momentum above 0"));
}

TEST(ResolveSchedule, TokenCountMustFit63Bits) {
  EXPECT_THAT(refusal(gpt, {"train.steps=1000000000000", "train.global_batch=1048576",
                            "model.context=1048576"}),
              HasSubstr("overflow a 63-bit count"));
}

TEST(ResolvePurpose, CommandsThatDoNotTrainSkipTheTrainingRules) {
  const std::string of_a_big_run =
      "parallel: {data: 64}\ntrain: {global_batch: 7}\ncheckpoint: {every_steps: 5}\n"
      "lr_schedule: {warmup_steps: 5000}\n";

  EXPECT_EQ(resolved(of_a_big_run, {}, ranks(2), Purpose::generate).parallel.data, 2);
  EXPECT_THAT(refusal(of_a_big_run, {}, ranks(2), Purpose::evaluate),
              HasSubstr("data.validation_path: not set"));
  EXPECT_EQ(
      resolved(of_a_big_run, {"data.validation_path=x"}, ranks(1), Purpose::evaluate).parallel.data,
      1);
  EXPECT_THAT(refusal(of_a_big_run, {"parallel.data=3"}, ranks(2), Purpose::generate),
              HasSubstr("3 data-parallel ranks in a job of 2"));
  EXPECT_THAT(refusal("run: {}", {"model.heads=3"}, ranks(1), Purpose::generate),
              HasSubstr("does not divide"));
  EXPECT_THAT(refusal("run: {}", {"device.type=cuda"}, ranks(1), Purpose::generate),
              HasSubstr("this build lacks"));
}

TEST(UNetRules, NameValuesThatWork) {
  const std::string unet =
      "model: {family: unet, depth: 24, image_size: 40, filters: 12}\n"
      "data: {files: [x], inputs: [x], target: y, axes: DHWC}\n";
  const auto refused = [&](const std::vector<std::string>& overrides) {
    return refusal(unet, overrides);
  };

  EXPECT_EQ(
      resolved(unet, {"model.levels=3", "model.down=stride", "model.norm=instance"}).model.family,
      "unet");
  EXPECT_EQ(resolved(unet, {"train.loss=dice_cross_entropy"}).train.loss,
            LossChoice::dice_cross_entropy);
  EXPECT_THAT(refused({"train.loss=mse"}), HasSubstr("use auto or dice_cross_entropy"));
  EXPECT_EQ(refused({"model.levels=5"}),
            "--set model.levels=5: 5 halvings of 24 leave less than one; use 4 or fewer");
  EXPECT_EQ(refused({"model.down=stride"}),
            "a.yaml:1: model.image_size: 40 with model.down: stride and model.levels = 4; use a "
            "multiple of 16, such as 48, or model.down: pool");
  EXPECT_EQ(refused({"model.norm=group", "model.norm_groups=5", "model.widest=30"}),
            "--set model.norm_groups=5: 5 groups do not divide the 12 to 30 channels of the "
            "levels; use 1, 2, 3 or 6");
  EXPECT_EQ(
      refused({"model.norm_groups=4"}),
      "--set model.norm_groups=4: 4 has no effect with model.norm: batch; use group, or remove "
      "it");
  EXPECT_THAT(
      refused({"model.levels=3", "model.norm=instance", "model.depth=8", "model.image_size=8"}),
      HasSubstr("3 leave one value to each instance norm of the bottom"));
  EXPECT_EQ(refused({"model.widest=8"}),
            "--set model.widest=8: 8 is less than model.filters = 12; use 0, 12 or more");
  EXPECT_THAT(refused({"model.nonlinearity=elu"}), HasSubstr("relu, leaky_relu, tanh"));
}

}  // namespace
}  // namespace trireme
