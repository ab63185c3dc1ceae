// SPDX-License-Identifier: Apache-2.0
// EXPECT_ERROR(statement, ErrorKind::bad_file, "the whole message")
#pragma once
#include <gtest/gtest.h>

#include "stof/error.h"

#define EXPECT_ERROR(statement, expected_kind, message)                                           \
  do {                                                                                            \
    try {                                                                                         \
      statement;                                                                                  \
      ADD_FAILURE() << #statement << " threw nothing; expected: " << (message);                   \
    } catch (const ::stof::Error& error) {                                                        \
      EXPECT_EQ(error.what(), std::string(message));                                              \
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(expected_kind)) << error.what(); \
    }                                                                                             \
  } while (false)
