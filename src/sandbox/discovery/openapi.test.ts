import { expect, test } from 'vitest';

import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { openApiAnswer } from './openapi.ts';
import { definitionType } from '../../machinery/crd/definition-type.ts';
import { createRegistry } from '../../machinery/registry.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { placeOf } from '../../machinery/storage/stored.ts';
import { TYPES } from '../../../test/support/sandbox/built-in-objects.ts';
import { established, VERSION } from '../../../test/support/sandbox/crd.ts';

const storage = createStorage();
const registry = createRegistry([...TYPES, definitionType], storage);
storage.create(
  placeOf(definitionType),
  established({
    versions: [
      { ...VERSION, subresources: { status: {} } },
      { ...VERSION, name: 'v2', storage: false },
    ],
  }),
);

function documentOf(path: string): JsonObject {
  const body = openApiAnswer(path, 'application/json', registry)?.body;
  if (!isJsonObject(body)) throw new Error(`no document at ${path}`);
  return body;
}

/** The value at this path of keys. */
const at = (value: JsonValue | undefined, ...keys: readonly string[]): JsonValue | undefined =>
  keys.reduce((inner, key) => (isJsonObject(inner) ? inner[key] : undefined), value);

/** What is at a path of keys within a schema. */
const schemaIn = (document: JsonObject, name: string, ...keys: readonly string[]) =>
  at(document, 'components', 'schemas', name, ...keys);

/** The fields of `spec` of a kind. */
const specIn = (document: JsonObject, name: string) =>
  schemaIn(document, name, 'properties', 'spec', 'properties');

const core = documentOf('/openapi/v3/api/v1');
const infra = documentOf('/openapi/v3/apis/infra.example.com/v1');

test('every reference leads to a schema in the same document', () => {
  for (const path of Object.keys(documentOf('/openapi/v3').paths as JsonObject)) {
    const document = documentOf(`/openapi/v3/${path}`);
    const referred = [...JSON.stringify(document).matchAll(/#\/components\/schemas\/([^"]+)/g)].map(
      ([, name]) => name,
    );
    expect(referred.length).toBeGreaterThan(0);
    expect(Object.keys(at(document, 'components', 'schemas') as JsonObject)).toEqual(
      expect.arrayContaining(referred),
    );
  }
});

test('a built-in kind declares how its lists merge', () => {
  const ports = at(specIn(core, 'io.k8s.api.core.v1.Service'), 'ports');
  expect(ports).toMatchObject({
    'x-kubernetes-patch-strategy': 'merge',
    'x-kubernetes-patch-merge-key': 'port',
  });
  expect(at(ports, 'items', 'properties', 'targetPort')).toEqual({
    allOf: [{ $ref: '#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString' }],
  });
});

const SERVERS = '/apis/infra.example.com/v1/namespaces/{namespace}/servers';

test('strategic merge patch is only offered if the schema is complete', () => {
  const offers = (document: JsonObject, path: string) =>
    Object.keys(at(document, 'paths', path, 'patch', 'requestBody', 'content') as JsonObject).includes(
      'application/strategic-merge-patch+json',
    );
  const deployments = '/apis/apps/v1/namespaces/{namespace}/deployments/{name}';
  expect(offers(core, '/api/v1/namespaces/{namespace}/services/{name}')).toBe(true);
  expect(offers(documentOf('/openapi/v3/apis/apps/v1'), deployments)).toBe(false);
  expect(offers(infra, `${SERVERS}/{name}`)).toBe(false);
});
