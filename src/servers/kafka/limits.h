/* servers/kafka/limits.h - bounds of the Kafka server. */
#pragma once

enum {
        /* Where small frames arrive, one a loop: a read takes many pipelined requests at once. */
        KAFKA_SCRATCH_BYTES = 64 << 10,
        /* Size field and API key: what is needed before memory is taken for a frame. */
        KAFKA_HEAD_BYTES = 6,
        /* Key, version, correlation id: no request is shorter. */
        KAFKA_FRAME_BYTES_MIN = 8,
        /* Requests of one connection that wait or run; above, the connection is not read. */
        KAFKA_REQUESTS_MAX = 64,
        /* Answers that the peer has not taken; above, its next requests are not started. */
        KAFKA_WRITE_QUEUE_BYTES = 1 << 20,
        /* Answers in memory that peers have not taken, as a multiple of fetch.inflight.bytes, above
         * which only Produce is started: the size of other answers is known once they are made. */
        KAFKA_ANSWERS_HARD_FACTOR = 4,
        /* Finished requests kept for the next ones, a loop. */
        KAFKA_SPARE_REQUESTS_MAX = 64,
        /* Frames of requests other than Produce, held in memory by the whole server. */
        KAFKA_OTHER_FRAMES_BYTES = 64 << 20,
        /* Memory of one decoded request and its answer, beyond a multiple of its frame. */
        KAFKA_ARENA_BYTES = 64 << 20,
        KAFKA_ARENA_FRAME_FACTOR = 4,

        KAFKA_TICK_MS = 1000,      /* idle and stalled connections are looked for */
        KAFKA_BUDGET_RETRY_MS = 5, /* a connection that waits for memory asks again */
        KAFKA_HUNGRY_MS = 200,     /* … and after this it has its turn before all others */
        KAFKA_STALL_MS =
                10000, /* time of a peer to send or take something, while memory is short */
        KAFKA_STALL_SHORT_MS = 2000, /* … to take something, while no answers are made for others */
        KAFKA_FRAME_RATE_MIN =
                16 << 10,          /* bytes a second of a frame, while others wait for memory */
        KAFKA_FETCH_RETRY_MS = 10, /* a fetch that waits for memory asks again */
        KAFKA_FETCH_BYTES_MIN = 64 << 10, /* of memory; with less a fetch waits */
        KAFKA_SESSION_IDLE_MS = 120000,   /* a fetch session this old may be replaced (KIP-227) */
        KAFKA_SESSION_PARTITIONS_MAX = 1000000, /* of all sessions together */
        KAFKA_TOPIC_NAME_BYTES_MAX = 249,
        KAFKA_DESCRIBE_PARTITIONS_MAX = 2000, /* of one DescribeTopicPartitions answer */
        KAFKA_ASSIGNMENTS_MAX = 100000, /* partitions of a new topic that are placed by hand */
        KAFKA_LOOK_INTERVAL_MS =
                20, /* between looks for what other brokers made; a look may wait */
        KAFKA_TELEMETRY_INTERVAL_MS = 300000,
        KAFKA_TELEMETRY_BYTES_MAX = 1 << 20,
        KAFKA_CONFIGURE_ATTEMPTS = 5, /* when another change of the same topic comes between */
};
