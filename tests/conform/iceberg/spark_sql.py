"""A Spark session with the Iceberg runtime: spark_sql.py JAR NAME=VALUE...

Reads one SQL statement a line from standard input and answers each with one line of JSON: a list
of rows, or {"error": "..."}. Run by Spark's own Python, see test_spark.py.
"""
import json
import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").appName("conform").config("spark.jars", sys.argv[1])
for setting in sys.argv[2:]:
    name, value = setting.split("=", 1)
    builder = builder.config(name, value)
for name, value in {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC",
                    "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1",
                    "spark.driver.bindAddress": "127.0.0.1"}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("ready", flush=True)
for line in sys.stdin:
    try:
        answer = [list(row) for row in spark.sql(line).collect()]
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"[:2000]}
    print(json.dumps(answer, default=str), flush=True)
spark.stop()
