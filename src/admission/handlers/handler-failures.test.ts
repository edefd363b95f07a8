import { describe, expect, test } from 'vitest';

import {
  call,
  compiled,
  denied,
  failed,
  requestOf,
  wrongly,
  type TestServer,
} from '../../../test/support/admission/handler.ts';

const UNSHOWN = 'threw something that cannot be shown';

const withGetter = (field: string): Error =>
  Object.defineProperty(new Error('hidden'), field, {
    get: () => {
      throw new Error('not to be read');
    },
  });

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('a handler that fails', () => {
  test.each<[string, unknown, string]>([
    ['a string', 'plain', 'threw "plain", which is not an Error'],
    ['nothing', undefined, 'threw undefined, which is not an Error'],
    ['an object', { code: 7 }, 'threw [object Object]'],
    ['an object that cannot be printed', Object.create(null), UNSHOWN],
    ['an error whose message throws', withGetter('message'), UNSHOWN],
    ['an error whose cause throws', withGetter('cause'), UNSHOWN],
    ['a proxy that throws', revoked(), UNSHOWN],
  ])('may throw %s', async (_what, thrown, message) => {
    const handler = compiled({
      validate: () => {
        throw thrown;
      },
    });
    expect(failed(await call(handler)).cause).toContain(message);
  });

  test.each(['throws', 'rejects', 'hangs'] as const)(
    'when it %s: the request is refused, even under failurePolicy: Ignore, and the object does not change',
    async (how) => {
      const request = requestOf();
      const handler = compiled({ failurePolicy: 'Ignore', mutate: halfWay(how) });
      const outcome = await call(handler, { request, signal: soon() });
      expect(denied(outcome)).toMatchObject({ code: 500, reason: 'InternalError' });
      expect(outcome.object).toBe(request.object);
      expect(outcome.failure?.message).not.toContain('half way');
    },
  );

  const halfWay =
    (how: 'throws' | 'rejects' | 'hangs') =>
    (draft: TestServer): Promise<void> | undefined => {
      draft.spec.tier = 'gold';
      if (how === 'throws') throw new Error('half way');
      return how === 'rejects' ? Promise.reject(new Error('half way')) : new Promise(() => undefined);
    };

  /** A deadline that passes almost immediately. */
  function soon(): AbortSignal {
    const controller = new AbortController();
    setImmediate(() => {
      controller.abort(new Error('the time to answer is over'));
    });
    return controller.signal;
  }

  test.each<[string, unknown]>([
    ['false', false],
    ['an error', new Error('no')],
  ])('fails by returning %s', async (_what, answer) => {
    const handler = compiled({ validate: wrongly(() => answer) });
    expect(failed(await call(handler))).toMatchObject({ reason: 'result' });
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
