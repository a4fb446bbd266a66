#!/usr/bin/env bash
# All product files compile for AArch64, whose compiler sets none of the macros of this machine's vector units.
# The cross compiler only looks at them. Usage: aarch64.sh SOURCE-ROOT MPI-INCLUDE-DIRECTORY
#
# Exit status 77 is a skip: there is no cross compiler with a C library (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross).
set -uo pipefail
cd "$1" || exit 1
echo '#include <stdint.h>' | aarch64-linux-gnu-gcc -E -o /dev/null - 2> /dev/null || {
    echo "skipped: AArch64 is not tried without gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
    exit 77
}
flags=(-fsyntax-only -std=gnu11 -O2 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
    -D_GNU_SOURCE -DTUG_ACP_KEY_BITS=8 -DTUG_ACP_OFFSET_BITS=34 -Iinclude -Isrc -I.)
for name in LIBDIR_FROM_BINDIR INSTALL_LIBDIR BUILD_COMPILER BUILD_FLAGS BUILD_TYPE BUILD_SANITIZE; do flags+=("-DTUG_$name=\"\""); done
# compile FLAG... < FILES, which are separated by null characters
compile() { xargs -0 -n 16 -P "$(nproc)" aarch64-linux-gnu-gcc "$@" "${flags[@]}"; }
find src pmpi persistent -name '*.c' -not -path 'src/host/openmpi/*' -print0 | compile -isystem "$2" || exit 1
if other=$(mpicc.openmpi --showme:incdirs 2> /dev/null); then
    # shellcheck disable=SC2046,SC2086 # several directories
    find src/host/openmpi -name '*.c' -print0 | compile -Isrc/host/openmpi $(printf -- '-isystem %s ' $other) || exit 1
fi
# What a compiler for another machine is not told, it must not be told here.
if grep -rnE -e '-march|-mcpu|-mtune|-mavx|-msse' CMakeLists.txt CMakePresets.json cmake; then
    echo "a machine is assumed"
    exit 1
fi
