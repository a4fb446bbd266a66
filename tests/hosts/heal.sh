#!/usr/bin/env bash
# `./dev hosts` heals a root whose making was interrupted, says why one fails, and keeps one that is complete. In place
# of mmdebstrap and apt are scripts of ours, which fail once: no package source is needed. Usage: heal.sh SOURCE-ROOT
set -euo pipefail
releases=$1/tests/hosts/releases.sh
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "a root needs root rights"
unshare --mount --propagation private true 2>/dev/null || skip "no mount namespaces here (unshare --mount)"
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
cache=$scratch/cache
calls=$scratch/calls
mkdir "$scratch/bin"

# A root of env, sh and what they load. In it dpkg and apt-get are scripts: the first installation in a root stops half
# way, and none succeeds until that has been set right.
cat >"$scratch/bin/mmdebstrap" <<FAKE
#!/usr/bin/env bash
set -euo pipefail
if [[ " \$* " == *" --simulate "* ]]; then echo 'E: the source of packages is away'; exit 1; fi
echo mmdebstrap >>$calls
root=\${*: -2:1}
[ ! -e "\$root" ] || { echo 'E: there is something already'; exit 1; }
mkdir -p "\$root"/usr/{bin,sbin,lib,lib64}
[ -e $scratch/is_away ] && { rm $scratch/is_away; exit 1; }
for name in bin sbin lib lib64; do ln -s usr/\$name "\$root/\$name"; done
mkdir -p "\$root"/{proc,sys,dev,tmp,etc,mnt,var/lib,var/cache/apt/archives}
for program in env sh rm; do
    file=\$(command -v \$program)
    cp -L "\$file" "\$root/usr/bin/"
    for library in \$(ldd "\$file" | grep -o '/[^ ]*'); do
        mkdir -p "\$root\${library%/*}"
        cp -L "\$library" "\$root\$library"
    done
done
cat >"\$root/usr/bin/dpkg" <<'DPKG'
#!/bin/sh
rm -f /var/lib/half
DPKG
cat >"\$root/usr/bin/apt-get" <<'APT'
#!/bin/sh
case " \$* " in *" install "*) ;; *) exit 0 ;; esac
echo install >>/mnt/work/installs
if [ ! -e /var/lib/tried ]; then
    : >/var/lib/tried
    : >/var/lib/half
    echo 'E: the network is down'
    exit 100
fi
if [ -e /var/lib/half ]; then echo 'E: dpkg was interrupted'; exit 100; fi
: >/var/lib/complete
APT
chmod +x "\$root/usr/bin/dpkg" "\$root/usr/bin/apt-get"
FAKE
chmod +x "$scratch/bin/mmdebstrap"

# run WANTED...: one run, which says each of these. Nothing can be built in such a root: the status is 1 in any case.
run() {
    local wanted
    PATH=$scratch/bin:$PATH "$releases" --cache "$cache" --mpi mpich trixie >"$scratch/output" 2>&1 || true
    for wanted in "$@"; do
        grep -qF -- "$wanted" "$scratch/output" && continue
        echo "not said: $wanted"
        cat "$scratch/output"
        exit 1
    done
}

# is WHAT TEST...
is() {
    local what=$1
    shift
    "$@" || { echo "not so: $what"; cat "$scratch/output"; exit 1; }
}

touch "$scratch/is_away"
run 'E: the source of packages is away' 'a root could not be made or used'
is "the half root is no root" [ ! -e "$cache/trixie.base" ]
is "it is there, as after an interruption" [ -d "$cache/trixie.base.new" ]

mkdir -p "$cache/trixie.new/usr"
run 'E: the network is down' 'the rest of it is in'
is "the second try has made a root" [ -x "$cache/trixie.base/usr/bin/apt-get" ]
is "nothing is left of the first" [ ! -e "$cache/trixie.base.new" ]
is "the copy is whole" [ -x "$cache/trixie/usr/bin/apt-get" ]
is "its installation is not taken for complete" [ ! -e "$cache/trixie/etc/tugboat-packages" ]

run 'E: the network is down' # in the root for the package
is "the first installation has gone on" [ -e "$cache/trixie/var/lib/complete" ]

run 'trixie: roots ready after'
is "so has the second" [ -e "$cache/trixie.mpich/var/lib/complete" ]

installs=$(wc -l <"$cache/trixie.work/installs")
run 'trixie: roots ready after'
is "complete roots are kept" [ "$(wc -l <"$cache/trixie.work/installs")" = "$installs" ]
is "the base is made twice" [ "$(wc -l <"$calls")" = 2 ]
echo right
