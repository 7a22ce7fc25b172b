#!/usr/bin/env bash
# build.sh DIR JOBS: librdkafka with its own test runner, from the npm package that carries its
# source, into DIR: DIR/tests/test-runner, and DIR/prefix with the library and headers.
set -euo pipefail
version=1.10.1
dir=$1 jobs=$2
rm -rf "$dir" && mkdir -p "$dir/pack" && cd "$dir/pack"
npm pack -s "@confluentinc/kafka-javascript@$version" >/dev/null
tar xzf *.tgz package/deps/librdkafka
cd package/deps/librdkafka
./configure --prefix="$dir/prefix" >/dev/null
# One line of each command is enough of a log; -w: its warnings are not ours.
make -s -j"$jobs" libs CFLAGS="-O2 -w" CXXFLAGS="-O2 -w"
make -s -C src install
make -s -C src-cpp install
make -s -j"$jobs" -C tests build
mv tests "$dir/tests"
cp src/librdkafka.so.1 src-cpp/librdkafka++.so.1 "$dir/tests/"
cd "$dir" && rm -rf pack
