// Precompiled for these tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/pch/torch.hpp"
