import { describe, expect, test } from 'vitest';

import type { Decision } from '../decision.ts';
import { parseJson, stringifyJson, type JsonObject } from '../json.ts';
import { applyPatch } from '../json-patch.ts';
import type { HandlerOutcome } from './call-handler.ts';
import type { HandlerDefinition } from './handler.ts';
import {
  call,
  compiled,
  recordingLog,
  requestOf,
  testServer,
  type TestServer,
} from './handler.test-support.ts';

type Definition = Partial<HandlerDefinition<TestServer>>;

/** What a handler may do at run time although its types forbid it. */
const wrongly = (act: (...args: never[]) => unknown) => act as () => undefined;

function allowed({ decision }: HandlerOutcome) {
  if (decision?.kind !== 'allow') throw new Error(`it was not allowed: ${JSON.stringify(decision)}`);
  return decision;
}

function denied({ decision }: HandlerOutcome) {
  if (decision?.kind !== 'deny') throw new Error(`it was not denied: ${JSON.stringify(decision)}`);
  return decision;
}

function failed(outcome: HandlerOutcome): { readonly reason: string; readonly cause: string } {
  const { failure } = outcome;
  if (failure === undefined) throw new Error(`it did not fail: ${JSON.stringify(outcome.decision)}`);
  return { reason: failure.reason, cause: (failure.cause as Error).message };
}

describe('mutate', () => {
  test('a draft that was changed becomes a patch that leads to it', async () => {
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

  test('a draft that was not changed is no patch', async () => {
    expect(allowed(await call(compiled({ mutate: () => undefined }))).patch).toEqual([]);
  });

  test('int64 and keys such as __proto__ are kept where the handler changes their neighbours', async () => {
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
    // Pepr P12: there they run, and their result is dropped.
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

  test('an object on its way out is left alone, so that its finalizers can go', async () => {
    const going = testServer({}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    const handler = compiled({
      mutate: (draft) => {
        draft.metadata.finalizers = ['example.com/hold'];
      },
    });
    const request = requestOf({ operation: 'UPDATE', object: going, oldObject: going });
    expect(allowed(await call(handler, { request })).patch).toEqual([]);
  });

  test('what it leaves running cannot change what was decided', async () => {
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

  test('it may give back its draft, and nothing else', async () => {
    const same = compiled({
      mutate: wrongly((draft: TestServer) => draft),
    });
    expect(allowed(await call(same)).patch).toEqual([]);
    const other = compiled({
      mutate: wrongly((draft: TestServer) => ({ ...draft })),
    });
    expect(failed(await call(other))).toEqual({
      reason: 'result',
      cause: 'mutate returned an object, which is no answer: change the draft and return nothing',
    });
  });

  test.each<[string, (draft: TestServer) => void, string]>([
    ['no JSON', (draft) => void (draft.spec.units = Number.NaN), 'spec.units: it is NaN'],
    ['another kind', (draft) => void (draft.kind = 'Rack'), 'kind: it cannot be changed'],
    ['no kind', (draft) => void Reflect.deleteProperty(draft, 'kind'), 'kind: it cannot be changed'],
    [
      'a label that is a number',
      (draft) => void Reflect.set(draft.metadata, 'labels', { size: 3 }),
      'metadata.labels["size"]: it is 3, not a string',
    ],
    [
      'annotations that are a list',
      (draft) => void Reflect.set(draft.metadata, 'annotations', []),
      'is no object',
    ],
    [
      'no metadata to speak of',
      (draft) => void Reflect.set(draft, 'metadata', 'x'),
      'metadata: it is no object',
    ],
  ])('a draft with %s fails the handler', async (_what, mutate, message) => {
    const { reason, cause } = failed(await call(compiled({ mutate })));
    expect(reason).toBe('draft');
    expect(cause).toContain(message);
  });
});

describe('what a handler is given', () => {
  test('original, old object and request cannot be changed, however deep', async () => {
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

  test('a change to what is frozen is an exception that the author reads', async () => {
    const handler = compiled({
      validate: wrongly((object: { spec: { tier: string } }) => {
        object.spec.tier = 'x';
      }),
    });
    expect(failed(await call(handler)).cause).toMatch(/object is not extensible/);
  });

  test('original is what was sent, the draft what others have made of it', async () => {
    const handler = compiled({
      mutate: (draft, { original, warn }) => {
        warn(`${original.spec.tier ?? 'none'} ${draft.spec.tier ?? 'none'}`);
      },
    });
    const { warnings } = allowed(
      await call(handler, { object: testServer({ tier: 'gold' }) as unknown as JsonObject }),
    );
    expect(warnings).toEqual(['none gold']);
  });

  test.each([
    ['CREATE', requestOf(), 'web', undefined],
    ['UPDATE', requestOf({ operation: 'UPDATE', oldObject: testServer({}, { name: 'old' }) }), 'web', 'old'],
    ['DELETE', requestOf({ operation: 'DELETE', object: null, oldObject: testServer() }), 'web', 'web'],
  ])(
    'on %s, validate gets the object that the request is about',
    async (_operation, request, name, oldName) => {
      const seen: unknown[] = [];
      const handler = compiled({
        validate: (object, { original, oldObject, request: view }) => {
          seen.push(object.metadata.name, original.metadata.name, oldObject?.metadata.name, view.name);
        },
      });
      await call(handler, { request });
      expect(seen).toEqual([name, name, oldName, 'web']);
    },
  );

  test('a request without any object is a failure, not a way around the handler', async () => {
    const handler = compiled({ validate: () => undefined });
    const request = { ...requestOf({ operation: 'DELETE', object: null }), oldObject: undefined };
    expect(failed(await call(handler, { request })).cause).toContain('no object');
  });
});

describe('a refusal', () => {
  // Pepr P3: there the message is lost on its way, and users read "denied the request without explanation".
  test.each<[string, Definition]>([
    ['returned', { validate: (_object, { deny }) => deny('too large', { field: 'spec.units' }) }],
    [
      'thrown',
      {
        validate: (_object, { deny }) => {
          throw deny('too large', { field: 'spec.units' });
        },
      },
    ],
    [
      'made and not returned',
      { validate: (_object, { deny }) => void deny('too large', { field: 'spec.units' }) },
    ],
    [
      'thrown and caught by the handler',
      {
        validate: (_object, { deny }) => {
          try {
            throw deny('too large', { field: 'spec.units' });
          } catch {
            // as some libraries do
          }
        },
      },
    ],
    ['of mutate', { mutate: (_draft, { deny }) => deny('too large', { field: 'spec.units' }) }],
    [
      'made before an exception',
      {
        onError: 'allow',
        validate: (_object, { deny }) => {
          deny('too large', { field: 'spec.units' });
          throw new Error('and then this');
        },
      },
    ],
  ])('%s refuses the request, with message, field and handler', async (_how, definition) => {
    expect(denied(await call(compiled(definition)))).toEqual({
      kind: 'deny',
      code: 403,
      reason: 'Forbidden',
      message: 'spec.units: too large (handler servers)',
      causes: [{ field: 'spec.units', reason: 'FieldValueInvalid', message: 'too large' }],
      warnings: [],
      auditAnnotations: {},
    });
  });

  test('several are all told, with the code and reason of the first', async () => {
    const handler = compiled({
      validate: (_object, { deny, warn }) => {
        warn('look');
        deny('first', { code: 400, reason: 'Invalid' });
        deny('second', { field: 'spec.tier', code: 500 });
      },
    });
    expect(denied(await call(handler))).toMatchObject({
      code: 400,
      reason: 'Invalid',
      message: 'first (handler servers); spec.tier: second (handler servers)',
      causes: [{ field: 'spec.tier' }],
      warnings: ['look'],
    });
  });

  test('drops the changes to the draft', async () => {
    const handler = compiled({
      mutate: (draft, { deny }) => {
        draft.spec.tier = 'gold';
        return deny('no');
      },
    });
    const request = requestOf();
    expect((await call(handler, { request })).object).toBe(request.object);
  });

  test.each<[string, unknown[], object]>([
    ['no message', [undefined], { message: 'refused without a reason (handler servers)' }],
    ['a code that is none', ['no', { code: 200 }], { code: 403 }],
    ['a code that is no number', ['no', { code: '400' }], { code: 403 }],
    ['a reason of several words', ['no', { reason: 'not a word' }], { reason: 'Forbidden' }],
    ['a field that is no string', ['no', { field: 7 }], { causes: [] }],
  ])('with %s still refuses', async (_what, args, expected) => {
    const handler = compiled({
      validate: wrongly((_object: never, { deny }: { deny: (...given: unknown[]) => undefined }) => {
        deny(...args);
      }),
    });
    expect(denied(await call(handler))).toMatchObject(expected);
  });

  test('that comes after the answer is said in the log: the request has been let through', async () => {
    const { lines, log } = recordingLog();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const handler = compiled({
      validate: (_object, { deny }) => {
        void promise.then(() => deny('too late'));
      },
    });
    allowed(await call(handler, { log }));
    resolve(undefined);
    await promise;
    await Promise.resolve();
    expect(lines).toMatchObject([{ level: 'error', fields: { err: { message: 'too late' } } }]);
  });
});

describe('warnings and audit annotations', () => {
  test('go with the decision', async () => {
    const handler = compiled({
      validate: (_object, { warn, audit }) => {
        warn('deprecated');
        audit('peers', '3');
      },
    });
    expect(allowed(await call(handler))).toMatchObject({
      warnings: ['deprecated'],
      auditAnnotations: { peers: '3' },
    });
  });

  // controller-runtime and the API server: "illegal annotation format" is dropped without a word.
  test.each(['a/b', '', '-a', 'x'.repeat(64), '__proto__'])(
    'the key %j is refused where it is used',
    async (key) => {
      const handler = compiled({
        validate: (_object, { audit }) => {
          audit(key, 'x');
        },
      });
      expect(failed(await call(handler)).cause).toMatch(/^audit: /);
    },
  );
});

describe('a handler that fails', () => {
  const NO_ERRORS = [
    ['a string', 'plain', 'threw "plain", which is no Error'],
    ['nothing', undefined, 'threw undefined, which is no Error'],
    ['null', null, 'threw null'],
    ['an object', { code: 7 }, 'threw [object Object]'],
    [
      'an object that cannot be shown',
      Object.create(null) as unknown,
      'threw something that cannot be shown',
    ],
  ] as const;

  test.each(NO_ERRORS)('may throw %s', async (_what, thrown, message) => {
    const handler = compiled({
      validate: () => {
        throw thrown;
      },
    });
    expect(failed(await call(handler)).cause).toContain(message);
  });

  test.each(NO_ERRORS)('may reject with %s', async (_what, thrown, message) => {
    const handler = compiled({
      validate: () => Promise.reject(thrown), // eslint-disable-line @typescript-eslint/prefer-promise-reject-errors
    });
    expect(failed(await call(handler)).cause).toContain(message);
  });

  // Pepr P5: there the text of an exception is {}. Here users get no text at all, and the log has the stack.
  test('tells its author what was thrown, and its user only that', async () => {
    const thrown = new Error('password=hunter2');
    const handler = compiled({ onError: 'deny', validate: () => Promise.reject(thrown) });
    const outcome = await call(handler);
    expect(outcome.failure?.cause).toBe(thrown);
    expect(denied(outcome)).toEqual({
      kind: 'deny',
      code: 500,
      reason: 'InternalError',
      message: 'handler servers failed; the log of Gatehouse says why',
      causes: [],
      warnings: [],
      auditAnnotations: {},
    });
  });

  test.each(['throws', 'rejects', 'hangs'] as const)(
    'and %s: with failurePolicy nothing is decided, and the object is what it was',
    async (how) => {
      const request = requestOf();
      const outcome = await call(compiled({ mutate: halfWay(how) }), { request, signal: soon() });
      expect(outcome.decision).toBeUndefined();
      expect(outcome.object).toBe(request.object);
      expect(outcome.failure?.message).not.toContain('half way');
    },
  );

  // Pepr P4: there a mutation that was half done is let through.
  test.each(['throws', 'rejects', 'hangs'] as const)(
    'and %s: with allow the request goes on with the object as it was, and a warning',
    async (how) => {
      const outcome = await call(compiled({ onError: 'allow', mutate: halfWay(how) }), { signal: soon() });
      expect(allowed(outcome)).toMatchObject({
        patch: [],
        auditAnnotations: { 'handler-failed': 'servers' },
      });
      expect(allowed(outcome).warnings).toEqual([expect.stringContaining('handler servers ') as string]);
      expect(outcome.failure).toBeDefined();
    },
  );

  test.each(['throws', 'rejects', 'hangs'] as const)('and %s: with deny it is refused', async (how) => {
    const outcome = await call(compiled({ onError: 'deny', mutate: halfWay(how) }), { signal: soon() });
    expect(denied(outcome)).toMatchObject({ code: 500, reason: 'InternalError' });
  });

  const halfWay =
    (how: 'throws' | 'rejects' | 'hangs') =>
    (draft: TestServer): Promise<void> | undefined => {
      draft.spec.tier = 'gold';
      if (how === 'throws') throw new Error('half way');
      return how === 'rejects' ? Promise.reject(new Error('half way')) : new Promise(() => undefined);
    };

  /** Time to answer that is over in a moment. */
  function soon(): AbortSignal {
    const controller = new AbortController();
    setImmediate(() => {
      controller.abort(new Error('the time to answer is over'));
    });
    return controller.signal;
  }

  test.each<[string, unknown]>([
    ['false', false],
    ['true', true],
    ['a message', 'no'],
    ['an answer of another library', { allowed: false }],
    ['an error', new Error('no')],
  ])('does so by returning %s, which is no answer', async (_what, answer) => {
    const handler = compiled({ validate: wrongly(() => answer) });
    expect(failed(await call(handler))).toMatchObject({ reason: 'result' });
  });

  test.each([undefined, null])('does not by returning %s', async (answer) => {
    allowed(await call(compiled({ validate: wrongly(() => answer) })));
  });

  test('is not called when there is no time left', async () => {
    let called = false;
    const handler = compiled({ validate: () => void (called = true) });
    expect(failed(await call(handler, { signal: AbortSignal.abort(new Error('over')) }))).toEqual({
      reason: 'timeout',
      cause: 'over',
    });
    expect(called).toBe(false);
  });

  test('hears of the end of its time, and is not heard any more', async () => {
    const controller = new AbortController();
    const seen: unknown[] = [];
    const handler = compiled({
      validate: async (_object, { signal, warn }) => {
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve);
        });
        seen.push(signal.reason);
        warn('too late');
        throw new Error('because of the signal');
      },
    });
    const asked = call(handler, { signal: controller.signal });
    controller.abort(new Error('the time to answer is over'));
    expect(failed(await asked)).toEqual({ reason: 'timeout', cause: 'the time to answer is over' });
    expect(seen).toHaveLength(1);
  });
});

// Pepr P11: there validators share one object that any of them can change, and wait for each other.
test('two requests at once do not see each other', async () => {
  const handler = compiled({
    mutate: async (draft, { warn }) => {
      await Promise.resolve();
      draft.spec.tier = `${draft.spec.datacenter}-tier`;
      warn(draft.spec.datacenter);
    },
  });
  const requests = ['fra1', 'muc1'].map((datacenter) => requestOf({ object: testServer({ datacenter }) }));
  const decisions = await Promise.all(
    requests.map(async (request) => allowed(await call(handler, { request }))),
  );
  expect(decisions.map(({ warnings }: Extract<Decision, { kind: 'allow' }>) => warnings)).toEqual([
    ['fra1'],
    ['muc1'],
  ]);
  expect(decisions.map(({ patch }) => patch)).toMatchObject([
    [{ value: 'fra1-tier' }],
    [{ value: 'muc1-tier' }],
  ]);
});
