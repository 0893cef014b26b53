#pragma once

/// The environment by which `samerun launch` and `samerun pair` speak to a rank's process. All optional: a program
/// started by hand runs on one rank and records nothing.
namespace samerun::env {

inline constexpr const char* kRank = "SAMERUN_RANK";
inline constexpr const char* kWorldSize = "SAMERUN_WORLD_SIZE";
inline constexpr const char* kLocalRank = "SAMERUN_LOCAL_RANK";
inline constexpr const char* kStoreHost = "SAMERUN_STORE_HOST";
inline constexpr const char* kStorePort = "SAMERUN_STORE_PORT";
inline constexpr const char* kStoreFd = "SAMERUN_STORE_FD";      ///< Listening socket, rank 0 only.
inline constexpr const char* kControlFd = "SAMERUN_CONTROL_FD";  ///< Pipe to the launcher: "hello VERSION PID\n", "bye\n".
inline constexpr const char* kThreads = "SAMERUN_THREADS";       ///< Intra-op threads of the rank.
inline constexpr const char* kRunId = "SAMERUN_RUN_ID";          ///< Integer key of the run in the record.
inline constexpr const char* kStaging = "SAMERUN_STAGING";       ///< Folder for this run's staging files; set = record.
inline constexpr const char* kTimeout = "SAMERUN_TIMEOUT_S";     ///< Bound on every collective, seconds.
inline constexpr const char* kSeed = "SAMERUN_SEED";
inline constexpr const char* kDevice = "SAMERUN_DEVICE";           ///< "cpu", "cuda" or "auto".
inline constexpr const char* kBackend = "SAMERUN_BACKEND";         ///< What carries the collectives: "auto", "gloo", "mpi" or "nccl".
inline constexpr const char* kMpiLibrary = "SAMERUN_MPI_LIBRARY";  ///< File of the MPI part (libsamerun_mpi.so), where it is not beside the program.
inline constexpr const char* kMpiWait = "SAMERUN_MPI_WAIT";        ///< "yield" or "spin": who waits for MPI gives its core away, or never.
inline constexpr const char* kMpiMessageBytes = "SAMERUN_MPI_MESSAGE_BYTES";  ///< Longest message; for tests.
inline constexpr const char* kAccumulation = "SAMERUN_ACCUMULATION_STEPS";

// Checkpoints.
inline constexpr const char* kCheckpointDir = "SAMERUN_CHECKPOINT_DIR";  ///< Where save_state() writes; the launcher gives each run one.
inline constexpr const char* kResumeFrom = "SAMERUN_RESUME_FROM";        ///< Checkpoint folder that load_state() loads: resuming() is true.
inline constexpr const char* kResumeCommand = "SAMERUN_RESUME_COMMAND";  ///< What a reader types to go on; stands in each manifest.
inline constexpr const char* kCheckpoints = "SAMERUN_CHECKPOINTS";       ///< "off": save_state() writes nothing (runs of a pair).

// Set by `samerun resume-check`.
inline constexpr const char* kSaveAt = "SAMERUN_SAVE_AT";      ///< "S" or "S+M": save after S steps and M micro-batches of the next window.
inline constexpr const char* kKillAt = "SAMERUN_KILL_AT";      ///< SIGKILL to itself after S steps, once their rows are on disk.
inline constexpr const char* kPoison = "SAMERUN_POISON";       ///< "1": before load_state() other streams, moments of NaN.
inline constexpr const char* kLoadOnly = "SAMERUN_LOAD_ONLY";  ///< "weights": the cold start that must not pass for a resumed run.

// Set by `samerun pair`.
inline constexpr const char* kPrecision = "SAMERUN_PRECISION";         ///< "native" (default) or "float64".
inline constexpr const char* kReplayWorld = "SAMERUN_REPLAY_WORLD";    ///< N: one rank replays the plan of N ranks.
inline constexpr const char* kReference = "SAMERUN_REFERENCE";         ///< "replay" (default) or "whole".
inline constexpr const char* kVariation = "SAMERUN_VARIATION";         ///< v >= 1: legal re-execution number v (other orders).
inline constexpr const char* kLockedSteps = "SAMERUN_LOCKED_STEPS";    ///< Comma-separated steps to capture in full.
inline constexpr const char* kCaptureTo = "SAMERUN_CAPTURE_TO";        ///< Candidate only: folder for the full tensors of locked steps.
inline constexpr const char* kLockedOf = "SAMERUN_LOCKED_OF";          ///< Reference only: run id of the candidate to measure against.
inline constexpr const char* kLockedFrom = "SAMERUN_LOCKED_FROM";      ///< Reference only: folder with the candidate's capture.
inline constexpr const char* kStopAfter = "SAMERUN_STOP_AFTER_STEPS";  ///< Stop cleanly after this many optimizer steps.
inline constexpr const char* kShadow = "SAMERUN_SHADOW";               ///< "L:M": stop after min(M, max(L, steps of an epoch + 2)).

}  // namespace samerun::env
