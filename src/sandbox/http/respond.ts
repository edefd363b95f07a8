import type { ServerResponse } from 'node:http';
import { stringify } from 'yaml';

import { type JsonObject, memoizeWeak, parseJson, stringifyJson } from '../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import {
  type Encoding,
  type Form,
  mediaTypeOf,
  negotiate,
  negotiateRefusal,
  negotiateWatch,
} from './content-type.ts';
import type { Status } from '../../machinery/failure.ts';
import type { Answer, WatchEvent } from '../pipeline/context.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { toPartialMetadata, toTable } from '../table/table.ts';

interface Rendering {
  readonly accept: string | undefined;
  readonly query: URLSearchParams;
  readonly now: () => Date;
}

interface View {
  readonly type: ResourceType;
  readonly form: Form['kind'];
  readonly query: URLSearchParams;
  readonly now: Date;
  /** Whether a table has its column definitions: not in a watch, after the first event. */
  readonly withColumns: boolean;
}

interface Rendered {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
}

export function render(
  answer: Exclude<Answer, { kind: 'watch' }>,
  { accept, query, now }: Rendering,
): Rendered {
  if (answer.kind === 'status') return renderStatus(answer.status, accept);
  const { encoding, kind: form } = negotiate(accept);
  const view: View = { type: answer.type, form, query, now: now(), withColumns: true };
  return answer.kind === 'object'
    ? { code: answer.code, ...encoded(objectText(answer.object, view), encoding) }
    : { code: 200, ...encoded(listText(answer.page, view), encoding) };
}

export const renderStatus = (status: Status, accept: string | undefined): Rendered => ({
  code: status.code,
  ...encoded(statusText(status), negotiateRefusal(accept)),
});

export const encoded = (json: string, encoding: Encoding) => ({
  contentType: mediaTypeOf(encoding),
  text: encoding === 'json' ? json : yamlOf(json),
});

/** Like the API server, omits the code of a success. */
function statusText(status: Status): string {
  const { code, ...rest } = status;
  return jsonText(code === 200 ? rest : status);
}

function objectText(object: ApiObject, view: View): string {
  switch (view.form) {
    case 'object':
      return textOf(object);
    case 'partial-metadata':
      return jsonText(toPartialMetadata(object));
    case 'table': {
      const { resourceVersion = '' } = object.metadata;
      return jsonText(toTable([object], { resourceVersion }, view));
    }
  }
}

function listText(page: Extract<Answer, { kind: 'list' }>['page'], view: View): string {
  const meta: JsonObject = {
    resourceVersion: String(page.revision),
    ...(page.continueToken === undefined ? {} : { continue: page.continueToken }),
    ...(page.remaining === undefined ? {} : { remainingItemCount: page.remaining }),
  };
  switch (view.form) {
    case 'object':
      return objectsText(page.items, view.type, meta);
    case 'partial-metadata':
      return jsonText({
        kind: 'PartialObjectMetadataList',
        apiVersion: 'meta.k8s.io/v1',
        metadata: meta,
        items: page.items.map(toPartialMetadata),
      });
    case 'table':
      return jsonText(toTable(page.items, meta, view));
  }
}

/** Concatenates the memoised texts of the items, so that a list of thousands costs little more than its bytes. */
function objectsText(items: readonly ApiObject[], type: ResourceType, meta: JsonObject): string {
  const head = jsonText({ kind: type.listKind, apiVersion: apiVersionOf(type), metadata: meta });
  const texts = items.map(type.custom ? textOf : itemTextOf);
  return `${head.slice(0, -1)},"items":[${texts.join(',')}]}`;
}

export const textOf = (object: ApiObject): string =>
  `{"kind":${JSON.stringify(object.kind)},"apiVersion":${JSON.stringify(object.apiVersion)},${membersOf(object)}}`;

/** The same without apiVersion and kind, which lists of built-in kinds do not repeat. */
export const itemTextOf = (object: ApiObject): string => `{${membersOf(object)}}`;

/** All members except apiVersion and kind, without braces. */
const membersOf = memoizeWeak((object: ApiObject): string =>
  jsonText({ ...object, apiVersion: undefined, kind: undefined }).slice(1, -1),
);

/** JSON.stringify without a replacer is several times faster, but throws on bigints. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return stringifyJson(value);
  }
}

/** JSON text as YAML in the API server's style: sorted keys, list items not indented, ambiguous strings quoted. */
export const yamlOf = (json: string): string =>
  stringify(parseJson(json), {
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });

export function send(response: ServerResponse, { code, contentType, text }: Rendered): void {
  const body = Buffer.from(text); // Node would write headers in the encoding of a string
  response.writeHead(code, { 'content-type': contentType, 'content-length': body.length });
  response.end(body);
}

/** Bytes. A slow client is disconnected above this backlog, because its events must not fill the memory. */
const BACKLOG_LIMIT = 64 * 1024 * 1024;

/** Writes events as they happen, one JSON object per line; resolves at the end of the watch. */
export function streamWatch(
  response: ServerResponse,
  { type, timeoutMs, follow }: Extract<Answer, { kind: 'watch' }>,
  { accept, query, now }: Rendering,
): Promise<void> {
  const { kind: form } = negotiateWatch(accept);
  response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
  response.flushHeaders();
  let withColumns = true;
  const text = (event: WatchEvent): string => {
    if (event.type === 'ERROR') return `{"type":"ERROR","object":${statusText(event.status)}}\n`;
    const object = event.type === 'BOOKMARK' ? bookmarkObject(type, event) : event.object;
    const shown = objectText(object, { type, form, query, now: now(), withColumns });
    withColumns = false;
    return `{"type":"${event.type}","object":${shown}}\n`;
  };
  return new Promise((resolve) => {
    const over = new AbortController();
    let stop: () => void = () => undefined;
    let lines: string[] = [];
    const flush = () => {
      if (lines.length === 0 || response.destroyed) return;
      response.write(lines.join(''));
      lines = [];
      if (response.writableLength > BACKLOG_LIMIT) response.destroy();
    };
    const end = () => {
      if (over.signal.aborted) return;
      flush();
      over.abort();
      clearTimeout(timer);
      stop();
      response.end();
      resolve();
    };
    const timer = setTimeout(end, timeoutMs);
    response.once('close', end);
    stop = follow((event) => {
      if (over.signal.aborted) return;
      // Send simultaneous events together: encryption and system calls dominate the cost.
      if (lines.push(text(event)) === 1) setImmediate(flush);
    }, end);
    if (over.signal.aborted) stop(); // the watch ended before `stop` was known
  });
}

const bookmarkObject = (
  type: ResourceType,
  { revision, endsInitialEvents }: Extract<WatchEvent, { type: 'BOOKMARK' }>,
): ApiObject => ({
  kind: type.kind,
  apiVersion: apiVersionOf(type),
  metadata: {
    resourceVersion: String(revision),
    ...(endsInitialEvents ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
  },
});
