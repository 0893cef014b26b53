#include "samerun/core/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace samerun {
namespace {

/// Writes down what it is told; throws at an event of the kind `fault`.
class Diary : public RunObserver {
 public:
  explicit Diary(std::string name, std::string fault = "") : name_(std::move(name)), fault_(std::move(fault)) {}

  std::string name() const override { return name_; }
  void on_rank_start(const RankStart&) override { note("rank_start"); }
  void on_setting(const SettingValue&) override { note("setting"); }
  void on_environment(const EnvironmentFact&) override { note("environment"); }
  void on_dataset(const DatasetSeen&) override { note("dataset"); }
  void on_shard(const Shard&) override { note("shard"); }
  void on_step(const Step&) override { note("step"); }
  void on_group_step(const GroupStep&) override { note("group_step"); }
  void on_tensor(const TensorTrace&) override { note("tensor"); }
  void on_locked(const LockedRow&) override { note("locked"); }
  void on_metric(const Metric&) override { note("metric"); }
  void on_sample_values(const SampleValues&) override { note("sample_values"); }
  void on_span(const Span&) override { note("span"); }
  void on_phase(const Phase&) override { note("phase"); }
  void on_run_phase(const RunPhase&) override { note("run_phase"); }
  void on_checkpoint(const CheckpointCommitted&) override { note("checkpoint"); }
  void on_state_leaf(const StateLeaf&) override { note("state_leaf"); }
  void on_event(const RunEvent& event) override { note("event " + event.severity + " " + event.kind + " " + event.text); }
  void on_run_end(const RunEnd&) override { note("run_end"); }
  void flush() override { note("flush"); }

  std::vector<std::string> pages;

 private:
  void note(const std::string& what) {
    if (!fault_.empty() && what.starts_with(fault_)) throw std::runtime_error("disk full\nno room");
    pages.push_back(what);
  }

  std::string name_, fault_;
};

void tell_everything(RunObserver& observer) {
  observer.on_rank_start({});
  observer.on_setting({});
  observer.on_environment({});
  observer.on_dataset({});
  observer.on_shard({});
  observer.on_step({});
  observer.on_group_step({});
  observer.on_tensor({});
  observer.on_locked({});
  observer.on_metric({});
  observer.on_sample_values({});
  observer.on_span({});
  observer.on_phase({});
  observer.on_run_phase({});
  observer.on_checkpoint({});
  observer.on_state_leaf({});
  observer.flush();
  observer.on_run_end({});
}

const std::vector<std::string> kEverything = {"rank_start", "setting",   "environment", "dataset",    "shard",         "step",
                                              "group_step", "tensor",    "locked",      "metric",     "sample_values", "span",
                                              "phase",      "run_phase", "checkpoint",  "state_leaf", "flush",         "run_end"};

TEST(ObserverListTest, EveryMemberHearsEverything) {
  ObserverList list;
  const auto first = std::make_shared<Diary>("first"), second = std::make_shared<Diary>("second");
  list.add(first);
  list.add(second);
  tell_everything(list);
  EXPECT_EQ(first->pages, kEverything);
  EXPECT_EQ(second->pages, kEverything);
}

TEST(ObserverListTest, MemberThatThrowsIsDetachedAndTheOthersStillHearEverything) {
  ObserverList list;
  const auto first = std::make_shared<Diary>("first"), broken = std::make_shared<Diary>("broken", "step"), last = std::make_shared<Diary>("last");
  for (const auto& observer : {first, broken, last}) list.add(observer);

  testing::internal::CaptureStderr();
  tell_everything(list);
  const std::string shown = testing::internal::GetCapturedStderr();

  std::vector<std::string> expected = kEverything;
  expected.insert(expected.begin() + 6, "event error observer-detached broken: disk full no room");
  EXPECT_EQ(first->pages, expected);
  EXPECT_EQ(last->pages, expected);
  EXPECT_EQ(broken->pages, std::vector<std::string>(kEverything.begin(), kEverything.begin() + 5));
  EXPECT_EQ(shown, "samerun: detached an observer that failed; training goes on: broken: disk full no room\n");
}

TEST(ObserverListTest, MemberThatThrowsWhenToldOfAnotherIsDetachedToo) {
  ObserverList list;
  const auto broken = std::make_shared<Diary>("broken", "step"), deaf = std::make_shared<Diary>("deaf", "event"),
             good = std::make_shared<Diary>("good");
  for (const auto& observer : {deaf, broken, good}) list.add(observer);
  testing::internal::CaptureStderr();
  list.on_step({});
  list.on_run_end({});
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(good->pages, (std::vector<std::string>{"step", "event error observer-detached broken: disk full no room",
                                                   "event error observer-detached deaf: disk full no room", "run_end"}));
  EXPECT_EQ(deaf->pages, std::vector<std::string>{"step"});
}

TEST(ObserverListTest, AllMembersMayFail) {
  ObserverList list;
  for (const char* name : {"a", "b"}) list.add(std::make_shared<Diary>(name, "step"));
  testing::internal::CaptureStderr();
  list.on_step({});
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(list.empty());
  EXPECT_NO_THROW(tell_everything(list));
}

/// Passes on what it hears to the list that it belongs to.
class Echo final : public Diary {
 public:
  Echo(ObserverList& list, std::string name, std::string fault = "") : Diary(std::move(name), std::move(fault)), list_(list) {}
  void on_step(const Step& step) override {
    list_.on_phase({step.step});
    Diary::on_step(step);
  }

 private:
  ObserverList& list_;
};

TEST(ObserverListTest, MemberMayTellTheListAndNobodyMissesAnEventWhenOneThrowsThen) {
  ObserverList list;
  const auto broken = std::make_shared<Diary>("broken", "phase"), last = std::make_shared<Diary>("last");
  const auto echo = std::make_shared<Echo>(list, "echo"), faulty = std::make_shared<Echo>(list, "faulty", "step");
  for (const std::shared_ptr<RunObserver>& observer : std::vector<std::shared_ptr<RunObserver>>{broken, echo, faulty, last}) list.add(observer);
  testing::internal::CaptureStderr();
  list.on_step({});
  list.on_run_end({});
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(broken->pages, std::vector<std::string>{"step"});
  EXPECT_EQ(last->pages, (std::vector<std::string>{"phase", "event error observer-detached broken: disk full no room", "phase", "step",
                                                   "event error observer-detached faulty: disk full no room", "run_end"}));
  EXPECT_EQ(std::count(echo->pages.begin(), echo->pages.end(), "step"), 1);
}

TEST(ObserverListTest, NullIsNoMember) {
  ObserverList list;
  list.add(nullptr);
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace samerun
