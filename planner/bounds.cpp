#include "planner/bounds.hpp"
