import { describe, expect, expectTypeOf, test } from 'vitest';

import { defineHandler, isHandler, type HandlerDefinition, type HandlerMatch } from './handler.ts';
import type { HandlerField, HandlerMatchField } from '../../api/handler-definition.ts';
import { MATCH } from '../../../test/support/admission/handler.ts';

const validate = () => undefined;
/** Calls defineHandler without types, as a JavaScript author can. */
const define = (definition: unknown) => defineHandler(definition as HandlerDefinition);

test('a defined handler is recognised and frozen', () => {
  const handler = define({ match: MATCH, validate });
  expect(isHandler(handler)).toBe(true);
  expect(Object.isFrozen(handler)).toBe(true);
  for (const other of [undefined, null, {}, validate, { match: MATCH, validate }]) {
    expect(isHandler(other)).toBe(false);
  }
});

test('the schema and the type have the same fields', () => {
  expectTypeOf<HandlerField>().toEqualTypeOf<keyof HandlerDefinition>();
  expectTypeOf<HandlerMatchField>().toEqualTypeOf<keyof HandlerMatch>();
});

const valid = (change: object) => ({ match: MATCH, validate, ...change });
const converting = (versions: object) => ({ match: MATCH, convert: { hub: 'v2', versions } });

describe('a definition', () => {
  test.each<[string, unknown, string]>([
    ['undefined as its value', undefined, 'write an object with match'],
    ['no match', { validate }, 'match: write an object'],
    ['no function', { match: MATCH }, 'it has neither mutate, validate nor convert'],
    ['a misspelled key', valid({ vaildate: validate }), 'vaildate is unknown; there are name, match,'],
    [
      'an unknown operation',
      valid({ match: { ...MATCH, operations: ['PATCH'] } }),
      'match.operations: write',
    ],
    ['an invalid name', valid({ name: 'My Handler' }), 'name "My Handler" is not a DNS label'],
    ['true instead of a function', valid({ validate: true }), 'validate is not a function'],
    ['a timeout of a minute', valid({ timeoutSeconds: 60 }), 'timeoutSeconds: write'],
    ['an unknown failurePolicy', valid({ failurePolicy: 'fail' }), '"fail" is not one of Fail, Ignore'],
    ['reads that are not kinds', valid({ reads: ['Data Centers'] }), 'reads: write a list of kinds'],
    ['a conversion without a hub', { match: MATCH, convert: { versions: {} } }, 'convert.hub: write'],
    [
      'only one direction of a conversion',
      converting({ v1: { toHub: validate } }),
      'convert.versions.v1: write a version with functions toHub and fromHub',
    ],
    [
      'a conversion of the hub',
      converting({ v2: { toHub: validate, fromHub: validate } }),
      'convert.versions.v2: v2 is the hub; list only the other versions',
    ],
  ])('with %s is rejected', (_what, definition, message) => {
    expect(() => define(definition)).toThrow(TypeError);
    expect(() => define(definition)).toThrow(message);
  });

  test('with several mistakes reports all of them', () => {
    const broken = { match: { apiGroups: 'x', resources: [] }, onError: 'x' };
    expect(() => define(broken)).toThrow(/apiGroups.*resources.*onError.*neither/);
  });
});
