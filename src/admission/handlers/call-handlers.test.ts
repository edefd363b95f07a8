// The cases of controller-runtime's pkg/webhook/admission/multi_test.go, and what it does not do: there, mutating handlers all see
// the object as it was sent.
import { describe, expect, test } from 'vitest';

import { callHandlers } from './call-handlers.ts';
import type { HandlerPhase } from './call-handler.ts';
import type { HandlerDefinition } from './handler.ts';
import { compiled, recordingLog, requestOf, testServer, type TestServer } from './handler.test-support.ts';
import { worldOf } from './small-world.ts';

function callAll(phase: HandlerPhase, ...definitions: readonly Partial<HandlerDefinition<TestServer>>[]) {
  return callHandlers({
    handlers: definitions.map((definition, index) => compiled(definition, `h${index}`)),
    phase,
    request: requestOf(),
    world: worldOf({}),
    signal: new AbortController().signal,
    log: recordingLog().log,
  });
}

const tier = (value: string): Partial<HandlerDefinition<TestServer>> => ({
  mutate: (draft, { warn, audit }) => {
    draft.spec.tier = `${draft.spec.tier ?? ''}${value}`;
    warn(`mutated ${value}`);
    audit(`tier-${value}`, 'set');
  },
});
const no: HandlerDefinition<TestServer>['mutate'] = (draft, { deny, warn }) => {
  draft.spec.tier = 'refused';
  warn('refused');
  return deny('no', { field: 'spec.tier' });
};

describe('multi: mutating', () => {
  test('each sees what those before it did; there is one patch, with all warnings and annotations', async () => {
    const { decision, object } = await callAll('mutate', tier('a'), tier('b'));
    expect(decision).toEqual({
      kind: 'allow',
      patch: [{ op: 'add', path: '/spec/tier', value: 'ab' }],
      warnings: ['mutated a', 'mutated b'],
      auditAnnotations: { 'tier-a': 'set', 'tier-b': 'set' },
    });
    expect(object).toEqual(testServer({ tier: 'ab' }));
  });

  test('a refusal of any wins: no patch, the warnings so far, and nobody after it is asked', async () => {
    const { decision, object } = await callAll('mutate', tier('a'), { mutate: no }, tier('b'));
    expect(decision).toMatchObject({
      kind: 'deny',
      message: 'spec.tier: no (handler h1)',
      warnings: ['mutated a', 'refused'],
    });
    expect(object).toEqual(testServer());
  });

  test('a failure leaves everything as it was', async () => {
    const broken: Partial<HandlerDefinition<TestServer>> = { mutate: () => Promise.reject(new Error('no')) };
    const { decision, object, failures } = await callAll('mutate', tier('a'), broken, tier('b'));
    expect({ decision, object }).toEqual({ decision: undefined, object: testServer() });
    expect(failures).toMatchObject([{ handler: 'h1' }]);
  });

  test('one that fails and may is skipped', async () => {
    const broken: Partial<HandlerDefinition<TestServer>> = {
      onError: 'allow',
      mutate: (draft) => {
        draft.spec.tier = 'half';
        throw new Error('no');
      },
    };
    const { decision } = await callAll('mutate', tier('a'), broken, tier('b'));
    expect(decision).toMatchObject({
      patch: [{ value: 'ab' }],
      warnings: ['mutated a', expect.stringContaining('h1'), 'mutated b'],
    });
  });
});

describe('multi: validating', () => {
  const yes: Partial<HandlerDefinition<TestServer>> = {
    validate: (_object, { warn }) => {
      warn('fine');
    },
  };
  const refuse = (message: string): Partial<HandlerDefinition<TestServer>> => ({
    validate: (_object, { deny }) => deny(message, { field: `spec.${message}` }),
  });
  const fail: Partial<HandlerDefinition<TestServer>> = {
    validate: () => Promise.reject(new Error('broken')),
  };

  test('all that accept accept, with the warnings of all', async () => {
    const { decision } = await callAll('validate', yes, {
      validate: (_object, { warn }) => {
        warn('too');
      },
    });
    expect(decision).toMatchObject({ kind: 'allow', patch: [], warnings: ['fine', 'too'] });
  });

  test('every refusal is told, and wins over a failure', async () => {
    const { decision, failures } = await callAll('validate', fail, refuse('one'), yes, refuse('two'));
    expect(decision).toMatchObject({
      kind: 'deny',
      message: 'spec.one: one (handler h1); spec.two: two (handler h3)',
      causes: [{ field: 'spec.one' }, { field: 'spec.two' }],
      warnings: ['fine'],
    });
    expect(failures).toHaveLength(1);
  });

  test('a failure is no acceptance', async () => {
    expect((await callAll('validate', yes, fail)).decision).toBeUndefined();
  });

  test('nobody to ask is nothing to object', async () => {
    expect((await callAll('validate')).decision).toMatchObject({ kind: 'allow', patch: [] });
  });
});
