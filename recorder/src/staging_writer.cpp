#include "staging_writer.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "samerun/core/clock.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"
#include "samerun/recorder/attach.h"
#include "schema.h"

namespace samerun::recorder {
namespace {

// Owns the file before the other members use it: made here so that a failure names the folder.
std::string created(const StagingOptions& options) {
  const std::string path = options.folder + "/" + staging_file_name(options.rank.value_or(0));
  try {
    Database database(path, Database::Mode::kCreate);
    const FileState state = check_schema(database);
    if (state == FileState::kEmpty) {
      database.execute("PRAGMA page_size = 16384");  // Rows with a sketch take 2.2 KB: little is wasted.
      set_journal_mode(database, "wal");
    }
    if (state != FileState::kCurrent) create_schema(database, FileKind::kStaging);
    return path;
  } catch (const Error& error) {
    throw Error(error.code(), "cannot record into staging folder " + options.folder +
                                  " (SAMERUN_STAGING): check that it exists, is writable and has space; " + std::string(error.what()));
  }
}

}  // namespace

std::string staging_file_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank-%04d.db", rank);
  return name;
}

StagingWriter::StagingWriter(const StagingOptions& options)
    : options_(options), database_(created(options), Database::Mode::kReadWrite), rows_(database_, options.run, options.rank), queue_(options.queue) {
  database_.execute("PRAGMA synchronous = NORMAL");
  start_thread();
}

StagingWriter::~StagingWriter() {
  queue_.stop();
  thread_.join();
}

void StagingWriter::start_thread() {
  // The program's signal handlers must run on its own threads, and a file size limit must be an error, not a signal.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { write_loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StagingWriter::on_event(const RunEvent& event) {
  push(StampedEvent{event, utc_now_ns()});
}

void StagingWriter::on_run_end(const RunEnd& end) {
  push(end, StagingQueue::Keep::kAlways);
  flush();
}

void StagingWriter::flush() {
  if (!queue_.wait_until_done(options_.end_wait)) {
    std::fprintf(stderr, "samerun: rank %d: the record's last rows were not written within %lld s\n", options_.rank.value_or(0),
                 static_cast<long long>(options_.end_wait.count() / 1000));
  }
}

std::string StagingWriter::error() const {
  const std::lock_guard lock(error_mutex_);
  return error_;
}

void StagingWriter::write_loop() {
  std::vector<StagingItem> batch;
  while (queue_.take(batch)) {
    if (error().empty()) {
      try {
        write_batch(batch);
      } catch (const std::exception& error) {
        give_up(error.what());
      }
    }
    if (!error().empty()) last_words(batch);
    batch.clear();
    queue_.batch_done();
  }
  if (!error().empty()) return;
  try {
    Transaction transaction(database_);
    rows_.write_waiting();
    if (queue_.dropped() != dropped_written_) rows_.write_dropped(queue_.dropped());
    transaction.commit();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void StagingWriter::write_batch(std::vector<StagingItem>& batch) {
  const std::int64_t dropped = queue_.dropped();
  Transaction transaction(database_);
  for (StagingItem& item : batch) rows_.write(item);
  if (dropped != dropped_written_) rows_.write_dropped(dropped);
  if (options_.before_commit) options_.before_commit();
  transaction.commit();
  dropped_written_ = dropped;
}

void StagingWriter::give_up(const std::string& why) {
  {
    const std::lock_guard lock(error_mutex_);
    error_ = why;
  }
  std::fprintf(stderr, "samerun: rank %d: recording stopped, training goes on, the record of this run is incomplete: %s\n", rows_.rank(),
               why.c_str());
}

void StagingWriter::last_words(std::vector<StagingItem>& batch) {
  const auto is_end = [](const StagingItem& item) { return std::holds_alternative<RunEnd>(item); };
  const auto end = std::find_if(batch.begin(), batch.end(), is_end);
  queue_.refuse_rows(batch.size() - (end != batch.end() ? 1 : 0));
  if (end == batch.end()) return;
  try {
    Transaction transaction(database_);
    rows_.write_dropped(queue_.dropped());
    StagingItem event = StampedEvent{{"error", "record-stopped", error()}, utc_now_ns()};
    rows_.write(event);
    rows_.write(*end);
    transaction.commit();
  } catch (const std::exception&) {
    // Still no room. The rank's row does not say "finished" then, which marks the record incomplete as well.
  }
}

std::shared_ptr<RunObserver> attach_from_env() {
  const auto folder = environment_text(env::kStaging);
  if (!folder) return nullptr;
  StagingOptions options;
  options.folder = *folder;
  options.run = environment_integer(env::kRunId, 0, INT64_MAX).value_or(0);
  const auto rank = environment_integer(env::kRank, 0, 1'000'000);
  if (rank) options.rank = static_cast<int>(*rank);
  return std::make_shared<StagingWriter>(options);
}

}  // namespace samerun::recorder
