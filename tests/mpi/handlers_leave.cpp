/* handlers_leave, as C++: its handlers throw. */
#include "handlers_leave.c"
