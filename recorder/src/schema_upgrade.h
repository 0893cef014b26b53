#pragma once

#include "schema.h"

namespace samerun::recorder {

// Versions only ever add tables, indexes and columns with a default. What a file of an older version lacks is told by
// comparing it with the tables of this version, so no step from one version to the next is written down.

/// Adds it to the file. Call within a write transaction.
void add_what_is_missing(Database& database, FileKind kind);

/// Lets this connection see the file as if it were there, empty or at its default; the file is not written. From then on
/// the tables that lack something can be read only.
void stand_in_for_what_is_missing(Database& database, FileKind kind);

}  // namespace samerun::recorder
