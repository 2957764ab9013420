// The Python module: the same source becomes one extension for each instruction set (see CMakeLists.txt).
#include "data/bind.hpp"
#include "small/bind.hpp"

NB_MODULE(HOTLAP_MODULE, m) {
    nanobind::set_leak_warnings(false);  // what is cached for the whole process is still there when the interpreter ends
    hotlap::bind_small(m);
    hotlap::bind_data(m);
}
