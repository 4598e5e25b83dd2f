#include "backend/worker.hpp"

int main() { penstock::run_worker(); }
