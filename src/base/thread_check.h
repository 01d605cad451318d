// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/assert.h"
#include "base/loop.h"

/// At the head of a member function that belongs to a loop's thread. Aborts elsewhere: a race is a bug, and this
/// finds it without a sanitizer.
#define SANDBAR_ON_LOOP(loop) SANDBAR_ASSERT((loop).is_current())
