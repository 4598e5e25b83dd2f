#include "backend/store.hpp"
