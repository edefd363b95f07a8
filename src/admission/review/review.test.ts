import { describe, expect, test } from 'vitest';

import { ALLOWED, type Decision } from './decision.ts';
import { InvalidReview } from './request.ts';
import { parseReview, toMutatingReview, toValidatingReview } from './review.ts';

const resource = { group: 'infra.example.com', version: 'v1', resource: 'servers' };
const kind = { group: 'infra.example.com', version: 'v1', kind: 'Server' };
const review = {
  kind: 'AdmissionReview',
  apiVersion: 'admission.k8s.io/v1',
  request: {
    uid: 'u1',
    kind,
    resource,
    name: 'a',
    namespace: 'store',
    operation: 'UPDATE',
    userInfo: { username: 'admin', groups: ['g'], extra: { __proto__: ['x'], k: ['v', 1] } },
    object: { metadata: { name: 'a' } },
    oldObject: { metadata: { name: 'a' } },
    options: null,
  },
};
const withRequest = (change: object) => ({ ...review, request: { ...review.request, ...change } });

describe('parseReview', () => {
  test.each<[string, unknown, string]>([
    ['a list', [], 'not a JSON object'],
    ['null', null, 'not a JSON object'],
    ['another kind', { ...review, kind: 'Status' }, 'kind: "Status"'],
    ['another group', { ...review, apiVersion: 'v1' }, 'apiVersion: "v1"'],
    ['an unknown version', { ...review, apiVersion: 'admission.k8s.io/v2' }, 'admission.k8s.io/v2'],
    ['a missing request', { ...review, request: null }, 'request: absent'],
    ['a missing uid', withRequest({ uid: '' }), 'request.uid'],
    ['another operation', withRequest({ operation: 'PATCH' }), 'request.operation'],
    ['a missing kind', withRequest({ kind: {} }), 'request.kind'],
    ['a missing resource', withRequest({ resource: undefined }), 'request.resource'],
    ['a missing object', withRequest({ object: null }), 'request.object'],
    ['a missing old object', withRequest({ oldObject: null }), 'request.oldObject'],
    ['an object that is not a map', withRequest({ object: [] }), 'request.object: not an object'],
  ])('%s is rejected, and the message names the reason', (_what, body, message) => {
    expect(() => parseReview(body)).toThrow(InvalidReview);
    expect(() => parseReview(body)).toThrow(message);
  });

  test.each([
    ['request.name', {}, 'a'],
    ['the object, for deletecollection', { name: '', operation: 'DELETE', object: null }, 'a'],
    [
      'nothing before the API server generates it',
      { name: '', operation: 'CREATE', object: { metadata: { generateName: 'x-' } }, oldObject: null },
      undefined,
    ],
  ])('the name comes from %s', (_where, change, name) => {
    expect(parseReview(withRequest(change)).name).toBe(name);
  });

  test('the namespace of a Namespace is undefined', () => {
    const namespaces = { group: '', version: 'v1', resource: 'namespaces' };
    expect(parseReview(withRequest({ resource: namespaces })).namespace).toBeUndefined();
    expect(parseReview(review).namespace).toBe('store');
  });

  test('missing fields get defaults, and inherited properties are ignored', () => {
    expect(parseReview(review)).toMatchObject({
      subResource: '',
      requestKind: kind,
      requestResource: resource,
      dryRun: false,
      options: undefined,
      userInfo: { username: 'admin', uid: '', groups: ['g'], extra: { k: ['v'] } },
    });
  });
});

const request = parseReview(review);
const patch = [{ op: 'add', path: '/spec', value: { a: 1 } }] as const;
const allow: Decision = { ...ALLOWED, patch };
const deny: Decision = {
  kind: 'deny',
  code: 403,
  reason: 'Forbidden',
  message: 'no',
  causes: [{ field: 'spec.a', reason: 'FieldValueInvalid', message: 'wrong' }],
  warnings: ['w'],
  auditAnnotations: { violations: 'v' },
};

describe('an answer', () => {
  test('has the uid of the request', () => {
    for (const answer of [toMutatingReview, toValidatingReview])
      expect(answer(request, ALLOWED)).toEqual({
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        response: { uid: 'u1', allowed: true },
      });
  });

  test('of a mutating webhook carries the patch in base64, with its type', () => {
    const { response } = toMutatingReview(request, allow);
    expect(response).toMatchObject({ allowed: true, patchType: 'JSONPatch' });
    expect(JSON.parse(Buffer.from(response.patch ?? '', 'base64').toString())).toEqual(patch);
  });

  test.each([
    ['from a validating webhook', toValidatingReview(request, allow)],
    ['to a deletion', toMutatingReview({ ...request, operation: 'DELETE' }, allow)],
    ['without changes', toMutatingReview(request, ALLOWED)],
    ['with a denial', toMutatingReview(request, deny)],
  ])('%s lacks patch and patchType', (_which, { response }) => {
    expect(Object.keys(response)).not.toContain('patch');
    expect(Object.keys(response)).not.toContain('patchType');
  });

  test('with a denial names the policy, the field and the reason in its status', () => {
    expect(toValidatingReview(request, deny).response).toEqual({
      uid: 'u1',
      allowed: false,
      status: {
        status: 'Failure',
        code: 403,
        reason: 'Forbidden',
        message: 'no',
        details: {
          name: 'a',
          group: 'infra.example.com',
          kind: 'Server',
          causes: [{ field: 'spec.a', reason: 'FieldValueInvalid', message: 'wrong' }],
        },
      },
      warnings: ['w'],
      auditAnnotations: { violations: 'v' },
    });
    expect(toValidatingReview(request, { ...deny, code: 200 }).response.status?.code).toBe(400);
  });

  test('without a verdict makes the client wait and retry', () => {
    const { response } = toValidatingReview(request, { kind: 'retry', message: 'later' });
    expect(response).toMatchObject({
      uid: 'u1',
      allowed: false,
      status: { code: 429, reason: 'TooManyRequests', message: 'later', details: { retryAfterSeconds: 1 } },
    });
  });

  test.each<[string, readonly string[], readonly string[]]>([
    ['lines', ['a\nb\r\nc', '\n'], ['a', 'b', 'c']],
    ['control characters', ['a\u0000\u001b[31mb\u202ec\td\u0085'], ['a[31mbc d']],
    ['half a surrogate pair', ['a\ud800b'], ['a\ufffdb']],
    ['duplicates', ['a', 'a'], ['a']],
    ['excessive length', ['é'.repeat(300)], [`${'é'.repeat(255)}…`]],
  ])('has only warnings that the API server accepts: %s', (_what, warnings, expected) => {
    expect(toValidatingReview(request, { ...ALLOWED, warnings }).response.warnings).toEqual(expected);
  });

  test('has at most 4 KiB of warnings, and says that it omits more', () => {
    const many = Array.from({ length: 100 }, (_, index) => `${'é'.repeat(100)}${index}`);
    const { warnings = [] } = toValidatingReview(request, { ...ALLOWED, warnings: many }).response;
    expect(Buffer.byteLength(warnings.join(''))).toBeLessThanOrEqual(4096);
    expect(warnings.at(-1)).toBe(`${100 - warnings.length + 1} more warnings are not shown`);
  });

  test('has only audit annotations that the API server accepts', () => {
    const auditAnnotations = { 'a/b': 'x' };
    expect(() => toValidatingReview(request, { ...ALLOWED, auditAnnotations })).toThrow('a/b');
  });
});
