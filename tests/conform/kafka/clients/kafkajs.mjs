// kafkajs, one case a process: node kafkajs.mjs BOOTSTRAP TOPIC CASE. Exits non-zero on failure.
import assert from 'node:assert/strict'
import kafkajs from 'kafkajs'

const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = kafkajs
const [bootstrap, topic, name] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 8 } })
const admin = kafka.admin()
await admin.connect()

const createTopic = (numPartitions, extra = {}) => admin.createTopics({
  waitForLeaders: true, topics: [{ topic, numPartitions, replicationFactor: 1, ...extra }] })

async function withProducer (work, options = {}) {
  const p = kafka.producer(options)
  await p.connect()
  try { return await work(p) } finally { await p.disconnect() }
}

// Reads until `count` records have come, at most 30 s.
async function read (count, options = {}, groupId = 'g-' + topic) {
  const c = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500, ...options })
  await c.connect()
  await c.subscribe({ topic, fromBeginning: true })
  const out = []
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${out.length} of ${count}`)), 30000)
    c.run({ eachMessage: async ({ partition, message }) => {
      out.push({ partition, ...message })
      if (out.length === count) { clearTimeout(timer); resolve() }
    } }).catch(reject)
  })
  await c.disconnect()
  return out
}

const cases = {
  async roundTrip () {
    await createTopic(3)
    const messages = Array.from({ length: 1000 }, (_, i) => ({ key: `k${i}`, value: `v${i}` }))
    await withProducer(p => p.send({ topic, messages }))
    const got = await read(1000)
    assert.deepEqual(got.map(m => m.value.toString()).sort(), messages.map(m => m.value).sort())
  },
  async gzip () {
    await createTopic(1)
    const messages = Array.from({ length: 500 }, (_, i) => ({ value: 'x'.repeat(i) }))
    await withProducer(p => p.send({ topic, messages, compression: CompressionTypes.GZIP }))
    assert.equal((await read(500)).length, 500)
  },
  async idempotent () {
    await createTopic(2)
    await withProducer(async p => {
      for (let i = 0; i < 50; i++) await p.send({ topic, messages: [{ value: `${i}` }] })
    }, { idempotent: true, maxInFlightRequests: 1 })
    const got = await read(50)
    assert.deepEqual(got.map(m => +m.value).sort((a, b) => a - b), [...Array(50).keys()])
  },
  async nullAndEmpty () { // B007
    await createTopic(1)
    const states = [null, Buffer.alloc(0), Buffer.from('x')]
    const messages = []
    for (const key of states) for (const value of states) messages.push({ key, value })
    messages.push({ key: 'h', value: 'v', headers: { a: ['1', '2'], e: '' } })
    await withProducer(p => p.send({ topic, messages }))
    const got = await read(messages.length)
    const text = b => b === null ? null : b.toString()
    assert.deepEqual(got.map(m => [text(m.key), text(m.value)]),
      messages.map(m => [m.key === null ? null : m.key.toString(),
        m.value === null ? null : m.value.toString()]))
    const h = got.at(-1).headers
    assert.deepEqual(h.a.map(String), ['1', '2'])
    assert.equal(h.e.toString(), '')
  },
  async smallFetchLimit () { // B018
    await createTopic(1)
    await withProducer(async p => {
      for (let i = 0; i < 20; i++) {
        await p.send({ topic, messages: [{ value: `${i % 10}`.repeat(126000) }] })
      }
    })
    const got = await read(20, { maxBytesPerPartition: 1 })
    assert.equal(got.length, 20)
  },
  async offsetsByTimestamp () { // B021
    await createTopic(1)
    const at = 1700000000000
    await withProducer(p => p.send({ topic, messages: [2, 4, 6, 8].map(t => (
      { value: 'x', timestamp: `${at + t}` })) }))
    const ask = async t => (await admin.fetchTopicOffsetsByTimestamp(topic, at + t))[0].offset
    assert.equal(await ask(3), '1')
    assert.equal(await ask(8), '3')
    assert.equal(await ask(9), '4') // kafkajs gives the end where there is none
    const o = (await admin.fetchTopicOffsets(topic))[0]
    assert.deepEqual([o.low, o.high], ['0', '4'])
  },
  async describeConfigs () { // B031
    await createTopic(1, { configEntries: [{ name: 'retention.ms', value: '1234' }] })
    const r = await admin.describeConfigs({ includeSynonyms: true, resources: [
      { type: ConfigResourceTypes.TOPIC, name: topic }] })
    const byName = Object.fromEntries(r.resources[0].configEntries.map(e => [e.configName, e]))
    assert.equal(byName['retention.ms'].configValue, '1234')
    assert.equal(byName['retention.ms'].configSynonyms[0].configValue, '1234')
    assert.ok(Object.keys(byName).length > 20)
    await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic,
      configEntries: [{ name: 'retention.ms', value: '999' }] }] })
  },
  async createTopics () { // B032
    const make = (n, numPartitions, replicationFactor, extra = {}) => admin.createTopics({
      waitForLeaders: false,
      topics: [{ topic: `${topic}-${n}`, numPartitions, replicationFactor }], ...extra })
    assert.equal(await make('default', -1, -1), true)
    assert.equal(await make('one', 1, 1), true)
    await assert.rejects(make('zero', 0, 1))
    await make('dry', 1, 1, { validateOnly: true })
    await new Promise(resolve => setTimeout(resolve, 300))
    const names = await admin.listTopics()
    assert.ok(names.includes(`${topic}-default`) && names.includes(`${topic}-one`))
    assert.ok(!names.includes(`${topic}-dry`) && !names.includes(`${topic}-zero`))
    assert.equal(await make('one', 1, 1), false)
    await admin.createPartitions({ topicPartitions: [{ topic: `${topic}-one`, count: 3 }] })
    await new Promise(resolve => setTimeout(resolve, 300))
    const meta = await admin.fetchTopicMetadata({ topics: [`${topic}-one`] })
    assert.equal(meta.topics[0].partitions.length, 3)
    await admin.deleteTopics({ topics: [`${topic}-one`, `${topic}-default`] })
  },
  async replicationFactors () { // B032, where factors above the number of brokers are taken
    for (const factor of [1, 2, 3]) {
      assert.equal(await admin.createTopics({ waitForLeaders: true, topics: [
        { topic: `${topic}-${factor}`, numPartitions: 1, replicationFactor: factor }] }), true)
    }
  },
  async groups () {
    await createTopic(2)
    await withProducer(p => p.send({ topic, messages: [{ value: 'a' }, { value: 'b' }] }))
    await read(2)
    const groupId = 'g-' + topic
    const described = (await admin.describeGroups([groupId])).groups[0]
    assert.equal(described.state, 'Empty')
    assert.ok((await admin.listGroups()).groups.some(g => g.groupId === groupId))
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '0' }] })
    const offsets = await admin.fetchOffsets({ groupId, topics: [topic] })
    assert.equal(offsets[0].partitions.find(p => p.partition === 0).offset, '0')
    await admin.deleteGroups([groupId])
    assert.ok(!(await admin.listGroups()).groups.some(g => g.groupId === groupId))
  },
  async deleteRecords () {
    await createTopic(1)
    await withProducer(p => p.send({ topic, messages: Array(10).fill({ value: 'x' }) }))
    await admin.fetchTopicOffsets(topic) // teaches this client where the leader is
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '7' }] })
    const o = (await admin.fetchTopicOffsets(topic))[0]
    assert.deepEqual([o.low, o.high], ['7', '10'])
    assert.deepEqual((await read(3)).map(m => m.offset), ['7', '8', '9'])
  }
}
try {
  await cases[name]()
} finally {
  await admin.disconnect()
}
process.exit(0)
