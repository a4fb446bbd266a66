# Is FILE a JSON object with a verdict of 2 ranks?
file(READ "${FILE}" text)
string(JSON ranks GET "${text}" ranks)
string(JSON outcome GET "${text}" outcome)
string(JSON elapsed GET "${text}" times elapsed_ns least)
if(NOT ranks EQUAL 2 OR NOT outcome MATCHES "^(helped|hurt|no difference)$" OR NOT elapsed GREATER 0)
    message(FATAL_ERROR "ranks ${ranks}, outcome '${outcome}', elapsed ${elapsed}:\n${text}")
endif()
