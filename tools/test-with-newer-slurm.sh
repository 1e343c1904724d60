#!/bin/sh
# Runs the tests of the Slurm executor against the Slurm of another Debian, in a chroot of it:
#
#     sh tools/test-with-newer-slurm.sh                    # trixie
#     sh tools/test-with-newer-slurm.sh sid -k allocation  # another suite, words for pytest
#
# The chroot is made once, below SHOCKWAVE_CHROOTS (/var/tmp/shockwave-chroots), and used again;
# remove it to begin afresh. It needs root, debootstrap, and Debian's and Python's packages.
# Where it cannot be made, it says why and ends with code 77. Nothing in it is reached from
# outside: the tests run in a network that has only loopback.
set -eu
suite=${1:-trixie}
[ $# -gt 0 ] && shift
here=$(cd "$(dirname "$0")/.." && pwd)
chroots=${SHOCKWAVE_CHROOTS:-/var/tmp/shockwave-chroots}
root=$chroots/$suite
mirror=${SHOCKWAVE_DEBIAN:-http://deb.debian.org/debian}

skip() {
    echo "Skipped: $1."
    exit 77
}

[ "$(id -u)" = 0 ] || skip "a chroot needs root"
for program in debootstrap unshare ip; do
    command -v "$program" >/dev/null 2>&1 || skip "there is no $program (apt-get install $program)"
done

packages=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge,slurmdbd
packages=$packages,slurm-wlm-mysql-plugin,mariadb-server-core,python3,python3-venv
packages=$packages,iproute2,procps,passwd,ca-certificates
if [ ! -e "$root/.made" ]; then
    mkdir -p "$chroots"
    rm -rf "$root.new"
    echo "Making a chroot of Debian $suite in $root ..."
    debootstrap --variant=minbase --include="$packages" "$suite" "$root.new" "$mirror" \
        >"$chroots/$suite.log" 2>&1 || skip "debootstrap failed, see $chroots/$suite.log"
    cp /etc/resolv.conf "$root.new/etc/resolv.conf"
    for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || cp "$file" "$root.new$file"
    done
    mkdir -p "$root.new/shockwave"
    touch "$root.new/.made"
    mv "$root.new" "$root"
fi

# What the tests import; not Ray and PyTorch, whose tests are not run here.
python3 - "$here/pyproject.toml" >"$root/requirements.txt" <<'PYTHON'
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
wanted = ("pytest", "hypothesis", "httpx")
more = project["optional-dependencies"]
lines = [*project["dependencies"], *more["server"]]
lines += [line for line in more["test"] if line.startswith(wanted) and "xdist" not in line]
print("\n".join(lines))
PYTHON
if ! cmp -s "$root/requirements.txt" "$root/installed.txt"; then
    echo "Installing what the tests import ..."
    {
        chroot "$root" python3 -m venv /venv &&
            chroot "$root" /venv/bin/pip install -q -r /requirements.txt
    } >"$chroots/$suite.log" 2>&1 || skip "pip failed, see $chroots/$suite.log"
    cp "$root/requirements.txt" "$root/installed.txt"
fi

# Jobs find it there too: the variables of the tests are not theirs.
for packages in "$root"/venv/lib/python3*/site-packages; do
    echo /shockwave/src >"$packages/shockwave.pth"
done

chroot "$root" slurmctld -V
# Slurm looks up its own address only where there is one beside 127.x.
inside='
    ip link set lo up && ip address add 10.255.255.1/32 dev lo
    mount --bind "$1" "$2/shockwave" && mount -t proc proc "$2/proc"
    mount -t devtmpfs dev "$2/dev" 2>/dev/null || mount --rbind /dev "$2/dev"
    mount -t tmpfs tmp "$2/tmp" && chmod 1777 "$2/tmp"
    hostname >"$2/etc/hostname"; echo "127.0.0.1 localhost $(hostname)" >"$2/etc/hosts"
    root=$2; shift 2
    # No exec: the shell stays the first process, and buries what the daemons leave behind.
    chroot "$root" /bin/sh -c '\''cd /shockwave && exec "$@"'\'' sh \
        env -i PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 \
        python -m pytest -q -p no:cacheprovider -p no:xdist tests/executors/slurm "$@"
'
exec unshare --mount --pid --net --fork --kill-child sh -c "$inside" sh "$here" "$root" "$@"
