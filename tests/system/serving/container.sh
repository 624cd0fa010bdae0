# What Docker does with the instructions of the Dockerfile, in an overlay of this machine's files; then the server runs.
# `place` is an empty directory; `binds` has a line with source and target per file that the build mounts.
mkdir "$place"/{upper,work,root,volume}
root=$place/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
# the interpreter may be in there
chmod a+x "$root/root"
while read -r source target; do
    if [ -d "$source" ]; then mkdir -p "$root$target"; else touch "$root$target"; fi
    mount --bind "$source" "$root$target"
done <<< "$binds"
chroot "$root" env EXTRAS= sh -euc "$run" >&2
while read -r _ target; do umount "$root$target"; done <<< "$binds"
cp -a "$root$volume/." "$place/volume"
mount --bind "$place/volume" "$root$volume"
mount -o remount,ro "$root"
read -r -d '' server <<'SERVER' || true
ip link set lo up
mount -t proc proc "$root/proc"
eval "environment=($variables)"
inside() {
    exec chroot "$root" \
        setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --bounding-set=-all \
        env -i "${environment[@]}" sh -c 'cd "$0" && exec "$@"' "$volume" "$@"
}
for path in /opt/perfjudge/x /etc/x; do
    if (inside touch $path) 2>/dev/null; then echo "$path is writable" >&2; exit 1; fi
done
token=$(inside perfjudge token reports --tokens tokens)
eval "inside $entry" >&2 &
server=$!
for _ in $(seq 300); do
    if (eval "inside $health") 2>/dev/null; then break; fi
    kill -0 $server
    sleep 0.2
done
(eval "inside $health")
curl -sf "http://127.0.0.1:$port/v1/comparisons/judge" -H "Authorization: Bearer $token" \
    -H 'Content-Type: application/json' --data-binary "@$sample"
kill $server
# uvicorn ends by the signal that stops it
wait $server || test $? = 143
if (eval "inside $health") 2>/dev/null; then echo "healthy without a server" >&2; exit 1; fi
SERVER
export root
unshare --net --pid --fork --kill-child bash -euo pipefail -c "$server"
