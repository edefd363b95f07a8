import type { ServerResponse } from 'node:http';

import type { JsonObject } from '../../json/json.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import {
  mediaTypeOf,
  negotiate,
  negotiateRefusal,
  type Accepted,
  type Encoding,
  type Form,
} from './content-type.ts';
import type { Status } from '../../machinery/failure.ts';
import type { Answer } from '../pipeline/answer.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import type { Page } from '../../machinery/storage/stored.ts';
import { toPartialMetadata, toPartialMetadataList, type ListMeta } from '../table/partial-metadata.ts';
import { includeObjectOf, toTable } from '../table/table.ts';
import { itemTextOf, jsonText, textOf, yamlOf } from './serialise.ts';

export interface Rendering {
  readonly accept: string | undefined;
  readonly query: URLSearchParams;
  readonly now: Date;
}

/** Renders an answer other than a watch: code, content type and text. @throws ApiFailure 406 */
export function render(
  answer: Exclude<Answer, { kind: 'watch' }>,
  { accept, query, now }: Rendering,
): { readonly code: number; readonly contentType: string; readonly text: string } {
  if (answer.kind === 'status') {
    const encoding = negotiateRefusal(accept);
    return { code: answer.status.code, ...encoded(statusText(answer.status), encoding) };
  }
  const accepted = negotiate(accept);
  const text =
    answer.kind === 'object'
      ? objectText(answer.object, answer.type, accepted, query, now)
      : listText(answer.page, answer.type, accepted, query, now);
  const code = answer.kind === 'object' ? answer.code : 200;
  return { code, ...encoded(text, accepted.encoding) };
}

/** JSON text in the encoding that the client wants. */
export const encoded = (json: string, encoding: Encoding) => ({
  contentType: mediaTypeOf(encoding),
  text: encoding === 'json' ? json : yamlOf(json),
});

/** As in the API server, a success has no code on the wire. */
export function statusText(status: Status): string {
  const { code, ...rest } = status;
  return jsonText(code === 200 ? rest : status);
}

function objectText(
  object: ApiObject,
  type: ResourceType,
  form: Form,
  query: URLSearchParams,
  now: Date,
): string {
  switch (form.kind) {
    case 'object':
      return textOf(object);
    case 'partial-metadata':
    case 'partial-metadata-list':
      return jsonText(toPartialMetadata(object, form.version));
    case 'table':
      return jsonText(table([object], undefined, { type, form, query, now, withColumns: true }));
  }
}

function listText(page: Page, type: ResourceType, form: Form, query: URLSearchParams, now: Date): string {
  const meta: ListMeta = {
    resourceVersion: String(page.revision),
    ...(page.continueToken === undefined ? {} : { continue: page.continueToken }),
    ...(page.remaining === undefined ? {} : { remainingItemCount: page.remaining }),
  };
  switch (form.kind) {
    case 'object':
      return objectsText(page.items, type, meta);
    case 'partial-metadata':
    case 'partial-metadata-list':
      return jsonText(toPartialMetadataList(page.items, meta, form.version));
    case 'table':
      return jsonText(table(page.items, meta, { type, form, query, now, withColumns: true }));
  }
}

/** Concatenates the memoised texts of the items, so that a list of thousands costs little more than its bytes. */
function objectsText(items: readonly ApiObject[], type: ResourceType, meta: ListMeta): string {
  const head = jsonText({ kind: type.listKind, apiVersion: apiVersionOf(type), metadata: meta });
  const texts = items.map(type.custom ? textOf : itemTextOf);
  return `${head.slice(0, -1)},"items":[${texts.join(',')}]}`;
}

interface TableParts {
  readonly type: ResourceType;
  readonly form: Extract<Form, { kind: 'table' }>;
  readonly query: URLSearchParams;
  readonly now: Date;
  readonly withColumns: boolean;
}

function table(
  objects: readonly ApiObject[],
  listMeta: ListMeta | undefined,
  { type, form, query, now, withColumns }: TableParts,
): JsonObject {
  return toTable({
    type,
    objects,
    listMeta,
    includeObject: includeObjectOf(query.get('includeObject')),
    withColumns,
    version: form.version,
    now,
  });
}

/** The text of an object in a watch event, in the requested form. */
export function watchedText(
  object: ApiObject,
  type: ResourceType,
  accepted: Accepted,
  { query, now, first }: { readonly query: URLSearchParams; readonly now: Date; readonly first: boolean },
): string {
  switch (accepted.kind) {
    case 'object':
      return textOf(object);
    case 'partial-metadata':
    case 'partial-metadata-list':
      return jsonText(toPartialMetadata(object, accepted.version));
    case 'table':
      return jsonText(table([object], undefined, { type, form: accepted, query, now, withColumns: first }));
  }
}

/** The object of a BOOKMARK: only a resourceVersion. */
export function bookmarkObject(type: ResourceType, revision: number, endsInitialEvents: boolean): ApiObject {
  const empty: ApiObject = { kind: type.kind, apiVersion: apiVersionOf(type), metadata: {} };
  return withMeta(empty, {
    resourceVersion: String(revision),
    annotations: endsInitialEvents ? { 'k8s.io/initial-events-end': 'true' } : undefined,
  });
}

export function send(
  response: ServerResponse,
  { code, contentType, text }: { readonly code: number; readonly contentType: string; readonly text: string },
): void {
  const body = Buffer.from(text); // Node would write headers in the encoding of a string
  response.writeHead(code, { 'content-type': contentType, 'content-length': body.length });
  response.end(body);
}
