#include "file_system.h"

#include <sys/vfs.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace samerun::recorder {
namespace {

struct KnownType {
  std::uint32_t magic;
  const char* name;
  bool network;
};

// Numbers of statfs(2); some are missing from linux/magic.h.
constexpr std::array<KnownType, 21> kTypes{{{0xEF53, "ext4", false},      {0x58465342, "xfs", false},     {0x9123683E, "btrfs", false},
                                            {0x01021994, "tmpfs", false}, {0x794C7630, "overlay", false}, {0x2FC12FC1, "zfs", false},
                                            {0xF2F52010, "f2fs", false},  {0x858458F6, "ramfs", false},   {0x4D44, "vfat", false},
                                            {0x2011BAB0, "exfat", false}, {0x65735546, "fuse", true},     {0x6969, "nfs", true},
                                            {0xFF534D42, "cifs", true},   {0xFE534D42, "smb2", true},     {0x517B, "smb", true},
                                            {0x0BD00BD0, "lustre", true}, {0x47504653, "gpfs", true},     {0x00C36400, "ceph", true},
                                            {0x19830326, "beegfs", true}, {0x01021997, "9p", true},       {0x5346414F, "afs", true}}};

}  // namespace

std::string file_system_type(const std::string& path) {
  struct statfs status {};
  if (statfs(path.c_str(), &status) != 0) return {};
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  for (const KnownType& type : kTypes) {
    if (type.magic == magic) return type.name;
  }
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", magic);
  return text;
}

bool is_network_file_system(const std::string& type) {
  for (const KnownType& known : kTypes) {
    if (type == known.name) return known.network;
  }
  return false;
}

}  // namespace samerun::recorder
