#!/usr/bin/env bash
# radosgw.sh start DIR PORT | stop DIR: a real S3 server for tests, Ceph's RadosGW with all it needs,
# in memory, on 127.0.0.1:PORT (the monitor takes PORT+1 and PORT+2). State, logs and process numbers
# are in DIR. Access key testak, secret testsk, region us-east-1, bucket "lake" made. Needs root and
# the packages radosgw, ceph-mon, ceph-osd, ceph-mgr and curl.
set -euo pipefail
dir=$2 conf=$2/ceph.conf

stop() {
        local f
        for f in "$dir"/run/*.pid; do
                [ -e "$f" ] && kill "$(cat "$f")" 2>/dev/null
        done
        return 0
}

start() {
        local port=$1 fsid osd i as=(-c "$conf" --setuser root --setgroup root)
        mkdir -p "$dir"/{mon,osd,run,log}
        fsid=$(cat /proc/sys/kernel/random/uuid)
        cat >"$conf" <<END
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]
public addr = 127.0.0.1
ms bind ipv6 = false
auth allow insecure global id reclaim = true
keyring = $dir/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 4294967296
osd memory target = 939524096
run dir = $dir/run
log file = $dir/log/\$name.log
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
mon data = $dir/mon
osd data = $dir/osd
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:$port
rgw thread pool size = 64
END
        export CEPH_CONF=$conf
        ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *'
        ceph-authtool "$dir/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
        ceph-authtool "$dir/keyring" --gen-key -n mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *'
        ceph-authtool "$dir/keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
        ceph-authtool "$dir/keyring" --gen-key -n client.rgw --cap mon 'allow rw' --cap osd 'allow rwx'
        monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]" "$dir/monmap"
        ceph-mon "${as[@]}" -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
        ceph-mon "${as[@]}" -i a
        timeout 60 ceph -c "$conf" -s
        ceph-mgr "${as[@]}" -i x
        osd=$(cat /proc/sys/kernel/random/uuid)
        ceph -c "$conf" osd new "$osd" 0
        ceph -c "$conf" auth import -i "$dir/keyring"
        ceph-osd "${as[@]}" -i 0 --mkfs --osd-uuid "$osd" --no-mon-config --keyring "$dir/keyring"
        ceph-osd "${as[@]}" -i 0
        radosgw "${as[@]}" -n client.rgw
        for ((i = 0; ; i++)); do
                curl -s -o /dev/null "http://127.0.0.1:$port/" && break
                [ $i -lt 120 ] || { echo "radosgw does not come up" >&2; return 1; }
                sleep 0.5
        done
        radosgw-admin -c "$conf" user create --uid=t --display-name=t --access-key=testak --secret-key=testsk
        curl -sS --fail-with-body --aws-sigv4 aws:amz:us-east-1:s3 --user testak:testsk -X PUT \
                -H "x-amz-content-sha256: $(sha256sum </dev/null | cut -c1-64)" \
                "http://127.0.0.1:$port/lake"
}

case $1 in
start)
        trap '[ $? = 0 ] || { tail -n 20 "$dir.log" >&2; stop; }' EXIT
        start "$3" >"$dir.log" 2>&1
        ;;
stop) stop ;;
*) echo "usage: radosgw.sh start DIR PORT | stop DIR" >&2; exit 2 ;;
esac
