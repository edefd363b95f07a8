import { expect, test } from 'vitest';

import type { ReviewResult } from '../review-result.ts';
import { checkExpectation, type Expectation } from './suite.ts';

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

test.each<[what: string, ReviewResult, Expectation, expected: string, received: string]>([
  ['decision', denied, { decision: 'allow' }, 'allow', 'deny: spec.units: too many (policy p); no'],
  [
    'decision',
    { ...allowed, verdict: 'unchecked', policies: [] },
    { decision: 'allow' },
    'allow',
    'unchecked: no policy and no handler applies to this write',
  ],
  [
    'fields',
    denied,
    { decision: 'deny', fields: ['spec.units'] },
    '["spec.units"]',
    '["spec.tier","spec.units"]',
  ],
  ['warnings', warned, { decision: 'warn', warnings: ['old'] }, '["old"]', '["old field","old value"]'],
  [
    'object.spec.disks[0].size',
    allowed,
    { decision: 'allow', object: { spec: { disks: [{ size: 2 }] } } },
    '2',
    '1',
  ],
  [
    'object.spec.disks',
    allowed,
    { decision: 'allow', object: { spec: { disks: [] } } },
    '[]',
    '[{"name":"a","size":1}]',
  ],
  ['object.spec.tier', allowed, { decision: 'allow', object: { spec: { tier: null } } }, 'nothing', '"gold"'],
  ['auditAnnotations.why', allowed, { decision: 'allow', auditAnnotations: { why: 'x' } }, '… x …', 'none'],
])('shows the difference in %s', (what, result, expectation, expected, received) => {
  expect(checkExpectation(expectation, result)).toEqual([{ what, expected, received }]);
});
