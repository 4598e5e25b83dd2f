#include "pipeline/job/job.hpp"

#include <gmock/gmock.h>

#include "base/paths.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string text_job =
    "penstock: job\n"
    "model: models/gpt2.pt2\n"
    "loss: cross_entropy\n"
    "optimizer: {kind: adamw, learning_rate: 3e-4}\n"
    "data: [a.txt, ../b.txt]\n"
    "sequence: 128\n"
    "global_batch: 32\n"
    "steps: 100\n"
    "seed: 7\n";

/// text_job with one line replaced (or, by "", removed).
std::string changed(const std::string& line, const std::string& by) {
  std::string text = text_job;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), by);
}

/// text_job with other data, which is not cut into windows.
std::string no_windows(const std::string& data, const std::string& loss = "cross_entropy") {
  std::string text = changed("[a.txt, ../b.txt]\nsequence: 128", data);
  return text.replace(text.find("cross_entropy"), std::string("cross_entropy").size(), loss);
}

class JobFile : public ::testing::Test {
 protected:
  Job read(const std::string& text) { return read_job(folder_.write("sub/job.yaml", text)); }
  std::string refusal(const std::string& text) {
    return input_error([&] { read(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(JobFile, IsReadWithPathsRelativeToIt) {
  const Job job = read(text_job);
  EXPECT_EQ(job.model, folder_.path() / "sub/models/gpt2.pt2");
  EXPECT_EQ(job.loss.kind, Loss::cross_entropy);
  EXPECT_EQ(job.optimizer.kind, OptimizerSpec::Kind::adamw);
  EXPECT_EQ(job.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(job.optimizer.weight_decay, 0.01) << "PyTorch's default for AdamW";
  EXPECT_THAT(job.data, ElementsAre(folder_.path() / "sub/a.txt", folder_.path() / "b.txt"));
  EXPECT_EQ(job.sequence, 128);
  EXPECT_EQ(job.global_batch, 32);
  EXPECT_EQ(job.steps, 100);
  EXPECT_EQ(job.seed, 7u);
}

TEST_F(JobFile, ALossWithSettingsIsAMapping) {
  const Job job = read(changed("cross_entropy", "{kind: cross_entropy, label_smoothing: 0.1}"));
  EXPECT_EQ(job.loss, LossSpec(Loss::cross_entropy, 0.1));
  EXPECT_EQ(read(to_yaml(job, folder_.path() / "sub/job.yaml")), job);
  EXPECT_EQ(read(changed("cross_entropy", "{kind: mse}")).loss, LossSpec(Loss::mse));
}

TEST_F(JobFile, MayHaveAValidationSetOfTheSameKind) {
  EXPECT_FALSE(read(text_job).validation.has_value());
  const Job job = read(text_job + "validation: {data: [c.txt, d.txt], every: 50}\n");
  EXPECT_THAT(job.validation->data,
              ElementsAre(folder_.path() / "sub/c.txt", folder_.path() / "sub/d.txt"));
  EXPECT_EQ(job.validation->every, 50);
  const Job validated = validation_job(job);
  EXPECT_EQ(validated.data, job.validation->data);
  EXPECT_EQ(validated.sequence, job.sequence);
  EXPECT_EQ(read(to_yaml(job, folder_.path() / "sub/job.yaml")), job);
  EXPECT_EQ(read(text_job + "validation: {data: c.txt}\n").validation->every, 0);
}

TEST_F(JobFile, RefusesValidationThatDoesNotFitItsData) {
  EXPECT_THAT(refusal(text_job + "validation: {data: c.safetensors}\n"),
              AllOf(HasSubstr("validation.data"), HasSubstr("of another kind")));
  EXPECT_THAT(refusal(changed("data: [a.txt, ../b.txt]\n", "validation: {data: c.txt}\n")),
              HasSubstr("the job has no `data`"));
  EXPECT_THAT(refusal(text_job + "validation: {data: c.txt, every: 0}\n"), HasSubstr("every"));
  EXPECT_THAT(refusal(text_job + "validation: {data: []}\n"), HasSubstr("the list is empty"));
  EXPECT_THAT(refusal(text_job + "validation: {data: c.txt, often: 1}\n"), HasSubstr("often"));
}

TEST_F(JobFile, DefaultsAreOneStepSeed0AndNoData) {
  const Job job = read(
      "penstock: job\nmodel: m.pt2\nloss: mse\n"
      "optimizer: {kind: sgd, learning_rate: 0.1}\nglobal_batch: 8\n");
  EXPECT_EQ(job.steps, 1);
  EXPECT_EQ(job.seed, 0u);
  EXPECT_TRUE(job.data.empty());
  EXPECT_EQ(job.optimizer.weight_decay, 0);
}

TEST_F(JobFile, DataIsInOrderAndStartsOverUnlessToldOtherwise) {
  const Job plain = read(text_job);
  EXPECT_FALSE(plain.shuffle);
  EXPECT_EQ(plain.last_batch, std::nullopt);
  EXPECT_EQ(plain.token_bytes, 0);
  const Job job = read(changed("[a.txt, ../b.txt]",
                               "a.bin\ntoken_bytes: 4\nshuffle: true\n"
                               "last_batch: drop"));
  EXPECT_TRUE(job.shuffle);
  EXPECT_EQ(job.last_batch, LastBatch::drop);
  EXPECT_EQ(job.token_bytes, 4);
}

TEST_F(JobFile, RandomDataIsNoFileUnlessThePathSaysSo) {
  const Job made_up = read(no_windows("random"));
  EXPECT_TRUE(made_up.random_data);
  EXPECT_TRUE(made_up.data.empty());
  const Job file = read(changed("[a.txt, ../b.txt]", "./random"));
  EXPECT_FALSE(file.random_data);
  EXPECT_THAT(file.data, ElementsAre(folder_.path() / "sub/random"));
  EXPECT_THAT(to_yaml(file, folder_.path() / "sub/job.yaml"), HasSubstr("data: ./random\n"));
}

TEST_F(JobFile, StatePerParameter) {
  EXPECT_EQ((OptimizerSpec{.kind = OptimizerSpec::Kind::sgd}).state_per_parameter(), 0);
  EXPECT_EQ(
      (OptimizerSpec{.kind = OptimizerSpec::Kind::sgd, .momentum = 0.9}).state_per_parameter(), 1);
  EXPECT_EQ((OptimizerSpec{.kind = OptimizerSpec::Kind::adamw}).state_per_parameter(), 2);
}

TEST_F(JobFile, WrittenJobsAreReadBackEqual) {
  const std::string jobs[] = {
      text_job,
      changed("{kind: adamw, learning_rate: 3e-4}",
              "{kind: sgd, learning_rate: 0.1, momentum: 0.9, weight_decay: 1e-5}"),
      changed(
          "{kind: adamw, learning_rate: 3e-4}",
          "{kind: adamw, learning_rate: 0.3, betas: [0.1, 0.2], epsilon: 1e-7, weight_decay: 0}"),
      changed("data: [a.txt, ../b.txt]\nsequence: 128", "data: /x/y z.safetensors"),
      changed("[a.txt, ../b.txt]", "[a.bin, b.bin]\ntoken_bytes: 4\nshuffle: true"),
      no_windows("[a.safetensors, b.safetensors]\nshuffle: true\nlast_batch: pad"),
      no_windows("random"),
      no_windows("x.safetensors\nlast_batch: drop", "output"),
      changed("[a.txt, ../b.txt]", "./random\nlast_batch: wrap"),
      changed("loss: cross_entropy", "loss: output")};
  for (const std::string& text : jobs) {
    const Job job = read(text);
    const auto other = folder_.path() / "deep/er/copy.yaml";
    const std::string written = to_yaml(job, other);
    EXPECT_EQ(read_job(folder_.write("deep/er/copy.yaml", written)), job) << written;
    EXPECT_EQ(to_yaml(read_job(other), other), written);
  }
}

TEST_F(JobFile, IsWrittenForPeople) {
  EXPECT_EQ(
      to_yaml(read(text_job), folder_.path() / "sub/job.yaml"),
      "penstock: job\n"
      "model: models/gpt2.pt2\n"
      "loss: cross_entropy\n"
      "optimizer: {kind: adamw, learning_rate: 0.0003, weight_decay: 0.01, betas: [0.9, 0.999], "
      "epsilon: 1e-08}\n"
      "data: [a.txt, ../b.txt]\n"
      "sequence: 128\n"
      "global_batch: 32\n"
      "steps: 100\n"
      "seed: 7\n");
}

TEST_F(JobFile, MistakesAreRefusedWithPlaceValueAndCure) {
  const std::string sgd = "{kind: sgd, learning_rate: 0.1";
  const std::string adamw = "{kind: adamw, learning_rate: 3e-4}";
  struct Case {
    std::string text, place, problem, cure;
  };
  const Case cases[] = {
      {changed("model: models", "modle: models"), "model", "missing", "Is `modle` a misspelling"},
      {text_job + "step: 4\n", "job.yaml:10: step", "unknown key", "Did you mean steps?"},
      {text_job + "steps: 4\n", "job.yaml:10", "`steps` is given twice, first in line 8",
       "Keep one"},
      {changed("loss: cross_entropy", "loss: nll"), "job.yaml:3: loss", "no loss `nll`",
       "cross_entropy, mse"},
      {changed("cross_entropy", "{kind: mse, label_smoothing: 0.1}"),
       "job.yaml:3: loss.label_smoothing", "mse has no `label_smoothing`", "kind: cross_entropy"},
      {changed("cross_entropy", "{kind: cross_entropy, label_smoothing: 1.5}"),
       "loss.label_smoothing", "1.5", "0..1"},
      {changed("cross_entropy", "{kind: cross_entropy, smoothing: 0.1}"), "loss.smoothing",
       "unknown key", "label_smoothing"},
      {changed("kind: adamw", "kind: adam"), "job.yaml:4: optimizer.kind", "no optimizer `adam`",
       "sgd or adamw"},
      {changed("3e-4}", "3e-4, momentum: 0.9}"), "optimizer.momentum", "adamw has no `momentum`",
       "kind: sgd"},
      {changed(adamw, sgd + ", betas: [0.9, 0.9]}"), "optimizer.betas", "sgd has no `betas`",
       "kind: adamw"},
      {changed(adamw, sgd + ", epsilon: 0.1}"), "optimizer.epsilon", "sgd has no `epsilon`",
       "Remove it"},
      {changed("3e-4}", "3e-4, betas: [0.9]}"), "optimizer.betas", "[0.9] is not two numbers",
       "[0.9, 0.999]"},
      {changed("3e-4}", "3e-4, betas: [0.9, 1]}"), "optimizer.betas",
       "[0.9, 1] is not two numbers from 0 to below 1", "betas:"},
      {changed("3e-4}", "3e-4, betas: [0.9x, 0.9]}"), "optimizer.betas",
       "`0.9x` is not a number in 0..1", "Write"},
      {changed("3e-4}", "3e-4, nesterov: true}"), "optimizer.nesterov", "unknown key",
       "Keys here are"},
      {changed("3e-4", "-3e-4"), "optimizer.learning_rate", "`-3e-4` is not a number in 0..1000",
       "Write"},
      {changed("learning_rate: 3e-4", "lr: 1"), "optimizer.learning_rate", "missing", "Add"},
      {changed("global_batch: 32", "global_batch: 0"), "global_batch",
       "`0` is not an integer in 1..", "Write"},
      {changed("global_batch: 32\n", ""), "global_batch", "missing", "Add `global_batch: …`"},
      {changed("seed: 7", "seed: -1"), "job.yaml:9: seed", "`-1` is not", "Write"},
      {changed("sequence: 128\n", ""), "sequence", "missing", "add `sequence: 128`"},
      {changed("[a.txt, ../b.txt]", "x.safetensors"), "sequence", "not cut into windows", "Remove"},
      {changed("[a.txt, ../b.txt]", "[a.safetensors, b.safetensors]"), "sequence",
       "not cut into windows", "Remove"},
      {changed("../b.txt", "b.safetensors"), "data", "of different kinds", "only .safetensors"},
      {changed("../b.txt", "random"), "data", "`random` among files", "./random"},
      {changed("[a.txt, ../b.txt]", "random"), "job.yaml:6: sequence", "the shapes that the model",
       "Remove"},
      {no_windows("random\nshuffle: true"), "job.yaml:6: shuffle", "never ends", "Remove"},
      {no_windows("random\nlast_batch: drop"), "last_batch", "never ends", "Remove"},
      {no_windows("random\ntoken_bytes: 4"), "token_bytes", "the shapes", "Remove"},
      {text_job + "token_bytes: 4\n", "job.yaml:10: token_bytes", "texts are read as bytes",
       "Remove"},
      {no_windows("a.safetensors\ntoken_bytes: 2"), "token_bytes", "say what they hold", "Remove"},
      {changed("[a.txt, ../b.txt]", "a.bin\ntoken_bytes: 8"), "token_bytes",
       "`8` is not an integer in 2..4", "Write"},
      {changed("[a.txt, ../b.txt]", "a.bin\ntoken_bytes: 3"), "token_bytes", "2 bytes or 4, not 3",
       "4 for uint32"},
      {text_job + "shuffle: 3\n", "shuffle", "`3`", "true"},
      {text_job + "last_batch: keep\n", "last_batch", "there is no `keep`", "drop (what is left"},
      {no_windows("a.safetensors\nlast_batch: pad", "mse"), "last_batch",
       "under `loss: mse` every sample counts", "`last_batch: drop`"},
      {changed("../b.txt", "b.bin"), "data", "of different kinds", "only texts"},
      {changed("[a.txt, ../b.txt]", "[]"), "data", "the list is empty", "Name a file"},
      {changed("penstock: job", "penstock: jobs"), "job.yaml:1: penstock", "`jobs` where `job`",
       "begin with"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(refusal(each.text),
                AllOf(HasSubstr(each.place), HasSubstr(each.problem), HasSubstr(each.cure)));
  }
}

TEST(Paths, FollowTheFileSystemThroughLinks) {
  const TemporaryFolder folder;
  folder.write("real/deep/plan.yaml", "");
  folder.write("real/model.pt2", "");
  std::filesystem::create_directory_symlink(folder.path() / "real/deep", folder.path() / "link");
  const auto file = folder.path() / "link/plan.yaml";
  // From the link `..` is real/, as for every program that opens `link/../model.pt2`.
  EXPECT_EQ(absolute_path(file, "../model.pt2"), folder.path() / "real/model.pt2");
  EXPECT_EQ(relative_path(file, folder.path() / "real/model.pt2"), "../model.pt2");
}

TEST(Paths, ALinkedFileKeepsItsName) {
  const TemporaryFolder folder;
  folder.write("blobs/1234", "");
  std::filesystem::create_symlink(folder.path() / "blobs/1234", folder.path() / "data.safetensors");
  EXPECT_EQ(absolute_path(folder.path() / "job.yaml", "data.safetensors"),
            folder.path() / "data.safetensors");
}

// These once ended as failures of the system, or named another file.
TEST(Paths, WhatCannotBeLookedUpIsRefusedNamingTheFile) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  const std::string file = folder.path() / "job.yaml";
  const auto refusal = [&](const std::string& text) {
    return input_error([&] { absolute_path(file, text); });
  };
  for (const std::string& text : {std::string(300, 'a') + "/m.pt2", std::string("loop/m.pt2")}) {
    EXPECT_THAT(refusal(text), StartsWith(file + ": the path `" + text + "`: "));
  }
  EXPECT_THAT(refusal(std::string("m\0.pt2", 6)),
              StartsWith(file + ": the path `m\\x00.pt2`: a zero byte in it"));
}

}  // namespace
}  // namespace penstock
