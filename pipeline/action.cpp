#include "pipeline/action.hpp"
