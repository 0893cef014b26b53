#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace samerun::detail {

/// How elements of a dtype are combined.
struct Element {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::size_t bytes = 0;  ///< Of one MPI element.
  int count = 1;          ///< MPI elements a tensor's element has: 2 for complex numbers.
  bool narrow = false;    ///< 16-bit floating point: MPI has no such type; combined in float32 (narrow.h).
  bool integral = false;  ///< Bitwise operators work, averages do not.
  bool logical = false;   ///< bool: a sum is "or", a product "and".
  bool ordered = true;    ///< Has a smallest and a largest.
};

/// Throws std::invalid_argument for a dtype that cannot be combined.
Element element_of(c10::ScalarType dtype);

/// MPI's operator; MPI_SUM for an average, which is divided afterwards. Throws std::invalid_argument for an operator that the dtype does not have.
MPI_Op operator_of(const c10d::ReduceOp& op, const Element& element, c10::ScalarType dtype);

/// "sum", "average", ...
const char* name_of(const c10d::ReduceOp& op);

}  // namespace samerun::detail
