import { describe, expect, test } from 'vitest';

import type { Denial } from './errors.ts';
import {
  allowed,
  call,
  compiled,
  denied,
  failed,
  recordingLog,
  requestOf,
  wrongly,
} from '../../../test/support/admission/handler.ts';

describe('a refusal', () => {
  // Pepr P3: Pepr loses the message, and users read "denied the request without explanation".
  test.each<[string, (tooLarge: () => Denial) => void]>([
    [
      'thrown',
      (tooLarge) => {
        throw tooLarge();
      },
    ],
    ['created and not returned', (tooLarge) => void tooLarge()],
    [
      'thrown and caught by the handler',
      (tooLarge) => {
        try {
          throw tooLarge();
        } catch {
          // some libraries swallow errors
        }
      },
    ],
    [
      'created before an exception',
      (tooLarge) => {
        tooLarge();
        throw new Error('and then this');
      },
    ],
  ])('%s refuses the request, with message, field and handler', async (_how, act) => {
    const handler = compiled({
      onError: 'allow',
      validate: (_object, { deny }) => {
        act(() => deny('too large', { field: 'spec.units' }));
      },
    });
    expect(denied(await call(handler))).toEqual({
      kind: 'deny',
      code: 403,
      reason: 'Forbidden',
      message: 'spec.units: too large (handler servers)',
      causes: [{ field: 'spec.units', reason: 'FieldValueInvalid', message: 'too large (handler servers)' }],
      warnings: [],
      auditAnnotations: {},
    });
  });

  test('with several causes lists all, with the code and reason of the first', async () => {
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

  test('quotes little of a long message, and nothing that changes the display', async () => {
    const handler = compiled({
      validate: (_object, { deny }) => {
        for (let field = 0; field < 20; field += 1)
          deny(`\u202e${'x'.repeat(1_000_000)}`, { field: `${field}` });
      },
    });
    const denial = denied(await call(handler));
    expect(JSON.stringify(denial).length).toBeLessThan(40_000);
    expect(JSON.stringify(denial)).not.toContain('\u202e');
    expect(denial).toMatchObject({ causes: { length: 16 } });
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
    ['null for its options', ['no', null], { message: 'no (handler servers)' }],
    ['an invalid code', ['no', { code: 200 }], { code: 403 }],
    ['a reason of several words', ['no', { reason: 'not a word' }], { reason: 'Forbidden' }],
  ])('with %s still refuses', async (_what, args, expected) => {
    const handler = compiled({
      validate: wrongly((_object: never, { deny }: { deny: (...given: unknown[]) => undefined }) => {
        deny(...args);
      }),
    });
    expect(denied(await call(handler))).toMatchObject(expected);
  });

  test('after the response is logged, because the request is already allowed', async () => {
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
  // The API server and controller-runtime silently drop such a key ("illegal annotation format").
  test.each(['a/b', '', '-a', 'x'.repeat(64), '__proto__'])('reject the key %j', async (key) => {
    const handler = compiled({
      validate: (_object, { audit }) => {
        audit(key, 'x');
      },
    });
    expect(failed(await call(handler)).cause).toMatch(/^audit: /);
  });

  test('are limited to the first twenty keys and to 1024 characters a value, with one line in the log', async () => {
    const { log, lines } = recordingLog();
    const handler = compiled({
      validate: (_object, { audit }) => {
        for (let n = 0; n < 100_000; n += 1) audit(`key-${n}`, 'x'.repeat(2_000));
        audit('key-0', 'again');
      },
    });
    const { auditAnnotations } = allowed(await call(handler, { log }));
    expect(Object.keys(auditAnnotations)).toEqual(Array.from({ length: 20 }, (_, n) => `key-${n}`));
    expect([auditAnnotations['key-0'], auditAnnotations['key-1']?.length]).toEqual(['again', 1024]);
    expect(lines).toMatchObject([{ level: 'warn', fields: { omitted: 99_980 } }]);
  });
});
