// Reads a table with icebird, or one Parquet file's metadata with hyparquet:
//   node icebird.mjs rows METADATA_FILE | parquet FILE
import { open, stat } from 'node:fs/promises'
import { readFile } from 'node:fs/promises'
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet'
import { icebergRead } from 'icebird'

const [what, file] = process.argv.slice(2)

// icebird asks for URLs; the table's files are local. The same answers as an HTTP server gives.
globalThis.fetch = async (url, init = {}) => {
  const path = decodeURIComponent(new URL(url, 'file:///').pathname)
  const size = (await stat(path)).size
  if (init.method === 'HEAD') return new Response(null, { headers: { 'Content-Length': size } })
  const range = new Headers(init.headers ?? {}).get('Range')
  if (!range) return new Response(await readFile(path))
  const [, from, to] = /bytes=(\d*)-(\d*)/.exec(range)
  const start = from === '' ? size - Number(to) : Number(from)
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1)
  const f = await open(path)
  const b = Buffer.alloc(end - start + 1)
  await f.read(b, 0, b.length, start)
  await f.close()
  return new Response(b, { status: 206, headers: { 'Content-Length': b.length } })
}

// Bytes as base64: hyparquet gives them as Uint8Array, or as text where it takes them for UTF-8.
function bytes (v) {
  if (v === null || v === undefined) return null
  return Buffer.from(v).toString('base64')
}

if (what === 'rows') {
  const metadata = JSON.parse(await readFile(file, 'utf8'))
  const rows = await icebergRead({ tableUrl: metadata.location, metadata })
  console.log(JSON.stringify(rows.map(r => ({
    __partition: r.__partition,
    __offset: String(r.__offset),
    __timestamp: Number(r.__timestamp instanceof Date ? r.__timestamp.getTime() : r.__timestamp),
    __key: bytes(r.__key),
    value: bytes(r.value),
    __headers: (r.__headers ?? []).map(h => ({ key: h.key, value: bytes(h.value) }))
  }))))
} else {
  const metadata = await parquetMetadataAsync(await asyncBufferFromFile(file))
  console.log(JSON.stringify(metadata, (_, v) => typeof v === 'bigint' ? Number(v) : v))
}
