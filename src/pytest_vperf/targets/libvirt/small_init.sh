#!/bin/sh
# The first process of a machine that is started without systemd: mounts what tools expect, starts the agent that
# the host speaks to, and stays to reap orphans.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /tmp
hostname localhost
ip link set lo up
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] || continue
    qemu-ga --method=virtio-serial --path="/dev/${port##*/}" --statedir=/run --pidfile=/run/qemu-ga.pid &
done
[ ! -e /proc/xen ] && [ ! -d /sys/hypervisor/properties ] || /usr/lib/vperf/agent --machine &
# A waiting shell also reaps orphans; with no child left, it sleeps until the machine ends.
while :; do wait; sleep 3600; done
