import { describe, expect, test } from 'vitest';

import { defineHandler, isHandler } from './define-handler.ts';
import type { HandlerDefinition } from './handler.ts';
import { MATCH } from '../../../test/support/admission/handler.ts';

const validate = () => undefined;
/** Calls defineHandler without types, as a JavaScript author can. */
const define = (definition: unknown) => defineHandler(definition as HandlerDefinition);

test('what is defined is known as a handler, and cannot be changed any more', () => {
  const handler = define({ match: MATCH, validate });
  expect(isHandler(handler)).toBe(true);
  expect(Object.isFrozen(handler)).toBe(true);
  for (const other of [undefined, null, {}, validate, { match: MATCH, validate }]) {
    expect(isHandler(other)).toBe(false);
  }
});

describe('what is wrong with a definition is said when it is made', () => {
  test.each<[string, unknown, string]>([
    ['nothing', undefined, 'write an object with match'],
    ['a list', [], 'write an object with match'],
    ['no match', { validate }, 'match: write an object'],
    ['no work', { match: MATCH }, 'it has neither mutate, validate nor convert'],
    [
      'a misspelt key',
      { match: MATCH, validate, vaildate: validate },
      'vaildate is unknown; there are name, match,',
    ],
    ['a misspelt key of match', { match: { ...MATCH, apiGroup: '' }, validate }, 'match.apiGroup is unknown'],
    [
      'one group that is no list',
      { match: { ...MATCH, apiGroups: 'x' }, validate },
      'match.apiGroups: write a list',
    ],
    ['no resources', { match: { ...MATCH, resources: [] }, validate }, 'match.resources: write a list'],
    [
      'versions that are numbers',
      { match: { ...MATCH, apiVersions: [1] }, validate },
      'match.apiVersions: write',
    ],
    [
      'an unknown operation',
      { match: { ...MATCH, operations: ['PATCH'] }, validate },
      'match.operations: write',
    ],
    [
      'bare conditions',
      { match: { ...MATCH, matchConditions: ['true'] }, validate },
      'match.matchConditions: write',
    ],
    [
      'a name that is none',
      { name: 'My Handler', match: MATCH, validate },
      'name "My Handler" is not a DNS label',
    ],
    ['a long name', { name: 'a'.repeat(41), match: MATCH, validate }, 'is not a DNS label'],
    ['a name that is a number', { name: 7, match: MATCH, validate }, 'name 7 is not'],
    ['no function', { match: MATCH, validate: true }, 'validate is not a function'],
    ['half a second', { match: MATCH, validate, timeoutSeconds: 0.5 }, 'timeoutSeconds: write'],
    ['a minute', { match: MATCH, validate, timeoutSeconds: 60 }, 'timeoutSeconds: write'],
    [
      'an unknown failurePolicy',
      { match: MATCH, validate, failurePolicy: 'fail' },
      '"fail" is none of Fail, Ignore',
    ],
    ['an unknown onError', { match: MATCH, validate, onError: 'reject' }, '"reject" is none of deny,'],
    [
      'reads that are no kinds',
      { match: MATCH, validate, reads: ['Data Centers'] },
      'reads: write a list of kinds',
    ],
    ['a read without a plural', { match: MATCH, validate, reads: [{ apiGroup: 'a.b' }] }, 'reads: write'],
    ['a conversion without a hub', { match: MATCH, convert: { versions: {} } }, 'convert.hub: write'],
    [
      'a conversion of one version',
      { match: MATCH, convert: { hub: 'v2', versions: {} } },
      'convert.versions: write',
    ],
    [
      'half a conversion',
      { match: MATCH, convert: { hub: 'v2', versions: { v1: { toHub: validate } } } },
      'convert.versions.v1: write a version with functions toHub and fromHub',
    ],
    [
      'a conversion of the hub',
      { match: MATCH, convert: { hub: 'v2', versions: { v2: { toHub: validate, fromHub: validate } } } },
      'convert.versions.v2: it is the hub',
    ],
  ])('%s', (_what, definition, message) => {
    expect(() => define(definition)).toThrow(TypeError);
    expect(() => define(definition)).toThrow(message);
  });

  test('all of it at once', () => {
    const broken = { match: { apiGroups: 'x', resources: [] }, onError: 'x' };
    expect(() => define(broken)).toThrow(/apiGroups.*resources.*onError.*neither/);
  });
});
