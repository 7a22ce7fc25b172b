// Client cases with franz-go: franz BOOTSTRAP TOPIC CASE. Exits non-zero on failure.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var bootstrap, topic string

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

func client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, opts...)...)
	must(err)
	return cl
}

func createTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32) {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	must(err)
	must(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

func produce(ctx context.Context, from, to int, opts ...kgo.Opt) {
	cl := client(append(opts, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(time.Millisecond))...)
	defer cl.Close()
	for i := from; i < to; i++ {
		r := &kgo.Record{
			Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}},
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { must(err) })
	}
	must(cl.Flush(ctx))
}

// consume polls until the members together have seen `count` different values.
func consume(ctx context.Context, count int, members ...*kgo.Client) map[string]int {
	var mu sync.Mutex
	seen, done := map[string]int{}, make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, cl := range members {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ctx.Err() == nil {
				fs := cl.PollFetches(ctx)
				mu.Lock()
				fs.EachRecord(func(r *kgo.Record) {
					check(len(r.Headers) == 2 && r.Headers[1].Value == nil, "headers %v", r.Headers)
					seen[string(r.Value)]++
					if len(seen) == count {
						select {
						case <-done:
						default:
							close(done)
						}
					}
				})
				mu.Unlock()
			}
		}()
	}
	if count > 0 {
		select {
		case <-done:
		case <-time.After(40 * time.Second):
			mu.Lock()
			panic(fmt.Sprintf("%d of %d", len(seen), count))
		}
	}
	cancel()
	wg.Wait()
	return seen
}

var cases = map[string]func(context.Context, *kgo.Client){
	"codecs": func(ctx context.Context, cl *kgo.Client) {
		createTopic(ctx, cl, topic, 3)
		codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(),
			kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
		for i, codec := range codecs {
			produce(ctx, i*1000, (i+1)*1000, kgo.ProducerBatchCompression(codec))
		}
		c := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		for v, n := range consume(ctx, 5000, c) {
			check(n == 1, "%s came %d times", v, n)
		}
	},
	"group": func(ctx context.Context, cl *kgo.Client) {
		createTopic(ctx, cl, topic, 6)
		member := func() *kgo.Client {
			return client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g-"+topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.HeartbeatInterval(300*time.Millisecond))
		}
		produce(ctx, 0, 2000)
		a, b := member(), member()
		consume(ctx, 2000, a, b)
		must(a.CommitUncommittedOffsets(ctx))
		must(b.CommitUncommittedOffsets(ctx))
		a.Close()
		b.Close()
		produce(ctx, 2000, 2500)
		c := member()
		seen := consume(ctx, 500, c)
		c.Close()
		for v := range seen {
			check(len(v) == 5 && v >= "v2000", "%s was read again", v)
		}
	},
	"staticMember": func(ctx context.Context, cl *kgo.Client) {
		createTopic(ctx, cl, topic, 2)
		produce(ctx, 0, 100)
		for i := 0; i < 2; i++ { // the second one takes over the first one's place
			c := client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g-"+topic),
				kgo.InstanceID("one"), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			consume(ctx, 100, c)
			c.CloseAllowingRebalance()
		}
	},
	"autoCreate": func(ctx context.Context, cl *kgo.Client) {
		produce(ctx, 0, 10, kgo.AllowAutoTopicCreation())
		c := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		consume(ctx, 10, c)
	},
	"acksAndManualPartitions": func(ctx context.Context, cl *kgo.Client) {
		createTopic(ctx, cl, topic, 4)
		p := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
			kgo.RequiredAcks(kgo.LeaderAck()))
		defer p.Close()
		for i := range 100 {
			r := &kgo.Record{Topic: topic, Partition: int32(i % 4), Value: []byte("x")}
			must(p.ProduceSync(ctx, r).FirstErr())
			check(r.Offset == int64(i/4), "offset %d of record %d", r.Offset, i)
		}
	},
	"timestamps": func(ctx context.Context, cl *kgo.Client) {
		createTopic(ctx, cl, topic, 1)
		at := time.UnixMilli(1_700_000_000_000)
		for _, ms := range []int{2, 4, 6, 8} {
			r := &kgo.Record{Topic: topic, Timestamp: at.Add(time.Duration(ms) * time.Millisecond)}
			must(cl.ProduceSync(ctx, r).FirstErr())
		}
		c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {0: kgo.NewOffset().AfterMilli(at.UnixMilli() + 5)}}))
		defer c.Close()
		r := c.PollFetches(ctx).Records()
		check(len(r) == 2 && r[0].Offset == 2, "got %d records", len(r))
	},
}

func main() {
	bootstrap, topic = os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl := client()
	defer cl.Close()
	cases[os.Args[3]](ctx, cl)
}
