import { expect, test } from 'vitest';

import type { ReviewResult } from '../review-result.ts';
import { checkExpectation, type Expectation } from './expectation.ts';

const allowed: ReviewResult = {
  verdict: 'allowed',
  policies: ['p'],
  handlers: [],
  messages: [],
  refusal: undefined,
  causes: [],
  warnings: [],
  auditAnnotations: {},
  patch: [],
  object: { spec: { tier: 'gold', disks: [{ name: 'a', size: 1 }], id: 9007199254740993n } },
};
const denied: ReviewResult = {
  ...allowed,
  verdict: 'denied',
  messages: ['spec.units: too many (policy p)', 'no'],
  refusal: { code: 403, reason: 'Forbidden' },
  causes: [
    { field: 'spec.units', message: 'too many' },
    { field: 'spec.tier', message: 'no' },
  ],
  object: undefined,
};
const warned: ReviewResult = { ...allowed, verdict: 'warned', warnings: ['old field', 'old value'] };

test.each<[string, ReviewResult, Expectation]>([
  ['the decision', allowed, { decision: 'allow' }],
  ['a part of the message', denied, { decision: 'deny', message: 'too many' }],
  ['all fields, in any order', denied, { decision: 'deny', fields: ['spec.tier', 'spec.units'] }],
  ['a part of each warning, in any order', warned, { decision: 'warn', warnings: ['value', 'old'] }],
  ['a part of the object', allowed, { decision: 'allow', object: { spec: { tier: 'gold', absent: null } } }],
  ['a part of a list item', allowed, { decision: 'allow', object: { spec: { disks: [{ name: 'a' }] } } }],
  ['an integer beyond 2^53', allowed, { decision: 'allow', object: { spec: { id: 9007199254740993n } } }],
  [
    'annotations, including an absent one',
    { ...allowed, auditAnnotations: { why: 'because of that' } },
    { decision: 'allow', auditAnnotations: { why: 'because', other: null } },
  ],
])('holds: %s', (_what, result, expectation) => {
  expect(checkExpectation(expectation, result)).toEqual([]);
});

test.each<[string, ReviewResult, Expectation, object]>([
  [
    'another decision, with its reason',
    denied,
    { decision: 'allow' },
    { what: 'decision', expected: 'allow', received: 'deny: spec.units: too many (policy p); no' },
  ],
  [
    'that no policy applies',
    { ...allowed, verdict: 'unchecked', policies: [] },
    { decision: 'allow' },
    {
      what: 'decision',
      expected: 'allow',
      received: 'unchecked: no policy and no handler applies to this write',
    },
  ],
  [
    'a field too few',
    denied,
    { decision: 'deny', fields: ['spec.units'] },
    { what: 'fields', expected: '["spec.units"]', received: '["spec.tier","spec.units"]' },
  ],
  [
    'a warning too many',
    warned,
    { decision: 'warn', warnings: ['old'] },
    { what: 'warnings', expected: '["old"]', received: '["old field","old value"]' },
  ],
  [
    'a value of the object',
    allowed,
    { decision: 'allow', object: { spec: { disks: [{ size: 2 }] } } },
    { what: 'object.spec.disks[0].size', expected: '2', received: '1' },
  ],
  [
    'a list of another length',
    allowed,
    { decision: 'allow', object: { spec: { disks: [] } } },
    { what: 'object.spec.disks', expected: '[]', received: '[{"name":"a","size":1}]' },
  ],
  [
    'a field that should be absent',
    allowed,
    { decision: 'allow', object: { spec: { tier: null } } },
    { what: 'object.spec.tier', expected: 'nothing', received: '"gold"' },
  ],
  [
    'an annotation that is missing',
    allowed,
    { decision: 'allow', auditAnnotations: { why: 'x' } },
    { what: 'auditAnnotations.why', expected: '… x …', received: 'none' },
  ],
])('shows: %s', (_what, result, expectation, mismatch) => {
  expect(checkExpectation(expectation, result)).toEqual([mismatch]);
});
