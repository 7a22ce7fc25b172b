"""Makes the files in this folder; run by hand, with pyarrow and duckdb installed.

Each holds the same 300 rows, which parquet_test.c knows by formula, written by another program with
other encodings, page versions and codecs.
"""
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

rows = range(300)


def tags(i):
    return [None, [], [None], [i, i + 1], [i], [i, None, i + 2]][i % 6]


records = pa.table({
    'id': pa.array([i * 3 for i in rows], pa.int64()),
    'num': pa.array([None if i % 5 == 2 else i * i - 1000 for i in rows], pa.int32()),
    'name': pa.array([None if i % 7 == 3 else '' if i % 7 == 4 else 'name-%d' % (i % 10)
                      for i in rows], pa.string()),
    'real': pa.array([i * 0.5 for i in rows], pa.float64()),
    'flag': pa.array([i % 3 == 0 for i in rows], pa.bool_()),
    'tags': pa.array([tags(i) for i in rows], pa.list_(pa.int32())),
})
delta = {'id': 'DELTA_BINARY_PACKED', 'num': 'DELTA_BINARY_PACKED', 'name': 'DELTA_BYTE_ARRAY',
         'real': 'BYTE_STREAM_SPLIT', 'flag': 'RLE', 'tags.list.element': 'DELTA_BINARY_PACKED'}
length = dict(delta, name='DELTA_LENGTH_BYTE_ARRAY', real='PLAIN')

if __name__ == '__main__':
    def write(name, **options):
        pq.write_table(records, name + '.parquet', **options)

    write('arrow_v1_snappy', compression='SNAPPY')
    write('arrow_v1_gzip', compression='GZIP', data_page_size=500)
    write('arrow_v1_plain', compression='NONE', use_dictionary=False, write_statistics=False)
    write('arrow_v2_zstd', compression='ZSTD', data_page_version='2.0', write_page_index=True,
          data_page_size=500, write_page_checksum=True)
    write('arrow_v2_lz4', compression='LZ4', data_page_version='2.0', row_group_size=100)
    write('arrow_v1_delta', compression='NONE', use_dictionary=False, column_encoding=delta)
    write('arrow_v2_delta', compression='ZSTD', use_dictionary=False, column_encoding=length,
          data_page_version='2.0', data_page_size=400, write_page_index=True)
    duckdb.sql("copy (from records) to 'duckdb_v1_snappy.parquet' (format parquet)")
    duckdb.sql("copy (from records) to 'duckdb_v2_zstd.parquet' "
               "(format parquet, parquet_version v2, compression zstd)")
