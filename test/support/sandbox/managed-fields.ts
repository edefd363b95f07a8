import type { JsonObject } from '../../../src/json/json.ts';
import { ofJson, type ApiObject, type ManagedFieldsEntry } from '../../../src/machinery/api-object.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';

const STRING: Schema = { type: 'string' };
const STRINGS: Schema = { type: 'object', additionalProperties: STRING };

const INTEGER: Schema = { type: 'integer' };
const SET: Schema = { type: 'array', items: STRING, 'x-kubernetes-list-type': 'set' };
const fields = (properties: Readonly<Record<string, Schema>>): Schema => ({ type: 'object', properties });

export const WIDGET: Schema = fields({
  apiVersion: STRING,
  kind: STRING,
  status: fields({ phase: STRING }),
  metadata: fields({
    name: STRING,
    namespace: STRING,
    uid: STRING,
    resourceVersion: STRING,
    generation: INTEGER,
    creationTimestamp: { type: 'string', format: 'date-time' },
    labels: STRINGS,
    finalizers: SET,
  }),
  spec: fields({
    size: INTEGER,
    word: STRING,
    notes: STRINGS,
    tags: SET,
    sealed: { ...STRINGS, 'x-kubernetes-map-type': 'atomic' },
    steps: { type: 'array', items: STRING },
    ports: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: fields({ port: INTEGER, protocol: { type: 'string', default: 'TCP' }, name: STRING }),
    },
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    anyValue: { 'x-kubernetes-int-or-string': true },
  }),
});

export const widget = (
  spec: JsonObject | undefined,
  metadata: JsonObject = {},
  more: JsonObject = {},
): ApiObject =>
  ofJson({
    apiVersion: 'example.com/v1',
    kind: 'Widget',
    metadata: { name: 'w', ...metadata },
    ...(spec === undefined ? {} : { spec }),
    ...more,
  });

export const FIRST = '2026-01-01T00:00:00Z';
export const LATER = '2026-01-01T01:00:00Z';

export const by = (manager = 'a', now = FIRST) =>
  ({ manager, now, apiVersion: 'example.com/v1', subresource: '', schema: WIDGET }) as const;

export const ownersOf = ({ metadata }: ApiObject) =>
  (metadata.managedFields ?? []).map(
    ({ manager, operation, fieldsV1 }) => [`${manager} ${operation}`, fieldsV1] as const,
  );

export const entryOf = ({ metadata }: ApiObject, manager: string): ManagedFieldsEntry | undefined =>
  metadata.managedFields?.find((entry) => entry.manager === manager);
