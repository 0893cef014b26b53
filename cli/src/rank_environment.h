#pragma once

#include <map>
#include <string>
#include <vector>

#include "fd.h"

namespace samerun::cli {

/// The rendezvous socket: listening before any rank exists, so its port cannot be lost to another program.
struct Listener {
  Fd fd;
  int port = 0;
};

/// Listens on 127.0.0.1 at a port of the kernel's choice. Throws kLaunch.
Listener listen_local();

/// What all ranks of one run share.
struct RankContract {
  int world_size = 1;
  int threads = 1;
  int store_port = 0;
  std::string run_id, staging;                              ///< Empty: not recorded.
  std::map<std::string, std::string> set;                   ///< Beats everything else.
  std::vector<std::string> unset;                           ///< Removed from what the launcher inherited.
  std::vector<std::map<std::string, std::string>> of_rank;  ///< What each rank has besides; empty: nothing.
};

/// The environment of `rank`: the launcher's own, less what another launcher left in it, with the contract on top.
/// `store_fd` is -1 for all but rank 0.
std::vector<std::string> rank_environment(const RankContract& contract, int rank, int store_fd, int control_fd);

}  // namespace samerun::cli
