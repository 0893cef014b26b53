#include "element.h"

#include <stdexcept>
#include <string>

namespace samerun::detail {
namespace {

Element native(MPI_Datatype type, std::size_t bytes) {
  Element element;
  element.type = type;
  element.bytes = bytes;
  return element;
}

Element integer(MPI_Datatype type, std::size_t bytes) {
  Element element = native(type, bytes);
  element.integral = true;
  return element;
}

Element complex(MPI_Datatype type, std::size_t bytes) {
  Element element = native(type, bytes);
  element.count = 2;
  element.ordered = false;
  return element;
}

Element half_width() {
  Element element;
  element.bytes = 2;
  element.narrow = true;
  return element;
}

Element boolean() {
  Element element = native(MPI_UINT8_T, 1);
  element.logical = true;
  return element;
}

}  // namespace

Element element_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return native(MPI_DOUBLE, 8);
    case c10::ScalarType::Float:
      return native(MPI_FLOAT, 4);
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
      return half_width();
    case c10::ScalarType::ComplexDouble:
      return complex(MPI_DOUBLE, 8);
    case c10::ScalarType::ComplexFloat:
      return complex(MPI_FLOAT, 4);
    case c10::ScalarType::Long:
      return integer(MPI_INT64_T, 8);
    case c10::ScalarType::Int:
      return integer(MPI_INT32_T, 4);
    case c10::ScalarType::Short:
      return integer(MPI_INT16_T, 2);
    case c10::ScalarType::Char:
      return integer(MPI_INT8_T, 1);
    case c10::ScalarType::Byte:
      return integer(MPI_UINT8_T, 1);
    case c10::ScalarType::UInt16:
      return integer(MPI_UINT16_T, 2);
    case c10::ScalarType::UInt32:
      return integer(MPI_UINT32_T, 4);
    case c10::ScalarType::UInt64:
      return integer(MPI_UINT64_T, 8);
    case c10::ScalarType::Bool:
      return boolean();
    default:
      throw std::invalid_argument(std::string("values of dtype ") + c10::toString(dtype) + " cannot be reduced over MPI; convert them first");
  }
}

const char* name_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "average";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "bitwise and";
    case c10d::ReduceOp::BOR:
      return "bitwise or";
    case c10d::ReduceOp::BXOR:
      return "bitwise xor";
    case c10d::ReduceOp::PREMUL_SUM:
      return "scaled sum";
    default:
      return "unknown operator";
  }
}

MPI_Op operator_of(const c10d::ReduceOp& op, const Element& element, c10::ScalarType dtype) {
  const auto kind = static_cast<c10d::ReduceOp::RedOpType>(op);
  const bool real = !element.integral && !element.logical;
  switch (kind) {
    case c10d::ReduceOp::SUM:
      return element.logical ? MPI_LOR : MPI_SUM;
    case c10d::ReduceOp::AVG:
      if (real) return MPI_SUM;
      break;
    case c10d::ReduceOp::PRODUCT:
      if (element.ordered) return element.logical ? MPI_LAND : MPI_PROD;  // of complex numbers it is not one of their parts
      break;
    case c10d::ReduceOp::MIN:
      if (element.ordered) return element.logical ? MPI_LAND : MPI_MIN;
      break;
    case c10d::ReduceOp::MAX:
      if (element.ordered) return element.logical ? MPI_LOR : MPI_MAX;
      break;
    case c10d::ReduceOp::BAND:
      if (!real) return element.logical ? MPI_LAND : MPI_BAND;
      break;
    case c10d::ReduceOp::BOR:
      if (!real) return element.logical ? MPI_LOR : MPI_BOR;
      break;
    case c10d::ReduceOp::BXOR:
      if (!real) return element.logical ? MPI_LXOR : MPI_BXOR;
      break;
    default:
      break;
  }
  throw std::invalid_argument(std::string("the operator '") + name_of(op) + "' does not exist for " + c10::toString(dtype) + " over MPI" +
                              (kind == c10d::ReduceOp::AVG ? "; sum, then divide by the number of ranks" : ""));
}

}  // namespace samerun::detail
