# Holds a folder on this machine, and its measuring lock, until its input closes.
#
# Arguments: "yes" to lock, the seconds to wait for the lock, and the holder's name to write into it. Prints "folder
# PATH", "waiting HOLDER", "late", "held". Or: "end" and the folder of a holder that was killed, to be removed as the
# holder would have done. The lock is that of pytest_vperf.machine.lock and found in the same way; if it exists it is
# opened without O_CREAT, for the reason given there. Mounts below the folder, and loop devices on its files, are
# removed with it.

lock=
ours=
held=
watch=

end() {
  trap '' HUP INT TERM PIPE
  printf '%s\n' "$(cat /proc/mounts)" | while read -r _ point _; do
    case $point in "$folder"/*) umount -l "$point" ;; esac
  done
  losetup --list --noheadings --output NAME,BACK-FILE | while read -r device file _; do
    case $file in "$folder"/*) losetup --detach "$device" ;; esac
  done
  rm -rf -- "$folder"
  [ ! "$held" ] || : >"$ours"
  kill "$watch"
} >/dev/null 2>&1
if [ "$1" = end ]; then
  folder=$2
  end
  exit
fi
folder=$(mktemp -d /var/tmp/vperf-XXXXXXXX) || exit 1
trap end EXIT
# All of it, not only exit: a shell that is ending for another reason does not come back to its EXIT trap.
trap 'end; exit 1' HUP INT TERM PIPE

# A background job's standard input is /dev/null, hence the descriptor.
exec 3<&0 </dev/null
{ cat <&3; kill -TERM $$; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
echo "folder $folder"

if [ "$1" = yes ]; then
  command -v flock >/dev/null || { echo "flock is not installed (apt-get install util-linux)" >&2; exit 1; }
  place=/tmp
  [ -z "$(find /run/lock -maxdepth 0 -perm -o+w 2>/dev/null)" ] || place=/run/lock
  lock=${VPERF_LOCK:-$place/vperf-measuring.lock}
  # Not for others: the content; every user has to be able to lock it.
  [ -e "$lock" ] || [ -L "$lock" ] || (umask 0; set -C; : >"$lock")
  { [ -f "$lock" ] && [ ! -L "$lock" ]; } || { echo "$lock is not a regular file" >&2; exit 1; }
  # The shell ends if it cannot open a file for exec.
  [ -r "$lock" ] || {
    echo "the measuring lock $lock lets nobody else open it: it is of $(stat -c '%U (user %u, mode %a)' "$lock"); have" \
      "them, or root, remove it" >&2
    exit 1
  }
  exec 9<"$lock"
  # Anyone who may write to the lock's folder can replace it with a link at any moment. So the opened file is checked:
  # it is the file of that name, and has no other; from now on it is only written to through the descriptor.
  ours=/proc/$$/fd/9
  opened=$(stat -L -c '%d:%i %h' "$ours") && named=$(stat -c '%d:%i 1' "$lock") && [ -f "$ours" ] &&
    [ "$opened" = "$named" ] || {
    echo "$lock is not a regular file with one name" >&2
    exit 1
  }
  left=$2
  until flock -n 9; do
    [ "$left" != "$2" ] || echo "waiting $(head -c 200 "$ours" | tr -dc ' -~')"
    [ "$left" -gt 0 ] || { echo late; exit 1; }
    left=$((left - 1))
    sleep 1
  done
  held=yes
  # Any other mode is not a lock's, and the file may be somebody's data. Another user's lock can be locked, but not
  # written.
  [ "$(stat -L -c %a "$ours")" = 666 ] || held=
  [ ! "$held" ] || { echo "$3" >"$ours"; } 2>/dev/null
fi
echo held
wait "$watch"
