#!/usr/bin/env bash
# Runs a command in a throw-away virtual machine that has an RDMA device, rxe0 (Soft-RoCE), so that
# real libibverbs code can be tested where the kernel has no RDMA.
#
# usage: run_in_vm.sh [--timeout S] [--cpus N] [--memory MIB] [--cache DIR] [--verbose] COMMAND...
#
# QEMU emulates the whole machine: a /dev/kvm that is there is no promise that it works. The kernel is
# Debian's own, downloaded by apt and unpacked into the cache, never installed. The guest sees the
# host's files at their places: read-only, what it writes is kept in its memory, but for the current
# directory, which is shared for writing. COMMAND gets the caller's environment and no input.
#
# The status is COMMAND's; 77: this host cannot do it, with a reason; 124: too long; 125: the machine
# did not get as far as COMMAND.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

timeout_s=300
boot_s=60 # for one boot; tried three times
cpus=2
memory=2048
mtu=4200 # of the device below: gives a path MTU of 4096
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tugboat-vm
verbose=0

say() { echo "run_in_vm: $*" >&2; }
die() { say "$*"; exit 125; }
skip() { say "skipped: $*"; exit 77; }

while [ $# -gt 0 ]; do
    case $1 in
    --timeout) timeout_s=$2; shift 2 ;;
    --cpus) cpus=$2; shift 2 ;;
    --memory) memory=$2; shift 2 ;;
    --cache) cache=$2; shift 2 ;;
    --verbose) verbose=1; shift ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || die "no command"
[ "$PWD" != / ] || die "the current directory is shared for writing: not from /"

# --- once: kernel and first file system ----------------------------------------------------------

# What the guest loads, with what modprobe says these need. rxe asks for crc32 by name, which no
# list of dependencies shows; the generic one is faster under emulation than the one with pclmul.
modules="virtio_pci virtio_console 9pnet_virtio 9p overlay dummy veth bridge crc32_generic ib_uverbs rdma_rxe"

check_host() {
    local tool
    [ "$(uname -m)" = x86_64 ] || skip "the virtual machine is for x86_64, this is $(uname -m)"
    for tool in qemu-system-x86_64 busybox modprobe depmod cpio xz ip rdma flock dpkg; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    if ldd "$(command -v busybox)" >/dev/null 2>&1; then skip "busybox is not static (busybox-static)"; fi
}

# The package of the current kernel. (The "cloud" one has neither rdma_rxe nor 9p.)
image_name() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ {print $2; exit}'; }

fetch_kernel() { # FOLDER: leaves the package there
    command -v apt-get >/dev/null || skip "no apt to get a Debian kernel with"
    image=$(image_name)
    if [ -n "$image" ] && (cd "$1" && apt-get -o APT::Sandbox::User=root download "$image") >&2; then return; fi
    if [ "$(id -u)" -eq 0 ]; then # the lists may be old, or not there
        apt-get update -q >&2 || true
        image=$(image_name)
        if [ -n "$image" ] && (cd "$1" && apt-get -o APT::Sandbox::User=root download "$image") >&2; then return; fi
    fi
    skip "apt cannot download ${image:-linux-image-amd64}"
}

# The kernel proper inside a bzImage: QEMU starts it directly, which saves unpacking it in emulation.
# Debian 12 packs it by xz, Debian 13 by zstd. What follows it in the image is of no use to the unpacker.
unpack_kernel() { # BZIMAGE ELF
    local packing at magic
    for packing in 'xz \xFD7zXZ\x00' 'zstd \x28\xB5\x2F\xFD'; do
        magic=${packing#* } packing=${packing% *}
        at=$(grep -abom1 -P "$magic" "$1" | head -n 1 | cut -d: -f1) || true
        [ -n "$at" ] || continue
        command -v "$packing" >/dev/null || skip "$packing is not installed, by which the kernel is packed"
        tail -c +$((at + 1)) "$1" | unpack "$packing" >"$2" 2>/dev/null || true
        [ "$(head -c4 "$2" | tr -d '\0')" != $'\x7fELF' ] || return 0
    done
    die "$1: no kernel inside that xz or zstd unpacks"
}
unpack() { if [ "$1" = xz ]; then xz -dc --single-stream; else zstd -dc; fi; }

make_first_files() { # TREE RELEASE OUT
    local tree=$1 release=$2 out=$3 dir=$cache/new/first module
    mkdir -p "$dir"/{bin,dev,proc,sys,mod,host,rw,root}
    cp "$(command -v busybox)" "$dir/bin/busybox"
    for module in $modules; do
        modprobe -d "$tree" -S "$release" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$cache/new/order"
    while read -r module; do
        cp "$module" "$dir/mod/"
        if [[ $module == *.xz ]]; then xz -d "$dir/mod/$(basename "$module")"; fi # busybox loads no packed ones
        basename "$module" .xz >>"$dir/mod/order"
    done <"$cache/new/order"
    guest_first >"$dir/init"
    chmod +x "$dir/init"
    (cd "$dir" && find . | cpio -o -H newc --quiet) >"$out"
}

# The guest's first process. Its root is the host's, below a layer in memory.
guest_first() {
    cat <<'GUEST'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r m; do insmod /mod/$m || echo "$m failed"; done < /mod/order

opt=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,cache=loose,$opt hostroot /host || poweroff -f
mount -t tmpfs tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root
for d in dev proc sys; do mkdir -p /root/$d; mount --rbind /$d /root/$d; done
for d in run dev/shm dev/pts; do rm -f /root/$d 2>/dev/null; mkdir -p /root/$d; done
mount -t tmpfs tmpfs /root/run
mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm
mount -t devpts devpts /root/dev/pts
ln -s /proc/self/fd /dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${n%:*} /dev/${n#*:}; done
mkdir /root/run/job
mount -t 9p -o $opt job /root/run/job
cwd=$(cat /root/run/job/cwd)
mkdir -p "/root$cwd"
mount -t 9p -o cache=mmap,$opt cwd "/root$cwd"

hostname verbs-vm
chroot /root /bin/bash /run/job/guest

sync
umount "/root$cwd" 2>/dev/null
umount /root/run/job 2>/dev/null
poweroff -f
GUEST
}

prepare() {
    local image='' release deb
    rm -rf "$cache/new"
    mkdir -p "$cache/new/deb" "$cache/new/tree"
    fetch_kernel "$cache/new/deb"
    deb=("$cache"/new/deb/*.deb)
    dpkg -x "${deb[0]}" "$cache/new/tree"
    [ -e "$cache/new/tree/lib" ] || ln -s usr/lib "$cache/new/tree/lib" # Debian 13 has modules in /usr/lib
    release=${image#linux-image-}
    depmod -b "$cache/new/tree" "$release"
    unpack_kernel "$cache/new/tree/boot/vmlinuz-$release" "$cache/new/vmlinux"
    make_first_files "$cache/new/tree" "$release" "$cache/new/initramfs"
    rm -rf "$cache/new/deb" "$cache/new/tree" "$cache/new/first" "$cache/ready"
    cksum <"$0" >"$cache/new/made_by"
    mv "$cache/new" "$cache/ready"
}

check_host
mkdir -p "$cache" 2>/dev/null || skip "$cache cannot be written"
exec 9>"$cache/lock"
flock 9
if ! cmp -s "$cache/ready/made_by" <(cksum <"$0"); then prepare; fi
exec 9>&-

# --- one run -------------------------------------------------------------------------------------

run=$(mktemp -d -t verbs-vm.XXXXXX)
qemu=
trap 'trap - EXIT; [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true; rm -rf "$run"' EXIT
trap 'exit 143' TERM INT HUP
mkdir "$run/job"
echo "$PWD" >"$run/job/cwd"
{
    export -p
    printf 'cd %q || exit 125\n' "$PWD"
    printf 'exec'
    printf ' %q' "$@"
    echo
} >"$run/job/command"

# The guest's side of a run: device, command, status. The command's two outputs come back apart.
cat >"$run/job/guest" <<GUEST
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec < /dev/null
port() { for p in /sys/class/virtio-ports/*; do [ "\$(cat \$p/name)" = "\$1" ] && echo /dev/\${p##*/}; done; }
ulimit -l unlimited
ip link set lo up
ip link add net0 type dummy
ip link set net0 address 02:00:0a:4d:00:01 mtu $mtu up
ip addr add 10.77.0.1/24 dev net0
rdma link add rxe0 type rxe netdev net0 || echo "no rxe0"
rdma link
mkfifo /run/out /run/err
cat /run/out > "\$(port out)" & o=\$!
cat /run/err > "\$(port err)" & e=\$!
# The host stamps this file: take its clock (the guest's came in whole seconds).
touch /run/job/started
date -s "@\$(stat -c %.Y /run/job/started)" > /dev/null
bash /run/job/command > /run/out 2> /run/err
s=\$?
touch /run/job/ended
# A child left behind by the command may hold the pipes open: not for long.
timeout 5 tail -f /dev/null --pid=\$o; timeout 5 tail -f /dev/null --pid=\$e
echo \$s > /run/job/status
GUEST

shares=()
share() { # FOLDER TAG OPTIONS
    shares+=(-virtfs "local,path=${1//,/,,},mount_tag=$2,security_model=none,multidevs=remap$3")
}
share / hostroot ,readonly=on
share "$PWD" cwd ""
share "$run/job" job ""

# The guest's TSC ticks with the host's, but on a busy host the guest measures its rate wrongly, and
# then all its clocks are wrong; so it is told. (Only in a virtual machine is "cpu MHz" the TSC's.)
tsc=$(awk '/^flags/ && / hypervisor / {vm = 1} /^cpu MHz/ {mhz = $4}
           END {if (vm && mhz) printf "tsc_early_khz=%d", mhz * 1000}' /proc/cpuinfo)
quiet=quiet
[ "$verbose" -eq 0 ] || quiet=

# One boot and run of the command. False: the guest did not get that far (the emulated machine hangs
# now and then while it boots) and may be tried again.
attempt() {
    local cat_out cat_err deadline
    rm -f "$run/out" "$run/err"
    mkfifo "$run/out" "$run/err"
    cat "$run/out" & cat_out=$!
    cat "$run/err" >&2 & cat_err=$!
    timeout -k 5 "$((began + timeout_s - SECONDS))" qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$memory" -machine q35,hpet=off \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$cache/ready/vmlinux" -initrd "$cache/ready/initramfs" \
        -append "console=ttyS0 $quiet panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable
                 cryptomgr.notests lsm= audit=0 $tsc" \
        -chardev file,id=log,path="$run/log" -serial chardev:log \
        -device virtio-serial \
        -chardev file,id=out,path="$run/out" -device virtserialport,chardev=out,name=out \
        -chardev file,id=err,path="$run/err" -device virtserialport,chardev=err,name=err \
        "${shares[@]}" </dev/null 2>"$run/qemu" &
    qemu=$!
    deadline=$((SECONDS + boot_s))
    while [ ! -e "$run/job/started" ] && kill -0 "$qemu" 2>/dev/null; do
        [ $SECONDS -lt $deadline ] || kill "$qemu" 2>/dev/null || true
        sleep 0.2
    done
    rc=0
    wait "$qemu" || rc=$?
    qemu=
    : <>"$run/out" <>"$run/err" # lets cat end where QEMU never opened them
    wait "$cat_out" "$cat_err" || true
    [ -e "$run/job/started" ]
}

began=$SECONDS
rc=0
for try in 1 2 3; do
    if attempt; then break; fi
    say "boot $try failed (status $rc)"
    cat "$run/qemu" >&2
    [ $((began + timeout_s - SECONDS)) -gt 0 ] || break
done
if [ "$verbose" -ne 0 ]; then
    cat "$run/log" >&2
    say "$((SECONDS - began)) s"
fi
if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
    say "ran past $timeout_s s"
    exit 124
fi
if [ ! -e "$run/job/status" ]; then
    tail -30 "$run/log" >&2 2>/dev/null || true
    die "the guest gave no status"
fi
exit "$(cat "$run/job/status")"
