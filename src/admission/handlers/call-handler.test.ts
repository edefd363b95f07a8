import { describe, expect, test } from 'vitest';

import { parseJson, stringifyJson } from '../../json/json.ts';
import { applyPatch } from '../../json/json-patch.ts';
import type { HandlerDefinition } from './handler.ts';
import {
  allowed,
  call,
  compiled,
  failed,
  requestOf,
  testServer,
  wrongly,
  type TestServer,
} from '../../../test/support/admission/handler.ts';

type Definition = Partial<HandlerDefinition<TestServer>>;

describe('mutate', () => {
  test('a changed draft becomes a patch that produces it', async () => {
    const handler = compiled({
      mutate: (draft) => {
        draft.metadata.labels ??= {};
        draft.metadata.labels['example.com/tier'] = 'gold';
        draft.spec.disks = [{ name: 'a', size: 1 }];
      },
    });
    const request = requestOf();
    const outcome = await call(handler, { request });
    const { patch } = allowed(outcome);
    expect(applyPatch(request.object ?? {}, patch)).toEqual(
      testServer({ disks: [{ name: 'a', size: 1 }] }, { labels: { 'example.com/tier': 'gold' } }),
    );
    expect(outcome.object).toEqual(applyPatch(request.object ?? {}, patch));
  });

  test('int64 values and keys such as __proto__ survive when the handler changes their neighbours', async () => {
    const text =
      '{"apiVersion":"infra.example.com/v1","kind":"Server","metadata":{"name":"a"},"spec":{"serial":9007199254740993,"__proto__":{"x":1}}}';
    const handler = compiled({
      mutate: (draft) => {
        draft.spec.disks = [];
      },
    });
    const { object } = await call(handler, { request: requestOf({ object: parseJson(text) }) });
    expect(stringifyJson(object)).toBe(text.replace('}}}', '},"disks":[]}}'));
  });

  test.each([
    ['CREATE', {}, 1],
    ['UPDATE', { oldObject: testServer() }, 1],
    // Pepr P12: Pepr runs mutations on DELETE and drops their result.
    ['DELETE', { object: null, oldObject: testServer() }, 0],
    ['CONNECT', { object: { kind: 'PodExecOptions' } }, 0],
  ])('on %s it is called %3$s times', async (operation, fields, calls) => {
    let called = 0;
    const handler = compiled({
      mutate: (draft) => {
        called += 1;
        draft.spec.tier = 'gold';
      },
    });
    const { patch } = allowed(await call(handler, { request: requestOf({ operation, ...fields }) }));
    expect(called).toBe(calls);
    expect(patch).toHaveLength(calls);
  });

  test('an object that is being deleted is not changed, so that its finalizers can be removed', async () => {
    const going = testServer({}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    const handler = compiled({
      mutate: (draft) => {
        draft.metadata.finalizers = ['example.com/hold'];
      },
    });
    const request = requestOf({ operation: 'UPDATE', object: going, oldObject: going });
    expect(allowed(await call(handler, { request })).patch).toEqual([]);
    const strict = compiled({ validate: (_object, context) => context.deny('never') });
    allowed(await call(strict, { request, phase: 'validate' }));
    const forged = requestOf({ operation: 'CREATE', object: going });
    expect(allowed(await call(handler, { request: forged })).patch).toHaveLength(1);
  });

  test('a finalizer that the request removes is not put back', async () => {
    const metadata = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.com/hold'] };
    const handler = compiled({
      mutate: (draft) => {
        draft.metadata.finalizers = ['example.com/hold'];
        draft.spec.tier = 'gold';
      },
    });
    const oldObject = testServer({}, metadata);
    const object = testServer({}, { labels: { a: 'b' } });
    const request = requestOf({ operation: 'UPDATE', object, oldObject });
    const outcome = await call(handler, { request });
    expect(applyPatch(request.object ?? {}, allowed(outcome).patch)).toMatchObject({
      metadata: { labels: { a: 'b' }, finalizers: [] },
      spec: { tier: 'gold' },
    });
  });

  test('a task that outlives the handler cannot change the decision', async () => {
    let later: (() => void) | undefined;
    const handler = compiled({
      mutate: (draft) => {
        draft.spec.disks = [{ name: 'a', size: 1 }];
        later = () => draft.spec.disks?.push({ name: 'late', size: 2 });
      },
    });
    const { decision } = await call(handler);
    later?.();
    expect(decision).toMatchObject({ patch: [{ op: 'add', path: '/spec/disks', value: [{ name: 'a' }] }] });
  });

  test('it may return its draft, and nothing else', async () => {
    const same = compiled({ mutate: wrongly((draft: TestServer) => draft) });
    expect(allowed(await call(same)).patch).toEqual([]);
    const other = compiled({ mutate: wrongly((draft: TestServer) => ({ ...draft })) });
    expect(failed(await call(other))).toEqual({
      reason: 'result',
      cause: 'mutate returned an object, which is not a valid result; change the draft and return nothing',
    });
  });

  test.each<[string, (draft: TestServer) => void, string]>([
    ['NaN', (draft) => void (draft.spec.units = Number.NaN), 'spec.units: it is NaN'],
    ['another name', (draft) => void (draft.metadata.name = 'other'), 'metadata.name: it is'],
    ['another kind', (draft) => void (draft.kind = 'Rack'), 'kind: it cannot be changed'],
    [
      'a label that is a number',
      (draft) => void Reflect.set(draft.metadata, 'labels', { size: 3 }),
      'metadata.labels["size"]: it is 3, not a string',
    ],
  ])('a draft with %s fails the handler', async (_what, mutate, message) => {
    const { reason, cause } = failed(await call(compiled({ mutate })));
    expect(reason).toBe('draft');
    expect(cause).toContain(message);
  });
});

describe('the input of a handler', () => {
  test('original, old object and request are frozen at every level', async () => {
    const attempts: ((context: Parameters<NonNullable<Definition['mutate']>>[1]) => unknown)[] = [
      ({ original }) => Reflect.set(original.spec, 'tier', 'x'),
      ({ original }) => Reflect.set(original.metadata, 'labels', {}),
      ({ oldObject }) => Reflect.set(oldObject?.spec ?? {}, 'tier', 'x'),
      ({ request }) => Reflect.set(request.user, 'username', 'admin'),
      ({ request }) => Reflect.set(request.resource, 'group', 'x'),
      (context) => Reflect.set(context, 'deny', undefined),
    ];
    const results: unknown[] = [];
    const handler = compiled({
      mutate: (_draft, context) => {
        for (const attempt of attempts) results.push(attempt(context));
      },
    });
    await call(handler, { request: requestOf({ operation: 'UPDATE', oldObject: testServer() }) });
    expect(results).toEqual(attempts.map(() => false));
  });

  test('a request without any object fails and does not bypass the handler', async () => {
    const handler = compiled({ validate: () => undefined });
    const request = { ...requestOf({ operation: 'DELETE', object: null }), oldObject: undefined };
    expect(failed(await call(handler, { request })).cause).toContain('lacks an object');
  });
});
