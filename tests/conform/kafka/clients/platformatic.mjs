// Cases with @platformatic/kafka: platformatic.mjs BOOTSTRAP TOPIC CASE. Exits non-zero on failure.
import assert from 'node:assert/strict'

// It is written for Node.js 22; Debian 12 has an older one without this function.
Promise.withResolvers ??= function () {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}
const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = await import('@platformatic/kafka')

const [bootstrap, topic, name] = process.argv.slice(2)
const base = { clientId: 'platformatic', bootstrapBrokers: [bootstrap] }

async function createTopic (partitions) {
  const admin = new Admin(base)
  await admin.createTopics({ topics: [topic], partitions, replicas: 1 })
  await admin.close()
}

async function produce (values) {
  const producer = new Producer({ ...base, serializers: stringSerializers })
  await producer.send({ messages: values.map(value => ({ topic, key: `k${value}`, value, headers: { h: '1' } })) })
  await producer.close()
}

function consumer () {
  return new Consumer({ ...base, groupId: `g-${topic}`, deserializers: stringDeserializers, sessionTimeout: 10000,
    heartbeatInterval: 300, rebalanceTimeout: 10000 })
}

const range = (from, to) => Array.from({ length: to - from }, (_, i) => `${from + i}`)

const cases = {
  async roundTrip () {
    await createTopic(3)
    await produce(range(0, 200))
    const c = consumer()
    const stream = await c.consume({ topics: [topic], mode: 'earliest', autocommit: true })
    const got = []
    for await (const m of stream) {
      assert.equal(m.key, `k${m.value}`)
      assert.equal(m.headers.get('h'), '1')
      got.push(m.value)
      if (got.length === 200) break
    }
    assert.deepEqual(got.sort(), range(0, 200).sort())
    await c.close(true)
  },
  async rebalance () { // B019: what is committed is not delivered again, whatever fetch sessions hold
    await createTopic(6)
    await produce(range(0, 300))
    const got = new Set(); const committed = new Set(); const twice = []
    const members = [consumer(), consumer()]
    const read = async c => {
      const stream = await c.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest',
        autocommit: false, maxWaitTime: 200 })
      stream.on('data', async m => {
        if (committed.has(m.value)) twice.push(m.value)
        got.add(m.value)
        try {
          await m.commit()
          committed.add(m.value)
        } catch {} // in a rebalance: another member gets it
      })
      return stream
    }
    const until = async count => {
      for (let i = 0; got.size < count; i++) {
        assert.ok(i < 600, `${got.size} of ${count}`)
        await new Promise(resolve => setTimeout(resolve, 50))
      }
      await new Promise(resolve => setTimeout(resolve, 500))
    }
    await read(members[0])
    await until(300)
    await read(members[1])
    await produce(range(300, 600))
    await until(600)
    assert.ok(committed.size > 300)
    assert.deepEqual(twice, [])
    await Promise.all(members.map(m => m.close(true)))
  }
}

await cases[name]()
process.exit(0)
