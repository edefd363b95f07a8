import { expect, test } from 'vitest';

import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { openApiAnswer } from './openapi.ts';
import {
  registryOf,
  sampleRegistry,
  sampleType,
  server,
  service,
} from '../../../test/support/sandbox/sample-types.ts';

function documentOf(path: string, registry = sampleRegistry): JsonObject {
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
const gvk = { group: 'infra.example.com', version: 'v1', kind: 'Server' };

test('the index names a document for each version of each group', () => {
  const { paths } = documentOf('/openapi/v3');
  expect(Object.keys(paths as JsonObject)).toEqual([
    'api/v1',
    'apis/apps/v1',
    'apis/authorization.k8s.io/v1',
    'apis/infra.example.com/v1',
    'apis/infra.example.com/v1beta1',
  ]);
  expect(at(paths, 'api/v1', 'serverRelativeURL')).toMatch(/^\/openapi\/v3\/api\/v1\?hash=[0-9A-F]{64}$/);
});

test('the hash of a document changes only with its types', () => {
  const hashes = (...types: readonly ResourceType[]) =>
    ['api/v1', 'apis/infra.example.com/v1'].map((key) =>
      at(documentOf('/openapi/v3', registryOf(...types)), 'paths', key, 'serverRelativeURL'),
    );
  const grown = sampleType({
    ...server,
    shortNames: [],
    schema: { ...server.schema, description: 'Another.' },
  });
  const [coreBefore, infraBefore] = hashes(service, server);
  expect(hashes(server, service)).toEqual([coreBefore, infraBefore]);
  const [coreAfter, infraAfter] = hashes(service, grown);
  expect(coreAfter).toBe(coreBefore);
  expect(infraAfter).not.toBe(infraBefore);
});

test('a custom resource is named after its reversed group, and declares its kind', () => {
  const schema = schemaIn(infra, 'com.example.infra.v1.Server');
  expect(schema).toMatchObject({
    type: 'object',
    description: 'A machine.',
    required: ['spec'],
    'x-kubernetes-group-version-kind': [gvk],
  });
  expect(schemaIn(infra, 'com.example.infra.v1.ServerList')).toMatchObject({
    properties: { items: { items: { $ref: '#/components/schemas/com.example.infra.v1.Server' } } },
    'x-kubernetes-group-version-kind': [{ ...gvk, kind: 'ServerList' }],
  });
});

test('metadata is the same for all kinds, whatever a CRD says', () => {
  for (const [document, name] of [
    [core, 'io.k8s.api.core.v1.Service'],
    [infra, 'com.example.infra.v1.Server'],
  ] as const) {
    expect(schemaIn(document, name, 'properties', 'metadata', 'allOf')).toEqual([
      { $ref: '#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta' },
    ]);
  }
});

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
    description: 'Where it is sent to.',
    allOf: [{ $ref: '#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString' }],
  });
});

test('an embedded object has the fields that every object has', () => {
  const spec = specIn(infra, 'com.example.infra.v1.Server');
  const fields = at(spec, 'template', 'properties') as JsonObject;
  expect(Object.keys(fields)).toEqual(['apiVersion', 'kind', 'metadata']);
  expect(at(spec, 'port')).toEqual({ 'x-kubernetes-int-or-string': true });
});

const SERVERS = '/apis/infra.example.com/v1/namespaces/{namespace}/servers';

test.each([
  [SERVERS, ['delete', 'get', 'post']],
  [`${SERVERS}/{name}`, ['delete', 'get', 'patch', 'put']],
  [`${SERVERS}/{name}/status`, ['get', 'patch', 'put']],
  ['/apis/infra.example.com/v1/servers', ['get']],
])('%s offers %j', (path, methods) => {
  const offered = Object.keys(at(infra, 'paths', path) as JsonObject);
  expect(offered.filter((key) => key !== 'parameters').toSorted()).toEqual(methods);
  for (const method of methods) {
    expect(at(infra, 'paths', path, method, 'x-kubernetes-group-version-kind')).toEqual(gvk);
  }
});

test('unsupported operations are not offered', () => {
  const { paths } = documentOf('/openapi/v3/apis/authorization.k8s.io/v1');
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
  expect(Object.keys(paths as JsonObject)).toEqual([path]);
  expect(Object.keys(at(paths, path) as JsonObject)).toEqual(['post', 'parameters']);
});

test('a subresource declares the kind that it accepts', () => {
  const path = '/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token';
  expect(at(core, 'paths', path, 'post', 'x-kubernetes-group-version-kind')).toEqual({
    group: 'authentication.k8s.io',
    version: 'v1',
    kind: 'TokenRequest',
  });
});

test.each([
  [SERVERS, 'post'],
  [`${SERVERS}/{name}`, 'put'],
  [`${SERVERS}/{name}`, 'patch'],
])('%s accepts fieldValidation for %s', (path, method) => {
  expect(at(infra, 'paths', path, method, 'parameters')).toContainEqual(
    expect.objectContaining({ name: 'fieldValidation', in: 'query' }),
  );
});

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

test.each(['/openapi/v2', '/openapi/v3/api/v2', '/openapi/v3x', '/openapi', '/api'])(
  '%s is not a document',
  (path) => {
    expect(openApiAnswer(path, undefined, sampleRegistry)).toBeUndefined();
  },
);
