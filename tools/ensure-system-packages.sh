#!/bin/sh
# The tests use a real browser, a real PostgreSQL, a real Slurm and a real Ray with Redis.
# Says what is missing, and installs it where that is possible and NO_INSTALL is not set; elsewhere
# the tests that need it are skipped with a reason (and fail in CI).
missing=""
need() { # program, package
    command -v "$1" >/dev/null 2>&1 || case " $missing " in *" $2 "*) ;; *) missing="$missing $2" ;; esac
}
PATH="$PATH:/usr/sbin:/sbin"
command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 ||
    need chromium chromium
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql
need slurmctld slurmctld
need slurmd slurmd
need sbatch slurm-client
need munged munge
ls /usr/lib/*/slurm-wlm/select_cons_tres.so >/dev/null 2>&1 ||
    ls /usr/lib/*/slurm/select_cons_tres.so >/dev/null 2>&1 ||
    missing="$missing slurm-wlm-basic-plugins"
need slurmdbd slurmdbd
need mariadbd mariadb-server-core
ls /usr/lib/*/slurm*/accounting_storage_mysql.so >/dev/null 2>&1 ||
    missing="$missing slurm-wlm-mysql-plugin"
need redis-server redis-server
need ip iproute2
need unshare util-linux
[ -z "$missing" ] && exit 0

install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}
why="apt-get failed"
if ! command -v apt-get >/dev/null 2>&1; then
    why="there is no apt-get"
elif [ "$(id -u)" != 0 ]; then
    why="only root can install"
elif [ -n "${NO_INSTALL:-}" ]; then
    why="NO_INSTALL is set"
else
    echo "The tests use programs that this machine lacks. Installing by apt-get:$missing"
    echo "Ctrl-C within 5 seconds, or NO_INSTALL=1 make test, goes on without them."
    [ -t 0 ] && sleep 5
    apt-get update -qq
    # shellcheck disable=SC2086
    install $missing && exit 0
    failed=""
    for package in $missing; do
        install "$package" || failed="$failed $package"
    done
    [ -z "$failed" ] && exit 0
    missing="$failed"
fi
echo "Not installed ($why):$missing; the tests that need them will be skipped."
