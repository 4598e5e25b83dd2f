// Which checkpoint of a folder is found, which stay, and which run may not save there.
#include "pipeline/checkpoint/saved.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "tests/pipeline/checkpoint/saved_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Saved : public SavedFolder {
 protected:
  void damage(int64_t step) {
    write_file(checkpoint_path(folder(), step) / "stage-0.safetensors", "other");
  }
};

TEST_F(Saved, TheLatestIntactOneIsFoundAndLaterOnesAreNamedWithTheirDamage) {
  for (const int64_t step : {8, 9, 10}) save(step);
  fs::create_directories(checkpoint_path(folder(), 11));  // without a manifest
  fs::create_directories(unfinished_path(folder(), 12));
  damage(8);
  damage(10);
  const auto found = find_intact(folder());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, checkpoint_path(folder(), 9));
  EXPECT_EQ(found->manifest.step, 9);
  EXPECT_THAT(found->damaged, ElementsAre(11, 10));
  EXPECT_THAT(found->warnings,
              ElementsAre(HasSubstr("step-11/manifest.json: cannot be read: No such file"),
                          HasSubstr("step-10/stage-0.safetensors: has sha256")));
}

TEST_F(Saved, OneThatIsNamedIsTakenOrRefused) {
  save(9);
  save(10);
  EXPECT_EQ(find_intact(checkpoint_path(folder(), 9))->manifest.step, 9);
  damage(9);
  EXPECT_THAT(input_error([&] { find_intact(checkpoint_path(folder(), 9)); }),
              HasSubstr("take another checkpoint"));
}

TEST_F(Saved, WhereNoneIsIntactOneMessageNamesThemAll) {
  save(9);
  save(10);
  damage(9);
  damage(10);
  const std::string message = input_error([&] { find_intact(folder()); });
  for (const char* word : {"holds no intact checkpoint", "step-9/", "step-10/", "another folder"})
    EXPECT_THAT(message, HasSubstr(word));
}

TEST_F(Saved, AFolderMayHoldNone) {
  EXPECT_FALSE(find_intact(folder()));
  EXPECT_FALSE(find_intact(folder() / "none"));
  EXPECT_THAT(input_error([&] { require_intact(folder()); }), HasSubstr("holds no checkpoint"));
}

TEST_F(Saved, OnlyFoldersNamedAsTheyAreSavedCount) {
  save(9);
  save(10);
  fs::create_directories(checkpoint_path(folder(), 11));  // without a manifest
  for (const char* name : {"step-012", "step-13x", "step-", "step--4"}) {
    fs::copy(checkpoint_path(folder(), 9), folder() / name);
  }
  EXPECT_THAT(saved_steps(folder()), ElementsAre(9, 10));
  EXPECT_EQ(find_intact(folder())->manifest.step, 10);
  EXPECT_TRUE(saved_steps(folder() / "none").empty());
  EXPECT_TRUE(is_checkpoint(checkpoint_path(folder(), 9)));
  EXPECT_FALSE(is_checkpoint(folder()));
}

TEST_F(Saved, AFolderWithLaterStepsOfAnotherRunIsRefused) {
  save(9);
  check_no_later_steps(folder(), 10);
  check_no_later_steps(folder(), 9);  // replaced
  check_no_later_steps(folder() / "none", 1);
  check_no_later_steps(folder(), 8, {9});
  const std::string message = input_error([&] { check_no_later_steps(folder(), 8); });
  for (const char* word : {"step 9", "step 8", "--resume", "another folder", "remove"}) {
    EXPECT_THAT(message, HasSubstr(word));
  }
  EXPECT_THAT(message, HasSubstr(folder().string()));
}

TEST_F(Saved, EarlierOnesAreRemovedAndLaterOnesStay) {
  for (const int64_t step : {2, 4, 6, 8, 10}) save(step);
  remove_earlier(folder(), read_manifest(checkpoint_path(folder(), 8)), 3);
  EXPECT_THAT(saved_steps(folder()), ElementsAre(4, 6, 8, 10));
  remove_earlier(folder(), read_manifest(checkpoint_path(folder(), 8)), 1);
  EXPECT_THAT(saved_steps(folder()), ElementsAre(8, 10));
}

TEST_F(Saved, ThoseOfAnotherTrainingStay) {
  save(2);
  save(4);
  plan_.job.seed = 4;
  const fs::path latest = save(6);
  plan_.job.seed = 3;
  plan_.job.global_batch = 16;
  save(3);
  remove_earlier(folder(), read_manifest(latest), 1);
  EXPECT_THAT(saved_steps(folder()), ElementsAre(2, 3, 4, 6));
}

TEST_F(Saved, WhatKilledRunsLeftUnfinishedIsRemoved) {
  save(2);
  fs::create_directories(unfinished_path(folder(), 2));
  fs::create_directories(unfinished_path(folder(), 4) / "sub");
  fs::create_directories(folder() / ".step-2.unfinished.old");
  fs::create_directories(folder() / ".step");
  remove_unfinished(folder());
  EXPECT_TRUE(fs::exists(folder() / ".step"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 2);
  remove_unfinished(folder() / "none");
}

}  // namespace
}  // namespace penstock
