/** A collector of traces (OTLP over HTTP) that decodes the bytes on the wire with its own tables. */
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { PbfReader } from 'pbf';

import { listen } from './tls.ts';

type AttributeValue = string | number | boolean;

export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly kind: 'unspecified' | 'internal' | 'server' | 'client';
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly failed: boolean;
  readonly resource: Readonly<Record<string, AttributeValue>>;
}

export type Collector = Awaited<ReturnType<typeof startCollector>>;

export async function startCollector() {
  const spans: CollectedSpan[] = [];
  const contentTypes = new Set<string | undefined>();
  const server = createServer((request, response) => {
    void buffer(request).then((bytes) => {
      if (request.method !== 'POST' || request.url !== '/v1/traces') {
        response.writeHead(404).end();
        return;
      }
      contentTypes.add(request.headers['content-type']);
      spans.push(...decodeSpans(bytes));
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  return {
    endpoint: `http://127.0.0.1:${await listen(server)}`,
    spans: () => spans,
    contentTypes: () => contentTypes,
    close: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

type Fields = Readonly<Record<number, (reader: PbfReader) => void>>;

const decode = (reader: PbfReader, fields: Fields): void => {
  reader.readMessage((field) => fields[field]?.(reader), undefined);
};

function decodeSpans(bytes: Uint8Array): readonly CollectedSpan[] {
  const spans: CollectedSpan[] = [];
  new PbfReader(bytes).readFields((field, _result, reader) => {
    if (field === 1) spans.push(...readResourceSpans(reader));
  }, undefined);
  return spans;
}

function readResourceSpans(reader: PbfReader): readonly CollectedSpan[] {
  const resource: Record<string, AttributeValue> = {};
  const spans: Omit<CollectedSpan, 'resource'>[] = [];
  decode(reader, {
    1: (inner) => decode(inner, { 1: (one) => Object.assign(resource, readAttribute(one)) }),
    2: (inner) => decode(inner, { 2: (one) => spans.push(readSpan(one)) }),
  });
  return spans.map((span) => ({ ...span, resource }));
}

const KINDS = ['unspecified', 'internal', 'server', 'client'] as const;
const STATUS_ERROR = 2;

function readSpan(reader: PbfReader): Omit<CollectedSpan, 'resource'> {
  const found = { name: '', traceId: '', spanId: '', parentSpanId: '', kind: 0, failed: false };
  const attributes: Record<string, AttributeValue> = {};
  decode(reader, {
    1: () => (found.traceId = hex(reader)),
    2: () => (found.spanId = hex(reader)),
    4: () => (found.parentSpanId = hex(reader)),
    5: () => (found.name = reader.readString()),
    6: () => (found.kind = reader.readVarint()),
    9: () => Object.assign(attributes, readAttribute(reader)),
    15: () => decode(reader, { 3: (inner) => (found.failed = inner.readVarint() === STATUS_ERROR) }),
  });
  return { ...found, kind: KINDS[found.kind] ?? 'unspecified', attributes };
}

const hex = (reader: PbfReader): string => Buffer.from(reader.readBytes()).toString('hex');

function readAttribute(reader: PbfReader): Readonly<Record<string, AttributeValue>> {
  let key = '';
  let value: AttributeValue = '';
  decode(reader, {
    1: () => (key = reader.readString()),
    2: () =>
      decode(reader, {
        1: () => (value = reader.readString()),
        2: () => (value = reader.readBoolean()),
        3: () => (value = reader.readVarint()),
        4: () => (value = reader.readDouble()),
      }),
  });
  return { [key]: value };
}
