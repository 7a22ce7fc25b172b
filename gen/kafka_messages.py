#!/usr/bin/env python3
"""Generates the Kafka message structs and field tables from schema/kafka.

  kafka_messages.py SCHEMA_DIR OUT_H OUT_C    writes the header and the tables
  kafka_messages.py --table SCHEMA_DIR        prints the table of docs/protocols/kafka.md

The definition format is described in schema/kafka/README.md, the tables in src/wire/wire.h.
Only the standard library is used.
"""
import json
import pathlib
import re
import sys

SCALARS = {  # type: (C type, wire bytes)
    'bool': ('bool', 1), 'int8': ('int8_t', 1), 'int16': ('int16_t', 2), 'uint16': ('uint16_t', 2),
    'int32': ('int32_t', 4), 'int64': ('int64_t', 8), 'uuid': ('ls_uuid', 16),
    'string': ('ls_str', 1), 'bytes': ('ls_span', 1), 'records': ('struct ls_wire_records', 1)}
INTS = {'int8': 8, 'int16': 16, 'uint16': 17, 'int32': 32, 'int64': 64}
KEYS = {'name', 'type', 'versions', 'nullable', 'tag', 'default', 'max', 'fields', 'flexible'}
NEVER = 127
NOT_API = {'limits.json', 'errors.json'}


class SchemaError(Exception):
    pass


def snake(name):
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()


def version_range(text, low, high):
    """'3', '3-5' or '3+' (to the newest served version) as (first, last)."""
    m = re.fullmatch(r'(\d+)(\+|-(\d+))?', text)
    if not m:
        raise SchemaError(f'bad version range {text!r}')
    first = int(m[1])
    last = high if m[2] == '+' else int(m[3]) if m[3] else first
    if not low <= first <= last <= high:
        raise SchemaError(f'version range {text!r} outside {low}-{high}')
    return first, last


class Field:
    def __init__(self, d, message, low, high):
        unknown = set(d) - KEYS
        if unknown:
            raise SchemaError(f'{d.get("name")}: unknown keys {sorted(unknown)}')
        self.name, kind = d['name'], d['type']
        self.first, self.last = version_range(d.get('versions', f'{low}-{high}'), low, high)
        null = d.get('nullable')
        self.null = ((self.first, self.last) if null is True else
                     version_range(null, self.first, self.last) if null else None)
        self.tag = d.get('tag', -1)
        self.is_array = kind.startswith('[]')
        self.elem = kind[2:] if self.is_array else kind
        self.sub = None
        if self.elem not in SCALARS:
            self.sub = Struct(f'{message.c_name}_{self.elem}', d['fields'], message,
                              self.first, self.last)
        elif 'fields' in d:
            raise SchemaError(f'{self.name}: fields of a scalar')
        self.is_pointer = bool(self.sub and not self.is_array and self.null)
        self.rigid = d.get('flexible') == 'none'
        self.default_null = 'default' in d and d['default'] is None
        self.default = 0 if self.default_null else int(d.get('default', 0))
        if self.default_null and not self.null:
            raise SchemaError(f'{self.name}: default null, but not nullable')
        if self.elem in INTS and not self.is_array:
            bits = INTS[self.elem]
            low_v, high_v = (0, 65535) if bits == 17 else (-1 << (bits - 1), (1 << (bits - 1)) - 1)
            if not low_v <= self.default <= high_v:
                raise SchemaError(f'{self.name}: default does not fit')
        self.max = self.bound(d)
        if self.tag >= 0 and (message.flexible > self.first):
            raise SchemaError(f'{self.name}: tagged in a version that is not flexible')

    def bound(self, d):
        if self.is_array:
            if 'max' not in d:
                raise SchemaError(f'{self.name}: an array needs a max')
            return d['max']
        return d.get('max', {'string': 'STRING_BYTES_MAX', 'bytes': 'BYTES_MAX',
                             'records': 'BYTES_MAX'}.get(self.elem))

    def c_decl(self):
        base = f'struct {self.sub.c_name}' if self.sub else SCALARS[self.elem][0]
        if self.is_array:
            return f'struct {{\n                {base} *items;\n                uint32_t count;\n' \
                   f'        }} {self.name}'
        return f'{base} {"*" if self.is_pointer else ""}{self.name}'

    def wire_min(self):
        """The fewest bytes that a value takes in any version."""
        if self.tag >= 0:
            return 0
        if self.is_array or self.is_pointer:
            return 1
        return self.sub.wire_min() if self.sub else SCALARS[self.elem][1]

    def note(self):
        low, high = self.first, self.last
        notes = [f'v{low}' if low == high else f'v{low}-{high}']
        if self.null:
            notes.append('null' if self.null == (low, high) else
                         f'null v{self.null[0]}-{self.null[1]}')
        if self.tag >= 0:
            notes.append(f'tag {self.tag}')
        if self.default:
            notes.append(f'default {self.default}')
        return ', '.join(notes)


class Struct:
    def __init__(self, c_name, fields, message, low, high):
        self.c_name = c_name
        if c_name in message.names:
            raise SchemaError(f'{c_name} is defined twice')
        message.names.add(c_name)
        self.low, self.high = low, high
        self.fields = [Field(d, message, low, high) for d in fields]
        names = [f.name for f in self.fields]
        if len(set(names)) != len(names):
            raise SchemaError(f'{c_name}: a field is defined twice')
        tags = [f.tag for f in self.fields if f.tag >= 0]
        if tags != sorted(set(tags)):
            raise SchemaError(f'{c_name}: tags are not in ascending order')
        self.flexible = message.flexible
        message.structs.append(self)   # inner ones come first

    def wire_min(self):
        best = None
        for v in range(self.low, self.high + 1):
            n = sum(f.wire_min() for f in self.fields if f.first <= v <= f.last)
            n += 1 if v >= self.flexible else 0
            best = n if best is None else min(best, n)
        return best


class Message:
    def __init__(self, name, fields, versions, flexible):
        self.c_name = 'ls_kafka_' + name
        self.low, self.high = version_range(versions, 0, NEVER - 1)
        self.flexible = NEVER if flexible == 'none' else int(flexible.rstrip('+'))
        self.names, self.structs = set(), []
        self.root = Struct(self.c_name, fields, self, self.low, self.high)


class Api:
    def __init__(self, d):
        self.name, self.key = d['name'], d['key']
        self.c_name = 'ls_kafka_' + snake(self.name)
        self.messages = [Message(f'{snake(self.name)}_{kind}', d[kind], d['versions'],
                                 d['flexible']) for kind in ('request', 'response')]
        self.low, self.high = self.messages[0].low, self.messages[0].high
        self.flexible = self.messages[0].flexible
        self.advertised = version_range(d.get('advertised', d['versions']), 0, self.high)[0]


def load(schema_dir):
    apis, data = [], []
    for path in sorted(pathlib.Path(schema_dir).glob('*.json')):
        if path.name in NOT_API:
            continue
        d = json.loads(path.read_text())
        try:
            if path.name != snake(d['name']) + '.json':
                raise SchemaError(f'should be named {snake(d["name"])}.json')
            if 'key' in d:
                apis.append(Api(d))
            else:
                data.append(Message(snake(d['name']), d['data'], d['versions'], d['flexible']))
        except SchemaError as e:
            sys.exit(f'{path}: {e}')
    apis.sort(key=lambda a: a.key)
    if len({a.key for a in apis}) != len(apis):
        sys.exit('two definitions have the same API key')
    root = pathlib.Path(schema_dir)
    return (apis, data, json.loads((root / 'limits.json').read_text()),
            json.loads((root / 'errors.json').read_text()))


def emit_struct(out, s):
    out.append(f'struct {s.c_name} {{')
    for f in s.fields:
        out.append(f'        {f.c_decl()}; /* {f.note()} */')
    if not s.fields:
        out.append('        uint8_t none; /* the message is empty */')
    out.append('};')
    out.append(f'extern const struct ls_wire_struct {s.c_name}_table;')
    out.append(f'static inline void\n{s.c_name}_init(struct {s.c_name} *p)\n{{\n'
               f'        ls_wire_init(&{s.c_name}_table, p);\n}}')
    out.append(f'static inline struct {s.c_name} *\n{s.c_name}_array(struct ls_arena *a, '
               f'size_t count)\n{{\n'
               f'        return ls_wire_array(a, &{s.c_name}_table, count);\n}}\n')


def emit_header(apis, data, limits, errors):
    out = ['/* Generated from schema/kafka by gen/kafka_messages.py.',
           ' *',
           ' * x_init sets every field to its default. x_array gives `count` such elements in the',
           ' * arena: NULL when it is full, never NULL for a count of 0. */',
           '#pragma once', '#include "wire/wire.h"', '']
    for name, value in limits.items():
        out.append(f'#define LS_KAFKA_{name} {value}')
    out.append('\nenum ls_kafka_error {')
    out += [f'        LS_KAFKA_ERR_{e["name"]} = {e["code"]},' for e in errors]
    out.append('};\n\nenum ls_kafka_api_key {')
    out += [f'        LS_KAFKA_API_{snake(a.name).upper()} = {a.key},' for a in apis]
    out.append('};\n')
    out.append(f'#define LS_KAFKA_API_COUNT {len(apis)}')
    out.append(f'#define LS_KAFKA_DATA_COUNT {len(data)}')
    out.append(f'#define LS_KAFKA_ERROR_COUNT {len(errors)}\n')
    for m in [m for a in apis for m in a.messages] + data:
        for s in m.structs:
            emit_struct(out, s)
        out.append(f'extern const struct ls_wire_message {m.c_name}_message;\n')
    return '\n'.join(out) + '\n'


def emit_table(out, s):
    if s.fields:
        out.append(f'static const struct ls_wire_field {s.c_name}_fields[] = {{')
    for f in s.fields:
        kind = 'ARRAY' if f.is_array else 'STRUCT' if f.sub else f.elem.upper()
        elem = 'STRUCT' if f.sub else f.elem.upper()
        flags = [n for n, on in (('POINTER', f.is_pointer), ('RIGID', f.rigid),
                                 ('DEFAULT_NULL', f.default_null)) if on]
        null = f.null or (NEVER, -1)
        default = 'INT64_MIN' if f.default == -1 << 63 else f.default
        parts = [f'.name = "{f.name}"', f'.offset = offsetof(struct {s.c_name}, {f.name})',
                 f'.type = LS_WIRE_{kind}', f'.elem = LS_WIRE_{elem}',
                 f'.version_min = {f.first}', f'.version_max = {f.last}',
                 f'.null_min = {null[0]}', f'.null_max = {null[1]}', f'.tag = {f.tag}']
        if f.default:
            parts.append(f'.value_default = {default}')
        if f.max:
            parts.append(f'.max = {f.max if isinstance(f.max, int) else "LS_KAFKA_" + f.max}')
        if flags:
            parts.append('.flags = ' + ' | '.join('LS_WIRE_' + n for n in flags))
        if f.sub:
            parts.append(f'.sub = &{f.sub.c_name}_table')
        out.append('        {' + ', '.join(parts) + '},')
    if s.fields:
        out.append('};')
    out.append(f'static const struct {s.c_name} {s.c_name}_default = {c_default(s)};')
    tags = any(f.tag >= 0 for f in s.fields)
    out.append(f'const struct ls_wire_struct {s.c_name}_table = {{"{s.c_name[9:]}", '
               f'{s.c_name + "_fields" if s.fields else "NULL"}, &{s.c_name}_default, '
               f'sizeof(struct {s.c_name}), {len(s.fields)}, {s.wire_min()}, '
               f'{"true" if tags else "false"}}};\n')


def c_default(s):
    inits = []
    for f in s.fields:
        if f.is_array or f.is_pointer:
            continue
        if f.sub:
            inits.append(f'.{f.name} = {c_default(f.sub)}')
        elif f.default:
            inits.append(f'.{f.name} = {"INT64_MIN" if f.default == -1 << 63 else f.default}')
    return '{' + (', '.join(inits) or '0') + '}'


def emit_source(apis, data, errors, header_name):
    out = ['/* Generated from schema/kafka by gen/kafka_messages.py. */',
           '#include <stddef.h>', '', f'#include "wire/{header_name}"', '#include "wire/kafka.h"',
           '']
    messages = [m for a in apis for m in a.messages] + data
    for m in messages:
        for s in m.structs:
            emit_table(out, s)
        out.append(f'const struct ls_wire_message {m.c_name}_message = {{"{m.c_name[9:]}", '
                   f'&{m.c_name}_table, {m.low}, {m.high}, {m.flexible}}};\n')
    out.append('const struct ls_kafka_api ls_kafka_apis[LS_KAFKA_API_COUNT] = {')
    for a in apis:
        out.append(f'        {{"{a.name}", {a.key}, {a.low}, {a.high}, {a.advertised}, '
                   f'{a.flexible},\n         &{a.c_name}_request_message, '
                   f'&{a.c_name}_response_message}},')
    out.append('};\n')
    out.append('const struct ls_wire_message *const ls_kafka_data[LS_KAFKA_DATA_COUNT] = {')
    out += [f'        &{m.c_name}_message,' for m in data]
    out.append('};\n')
    out.append('const struct ls_kafka_error_info ls_kafka_errors[LS_KAFKA_ERROR_COUNT] = {')
    for e in errors:
        out.append(f'        {{{e["code"]}, {"true" if e.get("retriable") else "false"}, '
                   f'"{e["name"]}", {json.dumps(e["text"])}}},')
    out.append('};')
    return '\n'.join(out) + '\n'


def markdown(apis):
    rows = ['| API | key | versions | flexible from |', '| --- | ---: | --- | --- |']
    for a in apis:
        versions = f'{a.low}' if a.low == a.high else f'{a.low}–{a.high}'
        flexible = '–' if a.flexible == NEVER else max(a.flexible, a.low)
        rows.append(f'| {a.name} | {a.key} | {versions} | {flexible} |')
    return '\n'.join(rows) + '\n'


def main(argv):
    if len(argv) == 3 and argv[1] == '--table':
        sys.stdout.write(markdown(load(argv[2])[0]))
    elif len(argv) == 4:
        apis, data, limits, errors = load(argv[1])
        header, source = pathlib.Path(argv[2]), pathlib.Path(argv[3])
        header.write_text(emit_header(apis, data, limits, errors))
        source.write_text(emit_source(apis, data, errors, header.name))
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(sys.argv)
