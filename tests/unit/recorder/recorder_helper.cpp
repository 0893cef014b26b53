// A process for the tests to kill, to starve of disk and to deprive of rights. One mode a job; see main().
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "fold.h"
#include "record_fixture.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/attach.h"
#include "schema.h"

namespace samerun::recorder {
namespace {

using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void wait_to_be_killed() {
  for (;;) pause();
}

void write_steps(RunObserver& observer, int count) {
  for (int step = 0; step < count; ++step) {
    observer.on_step(step_number(step));
    observer.on_tensor(tensor_trace(step, "weight"));
  }
}

// launch RECORD COUNT: launcher and rank in one; writes COUNT steps and never ends its run.
int launch(const Arguments& a) {
  Store store(a[2]);
  const std::int64_t run = store.begin_run(new_run());
  StagingWriter writer(staging_options(store.staging_folder(run)));
  store.heartbeat(run);
  writer.on_rank_start(rank_start(0));
  write_steps(writer, std::stoi(a[3]));
  say(std::to_string(run));
  wait_to_be_killed();
  return 0;
}

// launcher RECORD: begins a run and never ends it.
int launcher(const Arguments& a) {
  Store store(a[2]);
  const std::int64_t run = store.begin_run(new_run());
  store.heartbeat(run);
  say(std::to_string(run));
  say(store.staging_folder(run));
  wait_to_be_killed();
  return 0;
}

// rank COUNT: attaches from the environment, writes COUNT steps and never ends.
int rank(const Arguments& a) {
  const auto observer = attach_from_env();
  if (!observer) return 9;
  observer->on_rank_start(rank_start(0));
  write_steps(*observer, std::stoi(a[2]));
  say("written");
  wait_to_be_killed();
  return 0;
}

// flush COUNT: as rank, but ends itself by SIGKILL once its rows are flushed.
int flush(const Arguments& a) {
  const auto observer = attach_from_env();
  observer->on_rank_start(rank_start(0));
  write_steps(*observer, std::stoi(a[2]));
  observer->flush();
  raise(SIGKILL);
  return 0;
}

// fold RECORD RUN STAGING POINT: folds; kills itself at the 300th row (row), just before (commit) or after (after) it.
int fold(const Arguments& a) {
  Database database(a[2] + "/samerun.db", Database::Mode::kReadWrite);
  static int rows = 0;
  const std::string& point = a[5];
  if (point == "row") {
    sqlite3_update_hook(
        database.handle(),
        [](void*, int, const char*, const char*, sqlite3_int64) {
          if (++rows == 300) raise(SIGKILL);
        },
        nullptr);
  } else if (point == "commit") {
    sqlite3_commit_hook(
        database.handle(), [](void*) { return raise(SIGKILL); }, nullptr);
  }
  Folder(database).fold(std::stoll(a[3]), a[4], true);
  if (point == "after") raise(SIGKILL);
  return 0;
}

// runs RECORD COUNT: COUNT whole runs of 50 steps each.
int runs(const Arguments& a) {
  Store store(a[2]);
  for (int i = std::stoi(a[3]); i > 0; --i) {
    const std::int64_t run = store.begin_run(new_run());
    {
      StagingWriter writer(staging_options(store.staging_folder(run)));
      writer.on_rank_start(rank_start(0));
      write_steps(writer, 50);
      store.heartbeat(run);
      store.fold(run);
      writer.on_run_end({50, "finished", ""});
    }
    store.end_run(run, "finished", 0, "", {});
  }
  return 0;
}

void limit_files(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

// starve RELIEF: a rank whose disk fills up; with RELIEF yes there is room again when the run ends.
int starve(const Arguments& a) {
  signal(SIGXFSZ, SIG_IGN);
  const auto observer = attach_from_env();
  observer->on_rank_start(rank_start(0));
  limit_files(512 * 1024);
  auto& writer = dynamic_cast<StagingWriter&>(*observer);
  for (int step = 0; step < 100'000 && writer.error().empty(); ++step) observer->on_tensor(tensor_trace(step, "weight", 256));
  if (writer.error().empty()) return 8;
  observer->on_step(step_number(1));
  limit_files(a[2] == "yes" ? RLIM_INFINITY : 1);
  observer->on_run_end({1, "finished", ""});
  say("trained on");
  return 0;
}

// full RECORD: a record that cannot grow.
int full(const Arguments& a) {
  Store store(a[2]);
  signal(SIGXFSZ, SIG_IGN);
  limit_files(256 * 1024);
  VerdictRow verdict;
  verdict.word = "same";
  verdict.summary.assign(1 << 20, 'x');
  store.add_verdict(verdict);
  return 0;
}

// nobody open|read RECORD: without the rights of root.
int nobody(const Arguments& a) {
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 9;
  if (a[2] == "open") {
    Store store(a[3]);
    return 0;
  }
  const Reader reader(a[3]);
  for (const RunRow& run : reader.runs()) say(std::to_string(run.id) + " " + std::to_string(reader.steps(run.id).size()));
  return 0;
}

int run_mode(const Arguments& arguments) {
  static const std::map<std::string, int (*)(const Arguments&)> modes = {{"launch", launch}, {"launcher", launcher}, {"rank", rank},
                                                                         {"flush", flush},   {"fold", fold},         {"runs", runs},
                                                                         {"starve", starve}, {"full", full},         {"nobody", nobody}};
  try {
    return modes.at(arguments.at(1))(arguments);
  } catch (const Error& error) {
    say(std::string(to_string(error.code())) + ": " + error.what());
    return 3;
  }
}

}  // namespace
}  // namespace samerun::recorder

int main(int argc, char** argv) {
  return samerun::recorder::run_mode({argv, argv + argc});
}
