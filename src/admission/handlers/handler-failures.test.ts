import { describe, expect, test } from 'vitest';

import {
  allowed,
  call,
  compiled,
  denied,
  failed,
  requestOf,
  wrongly,
  type TestServer,
} from '../../../test/support/admission/handler.ts';

describe('a handler that fails', () => {
  const NO_ERRORS = [
    ['a string', 'plain', 'threw "plain", which is no Error'],
    ['nothing', undefined, 'threw undefined, which is no Error'],
    ['null', null, 'threw null'],
    ['an object', { code: 7 }, 'threw [object Object]'],
    [
      'an object that cannot be printed',
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

  // Pepr P5: in Pepr, the text of an exception is {}. Here users see no text, and the log contains the stack.
  test('tells its author the exception, and the user only that it failed', async () => {
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
    'when it %s: the request is refused, also under failurePolicy: Ignore, and the object stays unchanged',
    async (how) => {
      const request = requestOf();
      const handler = compiled({ failurePolicy: 'Ignore', mutate: halfWay(how) });
      const outcome = await call(handler, { request, signal: soon() });
      expect(denied(outcome)).toMatchObject({ code: 500, reason: 'InternalError' });
      expect(outcome.object).toBe(request.object);
      expect(outcome.failure?.message).not.toContain('half way');
    },
  );

  // Pepr P4: Pepr accepts an incomplete mutation.
  test.each(['throws', 'rejects', 'hangs'] as const)(
    'when it %s: allow accepts the unchanged object with a warning',
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

  const halfWay =
    (how: 'throws' | 'rejects' | 'hangs') =>
    (draft: TestServer): Promise<void> | undefined => {
      draft.spec.tier = 'gold';
      if (how === 'throws') throw new Error('half way');
      return how === 'rejects' ? Promise.reject(new Error('half way')) : new Promise(() => undefined);
    };

  /** A deadline that passes almost at once. */
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
  ])('fails by returning %s, which is not an answer', async (_what, answer) => {
    const handler = compiled({ validate: wrongly(() => answer) });
    expect(failed(await call(handler))).toMatchObject({ reason: 'result' });
  });

  test.each([undefined, null])('does not fail by returning %s', async (answer) => {
    allowed(await call(compiled({ validate: wrongly(() => answer) })));
  });

  test('is not called when no time is left', async () => {
    let called = false;
    const handler = compiled({ validate: () => void (called = true) });
    expect(failed(await call(handler, { signal: AbortSignal.abort(new Error('over')) }))).toEqual({
      reason: 'timeout',
      cause: 'over',
    });
    expect(called).toBe(false);
  });

  test('receives the abort signal at its deadline, and later results are ignored', async () => {
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
