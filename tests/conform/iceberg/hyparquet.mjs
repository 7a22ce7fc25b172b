// All rows of a Parquet file as JSON lines, read with hyparquet: node hyparquet.mjs FILE
// Bytes are hexadecimal, times the milliseconds that a Date holds, odd doubles their names.
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

function plain (v) {
  if (v === null || v === undefined) return null
  if (typeof v === 'bigint') return Number(v)
  if (typeof v === 'number') return Number.isFinite(v) ? v : String(v)
  if (v instanceof Date) return v.getTime()
  if (v instanceof Uint8Array) return Buffer.from(v).toString('hex')
  if (Array.isArray(v) || ArrayBuffer.isView(v)) return Array.from(v, plain)
  if (typeof v === 'object') return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, plain(x)]))
  return v
}

const file = await asyncBufferFromFile(process.argv[2])
for (const row of await parquetReadObjects({ file, compressors, utf8: false })) {
  console.log(JSON.stringify(plain(row)))
}
