import { describe, expect, test } from 'vitest';

import {
  compileHandler,
  handlerOfEntry,
  isGoverned,
  mutatedOperations,
  readKindOf,
  validatedOperations,
} from './compile-handler.ts';
import { defineHandler, type HandlerDefinition } from './handler.ts';
import {
  compiled,
  ENVIRONMENT,
  MATCH,
  requestOf,
  testServer,
} from '../../../test/support/admission/handler.ts';

const nothing = () => undefined;

function problemsOf(definition: Partial<HandlerDefinition>, environment = ENVIRONMENT) {
  const handler = defineHandler({ match: MATCH, validate: nothing, ...definition });
  const result = compileHandler('servers', handler, environment);
  return result.kind === 'rejected' ? result.problems : [];
}

test('omitted fields have the defaults of a policy', () => {
  const { match, onError, entryId } = compiled({
    match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
    validate: nothing,
  });
  expect(match).toMatchObject({
    apiVersions: ['*'],
    operations: ['CREATE', 'UPDATE'],
    failurePolicy: 'Fail',
    timeoutSeconds: 5,
  });
  expect({ onError, entryId }).toEqual({ onError: 'deny', entryId: 'handler-servers' });
  expect(handlerOfEntry(entryId)).toBe('servers');
  expect(handlerOfEntry('fail-5s-0123456789')).toBeUndefined();
});

describe('handlers cannot have scopes that policies cannot have', () => {
  test.each<[string, Partial<HandlerDefinition['match']>, Partial<HandlerDefinition>, RegExp]>([
    ['all groups', { apiGroups: ['*'] }, {}, /^match\.apiGroups: .*leases/],
    [
      'leases',
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
      {},
      /^match\.resources: .*lose/,
    ],
    ['nodes', { apiGroups: [''], resources: ['nodes'] }, {}, /failurePolicy: Ignore/],
    [
      'the namespace of Gatehouse',
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'gatehouse-system' } } },
      {},
      /^match\.namespaceSelector: .*in which Gatehouse itself runs/,
    ],
  ])('%s', (_what, match, definition, message) => {
    expect(problemsOf({ match: { ...MATCH, ...match }, ...definition })).toEqual([
      expect.stringMatching(message) as string,
    ]);
  });

  test('a handler with failurePolicy Ignore may govern nodes', () => {
    const match = { ...MATCH, apiGroups: [''], resources: ['nodes'] };
    expect(problemsOf({ match, failurePolicy: 'Ignore' })).toEqual([]);
  });
});

test('mutate is called for writes only, validate for all operations', () => {
  const both = compiled({ mutate: nothing, validate: nothing });
  expect(mutatedOperations(both)).toEqual(['CREATE', 'UPDATE']);
  expect(validatedOperations(both)).toEqual(['CREATE', 'DELETE', 'UPDATE']);
  const validating = compiled({ validate: nothing });
  expect(mutatedOperations(validating)).toEqual([]);
  expect(problemsOf({ match: { ...MATCH, operations: ['DELETE'] }, mutate: nothing })).toEqual([
    expect.stringContaining('it would never be called') as string,
  ]);
});

const servers = { group: 'infra.example.com', version: 'v1', resource: 'servers' };
test.each([
  ['the requested scope', {}, true],
  ['another operation', { operation: 'CONNECT' }, false],
  ['another group', { resource: { ...servers, group: 'x' } }, false],
  ['another version', { resource: { ...servers, version: 'v2' } }, false],
  ['another resource', { resource: { ...servers, resource: 'racks' } }, false],
  ['a subresource', { subResource: 'status' }, false],
])('%s is governed: %3$s', (_what, fields, expected) => {
  const request = requestOf({ oldObject: testServer(), ...fields });
  expect(isGoverned(compiled({ validate: nothing }), request)).toBe(expected);
});

describe('reads', () => {
  test('default to the governed kinds', () => {
    const { reads, namesReads } = compiled({
      match: { ...MATCH, resources: ['servers', 'servers/status', 'racks'] },
      validate: nothing,
    });
    expect(reads.map(({ resource }) => resource)).toEqual(['racks', 'servers']);
    expect(namesReads).toBe(false);
    expect(compiled({ reads: [], validate: nothing })).toMatchObject({ reads: [], namesReads: true });
  });

  test('resolve a full name, and a plural if only one kind has it', () => {
    const { reads } = compiled({
      reads: [
        'secrets',
        'events',
        'events.events.k8s.io',
        { apiGroup: 'a.b', apiVersion: 'v2', resource: 'racks' },
      ],
      validate: nothing,
    });
    const racks = { group: 'a.b', resource: 'racks', version: 'v2', metadataOnly: false };
    expect(readKindOf(reads, 'racks')).toEqual(racks);
    expect(readKindOf(reads, 'events')).toMatchObject({ group: '' }); // the full name in the core group
    expect(readKindOf(reads, 'events.events.k8s.io')).toMatchObject({ group: 'events.k8s.io' });
    expect(readKindOf(reads, 'pods')).toContain('add it there');
    expect(readKindOf([], 'pods')).toContain('no kinds');
  });
});

test('a conversion is for exactly one kind', () => {
  const convert = { hub: 'v2', versions: { v1: { toHub: nothing, fromHub: nothing } } };
  expect(compiled({ convert }).converter).toMatchObject({
    name: 'handler servers',
    target: { group: 'infra.example.com', resource: 'servers' },
    versions: ['v2', 'v1'],
  });
  expect(problemsOf({ convert, match: { ...MATCH, resources: ['servers', 'racks'] } })).toHaveLength(1);
  expect(problemsOf({ convert, match: { ...MATCH, resources: ['*'] } })).toHaveLength(1);
});
