// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/bytes.h"
#include "sandbar/result.h"
#include "wire/messages.h"

/// A listing's entries as packed little-endian records in a reply's body: names are bytes, and 100,000 entries as
/// JSON would be slow. The layout is in sandbox-mux.7.
namespace sandbar::wire {

/// Bytes that `entry` takes.
std::size_t dir_entry_size(const DirEntry& entry);
void append_dir_entry(base::Bytes& body, const DirEntry& entry);
/// Errc::protocol for a cut record, an empty or too long name, a name with '/' or NUL, nanoseconds out of range.
Result<std::vector<DirEntry>> decode_dir_entries(base::BytesView body);

}  // namespace sandbar::wire
