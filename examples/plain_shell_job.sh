#!/bin/sh
# A job in plain POSIX shell that checkpoints, reports its progress and stops when asked.
#
#     shockwave submit --epochs 20 -- sh examples/plain_shell_job.sh 20
#
# It adds up the squares of its epochs, SECONDS_PER_EPOCH (default 1) each. docs/protocol.md says
# what the files are. Without a scheduler it keeps them in the present folder.
set -eu

epochs=${1:?how many epochs?}
seconds=${SECONDS_PER_EPOCH:-1}
folder=${SHOCKWAVE_DIR:-.}
generation=${SHOCKWAVE_GENERATION:-1}
checkpoints=$folder/checkpoints

# Every rank runs this program; the first one speaks for the job.
if [ "${RANK:-0}" -ne 0 ]; then
    echo "rank $RANK has nothing to do"
    exit 0
fi

# SIGTERM reaches every program that runs here. While something is written it is ignored, by these
# programs too; the lease says the same, so that nothing is missed.
asked_to_stop=no
trap '' TERM

lease() {  # the value of a field of the lease, empty if it cannot be read
    sed -n "s/.*\"$1\": *\([a-z0-9]*\).*/\1/p" "$folder/lease.json" 2>/dev/null || :
}

should_stop() {
    [ "$asked_to_stop" = yes ] || [ "$(lease stop)" = true ] || is_replaced
}

is_replaced() {  # a later launch has the lease: this one may not write anything any more
    newest=$(lease generation)
    [ -n "$newest" ] && [ "$newest" -gt "$generation" ]
}

report() {  # report EVENT [MORE FIELDS]: one line, appended by one write
    printf '{"time":%s,"event":"%s","epoch":%s%s}\n' "$(date +%s)" "$1" "$done_epochs" "${2:-}" \
        >>"$folder/reports-$generation.jsonl"
}

save() {  # under a name of its own first, so that no half-written checkpoint is ever found
    if is_replaced; then
        echo "launch $generation was replaced by $newest" >&2
        exit 1
    fi
    saves=$((saves + 1))
    mkdir -p "$checkpoints"
    printf '%s %s\n' "$done_epochs" "$total" >"$checkpoints/.saving.tmp"
    saved=$checkpoints/ckpt-g$generation-e$done_epochs-$saves.txt
    mv "$checkpoints/.saving.tmp" "$saved"
    [ -z "$saved_before" ] || rm -f "$saved_before"
    saved_before=$saved
    report saved
}

restore() {  # the newest checkpoint: of the latest launch, and of that the last one
    newest_order=0
    for file in "$checkpoints"/ckpt-g*-e*-*.txt; do
        [ -e "$file" ] || continue
        name=${file##*/ckpt-g}
        number=${name##*-}
        order=$((${name%%-*} * 1000000 + ${number%.txt}))
        if [ "$order" -gt "$newest_order" ]; then
            newest_order=$order
            read -r done_epochs total <"$file"
        fi
    done
}

done_epochs=0
total=0
saves=0
saved_before=
restore
report started
while [ "$done_epochs" -lt "$epochs" ]; do
    trap 'asked_to_stop=yes' TERM
    should_stop || sleep "$seconds" || :  # the signal that asks to stop ends it early
    trap '' TERM
    if should_stop; then
        save
        report stopped
        exit 0
    fi
    done_epochs=$((done_epochs + 1))
    total=$((total + done_epochs * done_epochs))
    report epoch ",\"seconds\":$seconds"
    save
done
report done
echo "$total"
